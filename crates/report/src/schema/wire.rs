//! The JSON of a result.
//!
//! ```text
//! Document ── write: derived values put between the raw ones ─▶ JSON
//! Document ◀─ read:  the types' own Deserialize, then indices checked ── JSON
//! ```
//!
//! Derived values (rates, percentiles, dead seconds) are written for readers of the JSON and are
//! not read back: they follow from the raw data beside them. They stand between the raw fields, and
//! some need more than their own phase. So what has derived values is written field by field here,
//! while everything is read as what it is.
//!
//! Writing takes the memory of one interval: lists are [`Each`], which turns an element into its
//! JSON shape when it is due.

// The type parameters of `object!`, also in what is derived for it.
#![allow(non_camel_case_types)]

use std::io::{self, BufWriter, Write};

use floodwall_model::trial::{DeviceSample, LoadTotals, OpLatencies, Phase, Trial};
use floodwall_stats::figures::{Summary, iops_alone};
use floodwall_stats::quantiles::Percentiles;
use floodwall_stats::stalls::{assess, windows, worst};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::contest::{Contender, Contest, Recommended};
use super::{Baseline, Document, Run, SCHEMA, SchemaError};

/// An object with these fields, in this order: a struct with a type parameter for each.
macro_rules! object {
    ($($(#[$attribute:meta])? $name:ident: $value:expr,)+) => {{
        #[derive(Serialize)]
        struct Object<$($name),+> {
            $($(#[$attribute])? $name: $name,)+
        }
        Object { $($name: $value),+ }
    }};
}

/// A list whose elements take their JSON shape one by one, while it is written.
struct Each<'a, T, F> {
    items: &'a [T],
    shape: F,
}

impl<'a, T, D: Serialize, F: Fn(&'a T) -> D> Serialize for Each<'a, T, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.items.iter().map(&self.shape))
    }
}

/// Percentiles by operation, in microseconds (`commit_us` …). `null`: none was timed.
struct ByOperation([(&'static str, Option<Percentiles>); 4]);

impl ByOperation {
    fn of(latencies: &OpLatencies) -> Self {
        Self(
            latencies
                .by_operation()
                .map(|(operation, counts)| (operation, Percentiles::of(counts))),
        )
    }
}

impl Serialize for ByOperation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(operation, us)| (format!("{operation}_us"), us)))
    }
}

impl Document {
    /// Writes it as JSON, indented, with a newline at the end, in the memory that one interval
    /// takes.
    ///
    /// # Errors
    /// [`SchemaError::Io`] if `out` fails; [`SchemaError::Write`] if a histogram can't be encoded.
    /// The text written until then is cut JSON.
    pub fn write_json(&self, out: &mut (impl io::Write + ?Sized)) -> Result<(), SchemaError> {
        write(self, out)
    }

    /// What [`Document::write_json`] writes, as a text in memory: for small uses.
    ///
    /// # Errors
    /// [`SchemaError::Write`] if a histogram can't be encoded.
    pub fn to_json(&self) -> Result<String, SchemaError> {
        let mut json = Vec::new();
        self.write_json(&mut json)?;
        String::from_utf8(json).map_err(|e| SchemaError::Write(e.to_string()))
    }

    /// Reads what [`Document::write_json`] wrote. Fields that this version does not know are
    /// ignored.
    ///
    /// # Errors
    /// [`SchemaError`] for anything that is not a result of schema [`SCHEMA`].
    pub fn read(json: &str) -> Result<Self, SchemaError> {
        read(json)
    }
}

