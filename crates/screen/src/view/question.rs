//! The question before a command, over the middle of a view.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::{Clear, Widget};

use super::parts::{plain, put, styled_bar, take};
use crate::actions::Question;
use crate::state::Options;
use crate::text::wrapped;

/// The widest box: longer lines are hard to read.
const WIDTH: u16 = 100;

/// Draws it.
pub(super) fn draw(options: &Options, question: &Question, buffer: &mut Buffer, area: Rect) {
    let look = options.look;
    let width = if area.width <= WIDTH { area.width } else { WIDTH };
    let cells = usize::from(width.saturating_sub(2));
    let text = wrapped(&question.text, cells).len() as u16;
    let line = match options.is_root {
        true => question.command_line(),
        false => format!("sudo {}", question.command_line()),
    };
    // A line that is broken can still be copied.
    let mut line = wrapped(&line, cells.saturating_sub(4));
    let last = line.len().saturating_sub(1);
    line.iter_mut().take(last).for_each(|part| part.push_str(" \\"));
    let answer = match options.is_root {
        true => "y runs it; any other key does not",
        false => "It needs root, so it can't be run from here. Any key goes back.",
    };
    // Title, blank, text, blank, command, blank, answer, blank.
    let height = (6 + text + line.len() as u16).min(area.height);
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    Clear.render(place, buffer);
    let mut rows = place;
    styled_bar(buffer, take(&mut rows, 1), look, &format!(" {}", question.title), look.question());
    let mut inner = Rect { x: rows.x + 1, width: rows.width.saturating_sub(2), ..rows };
    take(&mut inner, 1);
    let words = take(&mut inner, text);
    plain(buffer, words, look, &question.text, Style::new());
    take(&mut inner, 1);
    for part in &line {
        let row = take(&mut inner, 1);
        let row = Rect { x: row.x + 2, width: row.width.saturating_sub(2), ..row };
        put(buffer, row, look, part, look.strong());
    }
    take(&mut inner, 1);
    put(buffer, take(&mut inner, 1), look, answer, look.warning());
    // A bar below it, so that it stands apart from the view without colours, too.
    let end = Rect { y: place.bottom().saturating_sub(1), height: 1, ..place };
    if inner.height > 0 {
        styled_bar(buffer, end, look, "", look.question());
    }
}
