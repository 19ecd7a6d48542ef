//! `--minimal`, `--output-format=terse`: a line a job with fields between semicolons, version 3.
//! Latencies are microseconds.

use std::fmt::Write;

use floodwall_model::Moments;

use super::super::outcome::{Direction, Disk, Job, Outcome};
use super::merge::{Entry, Merged, Total, percents, rate};
use super::version::VERSION;

/// Fields of percentiles, used or not.
const PERCENTILES: usize = 20;

pub(super) fn text(outcome: &Outcome, merged: &Merged) -> String {
    merged.entries.iter().map(|entry| line(entry, outcome, merged)).collect()
}

fn line(Entry { job, .. }: &Entry, outcome: &Outcome, merged: &Merged) -> String {
    let mut text = format!("3;{VERSION};{};{};{}", job.name, job.group, job.error);
    let totals = merged.groups.get(job.group as usize).map(|group| group.0).unwrap_or_default();
    // Trims are in later versions only.
    for (one, total) in [&job.read, &job.write].into_iter().zip(&totals) {
        text += &direction(one, job, total);
    }
    let [user, system] = job.cpu();
    let (switches, major, minor) = (job.context_switches, job.major_faults, job.minor_faults);
    let _ = write!(text, ";{user:.6}%;{system:.6}%;{switches};{major};{minor}");
    for percent in percents(&job.depths.level, job.ios(), 0.1) {
        let _ = write!(text, ";{percent:.1}%");
    }
    let buckets = &job.latency_buckets;
    let mut us = percents(&buckets.us, job.ios(), 0.01);
    if let (Some(first), 1..) = (us.first_mut(), job.ios()) {
        // Nanoseconds have no fields.
        *first += 100.0 * buckets.ns.iter().sum::<u64>() as f64 / job.ios() as f64;
    }
    for percent in us.into_iter().chain(percents(&buckets.ms, job.ios(), 0.01)) {
        let _ = write!(text, ";{percent:.2}%");
    }
    text.extend(outcome.disks.iter().map(|one| disk(one, &outcome.disks)));
    if let Some(description) = &job.description {
        let _ = write!(text, ";{description}");
    }
    text + "\n"
}

fn direction(one: &Direction, job: &Job, total: &Total) -> String {
    let (bytes, ms) = (one.bytes, one.runtime_ms);
    let mut text =
        format!(";{};{};{};{ms}", bytes >> 10, rate(bytes, ms) / 1_024, rate(one.ios, ms));
    text += &moments(&one.slat.moments);
    text += &moments(&one.clat.moments);
    let list = &job.percentiles;
    let values = match (list.lat, list.clat) {
        (true, _) => one.lat.percentiles(&list.list),
        (_, true) => one.clat.percentiles(&list.list),
        _ => Vec::new(),
    };
    for (percent, ns) in list.list.iter().zip(&values) {
        let _ = write!(text, ";{percent:.6}%={}", ns / 1_000);
    }
    text += &";0%=0".repeat(PERCENTILES.saturating_sub(values.len()));
    text += &moments(&one.lat.moments);
    let bw = &one.bw;
    let (min, max, share) =
        if bw.n == 0 { (0, 0, 0.0) } else { (bw.min, bw.max, share(bw, total)) };
    let _ = write!(text, ";{min};{max};{share:.6}%;{:.6};{:.6}", bw.mean, bw.deviation());
    text
}

/// Percent of the group's rate. Other formats round the mean, this one the group's rate.
fn share(bw: &Moments, total: &Total) -> f64 {
    let all = total.together() / 1_024;
    if all == 0 { 100.0 } else { (bw.mean * 100.0 / all as f64).min(100.0) }
}

fn moments(of: &Moments) -> String {
    let (min, max) = if of.n == 0 { (0, 0) } else { (of.min / 1_000, of.max / 1_000) };
    format!(";{min};{max};{:.6};{:.6}", of.mean / 1_000.0, of.deviation() / 1_000.0)
}

fn disk(disk: &Disk, all: &[Disk]) -> String {
    let fields = |disk: &Disk, busy: f64| {
        let Disk { ios: [r, w], merges: [rm, wm], ticks_ms: [rt, wt], in_queue_ms, .. } = disk;
        format!(";{r};{w};{rm};{wm};{rt};{wt};{in_queue_ms};{busy:.2}%")
    };
    let mut text = format!(";{}{}", disk.name, fields(disk, disk.busy()));
    if let Some((mean, busy)) = disk.below(all) {
        text += &format!(";slaves{}", fields(&mean, busy));
    }
    text
}
