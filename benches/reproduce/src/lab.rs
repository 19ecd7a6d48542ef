//! Trials that were recorded on lab devices behind the real kernel.

use std::path::Path;

use anyhow::Context;
use floodwall_device::DeviceSpec;
use floodwall_model::{Bytes, Runner, Setting, Trial, scenario};
use floodwall_sim::{SimOptions, SimRunner};
use floodwall_stats::estimate::median;
use floodwall_stats::figures::{PhaseFigures, Reference, Summary, summarise};
use published::stored;
use serde_json::Value;

use crate::cells;
use crate::table::{Basis, Goal, Line, table};

/// Knobs that a recorded setting must not hand to the simulator: they describe the loop device, not
/// a choice.
const NOT_CHOSEN: [&str; 3] = ["write_cache", "nomerges", "rq_affinity"];

struct Recorded {
    name: String,
    value: Value,
}

pub(crate) fn section(data: &Path) -> anyhow::Result<String> {
    let recorded = read(data)?;
    let found = cells::all(&recorded, |r| Ok(summarise(&trials(r)?, Reference::InForce)))?;
    let mut lines = Vec::new();
    for (recorded, summary) in recorded.iter().zip(&found) {
        compare(recorded, summary, &mut lines);
    }
    Ok(format!(
        "### Trials on the lab\n\nRecorded with `make lab-record` on kernel {}; the simulator runs \
         the same scenario on the same preset under the same setting. Rates within 15 %, p99 \
         within a factor of 1.5 are the goal. No constant was chosen by these figures; device \
         model and scenario are the same on both sides. *Late*: the lab's server did not keep up \
         with its model while it was recorded.\n\n{}\n{}",
        recorded.first().and_then(|r| r.value["host"]["kernel"].as_str()).unwrap_or("?"),
        table("lab", &lines),
        errors(&lines)
    ))
}

fn read(data: &Path) -> anyhow::Result<Vec<Recorded>> {
    let all = stored::read_all(data)?.into_iter();
    let recorded: Vec<_> = all.map(|(name, value)| Recorded { name, value }).collect();
    anyhow::ensure!(
        !recorded.is_empty(),
        "nothing is recorded in '{}': run make lab-record",
        data.display()
    );
    Ok(recorded)
}

fn trials(recorded: &Recorded) -> anyhow::Result<Vec<Trial>> {
    let text = |key: &str| {
        recorded.value[key].as_str().with_context(|| format!("{}: no {key}", recorded.name))
    };
    let scenario = scenario::parse(text("scenario")?)?;
    let size: Bytes = text("size")?.parse()?;
    let ram = recorded.value["host"]["ram_bytes"].as_u64().context("no ram_bytes")?;
    let cpus = recorded.value["host"]["cpus"].as_u64().context("no cpus")?;
    let options = SimOptions {
        capacity: Some(size),
        ram: Bytes(ram),
        cpus: u32::try_from(cpus)?,
        lab: true,
        ..SimOptions::new(DeviceSpec::preset(text("preset")?)?)
    };
    let knobs = recorded.value["setting"].as_object().context("no setting")?;
    let setting: Setting = knobs
        .iter()
        .filter(|(name, value)| !NOT_CHOSEN.contains(&name.as_str()) && counts(knobs, name, value))
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
        .collect();
    let mut runner = SimRunner::new(options);
    let run = |round| -> anyhow::Result<Trial> {
        let trial = runner.run(&scenario, &setting, round, &mut ())?;
        same_queue(&setting, &trial.setting).with_context(|| recorded.name.clone())?;
        Ok(trial)
    };
    (1..=scenario.timing.rounds).map(run).collect()
}

/// Every knob that was read in the lab reads the same in the simulator: elevator, slots,
/// throttling, tunables, limits.
fn same_queue(recorded: &Setting, simulated: &Setting) -> anyhow::Result<()> {
    for (knob, value) in &recorded.0 {
        let found = simulated.get(knob);
        anyhow::ensure!(
            found == Some(value.as_str()),
            "{knob} was {value}, and the simulator has {}",
            found.unwrap_or("none")
        );
    }
    Ok(())
}

