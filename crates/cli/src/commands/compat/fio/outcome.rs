//! What the engine counted, as the reports want it.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use floodwall_compat::fio::line::{Command, JobSpec};
use floodwall_compat::fio::{
    self, Depths, Direction, Disk, Distribution, LatencyBuckets, Outcome, completed_slot,
    disk_between, level_slot,
};
use floodwall_host::{SysRoot, block};
use floodwall_load::LoadError;
use floodwall_load::jobs::{self, DirectionCounts, JobCounts, JobRun, Timed};
use floodwall_model::DeviceId;
use floodwall_model::latency::bucket_low_ns;
use jiff::Zoned;
use rustix::fs::{self as rfs, FileType};

/// The format of a report's moment.
const MOMENT: &str = "%a %b %e %H:%M:%S %Y";
/// The error of a failure that has no number of its own.
const EIO: i32 = 5;

/// All jobs of a run that ended now.
pub(super) fn outcome(
    command: &Command,
    runs: &[JobRun],
    begin: Instant,
    disks: Vec<Disk>,
) -> Outcome {
    let now = Zoned::now();
    let elapsed_s = begin.elapsed().as_millis().div_ceil(1000).max(1) as u64;
    let jobs = command.jobs.iter().zip(runs).map(|(job, run)| of_job(job, run, elapsed_s));
    Outcome {
        ended_ms: now.timestamp().as_millisecond().max(0).cast_unsigned(),
        ended: now.strftime(MOMENT).to_string(),
        global_options: command.global_options.clone(),
        jobs: jobs.collect(),
        disks,
    }
}

fn of_job(job: &JobSpec, run: &JobRun, elapsed_s: u64) -> fio::Job {
    let (options, counts) = (&job.options, &run.counts);
    let errno = match &run.failure {
        None => 0,
        Some(LoadError::Io { errno, .. } | LoadError::Ring { errno }) => errno.raw_os_error(),
        Some(_) => EIO,
    };
    let mut latency_buckets = LatencyBuckets::default();
    for direction in &counts.directions {
        for (bucket, n) in direction.latencies[1].counts().buckets() {
            latency_buckets.record_many(bucket_low_ns(bucket), n);
        }
    }
    let [read, write] = &counts.directions;
    fio::Job {
        name: options.name.clone(),
        description: options.description.clone(),
        group: job.group,
        pid: counts.thread,
        options: job.given.clone(),
        is_grouped: options.group_reporting,
        error: errno.unsigned_abs(),
        error_text: run.failure.as_ref().map(why).unwrap_or_default(),
        elapsed_s,
        run_ms: counts.run_us / 1000,
        read: direction(read),
        write: direction(write),
        trim: Direction::default(),
        sync: distribution(&counts.syncs),
        user_ms: counts.cpu_us[0] / 1000,
        system_ms: counts.cpu_us[1] / 1000,
        context_switches: counts.switches,
        major_faults: counts.faults[0],
        minor_faults: counts.faults[1],
        depths: depths(counts),
        latency_buckets,
        percentiles: options.percentiles.clone(),
        depth: options.depth,
        is_decimal: options.kb_base == 1000,
    }
}

/// A failure, with a remedy in fio's words.
pub(super) fn why(failure: &LoadError) -> String {
    match failure {
        LoadError::NoUring { errno } => format!(
            "io_uring is not available here ({errno}): the kernel lacks it or a policy forbids it; \
             write ioengine=psync, and numjobs for requests at a time"
        ),
        LoadError::TooManyKept { most } => {
            format!("its logs have more than {most} requests; set log_avg_msec, or lower runtime")
        }
        other => other.to_string(),
    }
}

fn distribution(of: &Timed) -> Distribution {
    Distribution::new(of.moments, &of.counts())
}

fn direction(counts: &DirectionCounts) -> Direction {
    let [slat, clat, lat] = &counts.latencies;
    Direction {
        bytes: counts.bytes,
        runtime_ms: counts.time_us.div_ceil(1000),
        ios: counts.requests,
        short: 0,
        dropped: 0,
        slat: distribution(slat),
        clat: distribution(clat),
        lat: distribution(lat),
        bw: counts.rates,
        iops: counts.request_rates,
    }
}

fn depths(counts: &JobCounts) -> Depths {
    let mut depths = Depths { submits: counts.submissions, ..Depths::default() };
    // Each call submits one.
    depths.submit[completed_slot(1)] = counts.submissions;
    for (in_flight, n) in counts.depths.iter().enumerate() {
        depths.level[level_slot(in_flight as u32)] += n;
    }
    for (ended, n) in counts.completions.iter().enumerate() {
        depths.complete[completed_slot(ended as u32)] += n;
        depths.completes += n;
    }
    depths
}

/// The disks of the jobs' files, as they were before the run.
pub(super) struct Disks {
    root: Option<SysRoot>,
    ids: BTreeSet<DeviceId>,
    stats: String,
    since: Instant,
}

impl Disks {
    pub(super) fn before(jobs: &[JobSpec], plans: &[jobs::JobPlan]) -> Self {
        let root = SysRoot::live().ok();
        let files = jobs.iter().zip(plans).filter(|(job, _)| job.options.disk_util);
        let paths = files.flat_map(|(_, plan)| &plan.files).map(|file| file.path.as_path());
        let of = |path: &Path| block::whole_disk(root.as_ref()?, device_of(path)?).into_value();
        let ids = paths.filter_map(of).collect();
        let stats = read(root.as_ref());
        Self { root, ids, stats, since: Instant::now() }
    }

    /// The work of each disk since then.
    pub(super) fn after(self) -> Vec<Disk> {
        let (stats, span_ms) = (read(self.root.as_ref()), self.since.elapsed().as_millis() as u64);
        let Some(root) = &self.root else { return Vec::new() };
        let disk = |id: DeviceId| {
            let name = block::read_name(root, id).into_value()?;
            disk_between(&self.stats, &stats, &name, span_ms)
        };
        let mut disks = Vec::new();
        for id in self.ids {
            let Some(mut top) = disk(id) else { continue };
            let below: Vec<Disk> = block::slaves(root, id).into_iter().filter_map(disk).collect();
            top.below = below.iter().map(|disk| disk.name.clone()).collect();
            disks.push(top);
            disks.extend(below);
        }
        disks
    }
}

fn read(root: Option<&SysRoot>) -> String {
    root.and_then(|root| root.read("/proc/diskstats").into_value()).unwrap_or_default()
}

/// The device of a file; of a device, its own number.
fn device_of(path: &Path) -> Option<DeviceId> {
    let stat = rfs::stat(path).ok()?;
    let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    let number = if is_device { stat.st_rdev } else { stat.st_dev };
    Some(DeviceId { major: rfs::major(number), minor: rfs::minor(number) })
}
