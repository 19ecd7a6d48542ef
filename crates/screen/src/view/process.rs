//! A process: its waits by call, how long they take, what it writes, and its files.

use floodwall_model::counts::whole;
use floodwall_model::frame::{Process, Waits};
use floodwall_model::printable::printable;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::parts::{self, bar, facts, plain, put, take};
use super::timeline::{self, Timeline};
use crate::figures::{micros, moment, per_second, rate, share, throttled};
use crate::history::{History, Past};
use crate::lists::{ProcessKey, is_of};
use crate::sentence;
use crate::state::{Mode, Options};
use crate::table::{Cell, Column, Kind, draw_row, placed};
use crate::theme::Look;
use crate::who::{label, name, words};

/// The answer to a question for files.
type Files = (u32, Result<Vec<String>, String>);

/// Draws it. `first` is the first file that is shown.
pub(super) fn draw(
    options: &Options,
    history: &History,
    files: Option<&Files>,
    key: &ProcessKey,
    first: &mut usize,
    buffer: &mut Buffer,
    mut area: Rect,
) {
    let look = options.look;
    let of = |past: &Past| past.frame.processes.iter().position(|process| is_of(process, key));
    let seen = history.frames().rev().find_map(|past| Some((past, of(past)?)));
    let last = history.shown().map(|frame| frame.at_unix_ms);
    let Some((past, process)) =
        seen.and_then(|(past, at)| Some((past, past.frame.processes.get(at)?)))
    else {
        bar(buffer, take(&mut area, 1), look, &format!("PROCESS {}", key.0), false);
        let text = "It neither waited nor wrote in the last two minutes, or has ended.";
        plain(buffer, area, look, text, look.strong());
        return;
    };
    let frame = &past.frame;
    bar(buffer, take(&mut area, 1), look, &title(process), false);
    let rows = if area.width < 100 { 3 } else { 2 };
    let mut text = sentence::of_process(frame, process, look);
    if last != Some(frame.at_unix_ms) {
        let when = moment(frame.at_unix_ms, &options.zone);
        let note = format!("Last seen at {when}, not in the window that is shown. ");
        text.said.insert(0, ratatui::text::Span::styled(note, look.warning()));
    }
    parts::sentence(buffer, take(&mut area, rows), look, text);
    facts(buffer, take(&mut area, 1), look, &writes(process, frame.window_ms));
    let is_tall = area.height >= 30;
    let gap = u16::from(is_tall);
    take(&mut area, gap);
    calls(buffer, &mut area, look, process);
    take(&mut area, gap);
    timelines(buffer, &mut area, look, history, key, 1 + 2 * gap);
    take(&mut area, gap);
    let left = Rect { width: area.width / 2, ..area };
    let right = Rect { x: left.right() + 1, width: area.width - left.width - 1, ..area };
    histogram(buffer, left, look, history, key);
    let about = match (options.mode, files) {
        (_, Some((pid, told))) if *pid == key.0 => Some(told),
        _ => None,
    };
    open_files(buffer, right, look, options.mode, about, first);
}

fn title(process: &Process) -> String {
    let mut title = format!("PROCESS {}", name(process));
    let label = label(process);
    if !label.is_empty() {
        title.push_str(&format!("  in {label}"));
    }
    if let Some(disk) = &process.disk {
        title.push_str(&format!("  on {}", printable(disk)));
    }
    title
}