fn write(document: &Document, out: &mut (impl io::Write + ?Sized)) -> Result<(), SchemaError> {
    let contest = document.contest.as_ref();
    let recommended = contest.and_then(|c| c.recommended.as_ref());
    // A flattened `None` has no field.
    let doc = object! {
        schema: SCHEMA,
        #[serde(flatten)]
        run: &document.run,
        scenario: &document.scenario,
        summary: &document.summary,
        // Settings side by side have a verdict each: `contenders[].versus`.
        #[serde(flatten)]
        verdict: contest.is_none().then(|| object! { verdict: document.verdict(), }),
        #[serde(flatten)]
        recommended: recommended.map(|r| object! { recommended: r, }),
        #[serde(flatten)]
        contest: contest.map(|c| object! {
            frontier: &c.frontier,
            contenders: &c.contenders,
            trials_run: document.trials.len(),
        }),
        #[serde(flatten)]
        baseline: document.baseline.as_ref().map(|b| object! {
            baseline: object! { source: &b.source, trials: trials(&b.trials), },
        }),
        trials: trials(&document.trials),
    };
    let failed = |e: serde_json::Error| {
        if e.is_io() { SchemaError::Io(e.into()) } else { SchemaError::Write(e.to_string()) }
    };
    // serde_json writes every token by itself.
    let mut out = BufWriter::new(out);
    serde_json::to_writer_pretty(&mut out, &doc).map_err(failed)?;
    out.write_all(b"\n").and_then(|()| out.flush()).map_err(SchemaError::Io)
}

fn trials(trials: &[Trial]) -> impl Serialize {
    let alone = iops_alone(trials);
    Each { items: trials, shape: move |t| trial(t, alone) }
}

fn trial(trial: &Trial, iops_alone: Option<f64>) -> impl Serialize {
    object! {
        setting: &trial.setting,
        round: trial.round,
        phases: Each { items: &trial.phases, shape: move |p| phase(p, iops_alone) },
    }
}

fn phase(phase: &Phase, iops_alone: Option<f64>) -> impl Serialize {
    object! {
        name: phase.kind,
        start_s: phase.start_s,
        seconds: phase.seconds,
        cut_short: &phase.cut_short,
        victim: phase.kind.has_victim().then(|| victim(phase, iops_alone)),
        flood: phase.kind.has_flood().then(|| object! {
            bytes: phase.flood_bytes(),
            bytes_per_s: phase.flood_bytes_per_s(),
        }),
        burst: phase.burst.map(|totals| object! {
            #[serde(flatten)]
            totals: totals,
            bytes_per_s: totals.bytes_per_s(),
        }),
        device: device(phase),
        warmup: &phase.warmup,
        victims: loads(&phase.victims, phase.seconds),
        floods: loads(&phase.floods, phase.seconds),
        overrun: &phase.overrun,
        intervals: &phase.intervals,
    }
}

/// All victims of a phase together.
fn victim(phase: &Phase, iops_alone: Option<f64>) -> impl Serialize {
    let windows = windows(phase);
    let stalls = iops_alone.map(|alone| assess(&windows, alone));
    let bytes = phase.intervals.iter().map(|i| i.victim_bytes).sum();
    object! {
        ops: phase.victim_ops(),
        iops: phase.victim_iops(),
        bytes: bytes,
        bytes_per_s: per_second(bytes, phase.seconds),
        #[serde(flatten)]
        latencies: ByOperation::of(&phase.latencies()),
        worst_second_iops: worst(&windows).map(|w| w.iops()),
        dead_seconds: stalls.as_ref().map(|s| s.dead_seconds),
        stalls: stalls.map(|s| s.stalls),
    }
}

/// The device's counters over a phase; `None` if any interval lacks them.
fn device(phase: &Phase) -> Option<impl Serialize> {
    let samples: Vec<DeviceSample> =
        phase.intervals.iter().map(|i| i.host.device).collect::<Option<_>>()?;
    if samples.is_empty() {
        return None;
    }
    let seconds: f64 = phase.intervals.iter().map(|i| i.seconds).sum();
    let sum = |of: fn(&DeviceSample) -> u64| samples.iter().map(of).sum::<u64>();
    let per_ms = |total: u64| total as f64 / (seconds * 1e3).max(1e-9);
    Some(object! {
        read_ops: sum(|s| s.read_ops),
        read_bytes: sum(|s| s.read_bytes),
        write_ops: sum(|s| s.write_ops),
        written_bytes: sum(|s| s.written_bytes),
        flush_ops: samples.iter().map(|s| s.flush_ops).sum::<Option<u64>>(),
        utilisation_percent: 100.0 * per_ms(sum(|s| s.busy_ms)),
        mean_queue_requests: per_ms(sum(|s| s.weighted_ms)),
    })
}

