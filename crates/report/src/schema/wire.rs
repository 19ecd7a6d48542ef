//! The JSON shape of a result, and the way there and back.
//!
//! ```text
//! Document ── write: encode histograms, add derived values ─▶ ResultDoc ─ serde ─▶ JSON
//! Document ◀─ read:  decode histograms, drop derived values ─ ResultDoc ◀ serde ── JSON
//! ```
//!
//! Writing takes the memory of one interval: lists are [`Each`], which turns an element into its
//! JSON shape when it is due. Reading makes the same types with plain vectors.
//!
//! Derived values (rates, percentiles, dead seconds) are written for readers of the JSON and are
//! not read back: they follow from the raw data beside them.

use std::io::{self, BufWriter, Write};

use floodwall_model::hdr::{CodecError, decode, encode};
use floodwall_model::trial::{
    BurstTotals, DeviceSample, HostSample, Interval, LoadTotals, OpLatencies, Phase, PhaseKind, Trial, Warmup,
};
use floodwall_model::{LatencyCounts, Setting};
use floodwall_stats::figures::{Summary, iops_alone};
use floodwall_stats::quantiles::Percentiles;
use floodwall_stats::stalls::{Stall, assess, windows, worst};
use serde::ser::{Error, SerializeSeq};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::contest::{Contender, Contest, Recommended};
use super::{Baseline, Document, Run, SCHEMA, SchemaError};

/// The document, in the order of its fields. `T` is a list of trials.
#[derive(Serialize, Deserialize)]
struct ResultDoc<T> {
    schema: String,
    #[serde(flatten)]
    run: Run,
    scenario: Value,
    summary: Summary,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recommended: Option<Recommended>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    frontier: Option<Vec<usize>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    contenders: Option<Vec<Contender>>,
    /// Derived: how many trials there are.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    trials_run: Option<usize>,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    baseline: Option<BaselineDoc<T>>,
    trials: T,
}

/// `None`, without asking that `T` has a default.
fn none<T>() -> Option<T> {
    None
}

#[derive(Serialize, Deserialize)]
struct BaselineDoc<T> {
    source: String,
    trials: T,
}

/// `P` is a list of phases.
#[derive(Serialize, Deserialize)]
struct TrialDoc<P> {
    setting: Setting,
    round: u32,
    phases: P,
}

/// What reading makes of the lists.
type TrialsRead = Vec<TrialDoc<Vec<PhaseDoc<Vec<IntervalDoc>>>>>;

/// A list whose elements take their JSON shape one by one, while it is written.
struct Each<'a, T, F> {
    items: &'a [T],
    shape: F,
}

impl<'a, T, D, F> Serialize for Each<'a, T, F>
where
    D: Serialize,
    F: Fn(&'a T) -> Result<D, CodecError>,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(Some(self.items.len()))?;
        for item in self.items {
            seq.serialize_element(&(self.shape)(item).map_err(S::Error::custom)?)?;
        }
        seq.end()
    }
}

/// `I` is a list of intervals.
#[derive(Serialize, Deserialize)]
struct PhaseDoc<I> {
    name: PhaseKind,
    #[serde(default)]
    start_s: f64,
    seconds: f64,
    #[serde(default)]
    cut_short: Option<String>,
    #[serde(skip_deserializing)]
    victim: Option<VictimDoc>,
    #[serde(skip_deserializing)]
    flood: Option<FloodDoc>,
    #[serde(default)]
    burst: Option<BurstDoc>,
    #[serde(skip_deserializing)]
    device: Option<DeviceDoc>,
    #[serde(default)]
    warmup: Warmup,
    #[serde(default)]
    victims: Vec<LoadDoc>,
    #[serde(default)]
    floods: Vec<LoadDoc>,
    #[serde(default)]
    overrun: Histograms,
    intervals: I,
}

/// All victims of a phase together; derived.
#[derive(Serialize)]
struct VictimDoc {
    ops: u64,
    iops: f64,
    bytes: u64,
    bytes_per_s: f64,
    #[serde(flatten)]
    latencies: LatencyDoc,
    worst_second_iops: Option<f64>,
    dead_seconds: Option<u64>,
    stalls: Option<Vec<Stall>>,
}

/// Percentiles by kind of operation, in microseconds; derived. `null`: none was timed.
#[derive(Serialize, Default)]
struct LatencyDoc {
    commit_us: Option<Percentiles>,
    write_us: Option<Percentiles>,
    sync_us: Option<Percentiles>,
    read_us: Option<Percentiles>,
}

/// All floods of a phase together; derived.
#[derive(Serialize)]
struct FloodDoc {
    bytes: u64,
    bytes_per_s: f64,
}

#[derive(Serialize, Deserialize)]
struct BurstDoc {
    #[serde(flatten)]
    totals: BurstTotals,
    #[serde(skip_deserializing)]
    bytes_per_s: f64,
}

