//! How each tool is asked for the workload, and how its answer is read.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::Value;

/// Random writes over one file of 64 MiB, each followed by fsync.
#[derive(Clone, Copy)]
pub(crate) struct Workload {
    pub(crate) threads: u32,
    pub(crate) block: u32,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {} KiB write + fsync", self.threads, self.block / 1024)
    }
}

const FILE_MIB: u32 = 64;

#[derive(Clone, Copy)]
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
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// Commits a second.
    pub(crate) iops: f64,
    /// 99th percentile of write + fsync, in µs; fio does not have it.
    pub(crate) commit_p99_us: Option<f64>,
    /// 99th percentile of fsync alone, in µs; sysbench does not have it.
    pub(crate) sync_p99_us: Option<f64>,
    /// CPU time of the whole process, in seconds.
    pub(crate) cpu_s: f64,
    /// Operations on which it was spent.
    pub(crate) ops: f64,
    /// Peak resident memory in KiB.
    pub(crate) peak_kib: u64,
}

/// Lays out fio's and sysbench's files; floodwall writes its own.
pub(crate) fn prepare(dir: &Path, workload: Workload) -> anyhow::Result<()> {
    let mut fio = fio(dir, workload);
    fio.args(["--rw=write", "--bs=1M", "--end_fsync=1"]);
    run(fio.stdout(Stdio::null()))?;
    let mut sysbench = sysbench(dir, workload, 1);
    run(sysbench.arg("prepare").stdout(Stdio::null()))?;
    Ok(())
}

fn fio(dir: &Path, workload: Workload) -> Command {
    let mut fio = Command::new("fio");
    fio.current_dir(dir).args(["--name=commit", "--filename=fio.data", "--ioengine=psync", "--thread"]);
    fio.arg(format!("--size={FILE_MIB}M")).arg(format!("--numjobs={}", workload.threads));
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
        .arg(format!("--file-block-size={}", workload.block));
    sysbench.arg(format!("--threads={}", workload.threads)).arg(format!("--time={seconds}"));
    sysbench.args(["--events=0", "--percentile=99"]);
    sysbench
}

/// Runs one tool once.
pub(crate) fn measure(
    tool: Tool,
    floodwall: &Path,
    dir: &Path,
    workload: Workload,
    seconds: u32,
) -> anyhow::Result<Measured> {
    match tool {
        Tool::Floodwall => {
            let victim =
                format!("commit,threads={},block={}B,size={FILE_MIB}MiB", workload.threads, workload.block);
            let mut command = Command::new(floodwall);
            command.current_dir(dir).args([
                "bench",
                "--force",
                "--json",
                "--progress",
                "never",
                "--rounds",
                "1",
            ]);
            command.args(["--victim", &victim, "--flood", "none", "--no-burst"]);
            command.args(["--measure", &format!("{seconds}s")]);
            floodwall_result(run(&mut command)?)
        }
        Tool::Fio => {
            let mut command = fio(dir, workload);
            command.args(["--rw=randwrite", "--fsync=1", "--norandommap", "--randrepeat=0", "--time_based"]);
            command.arg(format!("--bs={}", workload.block)).arg(format!("--runtime={seconds}"));
            fio_result(run(&mut command)?)
        }
        Tool::Sysbench => {
            let mut command = sysbench(dir, workload, seconds);
            sysbench_result(run(command.arg("run"))?)
        }
    }
}

/// What a finished process cost, and what it said.
pub(crate) struct Output {
    pub(crate) stdout: String,
    pub(crate) cpu_s: f64,
    pub(crate) peak_kib: u64,
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let before = children_cpu_s()?;
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.with_context(|| format!("can't run '{name}' (make bench installs it)"))?;
    let pid = child.id();
    let watcher = std::thread::spawn(move || {
        let mut peak = 0;
        while let Some(kib) = peak_kib(pid) {
            peak = peak.max(kib);
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        peak
    });
    let output = child.wait_with_output()?;
    let cpu_s = children_cpu_s()? - before;
    if !output.status.success() {
        bail!("'{name}' failed with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(Output { stdout, cpu_s, peak_kib: watcher.join().unwrap_or(0) })
}

/// User and system time of reaped children: fields 16 and 17 of /proc/self/stat, in ticks of 10 ms.
fn children_cpu_s() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").context("can't read /proc/self/stat")?;
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let field = |n: usize| after_name.split_whitespace().nth(n - 3).and_then(|t| t.parse::<f64>().ok());
    match (field(16), field(17)) {
        (Some(user), Some(system)) => Ok((user + system) / 100.0),
        _ => bail!("/proc/self/stat is not what it was"),
    }
}

/// `VmHWM` of a process; `None` once it is gone.
fn peak_kib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
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
        cpu_s: output.cpu_s,
        ops: number(phase, "/victims/0/ops_with_warmup")?,
        peak_kib: output.peak_kib,
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
        cpu_s: output.cpu_s,
        ops: number(job, "/write/total_ios")?,
        peak_kib: output.peak_kib,
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
        cpu_s: output.cpu_s,
        ops: iops * seconds,
        peak_kib: output.peak_kib,
    })
}
