//! Waiting that can be interrupted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How soon a stop is noticed.
const SLICE: Duration = Duration::from_millis(50);

/// Sleeps until a moment, or until `stop` is raised.
///
/// Returns whether the moment was reached.
pub(crate) fn sleep_until(moment: Instant, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let left = moment.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(SLICE));
    }
}
