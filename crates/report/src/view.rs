//! What a result shows people, as words and cells: the common part of [`crate::text`] and
//! [`crate::markdown`].
//!
//! ```text
//! Document ─▶ View { facts, table, figures, notes, verdict } ─▶ text | Markdown
//! ```

use floodwall_model::units::{Bytes, Rate, human_duration};
use floodwall_model::{PhaseKind, Setting};
use floodwall_stats::estimate::Estimate;
use floodwall_stats::figures::{PhaseFigures, Summary};
use floodwall_stats::quantiles::Percentiles;
use std::time::Duration;

use crate::numbers::{UNKNOWN, count, duration_us, interval, percent, whole};
use crate::schema::{Document, ResultDevice, RunStatus, SIMULATED};
use crate::verdict::{Words, verdict};

/// What a result shows.
pub(crate) struct View {
    /// Name and description of the scenario.
    pub(crate) title: String,
    /// Label and text: machine, device, setting, run.
    pub(crate) facts: Vec<(&'static str, String)>,
    /// Names of the phases that were measured.
    pub(crate) columns: Vec<&'static str>,
    /// Label, and one cell for each column.
    pub(crate) rows: Vec<(String, Vec<String>)>,
    /// The four figures.
    pub(crate) figures: Vec<FigureLine>,
    /// What the reader should know before believing the figures.
    pub(crate) notes: Vec<String>,
    /// One sentence.
    pub(crate) verdict: String,
}

/// One figure.
pub(crate) struct FigureLine {
    /// Its name in the result.
    pub(crate) name: &'static str,
    /// Its value, with unit.
    pub(crate) value: String,
    /// Its 95 % interval, without unit; empty without an interval.
    pub(crate) interval: String,
    /// The meaning of the figure, or the reason why it is unknown.
    pub(crate) meaning: String,
}

impl FigureLine {
    /// What people call it.
    pub(crate) fn label(&self) -> &'static str {
        if self.name == "dead_seconds" { "stalled seconds" } else { self.name }
    }
}

impl View {
    pub(crate) fn of(document: &Document) -> Self {
        let s = &document.summary;
        let phases = [
            ("victim alone", PhaseKind::Victim, &s.victim),
            ("flood alone", PhaseKind::Flood, &s.flood),
            ("both", PhaseKind::Both, &s.both),
        ];
        let measured: Vec<_> =
            phases.iter().filter_map(|(name, kind, f)| Some((*name, *kind, f.as_ref()?))).collect();
        Self {
            title: title(document),
            facts: facts(document),
            columns: measured.iter().map(|(name, ..)| *name).collect(),
            rows: rows(document, &measured),
            figures: figures(s),
            notes: notes(document),
            verdict: verdict(document).sentence,
        }
    }
}

pub(crate) fn title(document: &Document) -> String {
    let text = |key: &str| document.scenario.get(key).and_then(|v| v.as_str()).unwrap_or_default();
    match (text("name"), text("description")) {
        (name, "") => name.to_owned(),
        (name, description) => format!("{name}: {description}"),
    }
}

pub(crate) fn facts(document: &Document) -> Vec<(&'static str, String)> {
    let run = &document.run;
    let host = &run.host;
    let machine = [
        host.kernel.as_ref().map(|k| format!("Linux {k}")),
        host.cpus.map(|n| format!("{n} CPU{}", if n == 1 { "" } else { "s" })),
        host.ram_bytes.map(|b| format!("{} RAM", Bytes(b))),
        host.distribution.clone(),
        host.virtualisation.clone(),
    ];
    let device = run.device.as_ref().map(device_text);
    let filesystem = run.filesystem.as_ref().map(|f| match f.path.as_str() {
        "" => f.kind.clone(),
        path => format!("{} on {path}", f.kind),
    });
    let mut facts = vec![
        ("machine", joined(machine)),
        ("device", joined([device, filesystem])),
        ("setting", setting_text(&document.setting())),
        ("run", run_text(document)),
    ];
    if let Some(baseline) = &document.baseline {
        let setting = baseline.trials.first().map(|t| setting_text(&t.setting)).unwrap_or_default();
        facts.push(("baseline", joined([Some(baseline.source.clone()), Some(setting)])));
    }
    facts.retain(|(_, text)| !text.is_empty());
    facts
}

fn joined(parts: impl IntoIterator<Item = Option<String>>) -> String {
    parts.into_iter().flatten().filter(|p| !p.is_empty()).collect::<Vec<_>>().join(", ")
}

