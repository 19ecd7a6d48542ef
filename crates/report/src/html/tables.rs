//! The tables of a result: settings, phases, trials.

use std::fmt::Write;

use floodwall_model::PhaseKind;
use floodwall_model::units::Rate;
use floodwall_stats::estimate::Estimate;
use floodwall_stats::quantiles::Percentiles;
use floodwall_stats::versus::{Compared, Figure, Verdict};

use super::markup::escaped;
use super::table::{Cell, table};
use crate::contest::sentence;
use crate::numbers::{burst_kept, count, duration_us, interval, percent, whole};
use crate::study::{Role, Study, Subject};
use crate::told;
use crate::view::View;

/// A share with its interval.
fn share(estimate: Option<&Estimate>) -> Cell {
    let text = estimate.map(|e| format!("{} %", percent(e.value)));
    let small = estimate.map_or_else(String::new, |e| interval(e, percent));
    Cell { small, ..Cell::number(text, estimate.map(|e| e.value)) }
}

/// Adds the verdict on a figure below the cell's small text.
fn judged(mut cell: Cell, compared: Option<&Compared>) -> Cell {
    let Some(c) = compared.filter(|c| c.verdict != Verdict::Unknown) else { return cell };
    // The multiple belongs to rates and latencies; a share's own interval is there already.
    let factor = if cell.small.is_empty() { told::factor(c) } else { None };
    let parts = [Some(std::mem::take(&mut cell.small)).filter(|s| !s.is_empty()), factor];
    let verdict = Some(told::verdict(c).to_owned());
    cell.small = parts.into_iter().chain([verdict]).flatten().collect::<Vec<_>>().join("; ");
    cell
}

/// The tables of a result.
pub(super) fn tables(out: &mut String, study: &Study<'_>, prefix: &str) {
    if study.subjects.len() > 1 {
        settings(out, study, prefix);
        differences(out, study);
    } else {
        phases(out, study, prefix);
    }
    let _ = writeln!(
        out,
        "<details><summary>Every trial ({})</summary>",
        whole(study.document.trials.len() as u64)
    );
    trials(out, study, prefix);
    out.push_str("</details>\n");
}

