//! Devices as a controller sees them, on captured and made-up trees.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's own functions fail with it"
)]

mod units;
