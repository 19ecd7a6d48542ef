//! A lab device's way to its model: the kernel's loop driver over a FUSE file (drivers/block/loop.c
//! and fs/fuse/file.c of 6.18).
//!
//! ```text
//! request ─▶ the driver's worker, in order ─▶ in pieces of at most 1 MiB ─▶ device
//!              └─ FLUSH, discard, write zeroes: it waits for the answer
//!                 before it looks at the next request
//! ```
//!
//! A loop device with direct I/O has one worker. It starts reads and writes asynchronously
//! (`lo_rw_aio`) but blocks in `vfs_fsync` and `vfs_fallocate`. Requests after a FLUSH therefore
//! wait behind it, while earlier ones go on in the device. FUSE splits I/O into requests of
//! `max_write` bytes (`fuse_direct_io`).

use std::collections::VecDeque;

use floodwall_device::{
    Completion, Device, DeviceStats, IoError, LostWrites, Nanos, Op, Profile, Request,
};

use crate::slab::Slab;

/// Bytes of a FUSE request at most: the `max_write` that the lab's server asks for.
const MAX_WRITE: u64 = 1 << 20;

/// A request with pieces in the device.
#[derive(Clone, Copy)]
struct Started {
    id: u64,
    pieces: u32,
    result: Result<(), IoError>,
}

/// See the [module](self).
pub(crate) struct LoopDriver {
    device: Box<dyn Device + Send>,
    /// Requests that the worker has not looked at yet.
    waiting: VecDeque<Request>,
    started: Slab<Started>,
    /// The request that the worker waits for, by its place in `started`.
    awaited: Option<u32>,
    completions: Vec<Completion>,
}

impl LoopDriver {
    pub(crate) fn new(device: Box<dyn Device + Send>) -> Self {
        Self {
            device,
            waiting: VecDeque::new(),
            started: Slab::new(),
            awaited: None,
            completions: Vec::new(),
        }
    }

    /// The worker goes on until it has to wait.
    fn work(&mut self, now: Nanos) {
        while self.awaited.is_none()
            && let Some(request) = self.waiting.pop_front()
        {
            self.start(now, request);
        }
    }

    fn start(&mut self, now: Nanos, request: Request) {
        let streams = matches!(request.op, Op::Read | Op::Write { .. });
        let piece = if streams { MAX_WRITE } else { u64::MAX };
        let pieces = if streams { request.len.div_ceil(piece).max(1) } else { 1 };
        let place =
            self.started.insert(Started { id: request.id, pieces: pieces as u32, result: Ok(()) });
        if !streams {
            self.awaited = Some(place);
        }
        let mut offset = request.offset;
        for _ in 0..pieces {
            let len = piece.min(request.end() - offset);
            self.device.submit(now, Request { id: u64::from(place), offset, len, ..request });
            offset += len;
        }
    }

    /// A piece is done; the request is when its last one is.
    fn piece_done(&mut self, completion: &Completion, out: &mut Vec<Completion>) {
        let place = completion.id as u32;
        let started = self.started.get_mut(place);
        started.pieces -= 1;
        if completion.result.is_err() {
            started.result = completion.result;
        }
        if started.pieces > 0 {
            return;
        }
        let Started { id, result, .. } = self.started.remove(place);
        out.push(Completion { id, at: completion.at, result });
        if self.awaited == Some(place) {
            self.awaited = None;
            self.work(completion.at);
        }
    }
}

impl Device for LoopDriver {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.waiting.push_back(request);
        self.work(now);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.device.next_event()
    }

    /// Event by event: what the end of a FLUSH lets through reaches the device at that moment.
    fn advance(&mut self, to: Nanos, out: &mut Vec<Completion>) {
        while let Some(next) = self.device.next_event().filter(|next| *next <= to) {
            let mut completions = std::mem::take(&mut self.completions);
            self.device.advance(next, &mut completions);
            for completion in completions.drain(..) {
                self.piece_done(&completion, out);
            }
            self.completions = completions;
        }
    }

    fn profile(&self) -> Profile {
        self.device.profile()
    }

    fn stats(&self) -> DeviceStats {
        self.device.stats()
    }

    fn stats_at(&self, now: Nanos) -> DeviceStats {
        self.device.stats_at(now)
    }

    fn powercut(&mut self, now: Nanos) -> LostWrites {
        self.waiting.clear();
        self.started = Slab::new();
        self.awaited = None;
        self.device.powercut(now)
    }

    fn oldest_volatile(&self) -> Option<u64> {
        self.device.oldest_volatile()
    }
}

#[cfg(test)]
mod tests {
    use floodwall_device::DeviceSpec;

    use super::*;

    /// When requests that are handed over at once are done, by id, with and without the driver.
    fn done(preset: &str, through_loop: bool, requests: &[Request]) -> Vec<(u64, Nanos)> {
        let mut device = DeviceSpec::preset(preset).unwrap().build(1 << 30, 1).unwrap();
        if through_loop {
            device = Box::new(LoopDriver::new(device));
        }
        let mut out = Vec::new();
        for request in requests {
            device.submit(Nanos::ZERO, *request);
        }
        while let Some(next) = device.next_event() {
            device.advance(next, &mut out);
        }
        let mut done: Vec<_> = out.iter().map(|c| (c.id, c.at)).collect();
        done.sort_unstable();
        done
    }

    #[test]
    fn what_comes_after_a_flush_waits_for_it_and_what_came_before_does_not() {
        let requests = [
            Request::write(1, 0, 1 << 20),
            Request::read(2, 512 << 20, 4096),
            Request::flush(3),
            Request::read(4, 256 << 20, 4096),
        ];
        let through = done("hdd-7200", true, &requests);
        let at = |id: u64| through.iter().find(|(other, _)| *other == id).unwrap().1;
        assert_eq!(through.len(), 4);
        assert!(at(4) > at(3), "{through:?}");
        let alone = done("hdd-7200", false, &requests[..3]);
        assert_eq!(through[..3], alone[..], "the first three go as if nothing followed");
    }

    #[test]
    fn a_large_request_is_done_with_its_last_piece() {
        let whole = [Request::write(1, 0, 1280 << 10)];
        let pieces = [Request::write(1, 0, 1 << 20), Request::write(2, 1 << 20, 256 << 10)];
        let through = done("sata-ssd", true, &whole);
        let apart = done("sata-ssd", false, &pieces);
        assert_eq!(through, [(1, apart.iter().map(|(_, at)| *at).max().unwrap())]);
    }

    #[test]
    fn without_flushes_small_requests_pass_unchanged() {
        let requests: Vec<Request> =
            (0..40).map(|i| Request::write(i, i * 7_340_032, 16_384)).collect();
        assert_eq!(
            done("raid10-bbwc-2010", true, &requests),
            done("raid10-bbwc-2010", false, &requests)
        );
    }
}
