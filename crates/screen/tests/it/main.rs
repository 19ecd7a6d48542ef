//! Tests of the screen: what is drawn, what keys do, and that nothing breaks it.
#![expect(clippy::unwrap_used, reason = "a test's own functions fail with it")]

mod fixtures;
mod keys;
mod properties;
mod shots;
mod terminal;
