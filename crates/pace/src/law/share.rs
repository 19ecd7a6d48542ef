//! The share of the disk beside others: raised step by step, cut when they wait too long.

use std::time::Duration;

use super::listen::Heard;
use super::seen::{Seen, Waits};

/// The least share: a copy never stops.
const FLOOR: f64 = 0.02;
/// The greatest.
const MOST: f64 = 0.9;
/// Each step up, per window.
const STEP: f64 = 0.04;
/// The same near the share at which others waited too long.
const SMALL_STEP: f64 = 0.01;
/// What was too much grows with each step up: the disk may have become faster.
const FORGET: f64 = 1.03;
/// A cut leaves so much.
const CUT: f64 = 0.7;
/// A window has so many operations …
const OPS: f64 = 4.0;
/// … and is so long, …
const LEAST: Duration = Duration::from_millis(250);
/// … or, with fewer, so long.
const LONGEST: Duration = Duration::from_secs(1);
/// From an idle part of two thirds of the time on others may wait all of `most`.
const IDLE: f64 = 1.5;
/// So much of the share was used: it was too small for the command.
const TAKEN: f64 = 0.9;
/// Waits this many times too long leave the least share.
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

    /// Others have come, and leave this part of the time: half of it.
    pub(super) fn begin(&mut self, left: f64) {
        (self.share, self.too_much) = (left / 2.0, None);
    }

    /// A silence is no part of a window.
    pub(super) fn forget_window(&mut self) {
        self.window = Seen::default();
    }

    /// Corrects the share at the end of a window. Others may wait `most` times as long as without
    /// us. `capacity` is in bytes per second.
    ///
    /// Returns whether the capacity is too low: others did not wait too long although the disk took
    /// all of the greatest share.
    pub(super) fn observe(&mut self, seen: &Seen, heard: &Heard, most: f64, capacity: f64) -> bool {
        self.window = if self.window.elapsed.is_zero() { *seen } else { self.window.plus(seen) };
        let window = self.window;
        let ratios = [
            kind(&window, heard, |seen| seen.flushes),
            kind(&window, heard, |seen| seen.reads),
            kind(&window, heard, Seen::small_writes),
        ];
        let ratio = ratios.into_iter().flatten().reduce(f64::max);
        let ops = window.others_ops();
        let most = allowed(most, heard.busy());
        let over = window.elapsed >= LEAST && ops >= OPS || window.elapsed >= LONGEST;
        // Nothing ends although others had ended several operations by now without us.
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

/// How many times as long others may wait who keep the disk busy for a part `busy` of the time by
/// themselves. Who leaves it idle can wait longer and keep its rate; who does not loses what it
/// waits.
fn allowed(most: f64, busy: f64) -> f64 {
    1.0 + (most - 1.0) * (IDLE * (1.0 - busy)).min(1.0)
}

/// How many times as long operations of a kind take as in silence.
fn kind(window: &Seen, heard: &Heard, of: impl Fn(&Seen) -> Waits) -> Option<f64> {
    let (now, base) = (of(window).mean_s()?, heard.base_s(&of)?);
    (base > 0.0).then(|| now / base)
}
