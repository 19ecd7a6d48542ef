//! `--output-format=json` and `json+`.

use floodwall_model::Moments;

use super::super::distribution::Distribution;
use super::super::outcome::{Direction, Disk, Job, LIMITS, Outcome};
use super::merge::{Group, Merged, Total, percents, rate, share_of_group};
use super::value::{Value, object};
use super::version::VERSION;
use Value::{Array, Float, Int, Object, Text};

/// The time left of a job that has ended, as fio prints it: `INT_MAX` seconds.
const ENDED: u64 = i32::MAX as u64;

pub(super) fn text(outcome: &Outcome, merged: &Merged, with_bins: bool) -> String {
    let mut root = vec![
        ("fio version".to_owned(), Text(VERSION.to_owned())),
        ("timestamp".to_owned(), Int(outcome.ended_ms / 1_000)),
        ("timestamp_ms".to_owned(), Int(outcome.ended_ms)),
        ("time".to_owned(), Text(outcome.ended.clone())),
    ];
    root.extend(options("global options", &outcome.global_options));
    let jobs = merged.entries.iter().map(|entry| {
        let group = merged.groups.get(entry.job.group as usize);
        job(&entry.job, group.unwrap_or(&Group::default()), with_bins)
    });
    root.push(("jobs".to_owned(), Array(jobs.collect())));
    if !outcome.disks.is_empty() {
        let disks = outcome.disks.iter().map(|one| disk(one, &outcome.disks));
        root.push(("disk_util".to_owned(), Array(disks.collect())));
    }
    Object(root).text()
}

fn options(key: &str, list: &[(String, String)]) -> Option<(String, Value)> {
    let pairs = list.iter().map(|(name, value)| (name.clone(), Text(value.clone())));
    (!list.is_empty()).then(|| (key.to_owned(), Object(pairs.collect())))
}

fn job(job: &Job, group: &Group, with_bins: bool) -> Value {
    let mut pairs: Vec<(String, Value)> = Vec::new();
    let mut add = |key: &str, value| pairs.push((key.to_owned(), value));
    add("jobname", Text(job.name.clone()));
    add("groupid", Int(job.group.into()));
    add("error", Int(job.error.into()));
    add("eta", Int(ENDED));
    add("elapsed", Int(job.elapsed_s));
    if let Some((key, list)) = options("job options", &job.options) {
        add(&key, list);
    }
    for ((name, one), total) in ["read", "write", "trim"].iter().zip(job.directions()).zip(group.0)
    {
        add(name, direction(one, job, &total, with_bins));
    }
    let with_percentiles = job.percentiles.clat || job.percentiles.lat;
    let sync = latencies(&job.sync, job, with_percentiles, with_bins);
    add("sync", object([("total_ios", Int(job.sync.moments.n)), ("lat_ns", sync)]));
    let [user, system] = job.cpu();
    add("job_runtime", Int(job.run_ms));
    add("usr_cpu", Float(user));
    add("sys_cpu", Float(system));
    add("ctx", Int(job.context_switches));
    add("majf", Int(job.major_faults));
    add("minf", Int(job.minor_faults));
    let depths = &job.depths;
    let by_call = ["0", "4", "8", "16", "32", "64", ">=64"];
    let level = percents(&depths.level, job.ios(), 0.1);
    add("iodepth_level", floats(&["1", "2", "4", "8", "16", "32", ">=64"], &level));
    add("iodepth_submit", floats(&by_call, &percents(&depths.submit, depths.submits, 0.1)));
    add("iodepth_complete", floats(&by_call, &percents(&depths.complete, depths.completes, 0.1)));
    let buckets = &job.latency_buckets;
    let names: Vec<String> =
        LIMITS.iter().map(u64::to_string).chain([">=2000".to_owned()]).collect();
    for (key, counts) in [
        ("latency_ns", buckets.ns.as_slice()),
        ("latency_us", buckets.us.as_slice()),
        ("latency_ms", buckets.ms.as_slice()),
    ] {
        add(key, floats(&names, &percents(counts, job.ios(), 0.01)));
    }
    add("latency_depth", Int(job.depth.into()));
    add("latency_target", Int(0));
    add("latency_percentile", Float(100.0));
    add("latency_window", Int(0));
    if let Some(description) = &job.description {
        add("desc", Text(description.clone()));
    }
    Object(pairs)
}

