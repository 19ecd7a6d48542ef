//! The cost of looks: processor time per look at N loop devices, used and idle.
//!
//! `cargo run --release -p floodwall-plant --example cost -- 1000` (root; makes N loop devices over
//! small sparse files and removes them again)

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "an example that prints and makes devices"
)]

use std::fs::File;
use std::io::Read;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use floodwall_model::plant::Plant;
use floodwall_model::proc_stat::ProcStat;
use floodwall_plant::{HostPlant, Options};
use floodwall_testing::disk::Loop;

/// Looks that are averaged.
const LOOKS: u32 = 40;

/// Processor time of this process so far, in seconds (10 ms ticks).
fn cpu() -> f64 {
    let stat = std::fs::read("/proc/self/stat").unwrap();
    ProcStat::parse(&stat).and_then(ProcStat::cpu_ticks).unwrap() as f64 / 100.0
}

fn main() {
    let devices: usize = std::env::args().nth(1).map_or(100, |n| n.parse().unwrap());
    let dry = Options { dry_run: true, ..Options::new("/nonexistent", "cost") };
    let directory = tempfile::tempdir().unwrap();
    let mut loops = Vec::new();
    for n in 0..devices {
        let device = Loop::over(&directory.path().join(n.to_string()), 1).unwrap();
        // Read once: a device that was never used is not looked at.
        File::open(device.node()).unwrap().read_exact(&mut [0; 4096]).unwrap();
        loops.push(device);
    }
    let mut plant = HostPlant::open(&dry).unwrap();
    let begin = Instant::now();
    plant.observe().unwrap();
    let first = begin.elapsed();
    let begin = Instant::now();
    let knobs = plant.knobs().unwrap();
    let read = begin.elapsed();
    let begin = Instant::now();
    plant.knobs().unwrap();
    let again = begin.elapsed();
    let (before, begin) = (cpu(), Instant::now());
    let mut seen = 0;
    let mut looking = Duration::ZERO;
    for _ in 0..LOOKS {
        plant.wait(Duration::from_millis(250), &AtomicBool::new(false)).unwrap();
        let look = Instant::now();
        seen = plant.observe().unwrap().devices.len();
        looking += look.elapsed();
    }
    let (spent, elapsed) = (cpu() - before, begin.elapsed().as_secs_f64());
    let mut probe = floodwall_probe::Probe::open(None).unwrap();
    let mut probing = Duration::ZERO;
    for _ in 0..LOOKS {
        probe.wait(Duration::from_millis(250), &AtomicBool::new(false)).unwrap();
        let look = Instant::now();
        probe.snapshot().unwrap();
        probing += look.elapsed();
    }
    println!(
        "{seen} devices, {}: {:.2} ms of CPU a look and the wait before it, {:.2} % of one core at \
         four looks a second; a look took {:.1?}, of it the probe {:.1?}; first look {first:.1?}, \
         knobs of {} first {read:.1?}, then {again:.1?}; {}",
        plant.source().name(),
        spent / f64::from(LOOKS) * 1e3,
        spent / elapsed * 100.0,
        looking / LOOKS,
        probing / LOOKS,
        knobs.devices.len(),
        std::fs::read_to_string("/proc/self/status")
            .unwrap()
            .lines()
            .find(|l| l.starts_with("VmHWM"))
            .unwrap_or_default()
    );
    let _ = plant.close(Duration::ZERO);
    drop(loops);
}
