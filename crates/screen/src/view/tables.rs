//! Tables of processes and of disks: a header and as many rows as there is room for.

use floodwall_model::frame::{Frame, Process};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::parts::{put, take};
use crate::cursor::Cursor;
use crate::disks::{DISK_FIELDS, DiskField, DiskRow};
use crate::fields::Field;
use crate::lists::is_of;
use crate::state::{Lists, Processes};
use crate::table::{Cell, Column, Places, draw_row, placed};
use crate::theme::Look;

/// What a table of processes is.
pub(super) struct Table<'a> {
    /// Its fields.
    pub(super) fields: &'a [Field],
    /// What the column of names is called.
    pub(super) title: &'a str,
    /// The text of a table without rows.
    pub(super) empty: &'a str,
    /// Whether it has the keys.
    pub(super) has_focus: bool,
}

/// The columns of these fields.
pub(super) fn columns(fields: &[Field]) -> Vec<Column> {
    fields.iter().map(|field| field.column()).collect()
}

/// Draws a table of processes.
pub(super) fn processes(
    buffer: &mut Buffer,
    mut area: Rect,
    look: Look,
    frame: &Frame,
    table: &Table<'_>,
    rows: &[&Process],
    chosen: &mut Processes,
) {
    let columns = columns(table.fields);
    let places = placed(&columns, area.width);
    let at = chosen.cursor.at(rows, |row, key| is_of(row, key));
    let header = take(&mut area, 1);
    let shown = chosen.cursor.shown(rows.len(), usize::from(area.height));
    let title = |field: &Field| match field {
        Field::Who => counted(table.title, rows.len(), shown.len()),
        field => field.title().to_owned(),
    };
    let titles: Vec<(String, bool)> =
        table.fields.iter().map(|field| (title(field), *field == chosen.order)).collect();
    draw_header(buffer, header, look, &columns, &places, &titles, table.has_focus);
    if rows.is_empty() {
        put(buffer, take(&mut area, 1), look, table.empty, look.dim());
    }
    for index in shown {
        let Some(process) = rows.get(index) else { break };
        let row = take(&mut area, 1);
        let cell = |column: usize, cells| match table.fields.get(column) {
            Some(field) => field.cell(frame, process, cells, look),
            None => Cell::plain(""),
        };
        draw_row(buffer, row, look, &columns, &places, cell);
        if table.has_focus && index == at {
            buffer.set_style(row, look.selected());
        }
    }
}

/// Draws the table of disks.
pub(super) fn disks(
    buffer: &mut Buffer,
    mut area: Rect,
    look: Look,
    lists: Lists<'_>,
    (order, cursor): (DiskField, &mut Cursor<String>),
    has_focus: bool,
) {
    let rows = lists.disks(order);
    let guard = lists.frame().guard.as_ref();
    // Without a guard its columns say nothing.
    let has_guard = |field: &&DiskField| {
        guard.is_some() || !matches!(field, DiskField::Pressure | DiskField::Guard)
    };
    let fields: Vec<DiskField> = DISK_FIELDS.iter().filter(has_guard).copied().collect();
    let columns: Vec<Column> = fields.iter().map(|field| field.column()).collect();
    let places = placed(&columns, area.width);
    let at = cursor.at(&rows, |row, name| row.disk.name == *name);
    let header = take(&mut area, 1);
    let shown = cursor.shown(rows.len(), usize::from(area.height));
    let line = lists.line();
    let title = |field: &DiskField| match field {
        DiskField::Name => counted(field.title(line), rows.len(), shown.len()),
        field => field.title(line).to_owned(),
    };
    let titles: Vec<(String, bool)> =
        fields.iter().map(|field| (title(field), *field == order)).collect();
    draw_header(buffer, header, look, &columns, &places, &titles, has_focus);
    if rows.is_empty() {
        put(buffer, take(&mut area, 1), look, "no disk", look.dim());
    }
    for row in rows.get(shown.clone()).unwrap_or_default().iter().zip(shown) {
        let (row, index): (&DiskRow<'_>, usize) = row;
        let place = take(&mut area, 1);
        let cell = |column: usize, cells| match fields.get(column) {
            Some(field) => field.cell(*row, guard, lists.history(), line, cells, look),
            None => Cell::plain(""),
        };
        draw_row(buffer, place, look, &columns, &places, cell);
        if has_focus && index == at {
            buffer.set_style(place, look.selected());
        }
    }
}

/// A title with the number of rows, where not all are on the screen.
fn counted(title: &str, rows: usize, shown: usize) -> String {
    if shown < rows { format!("{title} ({rows})") } else { title.to_owned() }
}

fn draw_header(
    buffer: &mut Buffer,
    area: Rect,
    look: Look,
    columns: &[Column],
    places: &Places,
    titles: &[(String, bool)],
    has_focus: bool,
) {
    let style = look.header(has_focus);
    buffer.set_style(area, style);
    let cell = |column: usize, _| {
        let (title, orders) = titles.get(column).map_or(("", false), |(t, o)| (t.as_str(), *o));
        let mark = if orders { look.sort_mark() } else { "" };
        let text = format!("{mark}{title}");
        Cell::Title(text.into(), style)
    };
    draw_row(buffer, area, look, columns, places, cell);
}
