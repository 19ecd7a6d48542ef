//! Cheap flash: USB sticks and SD cards. One command at a time, a few open erase blocks, and long
//! stalls.
//!
//! After Arnd Bergmann's measurements ("Optimizing Linux with cheap flash drives", LWN 2011, and
//! the flashbench tool). The controller maps whole erase blocks (1 to 16 MiB) and keeps only a few
//! of them open for writing.
//!
//! ```text
//! write goes on at an open block's end      len / write_rate
//!       … skips ahead in it                 + skipped / copy_rate
//!       … goes back in it                   the block is closed and opened anew
//!       … to another block                  the least recently used is closed, the new one opened
//! close: (block − written) / copy_rate + erase        open at position p: p / copy_rate
//! read:  read_latency + len / read_rate
//! ```
//!
//! So a small random write costs up to a whole block: 4 MiB at 20 MB/s is 0.2 s. Every
//! `stall_every` bytes written the controller is away for `stall` (wear levelling). Nothing is
//! acknowledged before it is written: there is no volatile cache.

use std::collections::VecDeque;

use crate::device::{Completion, Device, DeviceStats, LostWrites, Op, Profile, Request};
use crate::time::Nanos;

/// What a stick or card is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheapFlashParams {
    /// Bytes that it exposes.
    pub capacity: u64,
    /// Per command.
    pub read_latency: Nanos,
    /// Per command.
    pub write_latency: Nanos,
    /// Sequential read, in bytes per second.
    pub read_rate: f64,
    /// Write at the end of an open block, in bytes per second.
    pub write_rate: f64,
    /// Copy within the device, in bytes per second.
    pub copy_rate: f64,
    /// Bytes of an erase block ("allocation unit").
    pub erase_block: u64,
    /// Time to erase one.
    pub erase: Nanos,
    /// Blocks that can be open at once.
    pub open_blocks: u32,
    /// Bytes written between two long stalls; 0 for none.
    pub stall_every: u64,
    /// Length of a stall.
    pub stall: Nanos,
}

/// An open block and the position after its last byte.
struct Open {
    block: u64,
    next: u64,
}

/// See the [module](self).
pub struct CheapFlash {
    p: CheapFlashParams,
    free: Nanos,
    /// In the order of submission, which is the order of time.
    pending: VecDeque<Completion>,
    /// Least recently used first.
    open: Vec<Open>,
    since_stall: u64,
    stats: DeviceStats,
}

impl CheapFlash {
    /// With no block open.
    #[must_use]
    pub fn new(p: CheapFlashParams) -> Self {
        Self {
            p,
            free: Nanos::ZERO,
            pending: VecDeque::new(),
            open: Vec::new(),
            since_stall: 0,
            stats: DeviceStats::default(),
        }
    }

    fn copy(&mut self, bytes: u64) -> Nanos {
        self.stats.media_read_bytes += bytes;
        self.stats.media_write_bytes += bytes;
        Nanos::for_bytes(bytes, self.p.copy_rate)
    }

    fn close(&mut self, open: &Open) -> Nanos {
        self.copy(self.p.erase_block - open.next) + self.p.erase
    }

    /// Makes a block writable at a position.
    fn open_at(&mut self, block: u64, at: u64) -> Nanos {
        let mut cost = Nanos::ZERO;
        match self.open.iter().position(|o| o.block == block) {
            Some(i) => {
                let open = self.open.remove(i);
                cost += if at >= open.next {
                    self.copy(at - open.next)
                } else {
                    let closing = self.close(&open);
                    closing + self.copy(at)
                };
            }
            None => {
                if self.open.len() >= self.p.open_blocks as usize {
                    let oldest = self.open.remove(0);
                    cost += self.close(&oldest);
                }
                cost += self.copy(at);
            }
        }
        self.open.push(Open { block, next: at });
        cost
    }

