//! Integration tests of the device models: presets, calibration, properties.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail loudly")]

mod behaviour;
mod calibration;
mod flush;
mod golden;
mod presets;
mod property;
mod workload;