fn device_text(device: &ResultDevice) -> String {
    let about = joined([
        device.model.clone(),
        device.size_bytes.map(|b| Bytes(b).to_string()),
        device.rotational.map(|r| if r { "seeks" } else { "does not seek" }.to_owned()),
    ]);
    let below: Vec<String> = device.leaves.iter().map(device_text).collect();
    let over =
        if below.is_empty() { String::new() } else { format!(" over {}", below.join(" and ")) };
    if about.is_empty() {
        format!("{}{over}", device.name)
    } else {
        format!("{} ({about}){over}", device.name)
    }
}

/// The knobs that decide how writeback goes, in words; all of them are in the JSON.
fn setting_text(setting: &Setting) -> String {
    // The kernel zeroes the unused one of each pair; with both 0 the byte limit was written last.
    let limit = |ratio: &str, bytes: &str| match (setting.get(ratio), setting.get(bytes)) {
        (Some(r), _) if r != "0" => Some(format!("{r} %")),
        (_, Some(b)) => Some(b.parse().map_or_else(|_| b.to_owned(), |n| Bytes(n).to_string())),
        (r, None) => r.map(|r| format!("{r} %")),
    };
    let wbt = |us: &str| match us.parse::<u64>() {
        Ok(0) => "wbt off".to_owned(),
        Ok(us) => format!("wbt {} ms", count(us as f64 / 1e3)),
        Err(_) => format!("wbt {us}"),
    };
    joined([
        limit("vm.dirty_ratio", "vm.dirty_bytes").map(|l| format!("dirty limit {l}")),
        limit("vm.dirty_background_ratio", "vm.dirty_background_bytes")
            .map(|l| format!("background {l}")),
        setting.get("scheduler").map(|s| format!("I/O scheduler {s}")),
        setting.get("nr_requests").map(|n| format!("nr_requests {n}")),
        setting.get("wbt_lat_usec").map(wbt),
    ])
}

fn run_text(document: &Document) -> String {
    let rounds = document.summary.rounds;
    let measured =
        document.trials.iter().flat_map(|t| &t.phases).find(|p| p.kind != PhaseKind::Burst);
    let seconds =
        |s: f64| human_duration(Duration::try_from_secs_f64(s.round()).unwrap_or_default());
    let state = match &document.run.status {
        RunStatus::Complete => String::new(),
        RunStatus::Partial { why } => format!("partial: {why}"),
    };
    joined([
        Some(format!("{rounds} round{}", if rounds == 1 { "" } else { "s" })),
        measured.map(|p| format!("{:.0} s a phase", p.seconds)),
        Some(format!("{} in all", seconds(document.run.seconds))),
        Some(state),
    ])
}

fn rows(
    document: &Document,
    phases: &[(&str, PhaseKind, &PhaseFigures)],
) -> Vec<(String, Vec<String>)> {
    let row = |label: &str, cell: &dyn Fn(PhaseKind, &PhaseFigures) -> Option<String>| {
        let cells =
            phases.iter().map(|(_, kind, f)| cell(*kind, f).unwrap_or_else(|| UNKNOWN.into()));
        (label.to_owned(), cells.collect::<Vec<_>>())
    };
    let latency = |of: fn(&Percentiles) -> Option<f64>| {
        move |_: PhaseKind, f: &PhaseFigures| f.operation_us.as_ref().and_then(of).map(duration_us)
    };
    let operations = format!("{}/s", Words::of(&document.scenario).operations);
    let rows = [
        row(&operations, &|_, f| f.iops.map(count)),
        row("p50", &latency(|l| l.p50)),
        row("p99", &latency(|l| l.p99)),
        row("p99.9", &latency(|l| l.p999)),
        row("max", &latency(|l| Some(l.max))),
        row("worst second", &|_, f| f.worst_second_iops.map(|i| format!("{}/s", count(i)))),
        row("stalled seconds", &|kind, f| {
            let of = if kind == PhaseKind::Both {
                document.summary.of_seconds
            } else {
                f.seconds.round() as u64
            };
            f.dead_seconds.map(|d| format!("{} of {}", whole(d), whole(of)))
        }),
        row("longest stall", &|kind, f| {
            let least = if fills_phase(document, kind, f) { "≥ " } else { "" };
            f.longest_stall_s.map(|s| format!("{least}{} s", whole(s)))
        }),
        row("flood", &|_, f| f.flood_bytes_per_s.map(|r| Rate(r).to_string())),
    ];
    // A row in which no phase has anything (latencies of a command, a flood that did not run) says
    // nothing.
    rows.into_iter().filter(|(_, cells)| cells.iter().any(|c| c != UNKNOWN)).collect()
}

