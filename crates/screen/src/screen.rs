//! The screen: the calls that the program around it makes.

use floodwall_model::frame::Frame;
use floodwall_model::printable::printable;
use ratatui::crossterm::event::KeyEvent;

use crate::command::Command;
use crate::keys;
use crate::state::{Options, State, View};
use crate::view;

/// The screen.
#[derive(Debug)]
pub struct Screen {
    state: State,
}

impl Screen {
    /// A screen that has no frame yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { state: State::new(options) }
    }

    /// Takes the newest frame. A paused screen keeps it and shows it later; a replay shows each.
    pub fn push(&mut self, frame: Frame) {
        self.state.history.push(frame);
    }

    /// Takes these frames in the place of all others: a replay has jumped. The last one is shown,
    /// and those before it are its history. Frames have to be in the order of their times.
    pub fn replace(&mut self, frames: Vec<Frame>) {
        self.state.history.replace(frames);
    }

    /// Shows a line until the next key: a command's result, an error, a recording's end.
    pub fn say(&mut self, text: String) {
        self.state.shown.message = Some(printable(&text).into_owned());
    }

    /// Shows a page of text that can be scrolled.
    pub fn show_text(&mut self, title: String, text: String) {
        self.state.shown.views.push(View::Page(title, text, 0));
    }

    /// Takes the names of the files that a process has open, or why they can't be told: the answer
    /// to [`Command::Files`].
    pub fn tell_files(&mut self, pid: u32, files: Result<Vec<String>, String>) {
        self.state.shown.files = Some((pid, files));
    }

    /// Takes a key, and tells what it asks of the program.
    pub fn key(&mut self, key: KeyEvent) -> Option<Command> {
        keys::key(&mut self.state, key)
    }

    /// Draws the screen.
    pub fn draw(&mut self, frame: &mut ratatui::Frame<'_>) {
        view::draw(&mut self.state, frame);
    }
}