fn loads(loads: &[LoadTotals], seconds: f64) -> impl Serialize {
    Each { items: loads, shape: move |l| load(l, seconds) }
}

fn load(load: &LoadTotals, seconds: f64) -> impl Serialize {
    object! {
        name: &load.name,
        ops: load.ops,
        bytes: load.bytes,
        iops: per_second(load.ops, seconds),
        bytes_per_s: per_second(load.bytes, seconds),
        unserved_ops: load.unserved_ops,
        command_runs: load.command_runs,
        cpu_us: load.cpu_us,
        ops_with_warmup: load.ops_with_warmup,
        #[serde(flatten)]
        percentiles: ByOperation::of(&load.latencies),
        #[serde(flatten)]
        latencies: &load.latencies,
    }
}

fn per_second(amount: u64, seconds: f64) -> f64 {
    amount as f64 / seconds.max(1e-9)
}

/// The document as it is stored.
#[derive(Deserialize)]
struct Stored {
    #[serde(flatten)]
    run: Run,
    scenario: Value,
    summary: Summary,
    recommended: Option<Recommended>,
    frontier: Option<Vec<usize>>,
    contenders: Option<Vec<Contender>>,
    baseline: Option<Baseline>,
    trials: Vec<Trial>,
}

fn read(json: &str) -> Result<Document, SchemaError> {
    /// The one field that says whether the others can be understood.
    #[derive(Deserialize)]
    struct Named {
        schema: Option<Value>,
    }
    // An empty file was cut.
    if json.trim_start().chars().next().is_some_and(|first| first != '{') {
        return Err(SchemaError::NotAResult);
    }
    let named: Named = serde_json::from_str(json).map_err(SchemaError::of_json)?;
    match named.schema {
        None => return Err(SchemaError::NotAResult),
        Some(Value::String(schema)) if schema == SCHEMA => {}
        Some(Value::String(found)) => return Err(SchemaError::OtherSchema { found }),
        Some(other) => return Err(SchemaError::OtherSchema { found: other.to_string() }),
    }
    let stored: Stored = serde_json::from_str(json).map_err(SchemaError::of_json)?;
    let Stored { run, scenario, summary, recommended, frontier, contenders, baseline, trials } =
        stored;
    let frontier = frontier.unwrap_or_default();
    let contest = contenders.map(|contenders| Contest { contenders, frontier, recommended });
    if let Some(contest) = &contest {
        check_indices(contest, trials.len())?;
    }
    Ok(Document { run, scenario, trials, baseline, summary, contest })
}

/// Refuses a contest that names trials or contenders that the result does not have.
fn check_indices(contest: &Contest, trials: usize) -> Result<(), SchemaError> {
    let broken = |place: String| Err(SchemaError::Index { place });
    for (i, contender) in contest.contenders.iter().enumerate() {
        let named =
            contender.trials.iter().chain(&contender.final_trials).chain(&contender.disturbed);
        if let Some(trial) = named.copied().find(|t| *t >= trials) {
            return broken(format!("contenders[{i}] names trial {trial} of {trials}"));
        }
    }
    let contenders = contest.contenders.len();
    let recommended = contest.recommended.as_ref().and_then(|r| r.contender);
    match contest.frontier.iter().copied().chain(recommended).find(|c| *c >= contenders) {
        Some(contender) => broken(format!("contender {contender} of {contenders} is named")),
        None => Ok(()),
    }
}
