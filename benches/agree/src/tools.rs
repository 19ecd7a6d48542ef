//! How each tool is asked for the workload, and how its answer is read.

use std::fmt;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cost::{self, Cost};

/// Random writes over one file of 64 MiB, each followed by fsync.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Workload {
    pub(crate) threads: u32,
    pub(crate) block_bytes: u32,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {} KiB write + fsync", self.threads, self.block_bytes / 1024)
    }
}

const FILE_MIB: u32 = 64;
/// Seconds of the workload before its measured part: as long as the warm-up of `bench --quick` may
/// take, which ends when the commits are steady. The peers warm up in a separate run: sysbench 1.0
/// has no other way, and CPU time and operations of the measured run belong together.
const WARMUP_S: u32 = 3;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Tool {
    Floodwall,
    Fio,
    Sysbench,
}

impl Tool {
    pub(crate) const ALL: [Self; 3] = [Self::Floodwall, Self::Fio, Self::Sysbench];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Floodwall => "floodwall",
            Self::Fio => "fio",
            Self::Sysbench => "sysbench",
        }
    }
}

/// One tool's run.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Measured {
    /// Commits a second.
    pub(crate) iops: f64,
    /// 99th percentile of write + fsync, in µs; fio does not have it.
    pub(crate) commit_p99_us: Option<f64>,
    /// 99th percentile of fsync alone, in µs; sysbench does not have it.
    pub(crate) sync_p99_us: Option<f64>,
    /// Operations on which CPU time was spent: those of floodwall's warm-up too, which is in the
    /// same process.
    pub(crate) ops: f64,
    /// Seconds of the workload before its measured part.
    pub(crate) warmup_s: f64,
    /// What the whole process cost.
    pub(crate) cost: Cost,
}

fn fio(dir: &Path) -> Command {
    let mut fio = Command::new("fio");
    fio.current_dir(dir).args([
        "--name=commit",
        "--filename=fio.data",
        "--ioengine=psync",
        "--thread",
    ]);
    fio.arg(format!("--size={FILE_MIB}M"));
    fio.args(["--group_reporting", "--output-format=json"]);
    fio
}

fn sysbench(dir: &Path, workload: Workload, seconds: u32) -> Command {
    let mut sysbench = Command::new("sysbench");
    sysbench.current_dir(dir).args([
        "fileio",
        "--file-num=1",
        "--file-test-mode=rndwr",
        "--file-fsync-all=on",
    ]);
    sysbench
        .arg(format!("--file-total-size={FILE_MIB}M"))
        .arg(format!("--file-block-size={}", workload.block_bytes));
    sysbench.arg(format!("--threads={}", workload.threads)).arg(format!("--time={seconds}"));
    sysbench.args(["--events=0", "--percentile=99"]);
    sysbench
}

/// Runs one tool once: lays its file out, warms up, measures.
pub(crate) fn measure(
    tool: Tool,
    floodwall: &Path,
    dir: &Path,
    workload: Workload,
    seconds: u32,
    stop: &AtomicBool,
) -> anyhow::Result<Measured> {
    match tool {
        Tool::Floodwall => {
            let (threads, block) = (workload.threads, workload.block_bytes);
            let victim = format!("commit,threads={threads},block={block}B,size={FILE_MIB}MiB");
            let mut command = Command::new(floodwall);
            command.current_dir(dir).args([
                "bench",
                "--quick",
                "--force",
                "--json",
                "--progress",
                "never",
            ]);
            command.args(["--rounds", "1", "--victim", &victim, "--flood", "none", "--no-burst"]);
            command.args(["--measure", &format!("{seconds}s")]);
            floodwall_result(run(&command, stop)?)
        }
        Tool::Fio => {
            remove(&dir.join("fio.data"))?;
            run(fio(dir).args(["--rw=write", "--bs=1M", "--end_fsync=1"]), stop)?;
            // The warm-up begins with an empty page cache, as floodwall's does, and leaves the
            // measured run a warm one. With the pages of the layout still there, which are large
            // folios, fio had 13 % fewer commits.
            run(&commits_of_fio(dir, workload, WARMUP_S), stop)?;
            fio_result(run(commits_of_fio(dir, workload, seconds).arg("--invalidate=0"), stop)?)
        }
        Tool::Sysbench => {
            remove(&dir.join("test_file.0"))?;
            run(sysbench(dir, workload, 1).arg("prepare"), stop)?;
            run(sysbench(dir, workload, WARMUP_S).arg("run"), stop)?;
            sysbench_result(run(sysbench(dir, workload, seconds).arg("run"), stop)?)
        }
    }
}

