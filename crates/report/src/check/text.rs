//! A check for people.

use floodwall_model::status::Missing;
use floodwall_model::units::Rate;
use floodwall_stats::quantiles::{Percentiles, Tail};

use super::{Check, Counted, Run, verdict};
use crate::numbers::{UNKNOWN, duration_us, whole};
use crate::status::Style;
use crate::status::table::{Column, table, wrap};

/// A check for people: what ran, a table of the runs, the verdict, what to do about it.
#[must_use]
pub fn text(check: &Check, style: Style) -> String {
    let mut lines = wrap(&heading(check), style.prose());
    lines.push(String::new());
    let rows: Vec<Vec<String>> = check.runs.iter().filter_map(|run| row(check, run)).collect();
    let count = format!("{}s", check.goal.operation());
    let mut columns = vec![
        Column::words("", 30),
        Column::figures("p99", 12),
        Column::figures("slowest", 12).rank(2),
        Column::figures(&count, 12).rank(4),
    ];
    if check.goal.counted == Counted::Sync {
        columns.push(Column::figures("p99 with write", 14).rank(3));
    }
    columns.push(Column::figures("flood", 12).rank(1));
    if !rows.is_empty() {
        lines.extend(table(&columns, &rows, style.width));
    }
    for run in &check.runs {
        if let Err(why) = &run.measured {
            lines.extend(wrap(&format!("Left out: {}: {why}", run.beside.name()), style.prose()));
        }
    }
    for Missing { what, why } in &check.missing {
        lines.extend(wrap(&format!("Not seen: {what}: {why}"), style.prose()));
    }
    let verdict = verdict(check);
    lines.push(String::new());
    lines.extend(wrap(&verdict.sentence, style.prose()));
    if !verdict.next.is_empty() {
        lines.extend([String::new(), "What to do:".to_owned()]);
        for (command, what) in &verdict.next {
            lines.push(format!("  {command}"));
            lines.push(format!("      {what}"));
        }
    }
    if let Some(source) = check.goal.source {
        lines.extend([String::new(), format!("The limit: {source}")]);
    }
    lines.push(String::new());
    lines.join("\n")
}

fn heading(check: &Check) -> String {
    let goal = &check.goal;
    let device = check.device.as_ref().map_or_else(String::new, |device| format!(" on {device}"));
    let limit = duration_us(goal.limit.as_secs_f64() * 1e6);
    format!(
        "{} in '{}' ({}{device}): {}; p99 of {} must be under {limit}",
        goal.program,
        check.directory,
        check.filesystem,
        goal.load(),
        goal.operation()
    )
}

/// A run's figures; `None` if it was left out.
fn row(check: &Check, run: &Run) -> Option<Vec<String>> {
    let measured = run.measured.as_ref().ok()?;
    let counted = check.goal.counted(measured);
    let of = |counts| Percentiles::of(counts);
    let p99 = |counts| of(counts).and_then(|p| p.p99).map_or_else(|| UNKNOWN.into(), duration_us);
    let mut cells = vec![
        run.beside.name().to_owned(),
        p99(counted),
        Tail::of(counted)
            .map_or_else(|| UNKNOWN.into(), |_| duration_us(counted.max_ns() as f64 / 1e3)),
        whole(counted.count()),
    ];
    if check.goal.counted == Counted::Sync {
        cells.push(p99(&measured.commit));
    }
    cells.push(
        measured.flood_bytes_per_s.map_or_else(|| UNKNOWN.into(), |rate| Rate(rate).to_string()),
    );
    Some(cells)
}
