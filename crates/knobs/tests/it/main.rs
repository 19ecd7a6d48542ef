//! Changing settings against a kernel in memory that has the real one's traps and can be killed at
//! any write.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's own functions fail with it"
)]

mod crash;
mod docs;
mod fake;
mod hold;
mod hold_crash;
mod known;
mod owner;
mod session;
mod traps;
mod tree;
mod units;