/// The device's counters over a phase; derived. `null` if any interval lacks them.
#[derive(Serialize)]
struct DeviceDoc {
    read_ops: u64,
    read_bytes: u64,
    write_ops: u64,
    written_bytes: u64,
    flush_ops: Option<u64>,
    utilisation_percent: f64,
    mean_queue_requests: f64,
}

#[derive(Serialize, Deserialize)]
struct IntervalDoc {
    start_s: f64,
    seconds: f64,
    victim: IntervalVictimDoc,
    flood: IntervalFloodDoc,
    #[serde(default)]
    host: HostSample,
}

#[derive(Serialize, Deserialize)]
struct IntervalVictimDoc {
    #[serde(skip_deserializing)]
    ops: u64,
    /// Second by second; one entry unless intervals were merged.
    second_ops: Vec<u32>,
    #[serde(default)]
    bytes: u64,
    #[serde(flatten)]
    histograms: Histograms,
}

#[derive(Serialize, Deserialize)]
struct IntervalFloodDoc {
    bytes: u64,
}

#[derive(Serialize, Deserialize)]
struct LoadDoc {
    name: String,
    ops: u64,
    bytes: u64,
    #[serde(skip_deserializing)]
    iops: f64,
    #[serde(skip_deserializing)]
    bytes_per_s: f64,
    #[serde(default)]
    unserved_ops: u64,
    #[serde(default)]
    command_runs: Option<u64>,
    #[serde(default)]
    cpu_us: Option<u64>,
    #[serde(default)]
    ops_with_warmup: u64,
    #[serde(flatten, skip_deserializing)]
    latencies: LatencyDoc,
    #[serde(flatten)]
    histograms: Histograms,
}

/// Histograms by kind of operation: V2 base64, and what that form does not keep. Left out when
/// nothing was counted.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Histograms {
    #[serde(skip_serializing_if = "Option::is_none")]
    commit_hdr: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit_sum_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit_max_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_hdr: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_sum_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_max_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sync_hdr: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sync_sum_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sync_max_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_hdr: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_sum_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_max_ns: Option<u64>,
}

pub(super) fn write(document: &Document, out: &mut (impl io::Write + ?Sized)) -> Result<(), SchemaError> {
    let doc = ResultDoc {
        schema: SCHEMA.into(),
        run: document.run.clone(),
        scenario: document.scenario.clone(),
        summary: document.summary.clone(),
        recommended: document.contest.as_ref().and_then(|c| c.recommended.clone()),
        frontier: document.contest.as_ref().map(|c| c.frontier.clone()),
        contenders: document.contest.as_ref().map(|c| c.contenders.clone()),
        trials_run: document.contest.as_ref().map(|_| document.trials.len()),
        baseline: document
            .baseline
            .as_ref()
            .map(|b| BaselineDoc { source: b.source.clone(), trials: trials_doc(&b.trials) }),
        trials: trials_doc(&document.trials),
    };
    let failed = |e: serde_json::Error| {
        if e.is_io() { SchemaError::Io(e.into()) } else { SchemaError::Write(e.to_string()) }
    };
    // serde_json writes every token by itself.
    let mut out = BufWriter::new(out);
    serde_json::to_writer_pretty(&mut out, &doc).map_err(failed)?;
    out.write_all(b"\n").and_then(|()| out.flush()).map_err(SchemaError::Io)
}

pub(super) fn read(json: &str) -> Result<Document, SchemaError> {
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
    document(serde_json::from_str(json).map_err(SchemaError::of_json)?)
}

/// The document as read, with its histograms decoded and its indices checked.
fn document(doc: ResultDoc<TrialsRead>) -> Result<Document, SchemaError> {
    let baseline = doc.baseline.map(|b| {
        Ok::<_, SchemaError>(Baseline { source: b.source, trials: trials(&b.trials, "baseline.trials")? })
    });
    let trials = trials(&doc.trials, "trials")?;
    let contest = match doc.contenders {
        None => None,
        Some(contenders) => {
            let frontier = doc.frontier.unwrap_or_default();
            let contest = Contest { contenders, frontier, recommended: doc.recommended };
            check_indices(&contest, trials.len())?;
            Some(contest)
        }
    };
    Ok(Document {
        run: doc.run,
        scenario: doc.scenario,
        summary: doc.summary,
        baseline: baseline.transpose()?,
        trials,
        contest,
    })
}

