//! The command's share of the disk beside others. It rises while they wait shorter than they may,
//! and is cut in proportion to the excess. The few waits in a window differ by chance, so cuts of a
//! fixed size would move the share by chance.

use std::time::Duration;

use super::listen::Heard;
use super::seen::{SURE, Seen, Waits};

/// The least share, so that a copy never stops.
const FLOOR: f64 = 0.02;
/// The greatest share.
const MOST: f64 = 0.9;
/// The rise of the share in a window in which others could wait one wait longer, as a part of the
/// capacity. Beside others that are allowed a part of the delay, the rise is the same part of it:
/// greater rises would outweigh the cuts of a small share.
const STEP: f64 = 0.04;
/// Until the first cut the rise is up to so many times [`STEP`], as in TCP's slow start. It grows
/// with the root of the operations above [`SURE`]: the error of their mean wait falls with it.
const FAST: f64 = 4.0;
/// The cut in a window in which others waited one wait too long, as a part of the share.
const CUT: f64 = 0.3;
/// The part of the allowed delay that the whole disk as the share would give up. Several commands
/// see the same waits. The one with the greater share thus stops rising first, and all come to the
/// same share, as by the flow scaling of Swift (SIGCOMM 2020).
const FAIR: f64 = 0.5;
/// The share does not rise above so many times what the command used of late, and a cut begins
/// there.
const USED: f64 = 2.0;
/// Least operations of a window …
const OPS: f64 = 4.0;
/// … and its least length …
const LEAST: Duration = Duration::from_millis(250);
/// … or its length with fewer operations.
const LONGEST: Duration = Duration::from_secs(1);
/// Others that leave the disk idle for two thirds of the time may wait `most` times as long.
const IDLE: f64 = 1.5;
/// Others that leave it no idle time may be delayed by this part of the allowed delay.
const BUSY: f64 = 0.05;
/// Others that keep this part of their rate may wait `most` times as long as well, however busy the
/// disk is: a disk that serves several requests at a time is busy and has much to spare. A greater
/// part tells of commits of the command's own.
const KEPT: std::ops::RangeInclusive<f64> = 0.93..=1.15;
/// The weight of a new window in averages.
const NEW: f64 = 0.2;
/// If the disk took this part of the greatest share or more in a window, the capacity may be too
/// low.
const TAKEN: f64 = 0.9;
/// Waits longer than this many times the allowed ones leave the least share.
const SEVERE: f64 = 3.0;

/// The share, as a fraction of the capacity.
#[derive(Clone, Debug, Default)]
pub(super) struct Share {
    share: f64,
    /// Whether others have waited too long since the share began.
    was_cut: bool,
    window: Seen,
    ratio: Option<f64>,
    /// What the disk took of the command, as a fraction of the capacity. An average.
    used: f64,
    /// Operations of others per second, an average; none before the first window.
    ops_per_s: Option<f64>,
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
        (self.share, self.used, self.ops_per_s) = (left / 2.0, left / 2.0, None);
        self.was_cut = false;
    }

    /// Begins a new window, since a silence is no part of one.
    pub(super) fn forget_window(&mut self) {
        self.window = Seen::default();
    }

    /// Corrects the share at the end of a window. Others may wait `most` times as long as without
    /// the command. `capacity` is in bytes per second.
    ///
    /// Returns the rate of the command's pieces if the capacity may be too low. The disk took all
    /// of the greatest share then, and others did not wait too long.
    pub(super) fn observe(
        &mut self,
        seen: &Seen,
        heard: &Heard,
        most: f64,
        capacity: f64,
    ) -> Option<f64> {
        self.window = self.window.plus(seen);
        let window = self.window;
        let ratios = [
            kind(&window, heard, |seen| seen.flushes),
            kind(&window, heard, Seen::others_reads),
            kind(&window, heard, Seen::small_writes),
        ];
        let ratio = ratios.into_iter().flatten().reduce(f64::max);
        let ops = window.others_ops();
        let over = window.elapsed >= LEAST && ops >= OPS || window.elapsed >= LONGEST;
        // No operation ends in a time in which several would have ended without the command.
        let expected = heard.ops_per_s() * window.elapsed.as_secs_f64();
        let stuck = window.elapsed >= LEAST
            && window.others_ops() < 1.0
            && window.in_flight > 0
            && expected >= OPS;
        if !over && !stuck {
            return None;
        }
        self.window = Seen::default();
        self.ratio = ratio;
        let per_s = ops / window.elapsed.as_secs_f64();
        let per_s = self.ops_per_s.map_or(per_s, |before| before + (per_s - before) * NEW);
        self.ops_per_s = Some(per_s);
        let kept = heard.known_ops_per_s().map(|alone| per_s / alone);
        let share = self.share();
        let part = part_of_delay(heard.busy(), kept);
        let most = 1.0 + (most - 1.0) * part * (1.0 - FAIR * share);
        let used = window.own_bytes as f64 / window.elapsed.as_secs_f64() / capacity;
        self.used += (used - self.used) * NEW;
        let limit = USED * self.used.max(FLOOR);
        let excess = ratio.map_or(0.0, |ratio| (ratio - most).clamp(-1.0, 1.0));
        if stuck || ratio.is_some_and(|ratio| ratio > most * SEVERE) {
            (self.share, self.was_cut) = (FLOOR, true);
        } else if excess > 0.0 {
            self.was_cut = true;
            self.share = share.min(limit) * (1.0 - CUT * excess);
        } else if share <= limit && !heard.is_first() {
            let fast = if self.was_cut { 1.0 } else { FAST };
            let step = STEP * part * (ops / SURE).sqrt().clamp(1.0, fast);
            self.share = share - step * excess;
        }
        self.share = self.share.clamp(FLOOR, MOST);
        window.own_rate().filter(|_| self.share >= MOST && used >= share * TAKEN)
    }
}

/// The part of the delay that others are allowed. By themselves they keep the disk busy for a part
/// `busy` of the time. Beside the command they keep a part `kept` of their rate, if that is known.
/// Those that leave the disk idle can wait longer at the same rate. Those that keep it busy lose
/// rate with each wait.
fn part_of_delay(busy: f64, kept: Option<f64>) -> f64 {
    let keeps = kept.is_some_and(|kept| KEPT.contains(&kept));
    if keeps { 1.0 } else { (IDLE * (1.0 - busy)).clamp(BUSY, 1.0) }
}

/// The mean time of a kind of operation, as a multiple of that in a silence.
fn kind(window: &Seen, heard: &Heard, of: impl Fn(&Seen) -> Waits) -> Option<f64> {
    let (now, base) = (of(window).mean_s()?, heard.base_s(&of)?);
    (base > 0.0).then(|| now / base)
}
