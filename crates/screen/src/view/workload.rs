//! A unit, pod or container: what its processes wait for and write, all together and each.

use floodwall_model::frame::Process;
use floodwall_model::printable::printable;
use floodwall_model::workload::Workload;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::parts::{self, bar, facts, take};
use super::tables::{Table, processes};
use super::timeline::{self, Timeline};
use crate::fields::{Field, USES};
use crate::figures::{micros, per_second, rate, share};
use crate::history::{History, Past};
use crate::lists::Filter;
use crate::sentence;
use crate::state::{Lists, Options, Processes};

/// Draws it.
pub(super) fn draw(
    options: &Options,
    history: &History,
    filter: &Filter,
    workload: &Workload,
    table: &mut Processes,
    buffer: &mut Buffer,
    mut area: Rect,
) {
    let look = options.look;
    let Some(lists) = Lists::of(options, history, filter) else { return };
    let window_ms = lists.frame().window_ms;
    let kind = match (&workload.pod, &workload.container, &workload.unit) {
        (Some(_), ..) => "POD",
        (None, Some(_), _) => "CONTAINER",
        (None, None, _) => "UNIT",
    };
    let label = workload.label().unwrap_or_default();
    bar(buffer, take(&mut area, 1), look, &format!("{kind} {}", printable(&label)), false);
    let rows = lists.of_workload(workload, table.order);
    let shown = |name: &Option<String>| name.as_deref().map(|name| printable(name).into_owned());
    let names = [
        ("unit", shown(&workload.unit).filter(|_| kind != "UNIT")),
        ("container", shown(&workload.container)),
        ("pod", shown(&workload.pod)),
        (
            "group",
            rows.iter()
                .find_map(|process| process.group.as_ref())
                .map(|group| printable(&group.path).into_owned()),
        ),
    ];
    facts(buffer, take(&mut area, 1), look, &names);
    facts(buffer, take(&mut area, 1), look, &sums(&rows, window_ms));
    let is_tall = area.height >= 30;
    // What the process does that matters most.
    let matters = |process: &&&Process| {
        (process.is_victim || process.is_flood, process.slowest_us(), process.dirtied_bytes)
    };
    let lines = if area.width < 100 { 3 } else { 2 };
    let lines = take(&mut area, lines);
    if let Some(process) = rows.iter().max_by_key(matters) {
        let words = sentence::of_process(lists.frame(), process, look);
        parts::sentence(buffer, lines, look, words);
    }
    take(&mut area, u16::from(is_tall));
    let columns = timeline::columns(area);
    let bars = if is_tall { 4 } else { 2 };
    let values = history.series(columns, |past| slowest(past, workload));
    let place = take(&mut area, bars);
    let line = Timeline {
        name: "slowest wait",
        values: &values,
        least: 100_000,
        show: micros,
        style: look.wait_bars(),
    };
    line.draw(buffer, place, look);
    let values = history.series(columns, |past| dirtied(past, workload));
    let place = take(&mut area, bars);
    let line = Timeline {
        name: "dirties",
        values: &values,
        least: 10_000_000,
        show: rate,
        style: look.flood_bars(),
    };
    line.draw(buffer, place, look);
    take(&mut area, 1);
    let what = Table {
        fields: &USES.iter().filter(|field| **field != Field::In).copied().collect::<Vec<_>>(),
        title: "ITS PROCESSES",
        empty: "none of its processes waited or wrote in this window",
        has_focus: true,
    };
    processes(buffer, area, look, lists.frame(), &what, &rows, table);
}

/// What its processes do together.
fn sums(rows: &[&Process], window_ms: u64) -> [(&'static str, Option<String>); 5] {
    let slowest = rows.iter().map(|process| process.slowest_us()).max().filter(|us| *us > 0);
    let waiting = rows.iter().fold(0, |sum: u64, process| sum.saturating_add(process.waiting));
    let dirtied =
        rows.iter().filter_map(|process| process.dirtied_bytes).reduce(u64::saturating_add);
    let throttled =
        rows.iter().fold(0, |sum: u64, process| sum.saturating_add(process.throttled_ms));
    let part = rows.iter().filter_map(|process| process.backlog_percent).reduce(|a, b| a + b);
    [
        ("slowest wait", slowest.map(micros)),
        ("waiting now", Some(waiting.to_string())),
        ("dirties", dirtied.map(|bytes| rate(per_second(bytes, window_ms)))),
        ("throttled", (throttled > 0).then(|| crate::figures::millis(throttled))),
        ("share of the backlog", part.map(share)),
    ]
}

fn of<'a>(past: &'a Past, workload: &Workload) -> impl Iterator<Item = &'a Process> {
    past.frame.processes.iter().filter(move |process| process.workload == *workload)
}

fn slowest(past: &Past, workload: &Workload) -> Option<u64> {
    of(past, workload).map(Process::slowest_us).max()
}

fn dirtied(past: &Past, workload: &Workload) -> Option<u64> {
    let sum = of(past, workload).filter_map(|process| process.dirtied_bytes);
    sum.reduce(u64::saturating_add).map(|bytes| per_second(bytes, past.frame.window_ms))
}
