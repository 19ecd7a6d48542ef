//! fio 3.33 and ours, in turn: command lines that both follow or refuse, files, counts, errors.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use floodwall_testing::disk::Disk;
use floodwall_testing::process::{done, everything, json, output, text};
use floodwall_testing::{ensure, equal, said};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::fio_reports::{in_memory, ours, theirs};
use crate::lab::Lab;
use crate::rounds::{self, Figures};

/// Words behind `--name=a --size=1M` that both follow, or both refuse.
const WORDS: [&str; 80] = [
    "--bs=4k",
    "--bs=4kb",
    "--bs=4ki",
    "--bs=4KiB",
    "--bs=0x1000",
    "--bs=4b",
    "--bs=1.5k",
    "--bs=4k,8k",
    "--bs=4k,8k,16k",
    "--bs=4k,",
    "--bs=,8k",
    "--bs 4k",
    "-bs=4k",
    "-bs 4k",
    "--blocksize=4k",
    "--bs=0",
    "--bs=$pagesize",
    "--bs",
    "--kb_base=1000",
    "--kb_base=2000",
    "--runtime=10",
    "--runtime=10s",
    "--runtime=500ms",
    "--runtime=10us",
    "--runtime=1d",
    "--timeout=10sec",
    "--runtime=0",
    "--ramp_time=1 --startdelay=2",
    "--rw=randrw --rwmixread=70",
    "--rwmixread=101",
    "--readwrite=randwrite",
    "--rw=wrtie",
    "--rw=bla",
    "--direct=1",
    "--direct=2",
    "--buffered=0",
    "--invalidate=2",
    "--sync=dsync",
    "--sync=sync",
    "--sync=0",
    "--sync=bla",
    "--fallocate=keep",
    "--fallocate=1",
    "--fallocate=bla",
    "--ioengine=pvsync2",
    "--ioengine=io_uring --force_async=4",
    "--ioengine=bla",
    "--iodepth=32",
    "--iodepth=0",
    "--numjobs=x",
    "--numjobs=3 --thread",
    "--group_reporting",
    "--group_reporting=0",
    "--time_based=1 --runtime=1",
    "--stonewall",
    "--wait_for_previous=1",
    "--exitall",
    "--gtod_reduce=1",
    "--gtod_reduce=x",
    "--percentile_list=1:50:99.9",
    "--rate=1m,2m",
    "--rate=,500k",
    "--rate_iops=100,200",
    "--size=50%",
    "--offset=10%",
    "--io_limit=2M",
    "--zero_buffers",
    "--refill_buffers=1",
    "--unlink=1",
    "--log_avg_msec=100 --write_bw_log=x",
    "--description=x",
    "--foo=3",
    "--minimal",
    "--output-format=json,normal",
    "--output-format=bla",
    "--terse-version=9",
    "--eta=never",
    "--max-jobs=3",
    "--readonly",
    "nosuch.fio",
];
/// Command lines behind `--name=a` whose files and counts are compared. The last number of syncs
/// of a queue depends on its speed.
const RUNS: [&str; 38] = [
    "--size=1M --rw=write",
    "--size=1M --rw=write --fsync=1",
    "--size=1M --rw=write --fsync=3 --end_fsync=1",
    "--size=1M --rw=write --fdatasync=1 --bs=2300",
    "--size=1M --rw=write --fdatasync=4 --ioengine=sync",
    "--size=1M --rw=read --bs=3k",
    "--size=1M --rw=randread --loops=3",
    "--size=1M --rw=randwrite --fsync=8 --numjobs=2",
    "--size=1M --rw=randwrite --fsync=8 --ioengine=libaio --iodepth=4",
    "--size=1M --rw=randwrite --bs=8k --ioengine=io_uring --iodepth=16",
    "--size=10k --rw=write",
    "--size=10k --rw=randwrite --bs=4k,8k",
    "--size=1M --rw=rw",
    "--size=1M --rw=randrw --rwmixread=90 --norandommap",
    "--size=1M --rw=write --nrfiles=3",
    "--size=24k --rw=write --nrfiles=2 --fsync=1",
    "--size=1M --rw=randwrite --nrfiles=3 --bs=16k",
    "--size=1M --rw=write --filename=x:y",
    "--size=64k --rw=write --filename=x --numjobs=3",
    "--size=64k --rw=write --filename=x --numjobs=3 --offset_increment=64k",
    "--size=1M --rw=write --io_size=2M",
    "--size=1M --rw=randwrite --io_size=300k",
    "--size=1M --rw=write --io_size=512k --offset=256k",
    "--size=1M --rw=write --io_size=512k --fallocate=none",
    "--size=1M --rw=write --io_size=512k --fallocate=keep",
    "--size=1M --rw=write --io_size=512k --fallocate=truncate",
    "--size=1M --rw=randwrite --overwrite=1 --io_size=64k",
    "--size=1M --rw=write --unlink=1",
    "--size=1M --rw=write --create_on_open=1 --io_size=64k",
    "--filesize=1M --rw=randread --nrfiles=2 --bs=8k",
    "--size=1M --rw=write --directory=d --filename=sub/x",
    "--size=1M --rw=read --filename_format=$jobname-$filenum.$jobnum --nrfiles=2 --numjobs=2",
    "--size=1M --rw=write --number_ios=10",
    "--size=1M --rw=read --rate_iops=100 --number_ios=60",
    "--size=1M --rw=randrw --rate_iops=100,40 --number_ios=70",
    "--size=1M --rw=read --rate=1M --bs=32k",
    "--size=1M --rw=write --fsync=16 --name=b --size=2M --stonewall --rw=read",
    "--size=1M --rw=write --sync=1 --kb_base=1000 --bs=4k",
];
/// A job file with all that its grammar has.
const JOBS: &str = "; a comment\n[global]\nbs=8k\nsize=${SIZE}k ; of all\ninclude more.fio\n\
                    [w]\nrw=write\nfsync=4\n[r]\nstonewall\nrw=randread\nnumjobs=2\n\
                    [global]\nbs=$pagesize\n# another\n[z]\nnew_group\nrw=randwrite\n";
