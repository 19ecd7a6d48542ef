//! A guard that runs beside a paced command. `pace` tells it that the command paces itself, and it
//! names the processes that wait for the disk.
//!
//! ```text
//! thread, each second: guard's socket ─▶ victims ─▶ Pacer::others_reported, a sign of others
//!                                               └─▶ names in --status
//! ```
//!
//! Nothing waits for the guard but the thread. Without an answer the pacer goes by the counters.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use floodwall_daemon::socket;
use floodwall_pace::Pacer;

/// Time between two questions. The guard forgets the command three seconds after the last one.
const EVERY: Duration = Duration::from_secs(1);
/// How long an answer may take. The guard answers twice a second at least.
const PATIENCE: Duration = Duration::from_secs(2);

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Guarded(Arc<Mutex<Vec<String>>>);

impl Guarded {
    /// Begins to ask about the paced disk. This ends when the value is dropped.
    pub(super) fn of(pacer: &Arc<Pacer>) -> Self {
        let victims: Arc<Mutex<Vec<String>>> = Arc::default();
        let (known, pacer) = (Arc::downgrade(&victims), Arc::clone(pacer));
        let asks = move || {
            let ask = |device| socket::paces_itself(device, PATIENCE);
            while let Some(known) = known.upgrade() {
                let victims = pacer.device().and_then(ask).unwrap_or_default().victims;
                pacer.others_reported().store(!victims.is_empty(), Ordering::Relaxed);
                *known.lock().unwrap_or_else(PoisonError::into_inner) = victims;
                drop(known);
                thread::sleep(EVERY);
            }
        };
        // Without a thread it is as without a guard.
        let _ = thread::Builder::new().name("guard".to_owned()).spawn(asks);
        Self(victims)
    }

    /// The processes that wait for the disk, by the guard's word; empty without a guard.
    pub(super) fn victims(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
