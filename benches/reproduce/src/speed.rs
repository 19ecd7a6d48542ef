//! How fast the simulator is: virtual seconds for each second of one core, and whether cost grows
//! with operations alone.

use std::time::Instant;

use anyhow::Context;
use floodwall_device::DeviceSpec;
use floodwall_model::{Runner, Scenario, Setting, scenario};
use floodwall_sim::{SimOptions, SimRunner};
use floodwall_stats::estimate::median;

/// Runs of each length.
const RUNS: u32 = 7;

pub(crate) fn section() -> anyhow::Result<String> {
    let mut out = format!(
        "copy-vs-database-2010 on raid10-bbwc-2010, kernel 6.18, one core, medians of {RUNS} \
         runs\n\n| measured part of a phase | virtual s | wall ms | times real time | µs an \
         operation |\n|---|---|---|---|---|\n"
    );
    for seconds in [3, 30, 300] {
        let mut scenario: Scenario =
            scenario::builtin("copy-vs-database-2010").context("the scenario")??;
        scenario.timing.rounds = 1;
        scenario.timing.measure = std::time::Duration::from_secs(seconds);
        let mut runner = SimRunner::new(SimOptions::new(DeviceSpec::preset("raid10-bbwc-2010")?));
        let (mut walls, mut virtual_s, mut operations) = (Vec::new(), 0.0, 0u64);
        for round in 1..=RUNS {
            let begin = Instant::now();
            let trial = runner.run(&scenario, &Setting::default(), round, &mut ())?;
            walls.push(begin.elapsed().as_secs_f64());
            virtual_s = trial.phases.iter().map(|p| p.warmup.seconds + p.seconds).sum::<f64>();
            let device =
                trial.phases.iter().flat_map(|p| &p.intervals).filter_map(|i| i.host.device);
            operations = device.map(|d| d.read_ops + d.write_ops + d.flush_ops.unwrap_or(0)).sum();
        }
        let wall = median(walls).context("no runs")?;
        out.push_str(&format!(
            "| {seconds} s | {virtual_s:.0} | {:.1} | {:.0} | {:.2} |\n",
            wall * 1e3,
            virtual_s / wall,
            wall * 1e6 / operations.max(1) as f64
        ));
    }
    out.push_str(
        "\nvirtual s: warm-ups and measured parts; operations: requests to the device in \
        the measured parts.\n",
    );
    Ok(out)
}
