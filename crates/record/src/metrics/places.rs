//! The workloads of one device that have separate series: a fixed number, by weight.
//!
//! ```text
//!             room, or twice as heavy as the lightest
//! newcomer ─────────────────────────────────▶ holder ── idle for an hour ─▶ dropped
//!     │ neither                    ▲            │ displaced
//!     ▼                            │ wins again ▼
//!   other                          └───────── retired ── an hour, or five minutes ─▶ dropped
//! ```
//!
//! A workload's weight is the seconds that it costs in each second: time waited, and time that
//! its dirtied bytes take to write. It halves every minute in which the workload does nothing.
//! Victims and floods are heavier than all others. As many may be retired as have places. With so
//! many, each is retired for five minutes, and none is displaced before another one is dropped.
//!
//! Each frame's use is counted once: at a holder, else at `other`. So increases added up over the
//! series are the increases of the device. A retired workload's sums are frozen. They are not given
//! to `other` when it is dropped: a query that adds up rates would count them a second time.

use std::collections::BTreeMap;

use super::counts::{Counts, Now, Slowest, Use};
use super::label::OTHER;

/// How long an idle or a retired workload keeps its series, in milliseconds of frames.
pub(super) const KEPT_MS: u64 = 3_600_000;
/// How long a retired one keeps them while there is no room for more: each scraper has seen them.
const KEPT_LEAST_MS: u64 = 300_000;
/// In which an idle holder's weight halves.
const HALF_LIFE_MS: f64 = 60_000.0;
/// Bytes that are taken for a second of writing when workloads are weighed: a hard disk's second.
const BYTES_A_SECOND: f64 = 100e6;
/// What a victim or a flood weighs more: above what a thousand waiting threads weigh.
const MARKED: f64 = 1_000.0;
/// So many times the lightest holder's weight a newcomer has to have. Two that are alike must not
/// displace each other in turn.
const MARGIN: f64 = 2.0;

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    most: usize,
    holders: BTreeMap<String, Holder>,
    retired: BTreeMap<String, Retired>,
    other: Option<Holder>,
}

#[derive(Clone, Debug, Default)]
struct Holder {
    counts: Counts,
    /// Absent if it is not in the newest frame.
    now: Option<Now>,
    slowest: Slowest,
    weight: f64,
    used_ms: u64,
}

#[derive(Clone, Debug)]
struct Retired {
    counts: Counts,
    since_ms: u64,
}

/// A workload's series.
pub(super) struct View<'a> {
    pub(super) workload: &'a str,
    pub(super) counts: &'a Counts,
    /// Absent for a retired one, whose present use is among the others.
    pub(super) now: Option<Now>,
    pub(super) slowest_us: Option<u64>,
}

impl Places {
    pub(super) fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// Takes in the uses of a frame, by workload. `at_ms` is the time that all frames took.
    pub(super) fn frame(&mut self, at_ms: u64, window_ms: u64, uses: BTreeMap<String, Use>) {
        let left = (-(window_ms as f64) / HALF_LIFE_MS).exp2();
        for holder in self.holders.values_mut().chain(&mut self.other) {
            holder.now = None;
            holder.weight *= left;
        }
        let weighed = |(label, used): (String, Use)| (weight(&used, window_ms), label, used);
        let mut uses: Vec<(f64, String, Use)> = uses.into_iter().map(weighed).collect();
        // Holders first, so that a newcomer is held against their present weights; then the
        // heaviest.
        uses.sort_by(|a, b| {
            let is_new = |label: &String| !self.holders.contains_key(label);
            is_new(&a.1).cmp(&is_new(&b.1)).then(b.0.total_cmp(&a.0))
        });
        for (weight, label, used) in uses {
            let holder = self.place(label, weight, at_ms);
            holder.counts.add(&used.counts);
            holder.slowest.add(at_ms, used.now.slowest_us);
            holder.now.get_or_insert_default().add(&used.now);
        }
        // At the end: a workload that comes back in this very frame goes on with its sums.
        self.holders.retain(|_, holder| at_ms - holder.used_ms < KEPT_MS);
        let kept_ms = if self.retired.len() < self.most { KEPT_MS } else { KEPT_LEAST_MS };
        self.retired.retain(|_, retired| at_ms - retired.since_ms < kept_ms);
    }

    /// Adds a workload's waits or dirtied bytes of a finished stall.
    pub(super) fn stall(&mut self, label: String, at_ms: u64, counts: &Counts) {
        match self.retired.get_mut(&label) {
            Some(retired) => retired.counts.add(counts),
            None => self.place(label, MARKED, at_ms).counts.add(counts),
        }
    }

    pub(super) fn views(&self, at_ms: u64) -> impl Iterator<Item = View<'_>> {
        let other = self.other.iter().map(|holder| (OTHER, holder));
        let holders = self.holders.iter().map(|(label, holder)| (label.as_str(), holder));
        let held = holders.chain(other).map(move |(workload, holder)| View {
            workload,
            counts: &holder.counts,
            now: Some(holder.now.clone().unwrap_or_default()),
            slowest_us: holder.slowest.us(at_ms),
        });
        let retired = self.retired.iter().map(|(label, retired)| View {
            workload: label,
            counts: &retired.counts,
            now: None,
            slowest_us: None,
        });
        held.chain(retired)
    }

    /// Where a workload's use is counted.
    fn place(&mut self, label: String, weight: f64, at_ms: u64) -> &mut Holder {
        // Before room is made: that may drop a retired workload.
        let back = self.retired.remove(&label);
        let has_place =
            label != OTHER && (self.holders.contains_key(&label) || self.make_room(weight, at_ms));
        let holder = if has_place {
            self.holders.entry(label).or_insert_with(|| Holder {
                counts: back.map(|retired| retired.counts).unwrap_or_default(),
                ..Holder::default()
            })
        } else {
            if let Some(back) = back {
                self.retired.insert(label, back);
            }
            self.other.get_or_insert_default()
        };
        holder.weight = holder.weight.max(weight);
        holder.used_ms = at_ms;
        holder
    }

    /// Whether there is a place for a newcomer.
    fn make_room(&mut self, weight: f64, at_ms: u64) -> bool {
        if self.holders.len() < self.most {
            return true;
        }
        let lightest = self.holders.iter().min_by(|a, b| a.1.weight.total_cmp(&b.1.weight));
        let Some((label, holder)) = lightest else { return false };
        if weight <= holder.weight * MARGIN || self.retired.len() >= self.most {
            return false;
        }
        let label = label.clone();
        if let Some(Holder { counts, .. }) = self.holders.remove(&label) {
            self.retired.insert(label, Retired { counts, since_ms: at_ms });
        }
        true
    }
}

fn weight(used: &Use, window_ms: u64) -> f64 {
    let waited_s = (used.counts.commits.sum_us as f64 + used.counts.reads.sum_us as f64) / 1e6;
    let written_s = used.counts.dirtied_bytes.unwrap_or(0) as f64 / BYTES_A_SECOND;
    let marked = if used.now.is_victim || used.now.is_flood { MARKED } else { 0.0 };
    // A window of no length weighs as the shortest one.
    marked + (waited_s + written_s) * 1e3 / window_ms.max(1) as f64
}