fn commits_of_fio(dir: &Path, workload: Workload, seconds: u32) -> Command {
    let mut fio = fio(dir);
    fio.args(["--rw=randwrite", "--fsync=1", "--norandommap", "--randrepeat=0", "--time_based"]);
    fio.arg(format!("--numjobs={}", workload.threads))
        .arg(format!("--bs={}", workload.block_bytes));
    fio.arg(format!("--runtime={seconds}"));
    fio
}

/// Removes what an earlier round left, so that every run begins with a new file.
fn remove(path: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("can't remove '{}'", path.display()))
        }
        _ => Ok(()),
    }
}

/// What a finished process said and cost.
pub(crate) struct Output {
    pub(crate) stdout: String,
    pub(crate) cost: Cost,
}

/// The interval of checks whether a command has ended, or this program was told to stop. Neither is
/// measured by this.
const LOOK: Duration = Duration::from_millis(20);

/// Runs a command to its end; once `stop` is raised, interrupts it.
pub(crate) fn run(command: &Command, stop: &AtomicBool) -> anyhow::Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut between = Command::new(std::env::current_exe().context("can't find this program")?);
    between.arg(cost::OPTION).arg(command.get_program()).args(command.get_args());
    if let Some(dir) = command.get_current_dir() {
        between.current_dir(dir);
    }
    // A separate process group: only this program tells its processes to stop, and only once.
    between.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = between.spawn().with_context(|| format!("can't run '{name}'"))?;
    let (stdout, stderr) = (read_all(child.stdout.take()), read_all(child.stderr.take()));
    let mut told = false;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if stop.load(Ordering::Relaxed) && !told {
            told = true;
            // It may just have ended by itself.
            let _ = kill_process_group(Pid::from_child(&child), Signal::INT);
        }
        std::thread::sleep(LOOK);
    };
    // The streams end with the last process that holds them, so nothing of the command runs any
    // more after this.
    let (stdout, stderr) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
    if stop.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    match cost::split(&stderr) {
        Some((_, cost)) if status.success() => Ok(Output { stdout, cost }),
        Some((said, _)) => bail!("'{name}' failed with {status}: {said}"),
        None => bail!("'{name}' failed with {status}: {}", stderr.trim_end()),
    }
}

/// Reads a stream to its end, beside the others.
fn read_all(stream: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // An error ends the output; the part before it is returned.
            let _ = stream.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn number(value: &Value, path: &str) -> anyhow::Result<f64> {
    value.pointer(path).and_then(Value::as_f64).with_context(|| format!("no number at {path}"))
}

fn floodwall_result(output: Output) -> anyhow::Result<Measured> {
    let json: Value = serde_json::from_str(&output.stdout).context("floodwall's JSON")?;
    let phase = json.pointer("/trials/0/phases/0").context("floodwall's phase")?;
    Ok(Measured {
        iops: number(phase, "/victim/iops")?,
        commit_p99_us: Some(number(phase, "/victim/commit_us/p99")?),
        sync_p99_us: Some(number(phase, "/victim/sync_us/p99")?),
        ops: number(phase, "/victims/0/ops_with_warmup")?,
        warmup_s: number(phase, "/warmup/seconds")?,
        cost: output.cost,
    })
}

fn fio_result(output: Output) -> anyhow::Result<Measured> {
    // Notes may precede the document.
    let text = output.stdout.find('{').map_or("", |at| &output.stdout[at..]);
    let json: Value = serde_json::from_str(text).context("fio's JSON")?;
    let job = json.pointer("/jobs/0").context("fio's job")?;
    Ok(Measured {
        iops: number(job, "/write/iops")?,
        commit_p99_us: None,
        sync_p99_us: Some(number(job, "/sync/lat_ns/percentile/99.000000")? / 1e3),
        ops: number(job, "/write/total_ios")?,
        warmup_s: f64::from(WARMUP_S),
        cost: output.cost,
    })
}

fn sysbench_result(output: Output) -> anyhow::Result<Measured> {
    let field = |name: &str| {
        let line = output.stdout.lines().find(|l| l.trim_start().starts_with(name));
        line.and_then(|l| l.rsplit([':', ' ']).next())
            .and_then(|t| t.parse::<f64>().ok())
            .with_context(|| format!("sysbench printed no '{name}'"))
    };
    let iops = field("writes/s:")?;
    let seconds = output
        .stdout
        .lines()
        .find(|l| l.trim_start().starts_with("total time:"))
        .and_then(|l| l.split_whitespace().last())
        .and_then(|t| t.trim_end_matches('s').parse::<f64>().ok())
        .context("sysbench printed no total time")?;
    Ok(Measured {
        iops,
        commit_p99_us: Some(field("99th percentile:")? * 1e3),
        sync_p99_us: None,
        ops: iops * seconds,
        warmup_s: f64::from(WARMUP_S),
        cost: output.cost,
    })
}