fn settings(out: &mut String, study: &Study<'_>, prefix: &str) {
    let operations = format!("{}/s", study.operations());
    let scored = study.subjects.iter().any(|s| s.score.is_some());
    let mut columns = vec![
        "setting",
        operations.as_str(),
        "p99",
        "slowest",
        "seconds stalled",
        "victim keeps",
        "flood keeps",
        "bursts keep",
    ];
    if scored {
        columns.push("score");
    }
    columns.extend(["trials", "frontier"]);
    let mut order: Vec<&Subject> = study.subjects.iter().collect();
    order.sort_by(|a, b| {
        (a.role.min(Role::Frontier), -a.score.unwrap_or(0.0))
            .partial_cmp(&(b.role.min(Role::Frontier), -b.score.unwrap_or(0.0)))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    let rows: Vec<Vec<Cell>> = order.iter().map(|s| setting(study, s, scored)).collect();
    table(
        out,
        &format!("{prefix}settings"),
        "Figures of every setting that count, with 95 % intervals. A heading sorts, a name shows \
         its knobs. A p99 takes 100 operations.",
        &columns,
        &rows,
    );
}

fn setting(study: &Study<'_>, subject: &Subject, scored: bool) -> Vec<Cell> {
    let summary = subject.summary.as_ref();
    let phase = summary.and_then(|s| s.both.as_ref().or(s.victim.as_ref()));
    let iops = phase.and_then(|p| p.iops);
    let p99 = phase.and_then(|p| p.operation_us?.p99);
    let slowest = phase.and_then(|p| Some(p.operation_us?.max));
    let name = match subject.role {
        Role::Reference => format!("{} (reference)", subject.name),
        Role::Answer if study.is_recommended() => format!("{} (recommended)", subject.name),
        Role::Answer => format!("{} (best candidate)", subject.name),
        Role::Frontier | Role::Other => subject.name.clone(),
    };
    let small = match (&subject.failure, &subject.passed_over) {
        (Some(failure), _) => format!("failed: {failure}"),
        (None, Some(why)) => format!("not recommended: {why}"),
        (None, None) => String::new(),
    };
    let more = if subject.setting.is_empty() {
        String::new()
    } else {
        subject.setting.to_string().replace(',', ", ")
    };
    let dead = subject.dead_share();
    let of = |figure| subject.compared(figure);
    let mut cells = vec![
        Cell { small, more, ..Cell::text(name) },
        judged(Cell::number(iops.map(count), iops), of(Figure::VictimIops)),
        judged(Cell::number(p99.map(duration_us), p99), of(Figure::VictimP99Us)),
        judged(Cell::number(slowest.map(duration_us), slowest), of(Figure::VictimSlowestUs)),
        judged(
            Cell::number(dead.map(|d| format!("{} %", percent(d))), dead),
            of(Figure::DeadShare),
        ),
        share(summary.and_then(|s| s.victim_kept.as_ref())),
        judged(share(summary.and_then(|s| s.flood_kept.as_ref())), of(Figure::FloodBytesPerS)),
        match summary.map_or(Ok(None), burst_kept) {
            Ok(kept) => judged(share(kept), of(Figure::BurstBytesPerS)),
            Err(reference) => Cell::number(Some(reference.to_owned()), Some(1.0)),
        },
    ];
    if scored {
        cells.push(Cell::number(subject.score.map(|s| format!("{} %", percent(s))), subject.score));
    }
    let disturbed = subject.disturbed.len();
    let trials =
        Cell::number(Some(whole(subject.trials.len() as u64)), Some(subject.trials.len() as f64));
    let small = match (subject.deciding.len(), disturbed) {
        (0, 0) => String::new(),
        (d, 0) => format!("{d} deciding"),
        (0, x) => format!("{x} disturbed"),
        (d, x) => format!("{d} deciding, {x} disturbed"),
    };
    cells.push(Cell { small, ..trials });
    cells.push(Cell::number(
        Some(if subject.on_frontier { "yes" } else { "" }.into()),
        Some(f64::from(u8::from(subject.on_frontier))),
    ));
    cells
}

/// Of a comparison, what differs and whether that is real; of a search, of the setting that was
/// decided on.
fn differences(out: &mut String, study: &Study<'_>) {
    let Some(contest) = &study.document.contest else { return };
    let said: Vec<String> = contest
        .contenders
        .iter()
        .skip(1)
        .filter(|c| c.failure.is_some() || !c.versus.is_empty())
        .map(|c| sentence(study.document, contest, c))
        .collect();
    if said.is_empty() {
        return;
    }
    out.push_str("<h3>What differs, and how surely</h3>\n<ul class=\"said\">\n");
    for sentence in said {
        let _ = writeln!(out, "<li>{}</li>", escaped(&sentence));
    }
    out.push_str("</ul>\n");
}

fn phases(out: &mut String, study: &Study<'_>, prefix: &str) {
    let view = View::of(study.document);
    let columns: Vec<&str> = [""].into_iter().chain(view.columns.iter().copied()).collect();
    let _ = write!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" \
         aria-labelledby=\"{prefix}phases-c\"><table id=\"{prefix}phases\"><caption \
         id=\"{prefix}phases-c\">Figures of each phase over all rounds.</caption>\n<thead><tr>"
    );
    for (i, column) in columns.iter().enumerate() {
        let cell = if i == 0 {
            "<td></td>".to_owned()
        } else {
            format!("<th scope=\"col\">{}</th>", escaped(column))
        };
        out.push_str(&cell);
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for (label, cells) in &view.rows {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escaped(label));
        for cell in cells {
            let _ = write!(out, "<td class=\"n\">{}</td>", escaped(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    if !view.notes.is_empty() {
        out.push_str("<ul class=\"said\">\n");
        for note in view.notes.iter().filter(|n| !study.document.run.warnings.contains(n)) {
            let _ = writeln!(out, "<li>{}</li>", escaped(note));
        }
        out.push_str("</ul>\n");
    }
}

fn trials(out: &mut String, study: &Study<'_>, prefix: &str) {
    let operations = format!("{}/s", study.operations());
    let columns = [
        "trial",
        "setting",
        "round",
        "phases",
        &operations,
        "p99",
        "slowest",
        "flood",
        "written",
        "burst",
        "remarks",
    ];
    let mut rows = Vec::new();
    for (i, trial) in study.document.trials.iter().enumerate() {
        let subject =
            study.subjects.iter().find(|s| s.trials.contains(&i) || s.disturbed.contains(&i));
        let of = |kind| trial.phases.iter().find(move |p| p.kind == kind);
        // Beside the flood if it ran there, else alone.
        let phase = of(PhaseKind::Both).or_else(|| of(PhaseKind::Victim));
        let iops = phase.map(floodwall_model::Phase::victim_iops);
        let latencies = phase.and_then(|p| Percentiles::of(&p.latencies().operations()));
        let (p99, slowest) = (latencies.and_then(|l| l.p99), latencies.map(|l| l.max));
        let flood = of(PhaseKind::Both)
            .or_else(|| of(PhaseKind::Flood))
            .map(floodwall_model::Phase::flood_bytes_per_s);
        let written = of(PhaseKind::Both).or_else(|| of(PhaseKind::Flood)).and_then(written_per_s);
        let burst = of(PhaseKind::Burst).and_then(|p| p.burst).map(|b| b.bytes_per_s());
        let mut remarks: Vec<String> = Vec::new();
        if subject.is_some_and(|s| s.deciding.contains(&i)) {
            remarks.push("deciding".into());
        }
        if subject.is_some_and(|s| s.disturbed.contains(&i)) {
            remarks.push("disturbed, does not count".into());
        }
        let cut = trial.phases.iter().filter_map(|p| {
            p.cut_short.as_ref().map(|why| format!("{} cut short: {why}", p.kind.name()))
        });
        remarks.extend(cut);
        let phases: Vec<&str> = trial.phases.iter().map(|p| p.kind.name()).collect();
        rows.push(vec![
            Cell::number(Some(whole(i as u64 + 1)), Some(i as f64)),
            Cell::text(subject.map_or("–", |s| s.name.as_str())),
            Cell::number(Some(trial.round.to_string()), Some(f64::from(trial.round))),
            Cell::text(phases.join(", ")),
            Cell::number(iops.map(count), iops),
            Cell::number(p99.map(duration_us), p99),
            Cell::number(slowest.map(duration_us), slowest),
            Cell::number(flood.map(|v| Rate(v).to_string()), flood),
            Cell::number(written.map(|v| Rate(v).to_string()), written),
            Cell::number(burst.map(|v| Rate(v).to_string()), burst),
            Cell::text(remarks.join("; ")),
        ]);
    }
    table(
        out,
        &format!("{prefix}trials"),
        "Every trial as it ran; rates are of the phase with victim and flood together where there \
         is one.",
        &columns,
        &rows,
    );
}

/// What the device wrote in a phase, per second.
fn written_per_s(phase: &floodwall_model::Phase) -> Option<f64> {
    let bytes: u64 = phase
        .intervals
        .iter()
        .map(|i| i.host.device.map(|d| d.written_bytes))
        .sum::<Option<u64>>()?;
    let seconds: f64 = phase.intervals.iter().map(|i| i.seconds).sum();
    (seconds > 0.0).then_some(bytes as f64 / seconds)
}
