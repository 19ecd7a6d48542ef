//! The main view: who makes which disk slow, now.
//!
//! ```text
//! a sentence
//! the machine's dirty pages and pressure
//! DISKS       a line a disk
//! WAITS       victims first            side by side with FLOODS where both fit, else above it
//! GUARD       what it does or would do, and why; what is not seen
//! FINDINGS    faults of the settings
//! ```
//!
//! The heights depend on the screen and on the numbers of disks and findings, so that panes stay
//! where they are while processes come and go.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Span;

use floodwall_model::Severity;
use floodwall_model::frame::{Finding, Frame};
use floodwall_model::printable::printable;

use super::guard;
use super::parts::{self, bar, facts, plain, prose, put, take, take_below};
use super::tables::{Table, columns, disks, processes};
use crate::fields::{Field, WAITS, WRITES};
use crate::figures::{bytes, millis, share, size};
use crate::history::History;
use crate::lists::Filter;
use crate::sentence;
use crate::state::{Lists, Main, Options, Pane};
use crate::table::needed;
use crate::theme::Look;
use crate::who::is_marked;

/// From this height on panes stand apart.
const TALL: u16 = 35;

/// Cells that both tables together need beyond their least widths, to stand side by side. With
/// fewer the names would be cut, and one above the other they are whole.
const ROOM: u16 = 12;

/// From this width on a table has room for names and for all its figures.
const WIDE: u16 = 100;

/// Draws it.
pub(super) fn draw(
    options: &Options,
    history: &History,
    filter: &Filter,
    main: &mut Main,
    buffer: &mut Buffer,
    mut area: Rect,
) {
    let look = options.look;
    let Some(lists) = Lists::of(options, history, filter) else {
        put(buffer, area, look, "Looking. The first answer takes a second.", look.strong());
        return;
    };
    let frame = lists.frame();
    let gap = u16::from(area.height >= TALL);
    let rows = match (area.width, area.height) {
        (_, ..20) | (200.., _) => 2,
        (..100, _) | (_, TALL..) => 3,
        _ => 2,
    };
    let device = options.device_in(frame);
    let words = sentence::of_machine(frame, device, look);
    parts::sentence(buffer, take(&mut area, rows), look, words);
    facts(buffer, take(&mut area, 1), look, &machine(frame));
    take(&mut area, gap);
    bottom(buffer, &mut area, look, frame, main, gap);
    let count = frame.disks.iter().filter(|disk| device.is_none_or(|one| one == disk.name)).count();
    let most = usize::from(area.height / 4).max(1);
    let place = take(&mut area, 1 + count.clamp(1, most) as u16);
    let chosen = (main.disk_order, &mut main.disk);
    disks(buffer, place, look, lists, chosen, main.focus == Pane::Disks);
    take(&mut area, gap);
    tables(buffer, area, look, lists, main, gap);
}

