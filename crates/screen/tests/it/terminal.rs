//! A screen on a terminal in memory, and its cells as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use floodwall_model::frame::Frame;
use floodwall_screen::{Colours, Command, Look, Mode, Options, Screen};
use jiff::tz::TimeZone;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell, CellWidth};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};

/// Okabe's colours and all signs.
pub(crate) const COLOURED: Look = Look { colours: Colours::Okabe, ascii: false };

/// Options of a live screen of root's.
pub(crate) fn options(look: Look) -> Options {
    Options { look, zone: TimeZone::UTC, mode: Mode::Live, device: None, is_root: true }
}

/// A screen that shows the last of these frames.
pub(crate) fn screen(options: Options, frames: Vec<Frame>) -> Screen {
    let mut screen = Screen::new(options);
    screen.replace(frames);
    screen
}

/// Presses a key.
pub(crate) fn press(screen: &mut Screen, code: KeyCode) -> Option<Command> {
    screen.key(KeyEvent::new(code, KeyModifiers::NONE))
}

/// Types characters; tells what the last one asks.
pub(crate) fn enter(screen: &mut Screen, text: &str) -> Option<Command> {
    text.chars().map(|character| press(screen, KeyCode::Char(character))).last().flatten()
}

/// The cells of a drawing.
pub(crate) fn drawn(screen: &mut Screen, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    terminal.backend().buffer().clone()
}

/// The text of a drawing, a line a row.
pub(crate) fn text(screen: &mut Screen, width: u16, height: u16) -> String {
    let buffer = drawn(screen, width, height);
    rows(&buffer, ' ', |cell| cell.symbol().to_owned())
}

/// Text and styles: below the text each cell that has a style is a letter, and the letters are
/// explained.
pub(crate) fn picture(screen: &mut Screen, width: u16, height: u16) -> String {
    let buffer = drawn(screen, width, height);
    let mut letters: BTreeMap<String, char> = BTreeMap::new();
    for cell in &buffer.content {
        let next = char::from(b'a' + letters.len() as u8);
        letters.entry(style(cell)).or_insert(next);
    }
    letters.insert(String::new(), '.');
    let mut out = rows(&buffer, ' ', |cell| cell.symbol().to_owned());
    out.push('\n');
    out.push_str(&rows(&buffer, '.', |cell| letters[&style(cell)].to_string()));
    for (style, letter) in letters.iter().filter(|(style, _)| !style.is_empty()) {
        let _ = write!(out, "\n{letter} {style}");
    }
    out
}

/// Rows without what stands for nothing at their ends.
fn rows(buffer: &Buffer, nothing: char, shown: impl Fn(&Cell) -> String) -> String {
    let mut out = String::new();
    for row in buffer.content.chunks(usize::from(buffer.area.width.max(1))) {
        let mut line = String::new();
        let mut hidden = 0;
        for cell in row {
            if hidden == 0 {
                line.push_str(&shown(cell));
                hidden = cell.cell_width().max(1);
            }
            hidden -= 1;
        }
        out.push_str(line.trim_end_matches(nothing));
        out.push('\n');
    }
    out
}

fn style(cell: &Cell) -> String {
    let mut parts = Vec::new();
    for (modifier, name) in
        [(Modifier::BOLD, "bold"), (Modifier::DIM, "dim"), (Modifier::REVERSED, "reversed")]
    {
        if cell.modifier.contains(modifier) {
            parts.push(name.to_owned());
        }
    }
    for (colour, on) in [(cell.fg, ""), (cell.bg, "on ")] {
        match colour {
            Color::Reset => {}
            Color::Indexed(index) => parts.push(format!("{on}{index}")),
            other => parts.push(format!("{on}{other}")),
        }
    }
    parts.join(" ")
}
