//! `floodwall watch` and `record` behind the real kernel: who did what to which disk, held against
//! fio's own figures and bpftrace's; and the screen in a real terminal (tmux). What a machine lacks
//! is reported as ignored, with the reason.
//!
//! ```text
//! loop devices ─ fio, dd … of known rates ─▶ floodwall record ─▶ frames ─┐
//!                     └─ their own reports ──────────────────────────────┴▶ the same?
//! tmux ─ keys ─▶ floodwall watch --sim ─▶ captured screens
//! ```

mod attribution;
mod begins;
mod cost;
mod latencies;
mod pairs;
mod recorder;
mod requests;
mod terminal;

use floodwall_testing::process::Watchdog;
use floodwall_testing::{ROOT, lacks, run_alone};

pub(crate) const FLOODWALL: &str = env!("CARGO_BIN_EXE_floodwall");
/// Seconds after which a test hangs.
const HANGS_S: u64 = 420;

/// A test, and what it needs.
pub(crate) struct Test {
    name: &'static str,
    needs: &'static [&'static str],
    body: fn() -> Result<(), String>,
}

fn main() {
    if let Some(done) = cost::by_arguments() {
        std::process::exit(i32::from(done.is_err()));
    }
    let test = |test: &'static Test| {
        let needs = |program| test.needs.contains(&program);
        let missing = move || {
            let traced = || needs(requests::BPFTRACE).then(requests::blind)?;
            lacks(test.needs).or_else(|| needs(ROOT).then(blind)?).or_else(traced)
        };
        floodwall_testing::test(test.name, missing, || {
            let _watchdog = Watchdog::new(test.name, HANGS_S, || ());
            (test.body)()
        })
    };
    let tests =
        [attribution::TESTS, begins::TESTS, latencies::TESTS, requests::TESTS, terminal::TESTS];
    run_alone(tests.into_iter().flatten().map(test).collect())
}

/// Why waits can't be seen here; `None` if they can.
pub(crate) fn blind() -> Option<String> {
    let mut command = std::process::Command::new(FLOODWALL);
    command.args(["probe", "--count", "1", "--interval", "100ms", "--json"]);
    let output = floodwall_testing::process::output(&mut command).ok()?;
    let sees = floodwall_testing::process::text(&output.stdout).contains("\"source\":\"bpf\"")
        || floodwall_testing::process::text(&output.stdout).contains("\"source\":\"perf\"");
    (!sees).then(|| "the kernel lets no tracepoint be used".to_owned())
}
