//! A timeline of two minutes with its name and its largest value.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

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

/// Draws it over the rows of an area. `least` is the smallest value of a full bar.
pub(super) fn draw(
    buffer: &mut Buffer,
    area: Rect,
    look: Look,
    name: &str,
    values: &[Option<u64>],
    least: u64,
    show: fn(u64) -> String,
) {
    if area.is_empty() {
        return;
    }
    let most = values.iter().flatten().copied().max();
    let label = Rect { width: LABEL.min(area.width).saturating_sub(1), ..area };
    let mut rows = label;
    put(buffer, take(&mut rows, 1), look, name, look.dim());
    let told = most.map_or_else(|| look.unknown().to_owned(), |most| format!("max {}", show(most)));
    let told = look.text(&told).into_owned();
    // Beside the name if there is one row, else below it.
    let row = if area.height == 1 { label } else { take(&mut rows, 1) };
    let right = row.width.saturating_sub(width(&told) as u16);
    let right = if area.height == 1 { right } else { 0 };
    let place = Rect { x: row.x + right, width: row.width - right, ..row };
    put(buffer, place, look, &told, look.strong());
    let bars = Rect { x: area.x + label.width + 1, width: columns(area), ..area };
    draw_bars(buffer, bars.intersection(area), look, values, most.unwrap_or(0).max(least));
}
