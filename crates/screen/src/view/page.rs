//! A page of text that can be scrolled: `explain`, the output of a command.

use floodwall_model::printable::{lines, printable};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::parts::{bar, put, take};
use crate::text::wrapped;
use crate::theme::Look;

/// Draws it. `first` is the first line that is shown; it is corrected so that the screen is full.
pub(super) fn draw(
    look: Look,
    title: &str,
    text: &str,
    first: &mut usize,
    buffer: &mut Buffer,
    mut area: Rect,
) {
    let header = take(&mut area, 1);
    let text = lines(text);
    let text = look.text(&text);
    let wrapped = wrapped(&text, usize::from(area.width));
    let height = usize::from(area.height);
    *first = (*first).min(wrapped.len().saturating_sub(height));
    let last = (*first + height).min(wrapped.len());
    let mut title = printable(title).into_owned();
    if wrapped.len() > height {
        title.push_str(&format!("  {} to {last} of {} lines", *first + 1, wrapped.len()));
    }
    bar(buffer, header, look, &title, true);
    for line in wrapped.iter().skip(*first).take(height) {
        put(buffer, take(&mut area, 1), look, line, Style::new());
    }
}