/// Refuses a contest that names trials or contenders that the result does not have.
fn check_indices(contest: &Contest, trials: usize) -> Result<(), SchemaError> {
    let broken = |place: String| Err(SchemaError::Index { place });
    for (i, contender) in contest.contenders.iter().enumerate() {
        let named = contender.trials.iter().chain(&contender.final_trials).chain(&contender.disturbed);
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

fn trials_doc(trials: &[Trial]) -> impl Serialize {
    let alone = iops_alone(trials);
    let shape = move |t| Ok(trial_doc(t, alone));
    Each { items: trials, shape }
}

fn trial_doc(trial: &Trial, iops_alone: Option<f64>) -> TrialDoc<impl Serialize> {
    let phases = Each { items: &trial.phases, shape: move |p| phase_doc(p, iops_alone) };
    TrialDoc { setting: trial.setting.clone(), round: trial.round, phases }
}

fn phase_doc(phase: &Phase, iops_alone: Option<f64>) -> Result<PhaseDoc<impl Serialize>, CodecError> {
    let loads =
        |loads: &[LoadTotals]| loads.iter().map(|l| load_doc(l, phase.seconds)).collect::<Result<_, _>>();
    Ok(PhaseDoc {
        name: phase.kind,
        start_s: phase.start_s,
        seconds: phase.seconds,
        cut_short: phase.cut_short.clone(),
        victim: phase.kind.has_victim().then(|| victim_doc(phase, iops_alone)),
        flood: phase
            .kind
            .has_flood()
            .then(|| FloodDoc { bytes: phase.flood_bytes(), bytes_per_s: phase.flood_bytes_per_s() }),
        burst: phase.burst.map(|totals| BurstDoc { bytes_per_s: totals.bytes_per_s(), totals }),
        device: device_doc(phase),
        warmup: phase.warmup.clone(),
        victims: loads(&phase.victims)?,
        floods: loads(&phase.floods)?,
        overrun: histograms(&phase.overrun)?,
        intervals: Each { items: &phase.intervals, shape: interval_doc },
    })
}

fn victim_doc(phase: &Phase, iops_alone: Option<f64>) -> VictimDoc {
    let windows = windows(phase);
    let stalls = iops_alone.map(|alone| assess(&windows, alone));
    let bytes = phase.intervals.iter().map(|i| i.victim_bytes).sum();
    VictimDoc {
        ops: phase.victim_ops(),
        iops: phase.victim_iops(),
        bytes,
        bytes_per_s: per_second(bytes, phase.seconds),
        latencies: latency_doc(&phase.latencies()),
        worst_second_iops: worst(&windows).map(|w| w.iops()),
        dead_seconds: stalls.as_ref().map(|s| s.dead_seconds),
        stalls: stalls.map(|s| s.stalls),
    }
}

fn latency_doc(l: &OpLatencies) -> LatencyDoc {
    LatencyDoc {
        commit_us: Percentiles::of(&l.commit),
        write_us: Percentiles::of(&l.write),
        sync_us: Percentiles::of(&l.sync),
        read_us: Percentiles::of(&l.read),
    }
}

fn device_doc(phase: &Phase) -> Option<DeviceDoc> {
    let samples: Vec<DeviceSample> = phase.intervals.iter().map(|i| i.host.device).collect::<Option<_>>()?;
    if samples.is_empty() {
        return None;
    }
    let seconds: f64 = phase.intervals.iter().map(|i| i.seconds).sum();
    let sum = |of: fn(&DeviceSample) -> u64| samples.iter().map(of).sum::<u64>();
    let per_ms = |total: u64| total as f64 / (seconds * 1e3).max(1e-9);
    Some(DeviceDoc {
        read_ops: sum(|s| s.read_ops),
        read_bytes: sum(|s| s.read_bytes),
        write_ops: sum(|s| s.write_ops),
        written_bytes: sum(|s| s.written_bytes),
        flush_ops: samples.iter().map(|s| s.flush_ops).sum(),
        utilisation_percent: 100.0 * per_ms(sum(|s| s.busy_ms)),
        mean_queue_requests: per_ms(sum(|s| s.weighted_ms)),
    })
}

fn load_doc(load: &LoadTotals, seconds: f64) -> Result<LoadDoc, CodecError> {
    Ok(LoadDoc {
        name: load.name.clone(),
        ops: load.ops,
        bytes: load.bytes,
        iops: per_second(load.ops, seconds),
        bytes_per_s: per_second(load.bytes, seconds),
        unserved_ops: load.unserved_ops,
        command_runs: load.command_runs,
        cpu_us: load.cpu_us,
        ops_with_warmup: load.ops_with_warmup,
        latencies: latency_doc(&load.latencies),
        histograms: histograms(&load.latencies)?,
    })
}

fn per_second(amount: u64, seconds: f64) -> f64 {
    amount as f64 / seconds.max(1e-9)
}

fn interval_doc(interval: &Interval) -> Result<IntervalDoc, CodecError> {
    Ok(IntervalDoc {
        start_s: interval.start_s,
        seconds: interval.seconds,
        victim: IntervalVictimDoc {
            ops: interval.victim_ops.iter().copied().map(u64::from).sum(),
            second_ops: interval.victim_ops.clone(),
            bytes: interval.victim_bytes,
            histograms: histograms(&interval.latencies)?,
        },
        flood: IntervalFloodDoc { bytes: interval.flood_bytes },
        host: interval.host.clone(),
    })
}

fn histograms(l: &OpLatencies) -> Result<Histograms, CodecError> {
    let encoded = |c: &LatencyCounts| if c.is_empty() { Ok(None) } else { encode(c).map(Some) };
    let sum = |c: &LatencyCounts| (!c.is_empty()).then(|| c.sum_ns());
    let max = |c: &LatencyCounts| (!c.is_empty()).then(|| c.max_ns());
    Ok(Histograms {
        commit_hdr: encoded(&l.commit)?,
        commit_sum_ns: sum(&l.commit),
        commit_max_ns: max(&l.commit),
        write_hdr: encoded(&l.write)?,
        write_sum_ns: sum(&l.write),
        write_max_ns: max(&l.write),
        sync_hdr: encoded(&l.sync)?,
        sync_sum_ns: sum(&l.sync),
        sync_max_ns: max(&l.sync),
        read_hdr: encoded(&l.read)?,
        read_sum_ns: sum(&l.read),
        read_max_ns: max(&l.read),
    })
}

fn trials(docs: &TrialsRead, place: &str) -> Result<Vec<Trial>, SchemaError> {
    let one = |(t, doc): (usize, &TrialDoc<Vec<PhaseDoc<Vec<IntervalDoc>>>>)| {
        let phases = doc
            .phases
            .iter()
            .enumerate()
            .map(|(p, phase)| read_phase(phase, &format!("{place}[{t}].phases[{p}]")))
            .collect::<Result<_, _>>()?;
        Ok(Trial { setting: doc.setting.clone(), round: doc.round, phases })
    };
    docs.iter().enumerate().map(one).collect()
}

fn read_phase(doc: &PhaseDoc<Vec<IntervalDoc>>, place: &str) -> Result<Phase, SchemaError> {
    let loads = |docs: &[LoadDoc], what: &str| {
        docs.iter()
            .enumerate()
            .map(|(i, l)| read_load(l, &format!("{place}.{what}[{i}]")))
            .collect::<Result<_, _>>()
    };
    let intervals = doc
        .intervals
        .iter()
        .enumerate()
        .map(|(i, interval)| read_interval(interval, &format!("{place}.intervals[{i}].victim")))
        .collect::<Result<_, _>>()?;
    Ok(Phase {
        kind: doc.name,
        start_s: doc.start_s,
        seconds: doc.seconds,
        warmup: doc.warmup.clone(),
        intervals,
        overrun: latencies(&doc.overrun, &format!("{place}.overrun"))?,
        victims: loads(&doc.victims, "victims")?,
        floods: loads(&doc.floods, "floods")?,
        burst: doc.burst.as_ref().map(|b| b.totals),
        cut_short: doc.cut_short.clone(),
    })
}

fn read_load(doc: &LoadDoc, place: &str) -> Result<LoadTotals, SchemaError> {
    Ok(LoadTotals {
        name: doc.name.clone(),
        ops: doc.ops,
        bytes: doc.bytes,
        latencies: latencies(&doc.histograms, place)?,
        unserved_ops: doc.unserved_ops,
        command_runs: doc.command_runs,
        cpu_us: doc.cpu_us,
        ops_with_warmup: doc.ops_with_warmup,
    })
}

fn read_interval(doc: &IntervalDoc, place: &str) -> Result<Interval, SchemaError> {
    Ok(Interval {
        start_s: doc.start_s,
        seconds: doc.seconds,
        victim_ops: doc.victim.second_ops.clone(),
        latencies: latencies(&doc.victim.histograms, place)?,
        victim_bytes: doc.victim.bytes,
        flood_bytes: doc.flood.bytes,
        host: doc.host.clone(),
    })
}

fn latencies(h: &Histograms, place: &str) -> Result<OpLatencies, SchemaError> {
    let one = |name: &str, text: &Option<String>, sum: Option<u64>, max: Option<u64>| match text {
        None => Ok(LatencyCounts::default()),
        Some(text) => decode(text, sum.unwrap_or(0), max.unwrap_or(0))
            .map_err(|source| SchemaError::Histogram { place: format!("{place}.{name}_hdr"), source }),
    };
    Ok(OpLatencies {
        commit: one("commit", &h.commit_hdr, h.commit_sum_ns, h.commit_max_ns)?,
        write: one("write", &h.write_hdr, h.write_sum_ns, h.write_max_ns)?,
        sync: one("sync", &h.sync_hdr, h.sync_sum_ns, h.sync_max_ns)?,
        read: one("read", &h.read_hdr, h.read_sum_ns, h.read_max_ns)?,
    })
}
