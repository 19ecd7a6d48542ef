//! Runs a scenario on this host.
pub mod device_lock;
pub mod scratch;
pub mod space;
