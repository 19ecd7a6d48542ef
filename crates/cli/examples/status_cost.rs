//! The cost of `floodwall status` without its window: `status_cost [DISKS] [PROCESSES]`. It runs on
//! the machine of fixtures/hosts/server-64-disks.rs, with 64 disks and 2,000 processes unless told
//! otherwise.
//!
//! ```text
//! parent: makes the tree ─▶ child (this program again): the work, over and over,
//!                                                       then its own peak memory
//! work:   observation, observation, other managers, status, findings, text, JSON
//! ```
//!
//! Prints the median, by the clock and as CPU time of this process (user and system). It also
//! prints the peak of resident memory of a process that did nothing else. Build it with
//! `--release`. The kernel makes /proc and /sys up on the fly, so a real machine of that size costs
//! somewhat more than plain files.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use floodwall_host::findings::{Facts, JournalFacts, look};
use floodwall_host::status::{Observation, status};
use floodwall_host::{SysRoot, managers};
use floodwall_report::status::{Style, json, text};
use rustix::time::{ClockId, clock_gettime};

#[path = "../../../fixtures/hosts/server-64-disks.rs"]
mod large;

const ROUNDS: usize = 21;
/// Tells the child what to do.
const CHILD: &str = "--work";

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize, usual: u32| args.get(place).map_or(Ok(usual), |n| n.parse());
    if let [flag, tree, ..] = args.as_slice()
        && flag == CHILD
    {
        let (disks, processes) = (number(2, 0)?, number(3, 0)?);
        return work(Path::new(tree), disks, processes);
    }
    let (disks, processes): (u32, u32) = (number(0, 64)?, number(1, 2000)?);
    let dir = tempfile::tempdir()?;
    large::make(dir.path(), disks, processes)?;
    let child = Command::new(std::env::current_exe()?)
        .arg(CHILD)
        .arg(dir.path())
        .args([disks.to_string(), processes.to_string()])
        .status()?;
    if child.success() { Ok(()) } else { Err("the measuring child failed".into()) }
}

/// Does the work and says what it took.
fn work(tree: &Path, disks: u32, processes: u32) -> Result<(), Box<dyn Error>> {
    let root = SysRoot::new(tree)?;
    let earlier = Observation::read(&root);
    large::later(tree, disks, processes)?;
    let (mut cpu, mut wall) = (Vec::new(), Vec::new());
    let mut told = (0, 0, 0);
    for _ in 0..ROUNDS {
        let start = (now_ms(ClockId::ProcessCPUTime), now_ms(ClockId::Monotonic));
        // As much work as the one a second ago, which can't be had again in each round.
        let after = Observation::read(&root).read_again(&root);
        let managers = managers::read(&root);
        let mut status = status(&root, &earlier, &after, 1.0, true);
        status.findings = look(Facts {
            status: &status,
            journal: &JournalFacts::default(),
            managers: &managers,
            disk_users: &[],
        });
        let written = text(&status, Style::default()).len() + json(&status)?.len();
        cpu.push(now_ms(ClockId::ProcessCPUTime) - start.0);
        wall.push(now_ms(ClockId::Monotonic) - start.1);
        told = (status.devices.len(), status.findings.len(), written);
    }
    let own = std::fs::read_to_string("/proc/self/status")?;
    let peak =
        own.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or(" unknown").trim();
    writeln!(
        std::io::stdout(),
        "{} devices, {} findings, {} bytes of text and JSON: {:.1} ms, {:.1} ms of CPU (medians of \
         {ROUNDS}), at most {peak} of memory",
        told.0,
        told.1,
        told.2,
        median(wall),
        median(cpu)
    )?;
    Ok(())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times.get(ROUNDS / 2).copied().unwrap_or(f64::NAN)
}

fn now_ms(clock: ClockId) -> f64 {
    let now = clock_gettime(clock);
    now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 / 1e6
}