const MORE: &str = "thread\nend_fsync=1\n";
/// Loads whose figures are compared, with their files.
const LOADS: [&str; 6] = [
    "--rw=write --bs=2300 --fdatasync=1 --size=22m --runtime=2",
    "--rw=randread --bs=4k --direct=1 --numjobs=4 --size=16m --runtime=2 --time_based",
    "--rw=randwrite --bs=16k --direct=1 --ioengine=libaio --iodepth=16 --size=64m --runtime=2 \
     --time_based",
    "--rw=randrw --rwmixread=50 --bs=4k --direct=1 --ioengine=io_uring --iodepth=64 --numjobs=2 \
     --size=32m --runtime=2 --time_based --gtod_reduce=1",
    "--rw=read --bs=64k --direct=1 --size=64m --runtime=2 --time_based",
    "--rw=randwrite --bs=4k --fsync=8 --rate_iops=400 --size=16m --runtime=3 --time_based",
];

/// A figure of few requests, which other programs on the processors disturb: printed, not judged.
const TAIL: &str = "99th, ms";
/// Before each run: a device saves up a burst while it is idle, and fio needs half a second to
/// begin.
const IDLE: Duration = Duration::from_millis(1500);

/// How long a run may take to begin.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn lines() -> Result<(), String> {
    let dir = in_memory()?;
    let mut apart = Vec::new();
    for words in WORDS {
        let line = format!("--name=a --size=1M {words} --parse-only");
        let own = output(&mut ours(&line, dir.path()))?;
        let original = output(&mut theirs(&line, dir.path()))?;
        if own.status.success() != original.status.success() {
            apart.push(format!("{words}: {}\n{}", everything(&own), everything(&original)));
        }
    }
    ensure(apart.is_empty(), || apart.join("\n"))?;
    let is_empty = fs::read_dir(dir.path()).map_err(said("a directory"))?.next().is_none();
    ensure(is_empty, "--parse-only made files")?;
    let lines = WORDS.len();
    writeln!(io::stdout(), "fio: {lines} lines are accepted or refused alike")
        .map_err(said("stdout"))
}

pub(crate) fn counts() -> Result<(), String> {
    let mut apart = Vec::new();
    for line in RUNS {
        let line = format!("--output-format=json --name=a {line}");
        apart.extend(same(&line, &[])?);
    }
    let files = [("jobs.fio", JOBS), ("more.fio", MORE)];
    apart.extend(same("--output-format=json jobs.fio", &files)?);
    apart.extend(same("--output-format=json --section=z jobs.fio", &files)?);
    apart
        .extend(same("--output-format=json --name=c --size=8k --bs=2k jobs.fio jobs.fio", &files)?);
    let (all, equal) = (RUNS.len() + 3, RUNS.len() + 3 - apart.len());
    writeln!(io::stdout(), "fio: files and counts are equal: {equal} of {all}")
        .map_err(said("stdout"))?;
    ensure(apart.is_empty(), || apart.join("\n"))
}

