//! One direction of a group: its rates, its slice, and the bios that wait.

use std::collections::VecDeque;

use crate::block::Bio;
use crate::throttle::jiffies::Clock;

/// A bio that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    pub(super) bio: Bio,
    /// It has been charged for its bytes (`BIO_TG_BPS_THROTTLED`).
    pub(super) charged: bool,
    /// It came before it was within the bytes (`bios_bps`, not `bios_iops`).
    pub(super) for_bytes: bool,
}

/// One direction of a group.
#[derive(Clone, Debug, Default)]
pub(super) struct Way {
    pub(super) bytes_per_s: Option<u64>,
    pub(super) operations_per_s: Option<u32>,
    pub(super) queue: VecDeque<Queued>,
    /// How many of them came before they were within the bytes (`nr_queued_bps`). Those that come
    /// behind them are not charged.
    pub(super) for_bytes: usize,
    /// Bytes charged in this slice (`bytes_disp`).
    pub(super) bytes: u64,
    /// Operations charged in this slice (`io_disp`).
    pub(super) operations: u64,
    /// When the slice began and ends, in ticks.
    pub(super) slice: (u64, u64),
}

/// Now, in ticks.
#[derive(Clone, Copy)]
pub(super) struct Tick {
    pub(super) clock: Clock,
    pub(super) now: u64,
}

impl Way {
    pub(super) fn is_limited(&self) -> bool {
        self.bytes_per_s.is_some() || self.operations_per_s.is_some()
    }

    /// Whether an arriving bio is within the rates and no other bio waits before it
    /// (`tg_within_limit`).
    pub(super) fn lets_through(&mut self, at: Tick, bio: &mut Queued) -> bool {
        if self.queue.is_empty() {
            return self.wait(at, bio) == 0;
        }
        if self.for_bytes == 0 && self.wait_for_bytes(at, bio) == 0 {
            self.charge_bytes(bio);
        }
        false
    }

    /// Ticks until a bio is within the rates; 0: it is (`tg_dispatch_time`).
    fn wait(&mut self, at: Tick, bio: &mut Queued) -> u64 {
        match self.wait_for_bytes(at, bio) {
            0 => {
                self.charge_bytes(bio);
                self.wait_for_operations(at)
            }
            wait => wait,
        }
    }

    pub(super) fn wait_of_first(&mut self, at: Tick) -> Option<u64> {
        let mut first = *self.queue.front()?;
        let wait = self.wait(at, &mut first);
        self.queue[0] = first;
        Some(wait)
    }

    /// All that are within the rates now (`throtl_dispatch_tg`, `tg_dispatch_one_bio`).
    pub(super) fn dispatch(&mut self, at: Tick) -> VecDeque<Bio> {
        let mut passed = VecDeque::new();
        while self.wait_of_first(at) == Some(0) {
            let Some(queued) = self.queue.pop_front() else { break };
            self.for_bytes -= usize::from(queued.for_bytes);
            passed.push_back(queued.bio);
            self.operations += 1;
            self.trim(at);
        }
        passed
    }

    /// `throtl_charge_bps_bio`.
    pub(super) fn charge_bytes(&mut self, bio: &mut Queued) {
        if !bio.charged {
            bio.charged = true;
            self.bytes += bio.bio.len;
        }
    }

    /// `tg_dispatch_bps_time`.
    fn wait_for_bytes(&mut self, at: Tick, bio: &Queued) -> u64 {
        let Some(limit) = self.bytes_per_s.filter(|_| !bio.charged) else { return 0 };
        self.update_slice(at);
        let wait = self.bytes_wait(at, bio.bio.len, limit);
        self.extend_slice(at, at.now + wait);
        wait
    }

    /// `tg_within_bps_limit`.
    fn bytes_wait(&self, at: Tick, len: u64, limit: u64) -> u64 {
        let (hz, elapsed) = (at.clock.hz(), at.now - self.slice.0);
        let rounded = elapsed.max(1).next_multiple_of(slice_ticks(at.clock));
        let allowed = scaled(limit, rounded, hz);
        let wanted = self.bytes + len;
        if allowed > 0 && wanted <= allowed {
            return 0;
        }
        scaled(wanted - allowed.min(wanted), hz, limit).max(1) + rounded - elapsed
    }

    /// `tg_dispatch_iops_time`.
    fn wait_for_operations(&mut self, at: Tick) -> u64 {
        let Some(limit) = self.operations_per_s.map(u64::from) else { return 0 };
        self.update_slice(at);
        let wait = self.operations_wait(at, limit);
        self.extend_slice(at, at.now + wait);
        wait
    }

    /// `tg_within_iops_limit`.
    fn operations_wait(&self, at: Tick, limit: u64) -> u64 {
        let (hz, elapsed) = (at.clock.hz(), at.now - self.slice.0);
        let rounded = (elapsed + 1).next_multiple_of(slice_ticks(at.clock));
        if self.operations < scaled(limit, rounded, hz) {
            return 0;
        }
        (rounded - elapsed).max(hz / limit + 1)
    }

    fn is_slice_over(&self, at: Tick) -> bool {
        !(self.slice.0..=self.slice.1).contains(&at.now)
    }

    /// `tg_update_slice`: a slice that is over while nothing is queued is forgotten.
    fn update_slice(&mut self, at: Tick) {
        let end = at.now + slice_ticks(at.clock);
        if self.is_slice_over(at) && self.queue.is_empty() {
            (self.bytes, self.operations, self.slice) = (0, 0, (at.now, end));
        } else {
            self.extend_slice(at, end);
        }
    }

    fn extend_slice(&mut self, at: Tick, end: u64) {
        if self.slice.1 < end {
            self.slice.1 = end.next_multiple_of(slice_ticks(at.clock));
        }
    }

    /// `throtl_trim_slice`: in a slice that continues, the part older than one to two tenths of a
    /// second is settled.
    pub(super) fn trim(&mut self, at: Tick) {
        if self.is_slice_over(at) {
            return;
        }
        let (hz, slice) = (at.clock.hz(), slice_ticks(at.clock));
        self.slice.1 = (at.now + slice).next_multiple_of(slice);
        let elapsed = (at.now - self.slice.0) / slice * slice;
        if elapsed < 2 * slice {
            return;
        }
        let elapsed = elapsed - slice;
        // If the elapsed time allows nothing, as below ten operations a second, the charge is
        // dropped as well.
        let settled = |charged: u64, limit: Option<u64>| match limit
            .map(|limit| scaled(limit, elapsed, hz))
        {
            None => 0,
            Some(allowed) if allowed == 0 || charged < allowed => charged,
            Some(allowed) => allowed,
        };
        let bytes = settled(self.bytes, self.bytes_per_s);
        let operations = settled(self.operations, self.operations_per_s.map(u64::from));
        if bytes == 0 && operations == 0 {
            return;
        }
        self.bytes -= bytes;
        self.operations -= operations;
        self.slice.0 += elapsed;
    }
}

/// Ticks of a slice (`DFL_THROTL_SLICE`).
pub(super) fn slice_ticks(clock: Clock) -> u64 {
    (clock.hz() / 10).max(1)
}

/// n × numerator / denominator, rounded down (`mul_u64_u64_div_u64`).
fn scaled(n: u64, numerator: u64, denominator: u64) -> u64 {
    u64::try_from(u128::from(n) * u128::from(numerator) / u128::from(denominator))
        .unwrap_or(u64::MAX)
}
