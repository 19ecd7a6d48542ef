use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use floodwall_model::scenario::Data;

use super::*;
use crate::buffer::rng;

/// The accepted and the completed entries of a kernel. Tests keep it beyond the end of the ring.
#[derive(Default)]
struct State {
    queued: VecDeque<(Step, u64)>,
    done: VecDeque<(u64, i32)>,
    completed: usize,
    is_broken: bool,
}

impl State {
    /// Uses the oldest entry's memory, as a kernel does at an arbitrary time. Under Miri and
    /// AddressSanitizer it is an error if that memory is gone.
    fn complete_one(&mut self) {
        let Some((step, tag)) = self.queued.pop_front() else { return };
        let outcome = match step {
            Step::Read { buffer, len, .. } => {
                // SAFETY: this is what is tested: the buffer is valid until its completion.
                unsafe { buffer.write_bytes(0xa5, len as usize) };
                len
            }
            Step::Write { buffer, len, .. } => {
                // SAFETY: as above.
                let bytes = unsafe { std::slice::from_raw_parts(buffer, len as usize) };
                assert!(bytes.iter().any(|b| *b != 0), "random data");
                len
            }
            Step::Sync { .. } => 0,
        };
        self.completed += 1;
        self.done.push_back((tag, outcome.cast_signed()));
    }
}

/// A kernel that does one operation for each wait.
#[derive(Clone, Default)]
struct Fake(Rc<RefCell<State>>);

impl Ring for Fake {
    unsafe fn push(&mut self, step: Step, tag: u64, _is_linked: bool) -> Result<(), Errno> {
        self.0.borrow_mut().queued.push_back((step, tag));
        Ok(())
    }

    fn submit(&mut self) -> Result<(), Errno> {
        Ok(())
    }

    fn wait(&mut self, _timeout: Option<Duration>) -> Result<(), Errno> {
        let mut state = self.0.borrow_mut();
        if state.is_broken {
            return Err(Errno::BADF);
        }
        state.complete_one();
        Ok(())
    }

    fn next(&mut self) -> Option<(u64, i32)> {
        self.0.borrow_mut().done.pop_front()
    }
}

fn flight<R: Ring>(ring: R, slots: u64) -> Flight<R> {
    let buffers = (0..slots).map(|i| Buffers {
        blocks: Blocks::new(512, 0, Data::Random, &mut rng(1, i)),
        read: AlignedBuf::zeroed(512),
    });
    Flight::new(ring, buffers)
}

/// Any descriptor: the fake kernel does not look at it.
fn nothing() -> std::fs::File {
    std::fs::File::open("/dev/null").unwrap()
}

#[test]
fn memory_in_flight_is_given_to_nobody() {
    let (fd, mut flight) = (nothing(), flight(Fake::default(), 2));
    flight.write(0, fd.as_fd(), 512, 0, SyncMethod::Fsync).unwrap();
    assert!(
        flight.buffers(0).is_none() && flight.buffers(1).is_some() && flight.buffers(2).is_none()
    );
    assert_eq!(flight.write(0, fd.as_fd(), 512, 0, SyncMethod::Fsync), Err(Errno::BUSY));
    assert_eq!(flight.read(1, fd.as_fd(), 513, 0), Err(Errno::INVAL));
    assert_eq!(flight.write(1, fd.as_fd(), 513, 0, SyncMethod::Fsync), Err(Errno::INVAL));
    flight.wait(None).unwrap();
    let done = Done { slot: 0, is_sync: false, outcome: 512, is_last: false };
    assert_eq!(flight.next(), Some(done));
    assert!(flight.buffers(0).is_none(), "its sync is still to come");
    flight.wait(None).unwrap();
    assert_eq!(flight.next(), Some(Done { is_sync: true, outcome: 0, is_last: true, ..done }));
    assert!(flight.buffers(0).is_some() && flight.next().is_none());
    flight.write(0, fd.as_fd(), 512, 0, SyncMethod::ODsync).unwrap();
    flight.read(1, fd.as_fd(), 512, 0).unwrap();
    for _ in 0..2 {
        flight.wait(None).unwrap();
        assert!(flight.next().unwrap().is_last);
    }
    assert!(flight.buffers(1).unwrap().read.bytes().iter().all(|b| *b == 0xa5));
}

#[test]
fn a_panic_in_the_middle_waits_for_what_is_in_flight() {
    let (fd, fake) = (nothing(), Fake::default());
    let state = Rc::clone(&fake.0);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut flight = flight(fake, 3);
        flight.read(0, fd.as_fd(), 512, 0).unwrap();
        flight.write(1, fd.as_fd(), 512, 0, SyncMethod::Fdatasync).unwrap();
        flight.read(2, fd.as_fd(), 512, 0).unwrap();
        flight.wait(None).unwrap();
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    assert_eq!((state.borrow().completed, state.borrow().queued.len()), (4, 0));
}

#[test]
fn memory_that_can_not_be_waited_for_is_never_freed() {
    let (fd, fake) = (nothing(), Fake::default());
    let state = Rc::clone(&fake.0);
    let mut flight = flight(fake, 2);
    flight.read(0, fd.as_fd(), 512, 0).unwrap();
    flight.write(1, fd.as_fd(), 512, 0, SyncMethod::Fsync).unwrap();
    state.borrow_mut().is_broken = true;
    drop(flight);
    // Long after: the kernel writes into memory that is still there.
    while !state.borrow().queued.is_empty() {
        state.borrow_mut().complete_one();
    }
    assert_eq!(state.borrow().completed, 3);
}

#[test]
#[ignore = "needs io_uring, which a container may forbid; make sanitize runs it"]
fn the_kernels_own_ring_is_waited_for_in_a_panic() {
    let ring = Kernel::new(1).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let (is_begun, is_written) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_begun.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(50));
            is_written.store(true, Ordering::Release);
            rustix::io::write(&writer, &[1; 512]).unwrap();
        });
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut flight = flight(ring, 1);
            flight.read(0, reader.as_fd(), 512, 0).unwrap();
            // Submits it; nothing can be read yet.
            flight.wait(Some(Duration::from_millis(1))).unwrap();
            is_begun.store(true, Ordering::Release);
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert!(
            is_written.load(Ordering::Acquire),
            "the buffer was freed before the kernel wrote to it"
        );
    });
}