/// Runs both; what is apart, if anything is.
fn same(line: &str, files: &[(&str, &str)]) -> Result<Option<String>, String> {
    let run = |is_own: bool| {
        let dir = in_memory()?;
        fs::create_dir(dir.path().join("d")).map_err(said("a directory"))?;
        for (name, text) in files {
            fs::write(dir.path().join(name), text).map_err(said(name))?;
        }
        let mut command = if is_own { ours(line, dir.path()) } else { theirs(line, dir.path()) };
        let told = json(&output(command.env("SIZE", "256"))?)?;
        Ok::<_, String>((counted(&told), lengths(dir.path(), "")))
    };
    let (own, original) = (run(true)?, run(false)?);
    Ok((own != original).then(|| format!("fio {line}:\nours:   {own:?}\ntheirs: {original:?}")))
}

/// Of each job: name, group, requests and bytes of both directions, syncs. Of a mix the sums: its
/// parts are drawn, or follow rates.
fn counted(told: &Value) -> Vec<(String, u64, Vec<u64>)> {
    let jobs = told["jobs"].as_array().into_iter().flatten();
    let one = |job: &Value| {
        let number = |value: &Value| value.as_u64().unwrap_or(u64::MAX);
        let of = |key: &str| ["read", "write"].map(|kind| number(&job[kind][key]));
        let ([reads, writes], [read, written]) = (of("total_ios"), of("io_bytes"));
        let syncs = number(&job["sync"]["lat_ns"]["N"]);
        let counts = match reads > 0 && writes > 0 {
            true => vec![reads + writes, read + written],
            false => vec![reads, writes, read, written, syncs],
        };
        let name = job["jobname"].as_str().unwrap_or_default().to_owned();
        (name, number(&job["groupid"]), counts)
    };
    jobs.map(one).collect()
}

/// Lengths of files by their names.
fn lengths(dir: &Path, above: &str) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = format!("{above}{}", entry.file_name().to_string_lossy());
        match entry.metadata() {
            Ok(meta) if meta.is_dir() => all.extend(lengths(&entry.path(), &format!("{name}/"))),
            Ok(meta) => drop(all.insert(name, meta.len())),
            Err(_) => {}
        }
    }
    all
}

pub(crate) fn refusals() -> Result<(), String> {
    let dir = in_memory()?;
    let large = vec![b'#'; (1 << 20) + 1];
    fs::write(dir.path().join("large.fio"), large).map_err(said("large.fio"))?;
    for (line, status, wanted) in [
        ("--name=a --thinktime=3", 2, "'--thinktime' is not supported here; nearest: rate_iops=N"),
        ("--name=a --blocksiz=3", 2, "no option '--blocksiz'; nearest: --blocksize"),
        ("--name=a", 2, "'a.0.0' does not exist, and size is missing; write size=SIZE"),
        ("--name=a --size=1M --directory=n", 2, "'n' is not a directory; make it"),
        ("--name=a --size=99T --rw=write", 1, "are free in '.'; lower size, or name another"),
        ("--name=a --size=4q", 2, "size=4q: the value is not a size like 4k"),
        ("--name=a --size=1M --filename=/dev", 2, "'/dev' is a directory; name a file"),
        ("--name=a --size=1M --output=n/x", 2, "can't write 'n/x': there is no directory 'n'"),
        ("n.fio", 2, "can't read the job file 'n.fio': No such file or directory"),
        ("/dev/zero", 2, "the job file '/dev/zero': it is not a regular file; check its name"),
        ("large.fio", 2, "the job file 'large.fio': it is longer than 1 MiB; check its name"),
    ] {
        let output = output(&mut ours(line, dir.path()))?;
        let is_told = text(&output.stderr).contains(wanted) && output.stdout.is_empty();
        ensure(is_told && output.status.code() == Some(status), || everything(&output))?;
    }
    let files = lengths(dir.path(), "").len();
    ensure(files == 1, "a refused command made a file")
}

pub(crate) fn held() -> Result<(), String> {
    let disk = Disk::new("ext4", 16)?;
    let node = disk.device.node().to_owned();
    let run = |more: &[&str], line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_floodwall"));
        command.arg("compat").args(more).arg("fio").args(line.split(' '));
        output(command.arg(format!("--filename={node}")))
    };
    let write = "--name=a --rw=randwrite --number_ios=1 --offset=15M --size=64k";
    let before = fs::read(&node).map_err(said("the device"))?;
    let refused = run(&[], write)?;
    let at = disk.path().display();
    let why = format!("fio: '{node}' is in use: mounted at '{at}'; free it, or write");
    ensure(text(&refused.stderr).contains(&why), || everything(&refused))?;
    equal(refused.status.code(), Some(1))?;
    ensure(fs::read(&node).map_err(said("the device"))? == before, "a refused run has written")?;
    for (more, line) in [(&[][..], "--name=a --rw=read"), (&["--destructive"][..], write)] {
        let meant = run(more, line)?;
        ensure(meant.status.success(), || everything(&meant))?;
    }
    drop(disk.mount);
    let free = run(&[], write)?;
    ensure(free.status.success(), || everything(&free))
}

