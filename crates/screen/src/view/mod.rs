//! The views: each draws a part of the state into a part of the screen.
//!
//! ```text
//! draw ─▶ too small: the sentence alone
//!      ├▶ main | device | process | workload | help | page   all rows but the last
//!      ├▶ status                                             the last row
//!      └▶ question                                           above them
//! parts, tables: pieces that views share
//! ```

mod device;
mod guard;
mod help;
mod main;
mod page;
mod parts;
mod process;
mod question;
mod small;
mod status;
mod tables;
mod timeline;
mod workload;

use ratatui::layout::Rect;

use crate::state::{State, View};

/// Cells and rows below which only the sentence is shown.
const LEAST: (u16, u16) = (60, 14);

/// Draws the screen.
pub(crate) fn draw(state: &mut State, frame: &mut ratatui::Frame<'_>) {
    let whole = frame.area();
    if whole.width < LEAST.0 || whole.height < LEAST.1 {
        small::draw(state, frame.buffer_mut(), whole, LEAST);
        return;
    }
    let area = Rect { height: whole.height - 1, ..whole };
    let last = Rect { y: whole.bottom() - 1, height: 1, ..whole };
    let State { options, history, shown } = state;
    let buffer = frame.buffer_mut();
    match shown.views.last_mut() {
        None => main::draw(options, history, &shown.filter, &mut shown.main, buffer, area),
        Some(View::Device(disk, table)) => {
            device::draw(options, history, &shown.filter, disk, table, buffer, area);
        }
        Some(View::Process(key, first)) => {
            process::draw(options, history, shown.files.as_ref(), key, first, buffer, area);
        }
        Some(View::Workload(workload, table)) => {
            workload::draw(options, history, &shown.filter, workload, table, buffer, area);
        }
        Some(View::Help(first)) => help::draw(options, first, buffer, area),
        Some(View::Page(title, text, first)) => {
            page::draw(options.look, title, text, first, buffer, area);
        }
    }
    let cursor = status::draw(options, history, shown, buffer, last);
    if let Some(question) = &shown.question {
        question::draw(options, question, buffer, area);
    } else if let Some(cursor) = cursor {
        frame.set_cursor_position(cursor);
    }
}
