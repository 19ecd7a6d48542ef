//! A timeline of two minutes with its name and its largest value.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::parts::{put, take};
use crate::table::draw_bars;
use crate::text::width;
use crate::theme::Look;

/// Cells of the name and the value before the bars.
const LABEL: u16 = 26;

/// The columns that bars have in a view of this width.
pub(super) fn columns(area: Rect) -> u16 {
    area.width.saturating_sub(LABEL)
}

/// What a timeline shows.
pub(super) struct Timeline<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// A value a column.
    pub(super) values: &'a [Option<u64>],
    /// The smallest value of a full bar, so that small values have small bars.
    pub(super) least: u64,
    /// How a value is told.
    pub(super) show: fn(u64) -> String,
    /// The style of its bars.
    pub(super) style: Style,
}

impl Timeline<'_> {
    /// Draws it over the rows of an area.
    pub(super) fn draw(&self, buffer: &mut Buffer, area: Rect, look: Look) {
        if area.is_empty() {
            return;
        }
        let most = self.values.iter().flatten().copied().max();
        let label = Rect { width: LABEL.min(area.width).saturating_sub(1), ..area };
        let mut rows = label;
        put(buffer, take(&mut rows, 1), look, self.name, look.dim());
        let told = match most {
            Some(most) => look.text(&format!("max {}", (self.show)(most))).into_owned(),
            None => look.unknown().to_owned(),
        };
        // Beside the name if there is one row, else below it.
        let (row, right) = match area.height {
            1 => (label, label.width.saturating_sub(width(&told) as u16)),
            _ => (take(&mut rows, 1), 0),
        };
        let place = Rect { x: row.x + right, width: row.width - right, ..row };
        put(buffer, place, look, &told, look.strong());
        let bars = Rect { x: area.x + label.width + 1, width: columns(area), ..area };
        let full = most.unwrap_or(0).max(self.least);
        draw_bars(buffer, bars.intersection(area), look, self.values, full, self.style);
    }
}
