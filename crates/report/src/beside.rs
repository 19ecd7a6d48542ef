//! A tool alone and beside a flood, as a person reads it: a row of figures for each setting.

use std::fmt::Write;
use std::time::Duration;

use floodwall_model::units::{Rate, human_duration};
use floodwall_stats::estimate::Estimate;
use floodwall_stats::figures::Summary;

use crate::numbers::{UNKNOWN, count, percent, whole};
use crate::schema::Document;
use crate::status::table::{Column, table};
use crate::text::{WIDTH, paragraph};
use crate::view;

/// The operation that a tool counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A request of its own.
    Requests,
    /// So many bytes.
    Bytes,
}

/// Bytes of an operation where bytes are counted: a rate of single bytes would not fit an interval.
pub const UNIT: u64 = 1024;

/// Columns of labels before texts.
const LABEL: usize = 10;
/// Columns of a cell at most.
const CELL: usize = 26;

/// Machine, device, a row for each setting, and the notes that are not `printed` yet. Without a
/// unit the tool has no figure, and the flood's rate is all that there is.
#[must_use]
pub fn text(document: &Document, unit: Option<Unit>, printed: &[String]) -> String {
    let mut out = String::new();
    paragraph(&mut out, "", &view::title(document), 0, WIDTH);
    let is_common = |(label, _): &(&str, String)| ["machine", "device"].contains(label);
    for (label, text) in view::facts(document).into_iter().filter(is_common) {
        paragraph(&mut out, label, &text, LABEL, WIDTH);
    }
    paragraph(&mut out, "run", &duration(document), LABEL, WIDTH);
    let contenders = document.contest.iter().flat_map(|contest| &contest.contenders);
    let rows: Vec<Vec<String>> = contenders
        .map(|one| [vec![one.name.clone()], cells(one.summary.as_ref(), unit)].concat())
        .collect();
    let columns = [
        Column::words("setting", CELL),
        Column::figures("alone", CELL),
        Column::figures("beside", CELL),
        Column::figures("kept", CELL),
        Column::figures("stalled", CELL).rank(1),
        Column::figures("flood", CELL),
        Column::figures("flood kept", CELL),
    ];
    out.push('\n');
    for line in table(&columns, &rows, WIDTH) {
        let _ = writeln!(out, "{line}");
    }
    if rows.iter().flatten().any(|cell| cell.contains('(')) {
        out.push_str("in brackets: 95 % intervals\n");
    }
    for note in view::notes(document).iter().filter(|note| !printed.contains(note)) {
        paragraph(&mut out, "note:", note, "note: ".len(), WIDTH);
    }
    out
}

/// How long it took: phases are as long as the tool's runs.
fn duration(document: &Document) -> String {
    let rounds = document.summary.rounds;
    let seconds = Duration::try_from_secs_f64(document.run.seconds.round()).unwrap_or_default();
    let s = if rounds == 1 { "" } else { "s" };
    format!("{rounds} round{s}, {} in all", human_duration(seconds))
}

/// The cells of a setting behind its name.
fn cells(summary: Option<&Summary>, unit: Option<Unit>) -> Vec<String> {
    let Some(s) = summary else { return Vec::new() };
    let known = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.to_owned());
    let rate = |iops: f64| match unit? {
        Unit::Requests => Some(format!("{}/s", count(iops))),
        Unit::Bytes => Some(Rate(iops * UNIT as f64).to_string()),
    };
    let share = |estimate: &Estimate| {
        let ends = estimate.ends();
        let ends = ends.map(|(low, high)| format!(" ({} – {})", percent(low), percent(high)));
        format!("{} %{}", percent(estimate.value), ends.unwrap_or_default())
    };
    let of_seconds = whole(s.of_seconds);
    let dead = s.dead_seconds.as_ref().filter(|_| unit.is_some());
    vec![
        known(s.victim.as_ref().and_then(|f| f.iops).and_then(rate)),
        known(s.both.as_ref().and_then(|f| f.iops).and_then(rate)),
        known(s.victim_kept.as_ref().map(share)),
        known(dead.map(|dead| format!("{} of {of_seconds} s", whole(dead.value.round() as u64)))),
        known(s.both.as_ref().and_then(|f| f.flood_bytes_per_s).map(|r| Rate(r).to_string())),
        known(s.flood_kept.as_ref().map(share)),
    ]
}

#[cfg(test)]
mod tests {
    use floodwall_model::Setting;

    use super::*;
    use crate::schema::contest::{Contender, Contest};
    use crate::synthetic::{Made, run};

    fn shown(rounds: u32, unit: Option<Unit>) -> String {
        let made = Made { rounds, ..Made::damage() };
        let trials = made.trials();
        let contender = Contender {
            name: "default".into(),
            setting: Setting::default(),
            trials: (0..trials.len()).collect(),
            ..Contender::default()
        };
        let contest = Contest { contenders: vec![contender], ..Contest::default() };
        let document = Document::of_contest(run(), &made.scenario, trials, contest).unwrap();
        let text = text(&document, unit, &[]);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        text
    }

    #[test]
    fn a_tool_beside_a_flood() {
        insta::assert_snapshot!(shown(3, Some(Unit::Requests)), @"
copy-vs-database: a database commits (4 threads, 16 KiB, fsync) while one large file is written
beside it
machine   Linux 6.18.5, 4 CPUs, 16 GiB RAM, Debian GNU/Linux 12 (bookworm)
device    sda (ATA ST1000DM003, 932 GiB, seeks), ext4 on sda1 on sda
run       3 rounds, 5 min 5 s in all

setting    alone  beside                kept     stalled     flood      flood kept
default  1,516/s  40.8/s  2.7 % (0.91 – 7.9)  27 of 36 s  218 MB/s  87 % (86 – 88)
in brackets: 95 % intervals
        ");
    }

    #[test]
    fn bytes_and_no_figure() {
        insta::assert_snapshot!(shown(1, Some(Unit::Bytes)), @"
copy-vs-database: a database commits (4 threads, 16 KiB, fsync) while one large file is written
beside it
machine   Linux 6.18.5, 4 CPUs, 16 GiB RAM, Debian GNU/Linux 12 (bookworm)
device    sda (ATA ST1000DM003, 932 GiB, seeks), ext4 on sda1 on sda
run       1 round, 5 min 5 s in all

setting      alone     beside   kept    stalled     flood  flood kept
default  1.54 MB/s  41.7 kB/s  2.7 %  9 of 12 s  217 MB/s        86 %
note: one round does not tell how much rounds differ: no intervals; run two or more
        ");
        insta::assert_snapshot!(shown(1, None), @"
copy-vs-database: a database commits (4 threads, 16 KiB, fsync) while one large file is written
beside it
machine   Linux 6.18.5, 4 CPUs, 16 GiB RAM, Debian GNU/Linux 12 (bookworm)
device    sda (ATA ST1000DM003, 932 GiB, seeks), ext4 on sda1 on sda
run       1 round, 5 min 5 s in all

setting  alone  beside   kept  stalled     flood  flood kept
default      –       –  2.7 %        –  217 MB/s        86 %
note: one round does not tell how much rounds differ: no intervals; run two or more
        ");
    }
}
