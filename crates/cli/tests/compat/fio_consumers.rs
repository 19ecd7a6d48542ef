//! Programs that read fio's output, on ours: their own expressions where those are one line, else
//! what they demand of names and types.

use std::fs;
use std::path::Path;
use std::process::Command;

use floodwall_testing::process::{done, run};
use floodwall_testing::{ensure, equal, said};
use serde_json::Value;

use crate::fio_reports::{in_memory, on_disk, ours};

fn saved(text: &str, name: &str, dir: &Path) -> Result<String, String> {
    let path = dir.join(name);
    fs::write(&path, text).map_err(said("a file"))?;
    Ok(path.to_string_lossy().into_owned())
}

fn number(text: &str) -> Result<f64, String> {
    text.trim().parse().map_err(said(text))
}

/// The check of etcd's disks: the 99th percentile of fdatasync in nanoseconds.
pub(crate) fn etcd() -> Result<(), String> {
    let dir = in_memory()?;
    let words = "--rw=write --ioengine=sync --fdatasync=1 --directory=. --size=1m --bs=2300 \
                 --name=mytest --output-format=json";
    let file = saved(&done(&mut ours(words, dir.path()))?, "etcd.json", dir.path())?;
    let p99 = run("jq", &[r#".jobs[0].sync.lat_ns.percentile."99.000000""#, &file])?;
    ensure(p99.trim().parse::<u64>().is_ok_and(|ns| ns > 0), || format!("p99 {p99}"))?;
    let iops = number(&run("jq", &[".jobs[0].write.iops", &file])?)?;
    ensure(iops > 0.0, || format!("{iops} writes a second"))
}

/// Scripts that rent virtual machines' owners run: fields 7, 8, 48 and 49 of a terse line.
pub(crate) fn yabs() -> Result<(), String> {
    let dir = on_disk()?;
    let words = "--name=rand_rw_4k --ioengine=libaio --rw=randrw --rwmixread=50 --bs=4k \
                 --iodepth=64 --numjobs=2 --size=8m --runtime=2 --time_based --rate_iops=200 \
                 --gtod_reduce=1 --direct=1 --filename=test.fio --group_reporting --minimal";
    let file = saved(&done(&mut ours(words, dir.path()))?, "terse", dir.path())?;
    let fields = run("awk", &["-F;", "{print $7, $8, $48, $49}", &file])?;
    let fields: Result<Vec<f64>, String> = fields.split_whitespace().map(number).collect();
    let fields = fields?;
    let [read, reads, write, writes] = fields[..] else { return Err(format!("{fields:?}")) };
    // Each of two jobs reads and writes 200 times a second at most.
    for (kib, ios) in [(read, reads), (write, writes)] {
        ensure(ios > 0.0 && ios <= 500.0, || format!("{fields:?}"))?;
        ensure((kib - 4.0 * ios).abs() <= 4.0, || format!("{fields:?}"))?;
    }
    Ok(())
}

/// The job of the Phoronix test profile, and its patterns.
pub(crate) fn phoronix() -> Result<(), String> {
    let dir = in_memory()?;
    for (kind, engine, block) in [("write", "sync", "1m"), ("randread", "libaio", "4k")] {
        let job = format!(
            "[global]\nrw={kind}\nioengine={engine}\niodepth=64\nsize=4m\ndirect=0\nstartdelay=1\n\
             ramp_time=1\nruntime=1\ngroup_reporting=1\nnumjobs=1\ntime_based\ndisk_util=0\n\
             clat_percentiles=0\ndisable_lat=1\ndisable_clat=1\ndisable_slat=1\n\
             filename=fiofile\n[test]\nname=test\nbs={block}\nstonewall\n"
        );
        saved(&job, "test.fio", dir.path())?;
        let text = done(&mut ours("test.fio", dir.path()))?;
        // `READ: bw=#_RESULT_# (861MB/s), …`, without KiB/s or MiB/s.
        let rate = between(&text, ": bw=", " ").ok_or(&text)?;
        number(rate.trim_end_matches("KiB/s").trim_end_matches("MiB/s").trim_end_matches("GiB/s"))?;
        // `write: IOPS=#_RESULT_# BW=…`, without `,` or `k,`.
        let iops = between(&text, "IOPS=", " ").ok_or(&text)?;
        number(iops.trim_end_matches("k,").trim_end_matches("M,").trim_end_matches(','))?;
        for absent in ["lat (", "clat", "slat", "percentiles"] {
            ensure(!text.contains(absent), || format!("{absent}: {text}"))?;
        }
    }
    Ok(())
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split(after).next()
}

/// Kubestr's call, and the types of the fields that it decodes.
pub(crate) fn kubestr() -> Result<(), String> {
    let dir = on_disk()?;
    let job = "[global]\nrandrepeat=0\nverify=0\nioengine=libaio\ndirect=1\ngtod_reduce=1\n\
               [job1]\nname=read_iops\nbs=4K\niodepth=64\nsize=4m\nreadwrite=randread\n\
               time_based\nramp_time=1s\nruntime=1s\n";
    saved(job, "job.fio", dir.path())?;
    let text = done(&mut ours("--directory . job.fio --output-format=json", dir.path()))?;
    let root: Value = serde_json::from_str(&text).map_err(said(&text))?;
    let global = &root["global options"];
    let options = ["directory", "randrepeat", "verify", "ioengine", "direct", "gtod_reduce"];
    let job = &root["jobs"][0];
    let own = ["name", "bs", "iodepth", "size", "rw", "ramp_time", "runtime"];
    for (object, names) in [(global, &options[..]), (&job["job options"], &own[..])] {
        for name in names {
            ensure(object[name].is_string(), || format!("{name}: {object}"))?;
        }
    }
    for direction in ["read", "write", "trim"] {
        for name in WHOLE {
            let value = &job[direction][name];
            ensure(value.is_u64(), || format!("{direction} {name}: {value}"))?;
        }
        for name in DECIMAL {
            let value = &job[direction][name];
            ensure(value.is_f64(), || format!("{direction} {name}: {value}"))?;
        }
    }
    equal(job["jobname"].as_str(), Some("read_iops"))
}

const WHOLE: [&str; 14] = [
    "io_bytes",
    "io_kbytes",
    "bw_bytes",
    "bw",
    "runtime",
    "total_ios",
    "short_ios",
    "drop_ios",
    "bw_min",
    "bw_max",
    "bw_samples",
    "iops_min",
    "iops_max",
    "iops_samples",
];
const DECIMAL: [&str; 6] = ["iops", "bw_agg", "bw_mean", "bw_dev", "iops_mean", "iops_stddev"];

/// The Ceph benchmark tool: it takes JSON out of the text, and asserts types.
pub(crate) fn cbt() -> Result<(), String> {
    let dir = on_disk()?;
    let words = "--ioengine=libaio --direct=1 --bs=4096B --rw=randrw --rwmixread=70 \
                 --rwmixwrite=30 --iodepth=4 --numjobs=1 --size=4m --runtime=1 --time_based \
                 --output-format=json,normal --name=cbt";
    // A run that makes its files says so behind `Starting`: here they are there.
    done(&mut ours(words, dir.path()))?;
    let text = done(&mut ours(words, dir.path()))?;
    let lines = text.lines().skip_while(|line| !line.starts_with("Starting")).skip(1);
    let json: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    let root: Value = serde_json::from_str(&json.join("\n")).map_err(said(&text))?;
    let options = &root["global options"];
    for name in ["iodepth", "bs", "rw", "numjobs", "runtime", "rwmixread", "rwmixwrite"] {
        ensure(options[name].is_string(), || format!("{name}: {options}"))?;
    }
    for direction in ["read", "write"] {
        let values = &root["jobs"][0][direction];
        let is_whole = ["io_bytes", "bw_bytes", "total_ios"].iter().all(|n| values[n].is_u64());
        let clat = &values["clat_ns"];
        let has_latency = clat["mean"].is_f64() && clat["stddev"].is_f64();
        let is_right = is_whole && values["iops"].is_f64() && has_latency;
        ensure(is_right, || format!("{direction}: {values}"))?;
    }
    Ok(())
}

/// The plots of fio-plot: of several depths by JSON, and over time by logs.
pub(crate) fn fio_plot() -> Result<(), String> {
    let dir = on_disk()?;
    let path = dir.path();
    for depth in [1, 2, 4] {
        let log = format!("randread-iodepth-{depth}-numjobs-1");
        let words = format!(
            "--ioengine=libaio --direct=1 --bs=4k --rw=randread --iodepth={depth} --numjobs=1 \
             --size=1m --time_based --runtime=2 --rate_iops=500 --log_avg_msec=200 \
             --write_bw_log={log} --write_iops_log={log} --write_lat_log={log} \
             --output-format=json --output={log}.json --group_reporting --name=randread"
        );
        done(&mut ours(&words, path))?;
    }
    for (plot, words) in [("bars.png", "-l -d 1 2 4 -n 1"), ("lines.png", "-g -t iops -d 1 -n 1")] {
        let mut command = Command::new("fio-plot");
        command.args(["-i", ".", "-T", "title", "-r", "randread", "-o", plot]);
        command.args(words.split_whitespace()).current_dir(path);
        let said = done(&mut command)?;
        ensure(path.join(plot).exists(), || format!("{plot}: {said}"))?;
    }
    Ok(())
}