fn writes(process: &Process, window_ms: u64) -> [(&'static str, Option<String>); 5] {
    let dirtied = process.dirtied_bytes.map(|bytes| rate(per_second(bytes, window_ms)));
    let is_throttled = process.throttled_ms > 0;
    [
        ("waiting now", Some(whole(process.waiting))),
        ("dirties", dirtied),
        ("throttled", is_throttled.then(|| throttled(process, window_ms))),
        ("share of the backlog", process.backlog_percent.map(share)),
        ("group", process.group.as_ref().map(|group| printable(&group.path).into_owned())),
    ]
}

const fn column(kind: Kind, least: u16, most: u16) -> Column {
    Column { kind, least, most, rank: 0 }
}

/// Columns of calls.
const CALLS: [(&str, Column); 6] = [
    ("WAITS FOR", column(Kind::Words, 16, 24)),
    ("COUNT", column(Kind::Figures, 8, 12)),
    ("p50", column(Kind::Figures, 9, 12)),
    ("p99", column(Kind::Figures, 9, 12)),
    ("SLOWEST", column(Kind::Figures, 9, 12)),
    ("TOGETHER", column(Kind::Figures, 9, 12)),
];

/// The waits that ended, by kind of call.
fn calls(buffer: &mut Buffer, area: &mut Rect, look: Look, process: &Process) {
    let columns = CALLS.map(|(_, column)| column);
    let places = placed(&columns, area.width);
    let header = take(area, 1);
    let style = look.header(false);
    buffer.set_style(header, style);
    draw_row(buffer, header, look, &columns, &places, |at, _| {
        Cell::Title(CALLS.get(at).map_or("", |(title, _)| *title).into(), style)
    });
    if process.waits.is_empty() {
        let text = match process.waiting {
            0 => "no wait ended in this window",
            _ => "no wait ended in this window; some are under way",
        };
        put(buffer, take(area, 1), look, text, look.dim());
    }
    for waits in process.waits.iter().take(4) {
        draw_row(buffer, take(area, 1), look, &columns, &places, |at, _| {
            Cell::plain(look.text(&cell(waits, at, look)).into_owned())
        });
    }
}

fn cell(waits: &Waits, at: usize, look: Look) -> String {
    match at {
        0 => words(&waits.call),
        1 => whole(waits.count),
        2 => micros(waits.p50_us),
        3 => waits.p99_us.map_or_else(|| look.unknown().to_owned(), micros),
        4 => micros(waits.max_us),
        _ => micros(waits.sum_us),
    }
}

fn timelines(
    buffer: &mut Buffer,
    area: &mut Rect,
    look: Look,
    history: &History,
    key: &ProcessKey,
    rows: u16,
) {
    let columns = timeline::columns(*area);
    let find = |past: &Past| past.frame.processes.iter().position(|process| is_of(process, key));
    let values = history.series(columns, |past| {
        find(past).and_then(|at| past.frame.processes.get(at)).map(Process::slowest_us)
    });
    let place = take(area, rows);
    let line = Timeline {
        name: "slowest wait",
        values: &values,
        least: 100_000,
        show: micros,
        style: look.wait_bars(),
    };
    line.draw(buffer, place, look);
    let values = history.series(columns, |past| {
        let process = find(past).and_then(|at| past.frame.processes.get(at))?;
        Some(per_second(process.dirtied_bytes?, past.frame.window_ms))
    });
    let place = take(area, rows);
    let line = Timeline {
        name: "dirties",
        values: &values,
        least: 10_000_000,
        show: rate,
        style: look.flood_bars(),
    };
    line.draw(buffer, place, look);
}

/// How many of its waits took how long, in two minutes.
fn histogram(buffer: &mut Buffer, mut area: Rect, look: Look, history: &History, key: &ProcessKey) {
    bar(buffer, take(&mut area, 1), look, "HOW LONG IT WAITED, 2 min", false);
    let octaves = history.octaves(|process| is_of(process, key));
    let (Some(least), Some(most)) = (octaves.keys().next(), octaves.keys().next_back()) else {
        put(buffer, area, look, "no wait ended", look.dim());
        return;
    };
    // The slow ones matter: fast ones share the first row if there are too many.
    let rows = u16::from(most - least) + 1;
    let first = most.saturating_sub(area.height.max(1).min(rows) as u8 - 1).max(*least);
    let mut bins: Vec<(String, u64)> = Vec::new();
    for octave in first..=*most {
        let low = |octave: u8| micros(1_u64.checked_shl(octave.into()).unwrap_or(u64::MAX));
        let sum = |range: std::ops::RangeInclusive<u8>| {
            octaves.range(range).fold(0, |sum: u64, (_, count)| sum.saturating_add(*count))
        };
        bins.push(match octave == first && first > *least {
            true => (format!("below {}", low(octave.saturating_add(1))), sum(*least..=octave)),
            false => (format!("from {}", low(octave)), sum(octave..=octave)),
        });
    }
    let highest = bins.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    for (label, count) in bins.iter().rev() {
        let row = take(&mut area, 1);
        let place = Rect { width: 14.min(row.width), ..row };
        put(buffer, place, look, &look.text(label), look.dim());
        let told = whole(*count);
        let room = row.width.saturating_sub(16 + told.len() as u16);
        let long = (u128::from(*count) * u128::from(room) / u128::from(highest)) as u16;
        let long = long.max(u16::from(*count > 0)).min(room);
        let bars = look.block().repeat(usize::from(long));
        let place =
            Rect { x: row.x + 15.min(row.width), width: row.width.saturating_sub(15), ..row };
        put(buffer, place, look, &bars, look.wait_bars());
        let after = long + u16::from(long > 0);
        let place = Rect {
            x: place.x + after.min(place.width),
            width: place.width.saturating_sub(after),
            ..place
        };
        put(buffer, place, look, &told, look.strong());
    }
}

/// The files that it has open.
fn open_files(
    buffer: &mut Buffer,
    mut area: Rect,
    look: Look,
    mode: Mode,
    files: Option<&Result<Vec<String>, String>>,
    first: &mut usize,
) {
    let title = match files {
        Some(Ok(files)) => format!("OPEN FILES ({})", files.len()),
        _ => "OPEN FILES".to_owned(),
    };
    bar(buffer, take(&mut area, 1), look, &title, true);
    let files = match (files, mode) {
        (Some(Ok(files)), _) => files,
        (Some(Err(why)), _) => {
            plain(buffer, area, look, &printable(why), look.warning());
            return;
        }
        (None, Mode::Live) => {
            put(buffer, area, look, "asking", look.dim());
            return;
        }
        (None, Mode::Simulated) => {
            put(buffer, area, look, "a simulated process has none", look.dim());
            return;
        }
        (None, Mode::Replay) => {
            put(buffer, area, look, "a recording does not hold them", look.dim());
            return;
        }
    };
    *first = (*first).min(files.len().saturating_sub(usize::from(area.height)));
    for file in files.iter().skip(*first).take(usize::from(area.height)) {
        put(buffer, take(&mut area, 1), look, &printable(file), ratatui::style::Style::new());
    }
}
