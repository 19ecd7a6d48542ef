//! A screen too small for a view: the sentence, and how much larger it has to be.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::parts::{self, plain, put, take_below};
use crate::sentence;
use crate::state::State;

/// Draws it. `least` is the width and height that a view needs.
pub(super) fn draw(state: &State, buffer: &mut Buffer, mut area: Rect, least: (u16, u16)) {
    let options = &state.options;
    let look = options.look;
    let last = take_below(&mut area, 1);
    let mut text = format!("needs {} x {}", least.0, least.1);
    let has = format!(", has {} x {}", last.width, area.height + last.height);
    if text.len() + has.len() <= usize::from(last.width) {
        text.push_str(&has);
    }
    put(buffer, last, look, &text, look.warning());
    match state.history.shown() {
        Some(frame) => {
            let words = sentence::of_machine(frame, options.device_in(frame), look);
            parts::sentence(buffer, area, look, words);
        }
        None => {
            plain(buffer, area, look, "Looking.", look.strong());
        }
    }
}