/// Whether the longest stall of a kind of phase is as long as the phase.
fn fills_phase(document: &Document, kind: PhaseKind, f: &PhaseFigures) -> bool {
    let phases = document.trials.iter().flat_map(|t| &t.phases).filter(|p| p.kind == kind);
    let longest = phases.map(|p| p.seconds.round() as u64).max().unwrap_or(0);
    longest > 0 && f.longest_stall_s.is_some_and(|s| s >= longest)
}

fn figures(s: &Summary) -> Vec<FigureLine> {
    let baseline = s.reference == "baseline";
    let rate = s.burst_bytes_per_s.map_or_else(|| UNKNOWN.into(), |r| Rate(r).to_string());
    let flood =
        if baseline { "of its speed alone under the baseline" } else { "of its speed alone" };
    let as_percent = |e: &Estimate| (format!("{} %", percent(e.value)), interval(e, percent));
    let as_seconds = |e: &Estimate| (format!("{} s", count(e.value)), interval(e, count));
    let line = |name: &'static str,
                estimate: &Option<Estimate>,
                shown: &dyn Fn(&Estimate) -> (String, String),
                meaning: String| {
        let why = s.unknown.iter().find(|u| u.figure == name).map(|u| u.why.clone());
        match estimate {
            None => FigureLine {
                name,
                value: UNKNOWN.into(),
                interval: String::new(),
                meaning: why.unwrap_or_default(),
            },
            Some(e) => {
                let (value, interval) = shown(e);
                FigureLine { name, value, interval, meaning }
            }
        }
    };
    // Without a baseline it is 100 % of itself, which says nothing.
    let burst = match (s.burst_kept, baseline) {
        (Some(_), false) => FigureLine {
            name: "burst_kept",
            value: UNKNOWN.into(),
            interval: String::new(),
            meaning: format!("no baseline to compare with; it ran at {rate}"),
        },
        (kept, _) => line(
            "burst_kept",
            &kept,
            &as_percent,
            format!("of a burst under the baseline, now {rate}"),
        ),
    };
    vec![
        line("victim_kept", &s.victim_kept, &as_percent, "of its speed alone".into()),
        line("flood_kept", &s.flood_kept, &as_percent, flood.into()),
        burst,
        line(
            "dead_seconds",
            &s.dead_seconds,
            &as_seconds,
            format!("of {} s beside the flood", whole(s.of_seconds)),
        ),
    ]
}

pub(crate) fn notes(document: &Document) -> Vec<String> {
    let mut notes: Vec<String> = document.run.warnings.clone();
    let s = &document.summary;
    if [s.victim_kept, s.flood_kept, s.dead_seconds].iter().flatten().any(|e| e.ends().is_none()) {
        notes.push(
            "one round does not tell how much rounds differ: no intervals; run two or more".into(),
        );
    }
    let kinds = [(PhaseKind::Victim, &s.victim), (PhaseKind::Both, &s.both)];
    let filled =
        |(kind, f): &(_, &Option<_>)| f.as_ref().is_some_and(|f| fills_phase(document, *kind, f));
    if kinds.iter().any(filled) {
        notes.push(
            "≥: this stall fills its phase, so it may last longer than was measured (--measure)"
                .into(),
        );
    }
    let phases = || document.trials.iter().flat_map(|t| t.phases.iter().map(move |p| (t.round, p)));
    for (round, phase) in phases() {
        let name = phase.kind.name();
        if let Some(why) = &phase.cut_short {
            notes.push(format!("round {round}, phase {name} was cut short: {why}"));
        }
    }
    let unsteady: Vec<_> = phases().filter(|(_, p)| p.warmup.steady == Some(false)).collect();
    if let Some((round, first)) = unsteady.first() {
        let name = first.kind.name();
        notes.push(format!(
            "{} of {} phases began before the load was steady; the first was round {round}, phase \
             {name}: {}",
            unsteady.len(),
            phases().filter(|(_, p)| p.warmup.steady.is_some()).count(),
            first.warmup.verdict
        ));
    }
    let unserved: u64 = phases().flat_map(|(_, p)| &p.victims).map(|v| v.unserved_ops).sum();
    if unserved > 0 {
        notes.push(format!("{} operations fell due and never got a turn", whole(unserved)));
    }
    let missing = document.run.missing.iter().filter(|m| m.why != SIMULATED);
    let what: Vec<&str> = missing.map(|m| m.what.as_str()).collect();
    if !what.is_empty() {
        notes.push(format!("not measured: {} (the reasons are in the JSON)", what.join(", ")));
    }
    notes
}
