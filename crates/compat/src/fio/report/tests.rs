//! Reports of fio 3.33: from the figures in a recording's JSON all of the recording is printed.

use serde_json::Value;

use floodwall_model::Moments;

use super::super::distribution::Distribution;
use super::super::outcome::{Depths, Direction, Disk, Job, LatencyBuckets, Outcome, Percentiles};
use super::*;

/// `--output-format=json+,terse,normal` of `--rw=write --ioengine=sync --fdatasync=1 --bs=2300`.
const ETCD: &str = include_str!("../../../../../fixtures/fio/etcd.txt");
/// The same of a job with `randrw`, rates and lists of percentiles, and two more after it.
const TWO_GROUPS: &str = include_str!("../../../../../fixtures/fio/two-groups.txt");

/// Where shares of an unknown total are kept in millionths of a percent.
const WHOLE: u64 = 100_000_000;

fn int(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn share(value: &Value, total: u64) -> u64 {
    (value.as_f64().unwrap() * total as f64 / 100.0).round() as u64
}

fn moments(value: &Value, names: [&str; 5]) -> Moments {
    let [n, min, max, mean, dev] = names.map(|name| &value[name]);
    let n = int(n);
    if n == 0 {
        return Moments::default();
    }
    let squares = dev.as_f64().unwrap().powi(2) * (n.max(2) - 1) as f64;
    Moments { n, min: int(min), max: int(max), mean: mean.as_f64().unwrap(), squares }
}

fn distribution(value: &Value) -> Distribution {
    let mut all = Distribution::default();
    for (ns, n) in value["bins"].as_object().into_iter().flatten() {
        (0..int(n)).for_each(|_| all.record(ns.parse().unwrap()));
    }
    all.moments = moments(value, ["N", "min", "max", "mean", "stddev"]);
    all
}

fn direction(value: &Value) -> Direction {
    let of = |name: &str| int(&value[name]);
    Direction {
        bytes: of("io_bytes"),
        runtime_ms: of("runtime"),
        ios: of("total_ios"),
        short: of("short_ios"),
        dropped: of("drop_ios"),
        slat: distribution(&value["slat_ns"]),
        clat: distribution(&value["clat_ns"]),
        lat: distribution(&value["lat_ns"]),
        bw: moments(value, ["bw_samples", "bw_min", "bw_max", "bw_mean", "bw_dev"]),
        iops: moments(value, ["iops_samples", "iops_min", "iops_max", "iops_mean", "iops_stddev"]),
    }
}

/// Members by their numbers: `serde_json` sorts them by their letters.
fn members(value: &Value) -> Vec<(&String, &Value)> {
    let mut members: Vec<_> = value.as_object().into_iter().flatten().collect();
    let number = |name: &str| match name.strip_prefix(">=") {
        Some(number) => number.parse::<u64>().unwrap() + 1,
        None => name.parse().unwrap(),
    };
    members.sort_by_key(|(name, _)| number(name));
    members
}

fn shares<const N: usize>(value: &Value, total: u64) -> [u64; N] {
    let shares: Vec<u64> =
        members(value).into_iter().map(|(_, value)| share(value, total)).collect();
    shares.try_into().unwrap()
}

/// The options of each object of that name, in their order.
fn options(recorded: &str, name: &str) -> Vec<Vec<(String, String)>> {
    let option = |line: &str| {
        let (name, value) = line.split_once(" : ").unwrap();
        let bare = |text: &str| text.trim_matches([' ', ',', '"']).to_owned();
        (bare(name), bare(value))
    };
    let begin = format!("\"{name}\" : {{\n");
    let objects = recorded.split(&begin).skip(1).map(|rest| rest.split('}').next().unwrap());
    objects.map(|object| object.trim_end().lines().map(option).collect()).collect()
}

fn job(value: &Value, pid: u32, options: Vec<(String, String)>) -> Job {
    let option = |name: &str| options.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
    let [read, write, trim] = ["read", "write", "trim"].map(|name| direction(&value[name]));
    let ios = read.ios + write.ios + trim.ios;
    let mut percentiles = Percentiles {
        lat: option("lat_percentiles").is_some(),
        slat: option("slat_percentiles").is_some(),
        ..Percentiles::default()
    };
    if let Some(list) = option("percentile_list") {
        percentiles.list = list.split(':').map(|percent| percent.parse().unwrap()).collect();
        percentiles.precision = 1;
    }
    let of = |name: &str| int(&value[name]);
    let run_ms = of("job_runtime");
    Job {
        name: value["jobname"].as_str().unwrap().to_owned(),
        description: value["desc"].as_str().map(str::to_owned),
        group: of("groupid") as u32,
        pid,
        is_grouped: false,
        error: of("error") as u32,
        error_text: String::new(),
        elapsed_s: of("elapsed"),
        run_ms,
        read,
        write,
        trim,
        sync: distribution(&value["sync"]["lat_ns"]),
        user_ms: share(&value["usr_cpu"], run_ms),
        system_ms: share(&value["sys_cpu"], run_ms),
        context_switches: of("ctx"),
        major_faults: of("majf"),
        minor_faults: of("minf"),
        depths: Depths {
            level: shares(&value["iodepth_level"], ios),
            submit: shares(&value["iodepth_submit"], WHOLE),
            submits: WHOLE,
            complete: shares(&value["iodepth_complete"], WHOLE),
            completes: WHOLE,
        },
        latency_buckets: LatencyBuckets {
            ns: shares(&value["latency_ns"], ios),
            us: shares(&value["latency_us"], ios),
            ms: shares(&value["latency_ms"], ios),
        },
        percentiles,
        depth: of("latency_depth") as u32,
        is_decimal: false,
        options,
    }
}

fn disk(value: &Value) -> Disk {
    let pair = |name: &str| ["read", "write"].map(|way| int(&value[format!("{way}_{name}")]));
    Disk {
        name: value["name"].as_str().unwrap().to_owned(),
        ios: pair("ios"),
        merges: pair("merges"),
        ticks_ms: pair("ticks"),
        in_queue_ms: int(&value["in_queue"]),
        busy_ms: share(&value["util"], WHOLE),
        span_ms: WHOLE,
        ..Disk::default()
    }
}

/// The figures of a recording.
fn outcome(recorded: &str) -> Outcome {
    let begin = recorded.find('{').unwrap();
    let end = recorded.find("\n}\n").unwrap() + 2;
    let root: Value = serde_json::from_str(&recorded[begin..end]).unwrap();
    let pids = recorded.lines().filter_map(|line| line.split(" pid=").nth(1));
    let pids = pids.map(|rest| rest.split(':').next().unwrap().parse().unwrap());
    let options_of = options(recorded, "job options");
    let jobs = root["jobs"].as_array().unwrap().iter().zip(pids).zip(options_of);
    Outcome {
        ended_ms: int(&root["timestamp_ms"]),
        ended: root["time"].as_str().unwrap().to_owned(),
        global_options: options(recorded, "global options").concat(),
        jobs: jobs.map(|((value, pid), options)| job(value, pid, options)).collect(),
        disks: root["disk_util"].as_array().into_iter().flatten().map(disk).collect(),
    }
}

const ALL: Formats = Formats { terse: true, json: true, json_plus: true, normal: true };

/// The report of a recording; its head is another's affair.
fn end(recorded: &str) -> &str {
    &recorded[recorded.find("3;fio-").unwrap()..]
}

/// fio counts the syncs of engines with a queue alone.
fn with_syncs(recorded: &str, n: u64, issued: &str) -> String {
    let counted = format!("\"sync\" : {{\n        \"total_ios\" : {n},");
    let recorded = recorded.replacen("\"sync\" : {\n        \"total_ios\" : 0,", &counted, 1);
    recorded.replacen(&format!("total={issued},0 "), &format!("total={issued},{n} "), 1)
}

#[test]
fn a_recorded_run_with_syncs_is_printed_alike() {
    let outcome = outcome(ETCD);
    let n = outcome.jobs[0].sync.moments.n;
    let expected = with_syncs(end(ETCD), n, &format!("0,{n},0"));
    similar(&report(&outcome, ALL), &expected);
}

#[test]
fn a_recorded_run_of_two_groups_is_printed_alike() {
    similar(&report(&outcome(TWO_GROUPS), ALL), end(TWO_GROUPS));
}

/// Equal but for one step of the last decimal: the recordings' figures are rounded to six.
fn similar(own: &str, expected: &str) {
    for (own, expected) in own.lines().zip(expected.lines()) {
        let words = |line: &str| -> Vec<String> {
            line.split_inclusive(|c: char| !(c.is_ascii_digit() || c == '.'))
                .map(str::to_owned)
                .collect()
        };
        let is_near = |(a, b): (&String, &String)| {
            let number =
                |word: &str| word.trim_end_matches(|c: char| !c.is_ascii_digit()).to_owned();
            let (x, y) = (number(a), number(b));
            let decimals = |word: &str| word.split_once('.').map_or(0, |(_, rest)| rest.len());
            let step = 1.01 / 10_f64.powi(decimals(&y) as i32);
            let is_step = matches!((x.parse::<f64>(), y.parse::<f64>()),
                (Ok(x), Ok(y)) if (x - y).abs() < step);
            a == b || (decimals(&x) > 0 && decimals(&x) == decimals(&y) && is_step)
        };
        let (a, b) = (words(own), words(expected));
        let is_same = a.len() == b.len() && a.iter().zip(&b).all(is_near);
        assert!(is_same, "\nown:      {own}\nexpected: {expected}");
    }
    assert_eq!(own.lines().count(), expected.lines().count());
}
