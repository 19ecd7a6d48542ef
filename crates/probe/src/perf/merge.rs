//! Events of all processors, in the order of time.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::Perf;
use super::ring::Raw;
use crate::error::ProbeError;
use crate::event::Record;

impl Perf {
    /// Waits until a ring is half full, the time went by or a signal came.
    ///
    /// # Errors
    /// [`ProbeError::Poll`].
    pub(crate) fn wait(&self, time: Duration) -> Result<(), ProbeError> {
        let mut fds: Vec<PollFd<'_>> =
            self.processors.iter().map(|p| PollFd::new(p.ring.leader(), PollFlags::IN)).collect();
        let timeout =
            Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(e) => Err(ProbeError::Poll(e.into())),
        }
    }

    /// Hands over the events up to `until_ns`, in the order of time. Younger ones stay for the next
    /// look, because an older event of another processor could still be on its way. Returns how
    /// many events had no room.
    pub(crate) fn drain(&mut self, until_ns: u64, each: &mut dyn FnMut(&Record)) -> u64 {
        let Self { decoder, processors, scratch, .. } = self;
        let mut lost = 0;
        let mut cursors: Vec<_> = processors.iter().map(|p| p.ring.cursor()).collect();
        loop {
            // The ring with the oldest record, and how far it may be read before another's turn
            // comes.
            let (mut first, mut oldest, mut second) = (usize::MAX, u64::MAX, until_ns);
            for (at, cursor) in cursors.iter().enumerate() {
                if cursor.next_ns < oldest {
                    second = second.min(oldest);
                    (first, oldest) = (at, cursor.next_ns);
                } else {
                    second = second.min(cursor.next_ns);
                }
            }
            if oldest > until_ns || first == usize::MAX {
                return lost;
            }
            let cursor = &mut cursors[first];
            while cursor.next_ns <= second && cursor.next_ns != u64::MAX {
                cursor.read(scratch, |raw| match raw {
                    Raw::Sample { at_ns, pid, tid, data } => {
                        if let Some(event) = decoder.decode(data) {
                            each(&Record { at_ns, pid, tid, event });
                        }
                    }
                    Raw::Lost(events) => lost += events,
                    Raw::Other => {}
                });
            }
        }
    }
}