fn floats(names: &[impl AsRef<str>], values: &[f64]) -> Value {
    let pairs = names.iter().zip(values);
    Object(pairs.map(|(name, value)| (name.as_ref().to_owned(), Float(*value))).collect())
}

fn direction(one: &Direction, job: &Job, total: &Total, with_bins: bool) -> Value {
    let bytes = rate(one.bytes, one.runtime_ms);
    let ms = one.runtime_ms as f64;
    let iops = if one.runtime_ms == 0 { 0.0 } else { 1_000.0 * one.ios as f64 / ms };
    let (bw, ios) = (extremes(&one.bw), extremes(&one.iops));
    let list = &job.percentiles;
    object([
        ("io_bytes", Int(one.bytes)),
        ("io_kbytes", Int(one.bytes >> 10)),
        ("bw_bytes", Int(bytes)),
        ("bw", Int(bytes / 1_024)),
        ("iops", Float(iops)),
        ("runtime", Int(one.runtime_ms)),
        ("total_ios", Int(one.ios)),
        ("short_ios", Int(one.short)),
        ("drop_ios", Int(one.dropped)),
        ("slat_ns", latencies(&one.slat, job, list.slat, with_bins)),
        ("clat_ns", latencies(&one.clat, job, list.clat, with_bins)),
        ("lat_ns", latencies(&one.lat, job, list.lat, with_bins)),
        ("bw_min", Int(bw.0)),
        ("bw_max", Int(bw.1)),
        ("bw_agg", Float(if one.bw.n == 0 { 0.0 } else { share_of_group(&one.bw, total) })),
        ("bw_mean", Float(one.bw.mean)),
        ("bw_dev", Float(one.bw.deviation())),
        ("bw_samples", Int(one.bw.n)),
        ("iops_min", Int(ios.0)),
        ("iops_max", Int(ios.1)),
        ("iops_mean", Float(one.iops.mean)),
        ("iops_stddev", Float(one.iops.deviation())),
        ("iops_samples", Int(one.iops.n)),
    ])
}

fn extremes(moments: &Moments) -> (u64, u64) {
    if moments.n == 0 { (0, 0) } else { (moments.min, moments.max) }
}

fn latencies(all: &Distribution, job: &Job, with_percentiles: bool, with_bins: bool) -> Value {
    let moments = &all.moments;
    let (min, max) = extremes(moments);
    let mut pairs = vec![
        ("min".to_owned(), Int(min)),
        ("max".to_owned(), Int(max)),
        ("mean".to_owned(), Float(moments.mean)),
        ("stddev".to_owned(), Float(moments.deviation())),
        ("N".to_owned(), Int(moments.n)),
    ];
    if with_percentiles && moments.n > 0 {
        let list = &job.percentiles.list;
        let values = all.percentiles(list);
        let one = |(percent, ns): (&f64, u64)| (format!("{percent:.6}"), Int(ns));
        pairs.push(("percentile".to_owned(), Object(list.iter().zip(values).map(one).collect())));
        if with_bins {
            let bins = all.values().map(|(ns, n)| (ns.to_string(), Int(n)));
            pairs.push(("bins".to_owned(), Object(bins.collect())));
        }
    }
    Object(pairs)
}

fn disk(disk: &Disk, all: &[Disk]) -> Value {
    let mut pairs = vec![("name".to_owned(), Text(disk.name.clone()))];
    let mut add = |key: &str, value| pairs.push((key.to_owned(), value));
    add("read_ios", Int(disk.ios[0]));
    add("write_ios", Int(disk.ios[1]));
    add("read_merges", Int(disk.merges[0]));
    add("write_merges", Int(disk.merges[1]));
    add("read_ticks", Int(disk.ticks_ms[0]));
    add("write_ticks", Int(disk.ticks_ms[1]));
    add("in_queue", Int(disk.in_queue_ms));
    add("util", Float(disk.busy()));
    if let Some((mean, busy)) = disk.below(all) {
        add("aggr_read_ios", Int(mean.ios[0]));
        add("aggr_write_ios", Int(mean.ios[1]));
        add("aggr_read_merges", Int(mean.merges[0]));
        // The original's name lacks the letter, too.
        add("aggr_write_merge", Int(mean.merges[1]));
        add("aggr_read_ticks", Int(mean.ticks_ms[0]));
        add("aggr_write_ticks", Int(mean.ticks_ms[1]));
        add("aggr_in_queue", Int(mean.in_queue_ms));
        add("aggr_util", Float(busy));
    }
    Object(pairs)
}
