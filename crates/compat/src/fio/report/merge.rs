//! Jobs of one report: with `group_reporting` those of a group are one.

use floodwall_model::Moments;

use super::super::outcome::{Direction, Job, LatencyBuckets, Outcome};

/// Jobs that are reported as one.
#[derive(Debug)]
pub(super) struct Entry {
    /// The sums; names and options are those of the first job, `options` those of the last one.
    pub job: Job,
    /// How many jobs.
    pub members: u32,
}

/// A reporting group: reads, writes and trims.
#[derive(Debug, Default)]
pub(super) struct Group(pub [Total; 3]);

/// A direction of a group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Total {
    pub bytes: u64,
    /// Shortest and longest run time of an entry, milliseconds; 0 of none.
    pub run_ms: (u64, u64),
    /// Lowest and highest rate of an entry, bytes a second.
    pub rate: (u64, u64),
    /// `kb_base=1000` of the last entry.
    pub is_decimal: bool,
}

impl Total {
    /// Bytes a second over the longest run time.
    pub(super) fn together(&self) -> u64 {
        rate(self.bytes, self.run_ms.1)
    }
}

/// A number in so many milliseconds as a number a second, rounded down.
pub(super) fn rate(number: u64, ms: u64) -> u64 {
    (1_000 * number).checked_div(ms).unwrap_or_default()
}

/// Percent of the group's rate that a mean of KiB/s is.
pub(super) fn share_of_group(bw: &Moments, total: &Total) -> f64 {
    let all = total.together();
    if all == 0 { 100.0 } else { (bw.mean.trunc() * 100.0 / (all as f64 / 1_024.0)).min(100.0) }
}

/// Counts in percent of a total: of those that are not 0, `least` at least.
pub(super) fn percents(counts: &[u64], total: u64, least: f64) -> Vec<f64> {
    let percent = |count: &u64| match (count, total) {
        (0, _) | (_, 0) => 0.0,
        (count, total) => (*count as f64 / total as f64 * 100.0).max(least),
    };
    counts.iter().map(percent).collect()
}

#[derive(Debug)]
pub(super) struct Merged {
    pub entries: Vec<Entry>,
    pub groups: Vec<Group>,
}

pub(super) fn merge(outcome: &Outcome) -> Merged {
    let mut entries: Vec<Entry> = Vec::new();
    for job in &outcome.jobs {
        match entries.last_mut() {
            Some(last) if job.is_grouped && last.job.group == job.group => {
                add(&mut last.job, job);
                last.members += 1;
            }
            _ => entries.push(Entry { job: job.clone(), members: 1 }),
        }
    }
    let count = outcome.jobs.iter().map(|job| job.group + 1).max().unwrap_or_default();
    let mut groups: Vec<Group> = (0..count).map(|_| Group::default()).collect();
    for Entry { job, .. } in &entries {
        let Some(Group(totals)) = groups.get_mut(job.group as usize) else { continue };
        for (total, direction) in totals.iter_mut().zip(job.directions()) {
            total.add(direction);
            total.is_decimal = job.is_decimal;
        }
    }
    Merged { entries, groups }
}

impl Total {
    fn add(&mut self, direction: &Direction) {
        let ms = direction.runtime_ms;
        if ms == 0 {
            return;
        }
        let bytes = rate(direction.bytes, ms);
        let widened = |(from, to): (u64, u64), value: u64| (from.min(value), to.max(value));
        let is_first = self.run_ms.1 == 0;
        self.run_ms = if is_first { (ms, ms) } else { widened(self.run_ms, ms) };
        self.rate = if is_first { (bytes, bytes) } else { widened(self.rate, bytes) };
        self.bytes += direction.bytes;
    }
}

impl Job {
    /// Reads, writes and trims.
    pub(super) fn directions(&self) -> [&Direction; 3] {
        [&self.read, &self.write, &self.trim]
    }

    /// Requests of all directions.
    pub(super) fn ios(&self) -> u64 {
        self.directions().iter().map(|direction| direction.ios).sum()
    }