/// Of a pair of names for one limit only the one in force says anything.
fn counts(knobs: &serde_json::Map<String, Value>, name: &str, value: &Value) -> bool {
    let partner = match name {
        "vm.dirty_bytes" => "vm.dirty_ratio",
        "vm.dirty_ratio" => "vm.dirty_bytes",
        "vm.dirty_background_bytes" => "vm.dirty_background_ratio",
        "vm.dirty_background_ratio" => "vm.dirty_background_bytes",
        "bdi.max_ratio" | "bdi.min_ratio" => return false,
        _ => return true,
    };
    value.as_str() != Some("0")
        || knobs.get(partner).and_then(Value::as_str) == Some("0") && name.ends_with("_ratio")
}

fn compare(recorded: &Recorded, simulated: &Summary, lines: &mut Vec<Line>) {
    let measured = |path: &str| recorded.value["summary"].pointer(path).and_then(Value::as_f64);
    let of = |phase: &Option<PhaseFigures>, f: fn(&PhaseFigures) -> Option<f64>| {
        phase.as_ref().and_then(f)
    };
    let late = recorded.value["kept_up"].as_bool() == Some(false);
    let mut add =
        |what: &str, expected: Option<f64>, simulated: Option<f64>, scale: f64, goal: Goal| {
            lines.push(Line {
                what: format!("{}, {what}", recorded.name),
                expected: expected.map(|v| v * scale),
                simulated: simulated.map(|v| v * scale),
                goal,
                basis: Basis::Predicted,
                range: None,
                doubt: late.then_some("late"),
            });
        };
    for (phase, name, figures) in
        [("victim", "alone", &simulated.victim), ("both", "beside", &simulated.both)]
    {
        let what = format!("victim {name}, IOPS");
        let iops = of(figures, |f| f.iops);
        add(&what, measured(&format!("/{phase}/iops")), iops, 1.0, Goal::Within(0.15));
    }
    for (phase, name, figures) in
        [("flood", "alone", &simulated.flood), ("both", "beside", &simulated.both)]
    {
        let what = format!("flood {name}, MB/s");
        let rate = of(figures, |f| f.flood_bytes_per_s);
        add(
            &what,
            measured(&format!("/{phase}/flood_bytes_per_s")),
            rate,
            1e-6,
            Goal::Within(0.15),
        );
    }
    for (phase, name, figures) in
        [("victim", "alone", &simulated.victim), ("both", "beside", &simulated.both)]
    {
        // A p99 takes 100 operations on both sides; else the slowest ones are compared.
        let operations =
            measured(&format!("/{phase}/iops")).zip(measured(&format!("/{phase}/seconds")));
        let enough = operations.is_some_and(|(iops, seconds)| iops * seconds >= 99.5);
        let p99 = of(figures, |f| f.operation_us.and_then(|l| l.p99));
        let (tail, simulated) = match p99.filter(|_| enough) {
            Some(p99) => ("p99", Some(p99)),
            None => ("max", of(figures, |f| f.operation_us.map(|l| l.max))),
        };
        let what = format!("{} {name}, ms", if tail == "max" { "slowest" } else { tail });
        let expected = measured(&format!("/{phase}/operation_us/{tail}"));
        add(&what, expected, simulated, 1e-3, Goal::Factor(1.5));
    }
}

/// The middle of the errors, of the rates and of the tails.
fn errors(lines: &[Line]) -> String {
    let of = |is: fn(&Goal) -> bool, error: fn(f64) -> f64| {
        let errors: Vec<f64> = lines
            .iter()
            .filter(|l| is(&l.goal))
            .filter_map(|l| Some(error(l.simulated? / l.expected?)))
            .filter(|e| e.is_finite())
            .collect();
        median(errors).unwrap_or(f64::NAN)
    };
    format!(
        "Median error of the rates: {:.0} %; median factor of the p99: {:.2}.\n",
        100.0 * of(|g| matches!(g, Goal::Within(_)), |ratio| (ratio - 1.0).abs()),
        of(|g| matches!(g, Goal::Factor(_)), |ratio| ratio.max(1.0 / ratio))
    )
}
