//! What the guard costs beside victims on a device that takes no time: processor time, memory, and
//! the victims' rate, interleaved with runs without a guard.
//!
//! ```text
//! idle       guard ─ settle ─▶ processor time of its two processes over a while, resident memory
//! victims    round: without | each guard, in rotating order; 8 threads write 4 KiB and fdatasync
//! a flood    the same beside a writer of 6 MB/s, which keeps the tracepoints open
//! ```
//!
//! The guards run dry: nothing is changed, so that only looking costs.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use floodwall_model::proc_stat::ProcStat;
use floodwall_stats::estimate::median;
use serde_json::Value;

use crate::devices::{Device, Floodwall, run};

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rounds; each has a run without a guard and one beside each guard
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of each run
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Seconds of each idle measurement
    #[arg(long, default_value_t = 60)]
    idle_seconds: u64,
    /// Loop devices beside, each used once
    #[arg(long, default_value_t = 0)]
    disks: u32,
    /// A disk that others write to meanwhile: an idle guard leaves it alone
    #[arg(long)]
    exclude: Option<String>,
    /// Another binary to measure beside, with the perf source
    #[arg(long)]
    before: Option<PathBuf>,
}

/// From a guard's start to the first measurement: it has looked at everything, and its first sample
/// is over.
const SETTLE: Duration = Duration::from_secs(4);
/// Ticks of /proc/PID/stat a second (`USER_HZ`).
const TICKS: f64 = 100.0;

/// A guard, or none.
struct Arm {
    name: String,
    guard: Option<(PathBuf, &'static str)>,
}

/// A running guard; dropping it ends it.
struct Guard(Child);

impl Guard {
    fn start(program: &Path, source: &str, more: &[&str]) -> anyhow::Result<Self> {
        let socket =
            std::env::temp_dir().join(format!("floodwall-cost-{}.sock", std::process::id()));
        let mut command = Command::new(program);
        command.args(["guard", "--dry-run", "--source", source, "--socket"]).arg(socket);
        let child = command
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut guard = Self(child);
        std::thread::sleep(SETTLE);
        anyhow::ensure!(guard.0.try_wait()?.is_none(), "the guard ({source}) has ended");
        Ok(guard)
    }

    /// Its two processes.
    fn processes(&self) -> Vec<u32> {
        let pid = self.0.id();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
        std::iter::once(pid).chain(children).collect()
    }

    /// Seconds of processor time so far.
    fn cpu_s(&self) -> f64 {
        let ticks = |pid: u32| {
            let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
            ProcStat::parse(&stat).and_then(ProcStat::cpu_ticks).unwrap_or(0) as f64
        };
        self.processes().into_iter().map(ticks).sum::<f64>() / TICKS
    }

    fn resident_mib(&self) -> f64 {
        let kib = |pid: u32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let line =
                status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
            line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0)
        };
        self.processes().into_iter().map(kib).sum::<f64>() / 1024.0
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// Loop devices over small sparse files; dropping them detaches them.
struct Disks(Vec<String>);

impl Disks {
    fn new(count: u32) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut disks = Self(Vec::new());
        for n in 0..count {
            let image = directory.path().join(n.to_string());
            std::fs::File::create(&image)?.set_len(1 << 20)?;
            let node = run(Command::new("losetup").args(["--find", "--show"]).arg(&image))?
                .trim()
                .to_owned();
            disks.0.push(node.clone());
            // A device that was never used is not looked at.
            std::io::Read::read_exact(&mut std::fs::File::open(node)?, &mut [0; 4096])?;
        }
        Ok(disks)
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        for node in &self.0 {
            let _ = Command::new("losetup").args(["--detach", node]).status();
        }
    }
}

/// A writer beside; dropping it ends it.
struct Writer(Child);

