//! `floodwall` alone and `floodwall fix` on staged situations behind the real kernel: a lab device,
//! a victim and a flood whose names, numbers and units the test knows. What a machine lacks is
//! reported as ignored, with the reason.
//!
//! ```text
//! lab device ─ filesystem ─┬─ victim ─┐
//!                          └─ flood  ─┴▶ floodwall, floodwall why --json ─▶ Answer
//! debugfs, the disk's counters, PIDs, a control group ────────▶ truth ──▶ the same?
//! ```
//!
//! The binary is also the plainest victim: behind `why-victim` it commits until it is killed.

mod answer;
mod bed;
mod fixes;
mod loads;
mod situations;

use floodwall_testing::process::Watchdog;
use floodwall_testing::{FUSE, LOOP, ROOT, lacks, run_alone};

/// The programs and files that every situation needs.
const NEEDS: [&str; 7] = [ROOT, FUSE, LOOP, "setpriv", "unshare", "mkfs.ext4", bed::DEBUGFS];
/// Seconds after which a situation hangs: it takes half a minute on a busy machine.
const HANGS_S: u64 = 180;

/// A situation, and the programs that it needs besides.
pub(crate) struct Test {
    name: &'static str,
    needs: &'static [&'static str],
    body: fn() -> Result<(), String>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, first, directory, pause_ms] = arguments.as_slice()
        && first == loads::VICTIM
    {
        std::process::exit(i32::from(loads::commit(directory.as_ref(), pause_ms).is_err()));
    }
    let test = |test: &'static Test| {
        let missing = || lacks(&NEEDS).or_else(|| lacks(test.needs)).or_else(bed::missing);
        floodwall_testing::test(test.name, missing, || {
            // Loads and labs end with this process.
            let _watchdog = Watchdog::new(test.name, HANGS_S, || ());
            (test.body)()
        })
    };
    // Each looks at the whole machine.
    run_alone(situations::TESTS.iter().chain(fixes::TESTS).map(test).collect())
}
