//! Integration tests of the device models: presets, calibration, properties.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's own functions fail with it")]

mod behaviour;
mod calibration;
mod flush;
mod golden;
mod presets;
mod property;
mod workload;
