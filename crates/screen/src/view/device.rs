//! A disk: its sentence, settings, guard, requests, two minutes, and the processes that use it.

use floodwall_model::counts::count;
use floodwall_model::frame::{Disk, Frame, Requests};
use floodwall_model::printable::printable;
use floodwall_model::status::DrainSource;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::guard;
use super::parts::{self, bar, facts, plain, prose, take};
use super::tables::{Table, processes};
use super::timeline::{self, Timeline};
use crate::fields::{Field, USES};
use crate::figures::{bytes, micros, millis, per_second, rate, share, size};
use crate::history::History;
use crate::lists::Filter;
use crate::sentence;
use crate::state::{Lists, Options, Processes};
use crate::table::{Cell, Column, Kind, draw_row, placed};
use crate::theme::Look;
use crate::who::words;

/// The rows that its processes have at least.
const PROCESSES: u16 = 4;

/// Draws it.
pub(super) fn draw(
    options: &Options,
    history: &History,
    filter: &Filter,
    name: &str,
    table: &mut Processes,
    buffer: &mut Buffer,
    mut area: Rect,
) {
    let look = options.look;
    let Some(lists) = Lists::of(options, history, filter) else { return };
    let frame = lists.frame();
    let shown = printable(name);
    let Some(disk) = frame.disks.iter().find(|disk| disk.name == name) else {
        bar(buffer, take(&mut area, 1), look, &format!("DISK {shown}"), false);
        plain(buffer, area, look, "This disk is not in the window that is shown.", look.strong());
        return;
    };
    bar(buffer, take(&mut area, 1), look, &title(disk), false);
    let is_tall = area.height >= 34;
    let gap = u16::from(is_tall);
    let rows = if area.width < 100 { 3 } else { 2 };
    let words = sentence::of_disk(frame, disk, look);
    parts::sentence(buffer, take(&mut area, rows), look, words);
    facts(buffer, take(&mut area, 1), look, &load(disk));
    facts(buffer, take(&mut area, 1), look, &traffic(disk));
    facts(buffer, take(&mut area, 1), look, &settings(disk));
    steered(buffer, &mut area, look, frame, disk, 1 + gap);
    take(&mut area, gap);
    requests(buffer, &mut area, look, frame.window_ms, disk);
    take(&mut area, gap);
    timelines(buffer, &mut area, look, history, name, if is_tall { 3 } else { 1 });
    take(&mut area, gap);
    let rows = lists.of_disk(name, table.order);
    let fields: Vec<Field> = USES.iter().filter(|field| **field != Field::On).copied().collect();
    let what = Table {
        fields: &fields,
        title: "WHO USES IT",
        empty: "no process that is seen used it",
        has_focus: true,
    };
    processes(buffer, area, look, frame, &what, &rows, table);
}

fn title(disk: &Disk) -> String {
    let mut title = format!("DISK {}", disk.name);
    let model = disk.model.iter().map(String::as_str);
    for part in [disk.id.as_str()].into_iter().filter(|id| !id.is_empty()).chain(model) {
        title.push_str("  ");
        title.push_str(part);
    }
    if !disk.mounts.is_empty() {
        title.push_str(&format!("  at {}", disk.mounts.join(" ")));
    }
    printable(&title).into_owned()
}

