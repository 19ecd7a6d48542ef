//! The tables of docs/frontier.md.

use std::fmt::Write as _;
use std::time::Duration;

use floodwall_model::units::human_duration;
use floodwall_stats::estimate::Estimate;
use floodwall_stats::figures::{PhaseFigures, Summary};
use published::origin::Origin;

use crate::cells::{Cell, DEVICES};
use crate::data::{Measured, Row, Run};

/// Families whose victim keeps at most this much less than under the best are as good to it …
const NEAR: f64 = 0.05;
/// … unless its p99 is more than this many times the shortest of them.
const SLOWER: f64 = 2.0;
/// A family under which the victim keeps less than this does not protect it.
const ENOUGH: f64 = 0.9;
const NONE: &str = "–";
/// What the bench warns of when a lab device was slower than its model.
const LATE: &str = "did not keep up";

/// A place's section, and its origin.
pub(crate) fn section(cells: &[(Cell, Measured)]) -> (String, Origin) {
    let mut out = String::new();
    if cells.is_empty() {
        out.push_str("Nothing is measured yet.\n");
        return (out, Origin::default());
    }
    best(&mut out, cells);
    for device in DEVICES {
        let of: Vec<_> = cells.iter().filter(|(cell, _)| cell.device == device).collect();
        if of.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n#### {device}\n");
        if let Some(run) = of.iter().find_map(|(_, data)| data.lab.as_ref()) {
            let rate = run.flood_bytes_per_s / 1e6;
            let place = of[0].0.place.name();
            let _ = writeln!(
                out,
                "Linux {}. It takes {rate:.0} MB/s from the flood alone.\n",
                run.kernel
            );
            let _ = writeln!(
                out,
                "![What families give and cost on {device}](img/frontier-{place}-{device}.svg)\n"
            );
        }
        let (measured, simulated): (Vec<_>, Vec<_>) =
            of.iter().partition(|(_, data)| data.lab.is_some());
        table(&mut out, &measured);
        simulated_alone(&mut out, &simulated);
        reasons(&mut out, &of);
    }
    let runs = cells.iter().flat_map(|(_, data)| data.lab.iter().chain(&data.sim));
    (out, Origin::of_parts(runs.map(|run| &run.origin)))
}

/// Which family is best where.
fn best(out: &mut String, cells: &[(Cell, Measured)]) {
    let measured = cells.iter().filter(|(_, data)| data.lab.is_some()).count();
    let _ = writeln!(
        out,
        "Measured behind this kernel: {measured} of {} cells. The others are simulated.",
        cells.len()
    );
    if measured == 0 {
        return;
    }
    out.push_str(
        "\n| device | victim | best family | victim keeps | p99 | dead | flood keeps | \
        default: victim, p99 | late |\n",
    );
    out.push_str("|---|---|---|---|---|---|---|---|---|\n");
    for (cell, data) in cells {
        let Some(run) = &data.lab else { continue };
        let (Some(best), Some(default)) =
            (winner(run), run.rows.first().and_then(|r| r.summary.as_ref()))
        else {
            continue;
        };
        let Some(s) = &best.summary else { continue };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {}, {} | {} |",
            cell.device,
            cell.victim(),
            verdict(&best.family, s.victim_kept.as_ref(), default.victim_kept.as_ref()),
            share(s.victim_kept.as_ref()),
            tail(s.both.as_ref()),
            dead(s),
            share(s.flood_kept.as_ref()),
            share(default.victim_kept.as_ref()),
            tail(default.both.as_ref()),
            if run.warnings.iter().any(|warning| warning.contains(LATE)) { "yes" } else { "no" },
        );
    }
}

/// The best family, with its caveats. It is bold if the victim keeps enough under it, and more than
/// under the default.
fn verdict(family: &str, kept: Option<&Estimate>, by_default: Option<&Estimate>) -> String {
    let ends = |e: Option<&Estimate>| e.and_then(Estimate::ends);
    let told = ends(kept).zip(ends(by_default)).is_some_and(|((low, _), (_, high))| low > high);
    match kept {
        _ if !told => format!("{family} (not told from the default)"),
        Some(kept) if kept.value < ENOUGH => format!("none protects it; nearest: {family}"),
        _ => format!("**{family}**"),
    }
}