/// What the machine as a whole tells.
fn machine(frame: &Frame) -> [(&'static str, Option<String>); 5] {
    let machine = &frame.machine;
    [
        ("dirty", machine.dirty_bytes.map(bytes)),
        ("hard limit", machine.hard_limit_bytes.map(bytes)),
        ("I/O pressure", machine.waited_percent.map(share)),
        ("under writeback", machine.writeback_bytes.map(bytes)),
        ("RAM", machine.ram_bytes.map(size)),
    ]
}

/// Those that wait and those that flood.
fn tables(
    buffer: &mut Buffer,
    area: Rect,
    look: Look,
    lists: Lists<'_>,
    main: &mut Main,
    gap: u16,
) {
    let frame = lists.frame();
    let has_disks = frame.disks.len() > 1;
    let fields = |all: &[Field]| -> Vec<Field> {
        all.iter().filter(|field| has_disks || **field != Field::On).copied().collect()
    };
    let (mut waits, writes) = (fields(&WAITS), fields(&WRITES));
    let is_rare = |field: &Field| *field == Field::Calls;
    let all = needed(&columns(&waits)) - Field::Calls.column().least;
    let (left, right) = (all, needed(&columns(&writes)));
    let (above, below) = if area.width > left + right + ROOM {
        let spare = u32::from(area.width - 1 - left - right);
        let width = left + (spare * 3 / 5) as u16;
        let above = Rect { width, ..area };
        (above, Rect { x: area.x + width + 1, width: area.width - width - 1, ..area })
    } else {
        let mut area = area;
        let rows = area.height.saturating_sub(gap);
        let above = take(&mut area, rows - rows * 2 / 5);
        take(&mut area, gap);
        (above, area)
    };
    if above.width < WIDE {
        waits.retain(|field| !is_rare(field));
    }
    let window = millis(frame.window_ms);
    if frame.source == "proc" {
        unseen(buffer, above, look, frame, main.focus == Pane::Waits);
    } else {
        let table = Table {
            fields: &waits,
            title: "WHO WAITS",
            empty: &format!("no process waited in the last {window}"),
            has_focus: main.focus == Pane::Waits,
        };
        let rows = lists.waits(main.waits.order);
        processes(buffer, above, look, frame, &table, &rows, &mut main.waits);
    }
    let rows = lists.writes(main.writes.order);
    let is_flooded = rows.iter().any(|process| is_marked(frame, process));
    let table = Table {
        fields: &writes,
        title: if is_flooded { "WHO FLOODS" } else { "WHO WRITES" },
        empty: &format!("no process dirtied page cache in the last {window}"),
        has_focus: main.focus == Pane::Writes,
    };
    processes(buffer, below, look, frame, &table, &rows, &mut main.writes);
}

/// In the place of those that wait: why they are not seen, and what root would add.
fn unseen(buffer: &mut Buffer, mut area: Rect, look: Look, frame: &Frame, has_focus: bool) {
    bar(buffer, take(&mut area, 1), look, "WHO WAITS: not seen", has_focus);
    for why in &frame.unseen {
        let used = plain(buffer, area, look, &printable(why), look.dim());
        take(&mut area, used);
    }
    if !frame.root_would_add.is_empty() {
        let add = frame.root_would_add.join("; ");
        let text = format!("Root would add: {}.", printable(&add));
        plain(buffer, area, look, &text, look.warning());
    }
}

/// Guard and findings, from the bottom up.
fn bottom(
    buffer: &mut Buffer,
    area: &mut Rect,
    look: Look,
    frame: &Frame,
    main: &mut Main,
    gap: u16,
) {
    let (most_told, most_found) = match area.height {
        0..=17 => (1, 1),
        18..=TALL => (2, 2),
        _ => (4, 5),
    };
    let has_focus = main.focus == Pane::Findings;
    let count = frame.findings.len();
    let found = count.min(most_found);
    let has_bar = found > 0 && gap > 0;
    if found > 0 {
        findings(buffer, take_below(area, found as u16), look, frame, main);
        if has_bar {
            let title = format!("FINDINGS ({count}), Enter explains one");
            bar(buffer, take_below(area, 1), look, &title, has_focus);
            take_below(area, gap);
        }
    }
    let told = take_below(area, most_told);
    guard::draw(buffer, told, look, frame);
    let title = guard::title(frame, if found > 0 && !has_bar { " AND FINDINGS" } else { "" });
    bar(buffer, take_below(area, 1), look, &title, has_focus && !has_bar);
    take_below(area, gap);
}

fn findings(buffer: &mut Buffer, mut area: Rect, look: Look, frame: &Frame, main: &mut Main) {
    let rows: Vec<usize> = (0..frame.findings.len()).collect();
    let at = main.finding.at(&rows, |row, key| row == key);
    for index in main.finding.shown(rows.len(), usize::from(area.height)) {
        let Some(finding) = frame.findings.get(index) else { break };
        let row = take(&mut area, 1);
        prose(buffer, row, look, &told(finding, look));
        if main.focus == Pane::Findings && index == at {
            buffer.set_style(row, look.selected());
        }
    }
}

/// `FW001 warning: the hard limit is large (sda, sdb)`.
fn told(finding: &Finding, look: Look) -> Vec<Span<'static>> {
    let style = match finding.severity {
        Severity::Critical => look.flood(),
        Severity::Warning => look.warning(),
        Severity::Note => look.dim(),
    };
    let subjects = match finding.subjects.is_empty() {
        true => String::new(),
        false => format!(" ({})", finding.subjects.join(", ")),
    };
    let text = format!(" {}{subjects}", finding.title);
    let severity = format!("{} {}:", printable(&finding.id), finding.severity);
    vec![Span::styled(severity, style), Span::raw(look.text(&printable(&text)).into_owned())]
}
