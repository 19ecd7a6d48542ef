//! Time as a parameter: steps of a limit wait for real on the machine and not at all in tests.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A clock that can be waited on, and a request to stop.
pub trait Clock {
    /// Seconds since 1970.
    fn now_unix_s(&self) -> u64;

    /// Waits.
    fn sleep(&self, duration: Duration);

    /// Whether to stop and put everything back (SIGINT, SIGTERM).
    fn cancelled(&self) -> bool {
        false
    }
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_unix_s(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}
