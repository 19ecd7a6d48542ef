//! The command's share of the disk beside others. It rises step by step, and is cut when others
//! wait too long.

use std::time::Duration;

use super::listen::Heard;
use super::seen::{Seen, Waits};

/// The least share, so that a copy never stops.
const FLOOR: f64 = 0.02;
/// The greatest share.
const MOST: f64 = 0.9;
/// The rise of the share in each window.
const STEP: f64 = 0.04;
/// The same near the share at which others waited too long.
const SMALL_STEP: f64 = 0.01;
/// Growth of the remembered share with each step up, since the disk may have become faster.
const FORGET: f64 = 1.03;
/// Factor of a cut.
const CUT: f64 = 0.7;
/// Least operations of a window …
const OPS: f64 = 4.0;
/// … and its least length …
const LEAST: Duration = Duration::from_millis(250);
/// … or its length with fewer operations.
const LONGEST: Duration = Duration::from_secs(1);
/// Others that leave the disk idle for two thirds of the time may wait `most` times as long.
const IDLE: f64 = 1.5;
/// From this used part of the share on, the share was too small for the command.
const TAKEN: f64 = 0.9;
/// Waits longer than this many times the allowed ones leave the least share.
const SEVERE: f64 = 3.0;

/// The share, as a fraction of the capacity.
#[derive(Clone, Debug, Default)]
pub(super) struct Share {
    share: f64,
    /// The share at which they last waited too long.
    too_much: Option<f64>,
    window: Seen,
    ratio: Option<f64>,
}

impl Share {
    pub(super) fn share(&self) -> f64 {
        self.share.clamp(FLOOR, MOST)
    }

    pub(super) fn last_ratio(&self) -> Option<f64> {
        self.ratio
    }

    /// Begins with half of `left`, the part of the time that others leave the disk idle.
    pub(super) fn begin(&mut self, left: f64) {
        (self.share, self.too_much) = (left / 2.0, None);
    }

    /// Begins a new window, since a silence is no part of one.
    pub(super) fn forget_window(&mut self) {
        self.window = Seen::default();
    }

    /// Corrects the share at the end of a window. Others may wait `most` times as long as without
    /// the command. `capacity` is in bytes per second.
    ///
    /// Returns whether the capacity is too low: the disk took all of the greatest share, and others
    /// did not wait too long.
    pub(super) fn observe(&mut self, seen: &Seen, heard: &Heard, most: f64, capacity: f64) -> bool {
        self.window = if self.window.elapsed.is_zero() { *seen } else { self.window.plus(seen) };
        let window = self.window;
        let ratios = [
            kind(&window, heard, |seen| seen.flushes),
            kind(&window, heard, Seen::others_reads),
            kind(&window, heard, Seen::small_writes),
        ];
        let ratio = ratios.into_iter().flatten().reduce(f64::max);
        let ops = window.others_ops();
        let most = allowed(most, heard.busy());
        let over = window.elapsed >= LEAST && ops >= OPS || window.elapsed >= LONGEST;
        // No operation ends in a time in which several would have ended without the command.
        let expected = heard.ops_per_s() * window.elapsed.as_secs_f64();
        let stuck = window.elapsed >= LEAST
            && window.others_ops() < 1.0
            && window.in_flight > 0
            && expected >= OPS;
        if !over && !stuck {
            return false;
        }
        self.window = Seen::default();
        self.ratio = ratio;
        let share = self.share();
        let delivered = window.own_bytes as f64 / window.elapsed.as_secs_f64() / capacity;
        if stuck || ratio.is_some_and(|ratio| ratio > most * SEVERE) {
            self.too_much = Some(share.min(delivered));
            self.share = FLOOR;
        } else if ratio.is_some_and(|ratio| ratio > most) {
            self.too_much = Some(share.min(delivered));
            self.share = share.min(delivered).max(FLOOR) * CUT;
        } else if ratio.is_some() {
            let near = self.too_much.is_some_and(|much| share >= much * CUT);
            self.too_much = self.too_much.map(|much| much * FORGET);
            self.share = share + if near { SMALL_STEP } else { STEP };
        }
        self.share = self.share.clamp(FLOOR, MOST);
        self.share >= MOST && delivered >= share * TAKEN
    }
}

/// How many times as long others may wait that keep the disk busy for a part `busy` of the time by
/// themselves. Others that leave it idle can wait longer at the same rate. Others that keep it busy
/// lose rate with each wait.
fn allowed(most: f64, busy: f64) -> f64 {
    1.0 + (most - 1.0) * (IDLE * (1.0 - busy)).min(1.0)
}

/// The mean time of a kind of operation, as a multiple of that in a silence.
fn kind(window: &Seen, heard: &Heard, of: impl Fn(&Seen) -> Waits) -> Option<f64> {
    let (now, base) = (of(window).mean_s()?, heard.base_s(&of)?);
    (base > 0.0).then(|| now / base)
}
