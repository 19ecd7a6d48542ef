//! The lock of a mutex.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A mutex whose holder panicked is still usable: all it guards here is plain data.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
