//! The threads whose writes are worth watching: threads (or processes) that have files open with
//! `O_DSYNC` (which `O_SYNC` includes) or `O_DIRECT`. Pure.
//!
//! ```text
//! sent a synchronous request outside of a call ─▶ has such a file open?
//!   ├─ yes: watched, looked at again every WATCHED_FOR windows
//!   └─ no: dismissed as long
//! is inside a write to such a file ─▶ watched
//! ```

use std::collections::{BTreeMap, HashMap};

use crate::hash::Fast;

/// Windows for which an answer is believed.
const WATCHED_FOR: u32 = 30;

/// The watched threads.
#[derive(Debug, Default)]
pub(crate) struct SyncWriters {
    /// By thread (or process): its process, and the window in which its files were looked at.
    watched: BTreeMap<u32, (u32, u32)>,
    dismissed: HashMap<u32, u32, Fast>,
    /// Threads (or processes), each with its process, to be watched from the next look on.
    found: Vec<(u32, u32)>,
}

impl SyncWriters {
    /// A thread (or process) was found inside a write to such a file.
    pub(crate) fn is_inside(&mut self, pid: u32, tid: u32) {
        self.found.push((pid, tid));
    }

    /// Takes suspects in, process and thread, and looks at those again that were looked at long
    /// ago. Returns the threads to watch, ascending.
    pub(crate) fn watch(
        &mut self,
        window: u32,
        suspects: impl IntoIterator<Item = (u32, u32)>,
        writes_synchronously: &mut dyn FnMut(u32) -> bool,
    ) -> Vec<u32> {
        let recent = |since: u32| window.wrapping_sub(since) < WATCHED_FOR;
        self.dismissed.retain(|_, since| recent(*since));
        for (pid, tid) in self.found.drain(..) {
            self.dismissed.remove(&tid);
            self.watched.insert(tid, (pid, window));
        }
        for (pid, tid) in suspects {
            if self.watched.contains_key(&tid) || self.dismissed.contains_key(&tid) {
                continue;
            }
            if writes_synchronously(pid) {
                self.watched.insert(tid, (pid, window));
            } else {
                self.dismissed.insert(tid, window);
            }
        }
        // A watched thread is no suspect any more: its writes are known calls.
        self.watched.retain(|_, (pid, since)| {
            if !recent(*since) && writes_synchronously(*pid) {
                *since = window;
            }
            recent(*since)
        });
        self.watched.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_such_a_file_open_is_watched_as_long_as_it_has() {
        let mut writers = SyncWriters::default();
        assert_eq!(writers.watch(0, [(7, 70), (8, 80)], &mut |pid| pid == 7), [70]);
        // Suspected again, it is not looked at again.
        assert_eq!(writers.watch(1, [(8, 80)], &mut |_| panic!("8 was dismissed")), [70]);
        for window in 2..100 {
            assert_eq!(writers.watch(window, [], &mut |pid| pid == 7), [70], "window {window}");
        }
        assert_eq!(writers.watch(100, [(8, 80)], &mut |_| true), [70, 80]);
        // It opened such a file after it had been dismissed.
        assert_eq!(writers.watch(100, [(9, 90)], &mut |_| false), [70, 80]);
        writers.is_inside(9, 90);
        let watched = writers.watch(100, [(9, 90)], &mut |_| panic!("its file is known"));
        assert_eq!(watched, [70, 80, 90]);
        // All have closed theirs, which is seen when they are looked at again.
        assert_eq!((101..140).map(|w| writers.watch(w, [], &mut |_| false).len()).min(), Some(0));
    }
}
