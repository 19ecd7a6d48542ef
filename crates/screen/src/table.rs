//! Tables: which columns fit, where they are, and how they are drawn.
//!
//! ```text
//! columns, width ─▶ those of the highest rank go until the rest fits ─▶ the room that is left goes
//!                   to words and bars ─▶ header, then one row a cell at a time
//! ```
//!
//! Widths depend on the screen alone, never on the data: a table stays still while its figures
//! change, and little is sent over a slow line.

use std::borrow::Cow;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::{Sparkline, Widget};

use crate::figures::fitting;
use crate::text::{cut, width};
use crate::theme::Look;

/// How a column is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Text from the left, with a blank behind it; it is cut where it is too long.
    Words,
    /// Text to the right, with a blank between it and figures before it. A header may take the
    /// blank.
    Figures,
    /// Bars.
    Bars,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    /// How it is filled.
    pub(crate) kind: Kind,
    /// The fewest cells, its blank included.
    pub(crate) least: u16,
    /// The most cells.
    pub(crate) most: u16,
    /// Where the width does not suffice, columns of the highest rank are left out first. Those of
    /// rank 0 stay, and the last of them are cut.
    pub(crate) rank: u8,
}

/// A cell.
#[derive(Debug)]
pub(crate) enum Cell<'a> {
    /// The title of a column.
    Title(Cow<'a, str>, Style),
    /// Text, safe to show.
    Text(Cow<'a, str>, Style),
    /// Values of a timeline, the one that fills a bar, and the style of bars.
    Bars(Vec<Option<u64>>, u64, Style),
}

impl<'a> Cell<'a> {
    /// Plain text.
    pub(crate) fn plain(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(text.into(), Style::new())
    }
}

/// The places of columns: which, where it begins, how wide.
pub(crate) type Places = Vec<(usize, u16, u16)>;

/// Blanks between figures and the words or bars behind them.
const GAP: u16 = 2;

/// Whether a gap is between two neighbours.
fn has_gap(left: &Column, right: &Column) -> bool {
    left.kind == Kind::Figures && right.kind != Kind::Figures
}

/// The cells that these columns need at least, if none is left out.
pub(crate) fn needed(columns: &[Column]) -> u16 {
    let gaps = columns.windows(2).filter(|pair| has_gap(&pair[0], &pair[1])).count();
    let gaps = GAP.saturating_mul(gaps as u16);
    columns.iter().fold(gaps, |sum, column| sum.saturating_add(column.least))
}

/// Lays out columns in so many cells.
pub(crate) fn placed(columns: &[Column], cells: u16) -> Places {
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    let of = |kept: &[usize]| kept.iter().map(|at| columns[*at]).collect::<Vec<Column>>();
    while needed(&of(&kept)) > cells {
        match kept.iter().map(|at| columns[*at].rank).max().filter(|rank| *rank > 0) {
            Some(highest) => kept.retain(|at| columns[*at].rank != highest),
            None => break,
        }
    }
    let mut wide: Vec<u16> = kept.iter().map(|at| columns[*at].least).collect();
    let mut left = cells.saturating_sub(needed(&of(&kept)));
    // Words are cut and bars are coarse where there is little room; figures only move apart.
    for are_figures in [false, true] {
        let mut before = 0;
        while left != before {
            before = left;
            for (at, wide) in kept.iter().zip(&mut wide) {
                let column = &columns[*at];
                let grows = (column.kind == Kind::Figures) == are_figures;
                if left > 0 && grows && *wide < column.most {
                    *wide += 1;
                    left -= 1;
                }
            }
        }
    }
    let mut places = Places::new();
    let mut x: u16 = 0;
    for (at, wide) in kept.into_iter().zip(wide) {
        if places.last().is_some_and(|(before, ..)| has_gap(&columns[*before], &columns[at])) {
            x = x.saturating_add(GAP).min(cells);
        }
        let wide = wide.min(cells - x);
        if wide > 0 {
            places.push((at, x, wide));
        }
        x += wide;
    }
    places
}

/// Draws one row of cells.
pub(crate) fn draw_row(
    buffer: &mut Buffer,
    area: Rect,
    look: Look,
    columns: &[Column],
    places: &Places,
    mut cell: impl FnMut(usize, u16) -> Cell<'static>,
) {
    let mut before = Kind::Words;
    for &(at, x, wide) in places {
        let mut place =
            Rect { x: area.x.saturating_add(x), width: wide, ..area }.intersection(area);
        if place.is_empty() {
            continue;
        }
        let kind = columns[at].kind;
        let has_blank = kind == Kind::Figures && before != Kind::Words && place.width > 1;
        before = kind;
        let inner = place.width - u16::from(kind == Kind::Words);
        match cell(at, inner) {
            Cell::Title(text, style) => put(buffer, place, look, kind, text, style),
            Cell::Text(text, style) => {
                place.x += u16::from(has_blank);
                place.width -= u16::from(has_blank);
                put(buffer, place, look, kind, text, style);
            }
            Cell::Bars(values, full, style) => {
                draw_bars(buffer, place, look, &values, full, style);
            }
        }
    }
}

fn put(
    buffer: &mut Buffer,
    place: Rect,
    look: Look,
    kind: Kind,
    text: Cow<'static, str>,
    style: Style,
) {
    let room = usize::from(place.width);
    let (text, x) = match kind {
        Kind::Figures | Kind::Bars => {
            let text = fitting(text.into_owned(), room);
            let text = cut(&text, room, look.cut_mark()).into_owned();
            let x = place.right().saturating_sub(width(&text) as u16);
            (text, x)
        }
        Kind::Words => {
            let room = room - usize::from(room > 1);
            (cut(&text, room, look.cut_mark()).into_owned(), place.x)
        }
    };
    buffer.set_stringn(x, place.y, text, room, style);
}

/// Draws values as vertical bars, the newest at the right edge. Values above `full` fill a bar,
/// and any value but 0 shows.
pub(crate) fn draw_bars(
    buffer: &mut Buffer,
    area: Rect,
    look: Look,
    values: &[Option<u64>],
    full: u64,
    style: Style,
) {
    let area = area.intersection(buffer.area);
    if area.is_empty() {
        return;
    }
    let skipped = values.len().saturating_sub(usize::from(area.width));
    let values = &values[skipped..];
    let steps = 8 * u64::from(area.height);
    let scaled = |value: &Option<u64>| {
        value.map(|value| {
            let part = u128::from(value.min(full)) * u128::from(steps) / u128::from(full.max(1));
            (part as u64).max(u64::from(value > 0))
        })
    };
    let drawn = Rect { x: area.right() - values.len() as u16, width: values.len() as u16, ..area };
    Sparkline::default()
        .data(values.iter().map(scaled))
        .max(steps)
        .bar_set(look.bar_set())
        .style(style)
        .render(drawn, buffer);
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn column(kind: Kind, least: u16, most: u16, rank: u8) -> Column {
        Column { kind, least, most, rank }
    }

    const COLUMNS: [Column; 4] = [
        column(Kind::Words, 10, 20, 0),
        column(Kind::Figures, 8, 8, 2),
        column(Kind::Figures, 8, 8, 1),
        column(Kind::Bars, 10, 12, 0),
    ];

    #[test]
    fn columns_of_a_high_rank_go_first_and_room_is_shared() {
        assert_eq!(placed(&COLUMNS, 38), [(0, 0, 10), (1, 10, 8), (2, 18, 8), (3, 28, 10)]);
        let one_less = [(0, 0, 15), (2, 15, 8), (3, 25, 12)];
        assert_eq!(placed(&COLUMNS, 37), one_less, "bars are 12 at most");
        assert_eq!(placed(&COLUMNS, 20), [(0, 0, 10), (3, 10, 10)]);
        assert_eq!(placed(&COLUMNS, 12), [(0, 0, 10), (3, 10, 2)], "the last is cut");
        assert_eq!(placed(&COLUMNS, 0), []);
        assert_eq!(needed(&COLUMNS), 38);
    }

    #[test]
    fn figures_of_any_width_stay_apart_and_titles_may_touch() {
        let columns: Vec<Column> =
            [8, 9, 9].map(|cells| column(Kind::Figures, cells, cells, 0)).into();
        let columns = [&[column(Kind::Words, 6, 6, 0)], columns.as_slice()].concat();
        let places = placed(&columns, 32);
        let look = Look { colours: crate::theme::Colours::None, ascii: false };
        let area = Rect::new(0, 0, 32, 1);
        let drawn = |cell: fn(&'static str) -> Cell<'static>, texts: [&'static str; 4]| {
            let mut buffer = Buffer::empty(area);
            draw_row(&mut buffer, area, look, &columns, &places, |at, _| cell(texts[at]));
            buffer.content.iter().map(|cell| cell.symbol()).collect::<String>()
        };
        let figures = ["loop34", "120 MB/s", "16 min 56 s", "1000 MiB"];
        assert_eq!(drawn(Cell::plain, figures), "loop… 120 MB/s   16 min 1000 MiB");
        let wide = ["sda", "1", "123456789", "123456789"];
        assert_eq!(drawn(Cell::plain, wide), "sda          1 1234567… 1234567…");
        let titles = ["DISK", "DRAINS AT", "DRAINEDIN", "QUEUE p50"];
        let title = |text: &'static str| Cell::Title(text.into(), Style::new());
        assert_eq!(drawn(title, titles), "DISK  DRAINS …DRAINEDINQUEUE p50");
    }

    #[test]
    fn a_bar_shows_any_value_but_none() {
        let area = Rect::new(0, 0, 6, 1);
        let mut buffer = Buffer::empty(area);
        let look = Look { colours: crate::theme::Colours::None, ascii: true };
        draw_bars(
            &mut buffer,
            area,
            look,
            &[Some(0), Some(1), Some(500), Some(u64::MAX), None],
            1000,
            Style::new(),
        );
        let line: String = buffer.content.iter().map(|cell| cell.symbol()).collect();
        assert_eq!(line, "  .=# ");
    }
}