/// The family to choose: of those under which the victim keeps about the most and waits about the
/// least, the one under which the flood keeps most.
fn winner(run: &Run) -> Option<&Row> {
    let known = |row: &Row| {
        let s = row.summary.as_ref()?;
        Some((s.victim_kept?.value.min(1.0), p99_us(s.both.as_ref()?)?, s.flood_kept?.value))
    };
    let rows: Vec<(&Row, (f64, f64, f64))> =
        run.rows.iter().filter_map(|row| Some((row, known(row)?))).collect();
    let most = rows.iter().map(|(_, (victim, ..))| *victim).fold(0.0, f64::max);
    let near: Vec<_> =
        rows.into_iter().filter(|(_, (victim, ..))| *victim >= most - NEAR).collect();
    let shortest = near.iter().map(|(_, (_, p99, _))| *p99).fold(f64::INFINITY, f64::min);
    let fast = near.into_iter().filter(|(_, (_, p99, _))| *p99 <= shortest * SLOWER);
    fast.max_by(|(_, (.., a)), (_, (.., b))| a.total_cmp(b)).map(|(row, _)| row)
}

fn table(out: &mut String, cells: &[&(Cell, Measured)]) {
    if cells.is_empty() {
        return;
    }
    out.push_str(
        "| victim | family | per second | victim keeps | p99 | slowest | dead | flood \
        keeps | simulated: victim | p99 | flood |\n",
    );
    out.push_str("|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (cell, data) in cells {
        let Some(first) = data.lab.as_ref().or(data.sim.as_ref()) else { continue };
        for row in &first.rows {
            let of = |run: &Option<Run>| {
                let rows = run.as_ref().map(|run| run.rows.clone()).unwrap_or_default();
                rows.into_iter().find(|r| r.family == row.family)
            };
            let (lab, sim) = (of(&data.lab), of(&data.sim));
            let summary = |row: &Option<Row>| row.as_ref().and_then(|row| row.summary.clone());
            let (real, simulated) = (summary(&lab), summary(&sim));
            let both = |s: &Option<Summary>| s.as_ref().and_then(|s| s.both.clone());
            let kept = |s: &Option<Summary>| s.as_ref().and_then(|s| s.victim_kept);
            let flood = |s: &Option<Summary>| s.as_ref().and_then(|s| s.flood_kept);
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                cell.victim(),
                row.family,
                both(&real)
                    .and_then(|b| b.iops)
                    .map_or_else(|| NONE.to_owned(), |iops| format!("{iops:.0}")),
                share(kept(&real).as_ref()),
                tail(both(&real).as_ref()),
                both(&real)
                    .and_then(|b| b.operation_us)
                    .map_or_else(|| NONE.to_owned(), |l| duration(l.max)),
                real.as_ref().map_or_else(|| NONE.to_owned(), dead),
                share(flood(&real).as_ref()),
                share(kept(&simulated).as_ref()),
                tail(both(&simulated).as_ref()),
                share(flood(&simulated).as_ref()),
            );
        }
    }
}

/// Cells that were not measured with a kernel, in a `<details>` block.
fn simulated_alone(out: &mut String, cells: &[&(Cell, Measured)]) {
    if cells.is_empty() {
        return;
    }
    let _ =
        writeln!(out, "\n<details><summary>Simulated alone: {} victims</summary>\n", cells.len());
    out.push_str("| victim | family | victim keeps | p99 | flood keeps |\n|---|---|---|---|---|\n");
    for (cell, data) in cells {
        for row in data.sim.iter().flat_map(|run| &run.rows) {
            let summary = row.summary.as_ref();
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} |",
                cell.victim(),
                row.family,
                share(summary.and_then(|s| s.victim_kept.as_ref())),
                tail(summary.and_then(|s| s.both.as_ref())),
                share(summary.and_then(|s| s.flood_kept.as_ref())),
            );
        }
    }
    out.push_str("\n</details>\n");
}

/// Why families have no figures, each reason once.
fn reasons(out: &mut String, cells: &[&(Cell, Measured)]) {
    let mut told = Vec::new();
    for (cell, data) in cells {
        for warning in data.lab.iter().flat_map(|run| &run.warnings) {
            let _ = write!(out, "\n- *{}* behind the real kernel: {warning}", cell.victim());
            told.push(warning.clone());
        }
        for (side, run) in [("behind the real kernel", &data.lab), ("in the simulator", &data.sim)]
        {
            for row in run.iter().flat_map(|run| &run.rows) {
                let Some(why) = &row.failure else { continue };
                let line = format!("- *{}* {side}: {why}", row.family);
                if !told.contains(&line) {
                    let _ = write!(out, "\n{line}");
                    told.push(line);
                }
            }
        }
    }
    if !told.is_empty() {
        out.push('\n');
    }
}

