//! The cost of looking:
//! `cargo run --release -p floodwall-probe --example cost -- DIR [perf|bpf|proc]
//! [ROUNDS]`.
//!
//! Victims (four processes that write 4 KiB and fdatasync, below DIR) run two seconds with the
//! probe and two without, in turn. Then the probe looks on without any victim. DIR is best on
//! `floodwall lab up null`: a device without delay, where every instruction shows.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a program for people who measure"
)]

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use floodwall_probe::{Probe, SourceKind};

static GO_ON: AtomicBool = AtomicBool::new(false);
const VICTIMS: usize = 4;
const PHASE: Duration = Duration::from_secs(2);

/// Commits until the time is over, and prints how many.
fn victim(file: &str) {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(file).unwrap();
    let end = Instant::now() + PHASE;
    let mut commits = 0u64;
    while Instant::now() < end {
        file.write_all_at(&[1; 4096], commits % 64 * 4096).unwrap();
        file.sync_data().unwrap();
        commits += 1;
    }
    println!("{commits}");
}

fn victims(directory: &Path) -> Vec<Child> {
    let start = |n| {
        let file = directory.join(format!("probe-cost-{n}"));
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("victim").arg(file).stdout(Stdio::piped()).spawn().unwrap()
    };
    (0..VICTIMS).map(start).collect()
}

/// Commits per second of all victims together.
fn result(victims: Vec<Child>) -> f64 {
    let commits = |child: Child| {
        let output = child.wait_with_output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().parse::<f64>().unwrap()
    };
    victims.into_iter().map(commits).sum::<f64>() / PHASE.as_secs_f64()
}

/// CPU time of this process, user and kernel, and its resident memory.
fn used() -> (Duration, u64) {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    (Duration::new(time.tv_sec as u64, time.tv_nsec as u32), kib)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let first = arguments.first().map_or("", String::as_str);
    if first == "victim" {
        return victim(&arguments[1]);
    }
    let source = match arguments.get(1).map(String::as_str) {
        Some("bpf") => SourceKind::Bpf,
        Some("proc") => SourceKind::Proc,
        _ => SourceKind::Perf,
    };
    let rounds: usize = arguments.get(2).map_or(10, |n| n.parse().unwrap());
    let directory = Path::new(first);
    result(victims(directory));
    let mut ratios = Vec::new();
    let (mut cpu, mut lost, mut seen, mut made, mut most) = (Duration::ZERO, 0, 0u64, 0.0, 0);
    for round in 0..rounds {
        let with = |on: bool| {
            let mut probe = on.then(|| Probe::open(Some(source)).unwrap());
            let running = victims(directory);
            let before = used();
            let mut figures = (Duration::ZERO, 0, 0, 0);
            if let Some(probe) = &mut probe {
                let end = Instant::now() + PHASE;
                while Instant::now() < end {
                    probe.wait(Duration::from_millis(500), &GO_ON).unwrap();
                    let snapshot = probe.snapshot().unwrap();
                    figures.1 += snapshot.lost_events;
                    figures.2 +=
                        snapshot.processes.iter().map(|p| p.commits().count()).sum::<u64>();
                }
                let after = used();
                figures.0 = after.0 - before.0;
                figures.3 = after.1;
            }
            (result(running), figures)
        };
        let order = if round % 2 == 0 { [true, false] } else { [false, true] };
        let [a, b] = order.map(with);
        let (on, off) = if order[0] { (a, b) } else { (b, a) };
        ratios.push((on.0 / off.0).ln());
        cpu += on.1.0;
        lost += on.1.1;
        seen += on.1.2;
        made += on.0 * PHASE.as_secs_f64();
        most = most.max(on.1.3);
        println!("round {round}: {:.0} commits/s with, {:.0} without", on.0, off.0);
    }
    let n = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    let deviation = (ratios.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    let seconds = n * PHASE.as_secs_f64();
    println!(
        "{}: victims keep {:.2} % ± {:.2} (2 standard errors); {:.2} % of a core at {:.0} \
         commits/s; {most} KiB resident; {seen} of {made:.0} commits seen, \
        {lost} events lost",
        source.name(),
        100.0 * mean.exp(),
        200.0 * mean.exp() * deviation / n.sqrt(),
        100.0 * cpu.as_secs_f64() / seconds,
        made / seconds,
    );
    let mut probe = Probe::open(Some(source)).unwrap();
    let (before, begin) = (used().0, Instant::now());
    for _ in 0..10 {
        probe.wait(Duration::from_secs(1), &GO_ON).unwrap();
        probe.snapshot().unwrap();
    }
    let share = (used().0 - before).as_secs_f64() / begin.elapsed().as_secs_f64();
    println!(
        "{}: {:.3} % of a core with nobody to look at, a look a second",
        source.name(),
        100.0 * share
    );
    (0..VICTIMS)
        .for_each(|n| drop(std::fs::remove_file(directory.join(format!("probe-cost-{n}")))));
}