pub(crate) fn ends() -> Result<(), String> {
    let dir = in_memory()?;
    let report = dir.path().join("report");
    let read = |path: &Path| fs::read(path).unwrap_or_default();
    let interrupted = |line: &str, has_begun: &dyn Fn() -> bool| {
        let mut command = ours(line, dir.path());
        command.stdout(File::create(&report).map_err(said("a file"))?).stderr(Stdio::piped());
        let child = command.spawn().map_err(said("ours"))?;
        let begin = Instant::now();
        while !has_begun() && begin.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(20));
        }
        kill_process(Pid::from_child(&child), Signal::INT).map_err(said("kill"))?;
        child.wait_with_output().map_err(said("ours"))
    };
    let line = "--name=a --rw=write --size=1M --time_based --runtime=600 --output-format=json";
    // It is laid out without data.
    let has_written = || read(&dir.path().join("a.0.0")).iter().any(|byte| *byte != 0);
    let ended = interrupted(line, &has_written)?;
    equal(ended.status.code(), Some(128))?;
    let requests = json_text(&read(&report))?["jobs"][0]["write"]["total_ios"].as_u64();
    ensure(requests.is_some_and(|n| n > 0), || everything(&ended))?;
    equal(lengths(dir.path(), "").get("a.0.0"), Some(&(1 << 20)))?;
    // It says so when its files are there.
    let has_started = || text(&read(&report)).contains("Starting");
    let delayed = interrupted("--name=b --size=1M --startdelay=600 --numjobs=2", &has_started)?;
    equal(delayed.status.code(), Some(128))?;
    // A job that fails ends alone, with its error.
    fs::write(dir.path().join("x"), [0; 65_536]).map_err(said("x"))?;
    let line = "--size=64k --output-format=json --name=a --filename=/dev/full --rw=write \
                --name=b --filename=x";
    let failed = output(&mut ours(line, dir.path()))?;
    let jobs = &json_text(&failed.stdout)?["jobs"];
    equal(failed.status.code(), Some(1))?;
    equal((jobs[0]["error"].as_u64(), jobs[1]["error"].as_u64()), (Some(28), Some(0)))?;
    equal(jobs[1]["read"]["total_ios"].as_u64(), Some(16))?;
    ensure(text(&failed.stderr).contains("fio: job 'a': can't write /dev/full"), || {
        everything(&failed)
    })
}

fn json_text(bytes: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(bytes).map_err(said(&text(bytes)))
}

pub(crate) fn in_lab() -> Result<(), String> {
    let lab = Lab::up("cloud-gp3", &["--fs", "ext4"])?;
    let dir = Path::new(&lab.mount);
    let tails = ["read", "write", "sync"].map(|name| format!("{name}, {TAIL}"));
    let tails: Vec<&str> = tails.iter().map(String::as_str).collect();
    let mut apart = Vec::new();
    for load in LOADS {
        let line = format!("--name=a --group_reporting --output-format=json {load}");
        // Both have the same files, which are laid out before.
        done(&mut theirs(&format!("{line} --runtime=100ms --overwrite=1"), dir))?;
        let run = |is_own: bool| {
            thread::sleep(IDLE);
            let mut command = if is_own { ours(&line, dir) } else { theirs(&line, dir) };
            Ok(figures(&json(&output(&mut command)?)?))
        };
        apart.extend(rounds::compared(load, &tails, run)?);
        for file in fs::read_dir(dir).map_err(said("files"))?.flatten() {
            let _ = fs::remove_file(file.path());
        }
    }
    ensure(apart.is_empty(), || apart.join("\n"))
}

/// The rate of both directions together, whose shares are drawn, and percentiles in milliseconds.
fn figures(told: &Value) -> Figures {
    let job = &told["jobs"][0];
    let ms = |latencies: &Value, percentile: &str| {
        latencies["percentile"][percentile].as_f64().unwrap_or_default() / 1e6
    };
    let iops = ["read", "write"].map(|kind| job[kind]["iops"].as_f64().unwrap_or_default());
    let mut figures = Figures::from([("IOPS".to_owned(), iops.iter().sum())]);
    for (name, latencies) in [
        ("read", &job["read"]["clat_ns"]),
        ("write", &job["write"]["clat_ns"]),
        ("sync", &job["sync"]["lat_ns"]),
    ] {
        figures.insert(format!("{name}, 50th, ms"), ms(latencies, "50.000000"));
        figures.insert(format!("{name}, {TAIL}"), ms(latencies, "99.000000"));
    }
    figures
}