impl Writer {
    fn start(directory: &Path, seconds: u64) -> anyhow::Result<Self> {
        let mut fio = Command::new("fio");
        fio.args([
            "--name=flood",
            "--rw=write",
            "--bs=64k",
            "--rate=6m",
            "--size=64m",
            "--time_based",
        ])
        .arg(format!("--runtime={seconds}"))
        .arg(format!("--directory={}", directory.display()));
        Ok(Self(fio.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Commits a second of 8 threads.
fn victims(directory: &Path, seconds: u64) -> anyhow::Result<f64> {
    let mut fio = Command::new("fio");
    fio.args(["--name=victims", "--rw=randwrite", "--bs=4k", "--fdatasync=1", "--size=4m"])
        .args([
            "--numjobs=8",
            "--thread",
            "--group_reporting",
            "--time_based",
            "--output-format=json",
        ])
        .arg(format!("--runtime={seconds}"))
        .arg(format!("--directory={}", directory.display()));
    let text = run(&mut fio)?;
    let json: Value =
        serde_json::from_str(text.find('{').map_or("", |at| &text[at..])).context("fio's JSON")?;
    json.pointer("/jobs/0/write/iops").and_then(Value::as_f64).context("fio named no rate")
}

pub(crate) fn measure(floodwall: &Floodwall, options: &Options) -> anyhow::Result<()> {
    let guard = |name: &str, program: &Path, source| Arm {
        name: name.to_owned(),
        guard: Some((program.to_owned(), source)),
    };
    let mut arms = vec![
        Arm { name: "no guard".to_owned(), guard: None },
        guard("perf", &floodwall.program, "perf"),
        guard("bpf", &floodwall.program, "bpf"),
    ];
    if let Some(before) = &options.before {
        arms.push(guard("perf, before", &before.canonicalize()?, "perf"));
    }
    let disks = Disks::new(options.disks)?;
    println!("idle, {} disks beside, {} s each", options.disks, options.idle_seconds);
    for (name, (program, source)) in
        arms.iter().filter_map(|arm| Some((&arm.name, arm.guard.as_ref()?)))
    {
        let exclude = options.exclude.as_deref().map(|disk| ["--exclude", disk]);
        let guard = Guard::start(program, source, exclude.as_ref().map_or(&[], |more| more))?;
        let (before, begin) = (guard.cpu_s(), Instant::now());
        std::thread::sleep(Duration::from_secs(options.idle_seconds));
        let share = (guard.cpu_s() - before) / begin.elapsed().as_secs_f64();
        println!(
            "  {name:<14} {:>6.2} % of one core, {:>5.1} MiB",
            100.0 * share,
            guard.resident_mib()
        );
    }
    drop(disks);
    let place = tempfile::tempdir()?;
    let mount = place.path().to_string_lossy().into_owned();
    let device = floodwall
        .up("null", &["--size", "2GiB", "--memory", "1GiB", "--fs", "ext4", "--mount", &mount])?;
    for beside_flood in [false, true] {
        let what = if beside_flood { "beside a writer of 6 MB/s" } else { "8 threads, fdatasync" };
        println!("\n{what}, {} rounds of {} s", options.rounds, options.seconds);
        beside(&device, &arms, options, beside_flood)?;
    }
    Ok(())
}

fn beside(
    device: &Device<'_>,
    arms: &[Arm],
    options: &Options,
    beside_flood: bool,
) -> anyhow::Result<()> {
    let directory = device.dir()?;
    victims(directory, 2)?;
    let mut rates = vec![Vec::new(); arms.len()];
    let mut shares = vec![Vec::new(); arms.len()];
    for round in 0..options.rounds {
        for turn in 0..arms.len() {
            let at = (round + turn) % arms.len();
            let guard = arms[at].guard.as_ref();
            let only = ["--device".to_owned(), device.path.to_string_lossy().into_owned()];
            let only = only.each_ref().map(String::as_str);
            let guard = guard.map(|(program, source)| Guard::start(program, source, &only));
            let guard = guard.transpose()?;
            let writer =
                beside_flood.then(|| Writer::start(directory, options.seconds + 8)).transpose()?;
            if writer.is_some() {
                std::thread::sleep(Duration::from_secs(2));
            }
            let (before, begin) = (guard.as_ref().map_or(0.0, Guard::cpu_s), Instant::now());
            rates[at].push(victims(directory, options.seconds)?);
            let cpu = guard.as_ref().map_or(0.0, Guard::cpu_s) - before;
            shares[at].push(cpu / begin.elapsed().as_secs_f64());
        }
    }
    for (at, arm) in arms.iter().enumerate() {
        let kept = rates[at].iter().zip(&rates[0]).map(|(with, without)| 100.0 * with / without);
        let mut kept: Vec<f64> = kept.collect();
        kept.sort_by(f64::total_cmp);
        let (least, most) =
            (kept.first().copied().unwrap_or(0.0), kept.last().copied().unwrap_or(0.0));
        println!(
            "  {:<14} {:>7.0} commits/s, {:>6.2} % of the rate without ({least:.1} to {most:.1}), \
             {:>5.2} % of one core",
            arm.name,
            median(rates[at].clone()).unwrap_or(0.0),
            median(kept).unwrap_or(0.0),
            100.0 * median(shares[at].clone()).unwrap_or(0.0),
        );
    }
    Ok(())
}