    /// Percents of the run in user mode and in the kernel.
    pub(super) fn cpu(&self) -> [f64; 2] {
        let percent = |ms: u64| ms as f64 * 100.0 / self.run_ms as f64;
        if self.run_ms == 0 { [0.0; 2] } else { [self.user_ms, self.system_ms].map(percent) }
    }
}

fn add(sum: &mut Job, job: &Job) {
    if sum.error == 0 {
        (sum.error, sum.error_text) = (job.error, job.error_text.clone());
    }
    sum.options = job.options.clone();
    sum.percentiles = job.percentiles.clone();
    sum.depth = job.depth;
    sum.elapsed_s = sum.elapsed_s.max(job.elapsed_s);
    sum.run_ms += job.run_ms;
    add_direction(&mut sum.read, &job.read);
    add_direction(&mut sum.write, &job.write);
    add_direction(&mut sum.trim, &job.trim);
    sum.sync.merge(&job.sync);
    sum.user_ms += job.user_ms;
    sum.system_ms += job.system_ms;
    sum.context_switches += job.context_switches;
    sum.major_faults += job.major_faults;
    sum.minor_faults += job.minor_faults;
    add_all(&mut sum.depths.level, &job.depths.level);
    add_all(&mut sum.depths.submit, &job.depths.submit);
    add_all(&mut sum.depths.complete, &job.depths.complete);
    sum.depths.submits += job.depths.submits;
    sum.depths.completes += job.depths.completes;
    let LatencyBuckets { ns, us, ms } = &job.latency_buckets;
    add_all(&mut sum.latency_buckets.ns, ns);
    add_all(&mut sum.latency_buckets.us, us);
    add_all(&mut sum.latency_buckets.ms, ms);
}

fn add_all(sum: &mut [u64], values: &[u64]) {
    sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}

fn add_direction(sum: &mut Direction, direction: &Direction) {
    sum.bytes += direction.bytes;
    sum.runtime_ms = sum.runtime_ms.max(direction.runtime_ms);
    sum.ios += direction.ios;
    sum.short += direction.short;
    sum.dropped += direction.dropped;
    sum.slat.merge(&direction.slat);
    sum.clat.merge(&direction.clat);
    sum.lat.merge(&direction.lat);
    sum.bw = added(sum.bw, direction.bw);
    sum.iops = added(sum.iops, direction.iops);
}

/// Rates of jobs that run at the same time: minima, maxima and means are added.
fn added(a: Moments, b: Moments) -> Moments {
    if a.n == 0 || b.n == 0 {
        return if a.n == 0 { b } else { a };
    }
    Moments {
        n: a.n + b.n,
        min: a.min + b.min,
        max: a.max + b.max,
        mean: a.mean + b.mean,
        squares: a.squares + b.squares,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(group: u32, is_grouped: bool, bytes: u64, ms: u64) -> Job {
        let mut job = Job { group, is_grouped, ..Job::default() };
        job.write = Direction { bytes, runtime_ms: ms, ios: 1, ..Direction::default() };
        job.write.clat.record(ms);
        job.write.bw.record(bytes);
        job
    }

    #[test]
    fn grouped_jobs_add_their_rates_and_share_the_longest_time() {
        let jobs = vec![
            job(0, false, 1_000, 10),
            job(0, true, 2_000, 20),
            job(1, true, 4_000, 10),
            job(1, false, 100, 10),
        ];
        let merged = merge(&Outcome { jobs, ..Outcome::default() });
        let members: Vec<u32> = merged.entries.iter().map(|entry| entry.members).collect();
        assert_eq!(members, [2, 1, 1], "a job without group_reporting stands alone");
        let write = &merged.entries[0].job.write;
        assert_eq!((write.bytes, write.runtime_ms, write.ios), (3_000, 20, 2));
        assert_eq!((write.bw.min, write.bw.mean, write.bw.n), (3_000, 3_000.0, 2));
        assert_eq!(write.clat.moments.mean, 15.0);
        let [_, total, _] = merged.groups[1].0;
        assert_eq!((total.bytes, total.run_ms, total.rate), (4_100, (10, 10), (10_000, 400_000)));
        assert_eq!(total.together(), 410_000);
    }
}