    fn write_cost(&mut self, request: &Request) -> Nanos {
        let mut cost = self.p.write_latency + Nanos::for_bytes(request.len, self.p.write_rate);
        let mut at = request.offset;
        while at < request.end() {
            let (block, within) = (at / self.p.erase_block, at % self.p.erase_block);
            let len = (self.p.erase_block - within).min(request.end() - at);
            cost += self.open_at(block, within);
            if within + len == self.p.erase_block {
                // Full: nothing to copy.
                self.open.pop();
                cost += self.p.erase;
            } else if let Some(open) = self.open.last_mut() {
                open.next = within + len;
            }
            at += len;
        }
        self.stats.media_write_bytes += request.len;
        self.since_stall += request.len;
        if self.p.stall_every > 0 && self.since_stall >= self.p.stall_every {
            self.since_stall -= self.p.stall_every;
            cost += self.p.stall;
        }
        cost
    }
}

impl Device for CheapFlash {
    fn submit(&mut self, now: Nanos, request: Request) {
        let cost = match request.op {
            Op::Read => {
                self.stats.media_read_bytes += request.len;
                self.p.read_latency + Nanos::for_bytes(request.len, self.p.read_rate)
            }
            Op::Write { .. } | Op::WriteZeroes => self.write_cost(&request),
            Op::Flush => Nanos::ZERO,
            Op::Discard => self.p.write_latency,
        };
        self.free = self.free.max(now) + cost;
        self.stats.media_busy_ns += cost.0;
        self.pending.push_back(Completion { id: request.id, at: self.free, result: Ok(()) });
    }

    fn next_event(&self) -> Option<Nanos> {
        self.pending.front().map(|c| c.at)
    }

    fn advance(&mut self, to: Nanos, out: &mut Vec<Completion>) {
        while self.pending.front().is_some_and(|c| c.at <= to) {
            out.extend(self.pending.pop_front());
        }
    }

    fn profile(&self) -> Profile {
        Profile {
            capacity_bytes: self.p.capacity,
            rotational: false,
            volatile_cache: false,
            queue_depth: 1,
            floor: self.p.read_latency.min(self.p.write_latency),
            max_rate: self.p.read_rate.max(self.p.write_rate),
        }
    }

    fn stats(&self) -> DeviceStats {
        self.stats
    }

    fn powercut(&mut self, now: Nanos) -> LostWrites {
        self.pending.clear();
        // Open blocks are closed from the log when the power is back; that is not counted.
        self.open.clear();
        self.free = now;
        LostWrites::default()
    }

    fn oldest_volatile(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stick() -> CheapFlash {
        CheapFlash::new(CheapFlashParams {
            capacity: 1 << 30,
            read_latency: Nanos::from_millis(1),
            write_latency: Nanos::from_millis(1),
            read_rate: 100e6,
            write_rate: 10e6,
            copy_rate: 4.0 * 1024.0 * 1024.0,
            erase_block: 4 << 20,
            erase: Nanos::from_millis(2),
            open_blocks: 2,
            stall_every: 0,
            stall: Nanos::ZERO,
        })
    }

    /// Milliseconds of one 4 KiB write at an offset.
    fn write(device: &mut CheapFlash, offset: u64) -> u64 {
        let before = device.free;
        device.submit(before, Request::write(0, offset, 4096));
        device.free.since(before).0 / 1_000_000
    }

    #[test]
    fn going_on_is_cheap_and_a_third_block_costs_a_merge() {
        let mut s = stick();
        let block = 4 << 20;
        assert_eq!(write(&mut s, 0), 1);
        assert_eq!(write(&mut s, 4096), 1);
        assert_eq!(write(&mut s, block), 1);
        assert_eq!(write(&mut s, 8192), 1, "two blocks may be open");
        let third = write(&mut s, 2 * block);
        assert!((1_000..1_010).contains(&third), "closing copies the rest of a block: {third} ms");
        let back = write(&mut s, 2 * block);
        assert!((1_000..1_010).contains(&back), "going back is a merge too: {back} ms");
    }
}