fn load(disk: &Disk) -> [(&'static str, Option<String>); 5] {
    let drains = disk.drain_bytes_per_s.map(|drain| match disk.drain_from {
        DrainSource::Seen | DrainSource::SeenEarlier => rate(drain),
        DrainSource::KernelEstimate => format!("{} (the kernel's estimate)", rate(drain)),
        DrainSource::Unknown => format!("{} (?)", rate(drain)),
    });
    [
        ("drains at", drains),
        ("backlog", disk.backlog_bytes.map(bytes)),
        ("drained in", disk.drain_ms.map(millis)),
        ("at the hard limit in", disk.hard_limit_ms.map(millis)),
        ("its limit", disk.limit_bytes.map(bytes)),
    ]
}

fn traffic(disk: &Disk) -> [(&'static str, Option<String>); 4] {
    [
        ("reads", disk.read_bytes_per_s.map(rate)),
        ("writes", disk.written_bytes_per_s.map(rate)),
        ("busy", disk.busy_percent.map(share)),
        ("requests under way", disk.in_flight.map(|count| count.to_string())),
    ]
}

fn settings(disk: &Disk) -> [(&'static str, Option<String>); 5] {
    let queue = &disk.queue;
    let elevator = queue.scheduler.as_deref().map(|name| printable(name).into_owned());
    let throttling = queue.wbt_lat_us.map(|us| if us == 0 { "off".to_owned() } else { micros(us) });
    let strict = queue.strict_limit.map(|strict| if strict { "yes" } else { "no" }.to_owned());
    [
        ("elevator", elevator),
        ("requests", queue.nr_requests.map(|count| count.to_string())),
        ("of up to", queue.max_sectors_kib.map(|kib| size(kib.saturating_mul(1024)))),
        ("wbt", throttling),
        ("strict limit", strict),
    ]
}

/// What the guard does to it.
fn steered(
    buffer: &mut Buffer,
    area: &mut Rect,
    look: Look,
    frame: &Frame,
    disk: &Disk,
    rows: u16,
) {
    let Some(guard) = &frame.guard else { return };
    let place = take(area, rows);
    match guard.disks.iter().find(|guarded| guarded.name == disk.name) {
        Some(guarded) => {
            let mut words = vec![ratatui::text::Span::styled("guard ", look.dim())];
            words.extend(guard::of_disk(guard, guarded, look));
            prose(buffer, place, look, &words);
        }
        None => {
            plain(buffer, place, look, "The guard does not steer it.", look.dim());
        }
    }
}

/// Columns of requests.
const REQUESTS: [(&str, Column); 9] = [
    ("REQUESTS", column(Kind::Words, 13, 20, 0)),
    ("/s", column(Kind::Figures, 7, 9, 0)),
    ("SIZE", column(Kind::Figures, 9, 10, 2)),
    ("BYTES", column(Kind::Figures, 10, 11, 4)),
    ("QUEUE p50", column(Kind::Figures, 10, 12, 3)),
    ("p99", column(Kind::Figures, 8, 12, 3)),
    ("DEVICE p50", column(Kind::Figures, 11, 12, 0)),
    ("p99", column(Kind::Figures, 8, 12, 0)),
    ("SLOWEST", column(Kind::Figures, 8, 12, 1)),
];

const fn column(kind: Kind, least: u16, most: u16, rank: u8) -> Column {
    Column { kind, least, most, rank }
}

/// Queue and device time of each kind of request.
fn requests(buffer: &mut Buffer, area: &mut Rect, look: Look, window_ms: u64, disk: &Disk) {
    if disk.requests.is_empty() {
        return;
    }
    let columns = REQUESTS.map(|(_, column)| column);
    let places = placed(&columns, area.width);
    let header = take(area, 1);
    let style = look.header(false);
    buffer.set_style(header, style);
    draw_row(buffer, header, look, &columns, &places, |at, _| {
        Cell::Title(REQUESTS.get(at).map_or("", |(title, _)| *title).into(), style)
    });
    // Timelines and processes below it have their rows, too.
    let most = area.height.saturating_sub(3 + PROCESSES).max(1);
    for kind in disk.requests.iter().take(usize::from(most)) {
        let row = take(area, 1);
        draw_row(buffer, row, look, &columns, &places, |at, _| {
            Cell::plain(look.text(&cell(kind, at, window_ms, look)).into_owned())
        });
    }
}

fn cell(kind: &Requests, at: usize, window_ms: u64, look: Look) -> String {
    let time = |us: Option<u64>| us.map_or_else(|| look.unknown().to_owned(), micros);
    match at {
        0 => words(&kind.class),
        1 => count(kind.count as f64 * 1000.0 / window_ms.max(1) as f64),
        2 => kind.bytes.checked_div(kind.count).map_or_else(String::new, size),
        3 => rate(per_second(kind.bytes, window_ms)),
        4 => time(kind.queue_p50_us),
        5 => time(kind.queue_p99_us),
        6 => time(kind.device_p50_us),
        7 => time(kind.device_p99_us),
        _ => time(kind.device_max_us),
    }
}

fn timelines(
    buffer: &mut Buffer,
    area: &mut Rect,
    look: Look,
    history: &History,
    name: &str,
    rows: u16,
) {
    if area.height < 3 * rows + PROCESSES {
        return;
    }
    let columns = timeline::columns(*area);
    let mut near = 0;
    let values = history.series(columns, |past| past.disk(name, &mut near)?.0.drain_ms);
    let place = take(area, rows);
    let line = Timeline {
        name: "drain time",
        values: &values,
        least: 1000,
        show: millis,
        style: look.flood_bars(),
    };
    line.draw(buffer, place, look);
    let values = history.series(columns, |past| past.disk(name, &mut near)?.1);
    let line = Timeline {
        name: "slowest wait",
        values: &values,
        least: 100_000,
        show: micros,
        style: look.wait_bars(),
    };
    line.draw(buffer, take(area, rows), look);
    let values = history.series(columns, |past| past.disk(name, &mut near)?.0.written_bytes_per_s);
    let line = Timeline {
        name: "writes",
        values: &values,
        least: 10_000_000,
        show: rate,
        style: look.flood_bars(),
    };
    line.draw(buffer, take(area, rows), look);
}
