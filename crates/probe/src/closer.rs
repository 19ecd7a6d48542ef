//! Closes perf events and links of programs, one after another, on a separate thread.
//!
//! The kernel takes some 20 ms for the last one of each tracepoint: it waits until no processor is
//! inside (kernel/trace/trace_event_perf.c `perf_trace_event_unreg`). All of a probe's take half a
//! second. A probe that opens them again meanwhile takes the rest back first. So it waits for one
//! of them at most.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::bpf::attached::Attached;
use crate::perf::Ring;

/// Something that is closed when it is dropped.
#[derive(Debug)]
#[expect(dead_code, reason = "held, most of it never read")]
pub(crate) enum Piece {
    Event(OwnedFd),
    Ring(Ring),
    /// A program's name, and what keeps it attached.
    Program(String, Attached),
}

#[derive(Debug)]
struct Queue<T> {
    left: VecDeque<T>,
    is_served: bool,
}

/// The pieces that are being closed.
#[derive(Debug)]
pub(crate) struct Closer<T>(Arc<Mutex<Queue<T>>>);

impl<T> Default for Closer<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Queue { left: VecDeque::new(), is_served: false })))
    }
}

fn lock<T>(queue: &Mutex<Queue<T>>) -> MutexGuard<'_, Queue<T>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Send + 'static> Closer<T> {
    /// Closes these, in this order, and returns at once. Without a thread it takes its time.
    pub(crate) fn close(&self, pieces: Vec<T>) {
        let mut queue = lock(&self.0);
        queue.left.extend(pieces);
        if queue.is_served || queue.left.is_empty() {
            return;
        }
        queue.is_served = true;
        drop(queue);
        let queue = Arc::clone(&self.0);
        let serve = move || {
            while let Some(piece) = next(&queue) {
                drop(piece);
            }
        };
        if std::thread::Builder::new().name("probe-close".to_owned()).spawn(serve).is_err() {
            lock(&self.0).is_served = false;
            drop(self.take_back());
        }
    }

    /// Those that are not closed yet.
    pub(crate) fn take_back(&self) -> Vec<T> {
        lock(&self.0).left.drain(..).collect()
    }
}

/// The next piece; at the end the thread ends.
fn next<T>(queue: &Mutex<Queue<T>>) -> Option<T> {
    let mut queue = lock(queue);
    let piece = queue.left.pop_front();
    queue.is_served = piece.is_some();
    piece
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Says that it is being closed, and waits until it may be.
    struct Slow(u32, Sender<u32>, Receiver<()>);

    impl Drop for Slow {
        fn drop(&mut self) {
            let _ = self.1.send(self.0);
            let _ = self.2.recv();
        }
    }

    #[test]
    fn what_is_not_closed_yet_can_be_taken_back() {
        let (told, closing) = channel();
        let (pieces, mut go): (Vec<Slow>, Vec<Sender<()>>) = (0..3)
            .map(|n| {
                let (go, may) = channel();
                (Slow(n, told.clone(), may), go)
            })
            .unzip();
        let closer = Closer::default();
        closer.close(pieces);
        assert_eq!(closing.recv(), Ok(0), "in their order");
        let back = closer.take_back();
        assert_eq!(back.len(), 2);
        go.remove(0).send(()).unwrap();
        // The same goes on with others.
        closer.close(back);
        assert_eq!(closing.recv(), Ok(1));
        go.drain(..).for_each(drop);
        assert_eq!(closing.recv(), Ok(2));
    }
}