fn dead(s: &Summary) -> String {
    s.dead_seconds
        .map_or_else(|| NONE.to_owned(), |e| format!("{:.0} of {} s", e.value, s.of_seconds))
}

/// `98 % (97–99)`.
fn share(e: Option<&Estimate>) -> String {
    let Some(e) = e else { return NONE.to_owned() };
    let ends = e
        .ends()
        .map_or_else(String::new, |(low, high)| format!(" ({}–{})", percent(low), percent(high)));
    format!("{} %{ends}", percent(e.value))
}

fn percent(share: f64) -> String {
    let value = 100.0 * share;
    if value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// The p99, or the slowest of fewer than 100 operations.
fn tail(both: Option<&PhaseFigures>) -> String {
    let Some(latency) = both.and_then(|both| both.operation_us) else { return NONE.to_owned() };
    latency.p99.map_or_else(|| format!("slowest {}", duration(latency.max)), duration)
}

pub(crate) fn p99_us(both: &PhaseFigures) -> Option<f64> {
    let latency = both.operation_us?;
    Some(latency.p99.unwrap_or(latency.max))
}

fn duration(us: f64) -> String {
    Duration::try_from_secs_f64(us / 1e6).map_or_else(|_| NONE.to_owned(), human_duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(family: &str, victim: f64, p99: f64, flood: f64) -> Row {
        let estimate = |value: f64| Some(Estimate { value, low: None, high: None, rounds: 1 });
        let mut summary =
            floodwall_stats::figures::summarise(&[], floodwall_stats::figures::Reference::InForce);
        (summary.victim_kept, summary.flood_kept) = (estimate(victim), estimate(flood));
        let mut latency = floodwall_stats::quantiles::Percentiles::of(
            &floodwall_model::LatencyCounts::from_values([1_000_000]),
        );
        if let Some(latency) = &mut latency {
            latency.p99 = Some(p99);
        }
        summary.both = Some(PhaseFigures {
            seconds: 1.0,
            iops: None,
            flood_bytes_per_s: None,
            operation_us: latency,
            worst_second_iops: None,
            dead_seconds: None,
            longest_stall_s: None,
        });
        Row {
            family: family.into(),
            setting: Default::default(),
            summary: Some(summary),
            failure: None,
        }
    }

    #[test]
    fn a_family_is_best_if_it_is_told_from_the_default_and_protects_the_victim() {
        let kept =
            |value, low, high| Estimate { value, low: Some(low), high: Some(high), rounds: 3 };
        let said = |best: Estimate| verdict("a", Some(&best), Some(&kept(0.3, 0.1, 0.5)));
        assert_eq!(said(kept(0.99, 0.97, 1.0)), "**a**");
        assert_eq!(said(kept(0.7, 0.6, 0.8)), "none protects it; nearest: a");
        assert_eq!(said(kept(0.99, 0.4, 1.6)), "a (not told from the default)");
        assert_eq!(verdict("a", None, None), "a (not told from the default)");
    }

    fn chosen(rows: Vec<Row>) -> String {
        let run = Run {
            kernel: String::new(),
            flood_bytes_per_s: 1.0,
            origin: Origin::default(),
            warnings: vec![],
            rows,
        };
        winner(&run).unwrap().family.clone()
    }

    #[test]
    fn the_best_keeps_the_victim_first_its_latency_second_and_the_flood_third() {
        let (a, b) = (row("a", 0.5, 1e3, 1.0), row("b", 0.99, 5e3, 0.4));
        assert_eq!(chosen(vec![a, b.clone()]), "b");
        // As good to the victim, and kinder to the flood.
        assert_eq!(chosen(vec![b.clone(), row("c", 0.95, 9e3, 0.8)]), "c");
        // Kinder to the flood, but the victim waits ten times as long.
        assert_eq!(chosen(vec![b, row("d", 1.0, 5e4, 0.9)]), "b");
    }
}
