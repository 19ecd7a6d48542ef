//! Pieces of views: header bars, lines, and areas cut from one another.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::sentence::Sentence;
use crate::text::{cut, paragraph};
use crate::theme::Look;

/// Takes rows from the top of an area, as many as there are.
pub(super) fn take(area: &mut Rect, rows: u16) -> Rect {
    let rows = rows.min(area.height);
    let taken = Rect { height: rows, ..*area };
    area.y += rows;
    area.height -= rows;
    taken
}

/// Takes rows from the bottom of an area.
pub(super) fn take_below(area: &mut Rect, rows: u16) -> Rect {
    let rows = rows.min(area.height);
    area.height -= rows;
    Rect { y: area.bottom(), height: rows, ..*area }
}

/// A bar over a part of a view.
pub(super) fn bar(buffer: &mut Buffer, area: Rect, look: Look, title: &str, has_focus: bool) {
    styled_bar(buffer, area, look, title, look.header(has_focus));
}

/// A bar in this style.
pub(super) fn styled_bar(buffer: &mut Buffer, area: Rect, look: Look, title: &str, style: Style) {
    buffer.set_style(area, style);
    put(buffer, area, look, title, style);
}

/// A text in the first row of an area, cut where that ends. It has to be safe to show, with signs
/// of the terminal.
pub(super) fn put(buffer: &mut Buffer, area: Rect, look: Look, text: &str, style: Style) {
    if area.is_empty() {
        return;
    }
    let text = cut(text, usize::from(area.width), look.cut_mark());
    buffer.set_stringn(area.x, area.y, text, usize::from(area.width), style);
}

/// Styled text over the rows of an area, broken between words. It has to be safe to show, and its
/// signs are those of the terminal already. Tells how many rows it took.
pub(super) fn prose(buffer: &mut Buffer, area: Rect, look: Look, spans: &[Span<'static>]) -> u16 {
    if area.is_empty() {
        return 0;
    }
    let (cells, rows) = (usize::from(area.width), usize::from(area.height));
    let text = paragraph(spans, cells, rows, look.cut_mark());
    let mut row = area;
    for line in &text {
        set_line(buffer, take(&mut row, 1), line);
    }
    text.len() as u16
}

/// A sentence over the rows of an area, with what may be left out where there is room for it.
pub(super) fn sentence(buffer: &mut Buffer, area: Rect, look: Look, sentence: Sentence) {
    let Sentence { mut said, more } = sentence;
    let (cells, rows) = (usize::from(area.width), usize::from(area.height));
    let both: Vec<Span<'static>> = said.iter().chain(&more).cloned().collect();
    if paragraph(&both, cells, rows + 1, "").len() <= rows {
        said = both;
    }
    prose(buffer, area, look, &said);
}

/// Text of Floodwall's over the rows of an area; signs become those of the terminal.
pub(super) fn plain(buffer: &mut Buffer, area: Rect, look: Look, text: &str, style: Style) -> u16 {
    prose(buffer, area, look, &[Span::styled(look.text(text).into_owned(), style)])
}

/// A line in the first row of an area.
pub(super) fn set_line(buffer: &mut Buffer, area: Rect, line: &Line<'_>) {
    if !area.is_empty() {
        buffer.set_line(area.x, area.y, line, area.width);
    }
}

/// Facts with their names, `drains 120 MB/s`, as many as fit a row; the others are left out.
pub(super) fn facts(buffer: &mut Buffer, area: Rect, look: Look, facts: &[(&str, Option<String>)]) {
    let mut line = Line::default();
    let mut used = 0;
    for (name, value) in facts {
        let Some(value) = value else { continue };
        let value = look.text(value).into_owned();
        let wide = name.len() + 1 + crate::text::width(&value);
        let gap = if used == 0 { 0 } else { 3 };
        if used + gap + wide > usize::from(area.width) && used > 0 {
            continue;
        }
        line.push_span(Span::raw(" ".repeat(gap)));
        line.push_span(Span::styled((*name).to_owned(), look.dim()));
        line.push_span(Span::raw(" "));
        line.push_span(Span::styled(value, look.strong()));
        used += gap + wide;
    }
    set_line(buffer, area, &line);
}
