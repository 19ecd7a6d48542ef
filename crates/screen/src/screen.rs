//! The screen: its state, and the calls that change, draw and ask it.

use floodwall_model::frame::Frame;
use floodwall_model::printable::printable;
use jiff::tz::TimeZone;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

use crate::command::Command;
use crate::theme::Look;

/// Where the frames come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// This machine, now.
    Live,
    /// A simulated machine. No action runs: it would change the real one.
    Simulated,
    /// A recording. No action runs.
    Replay,
}

/// What a screen is made with.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the terminal can show.
    pub look: Look,
    /// The zone of the times that are shown.
    pub zone: TimeZone,
    /// Where the frames come from.
    pub mode: Mode,
    /// Show this disk alone, by the kernel's name.
    pub device: Option<String>,
    /// Whether the user is root: only root can take the actions.
    pub is_root: bool,
}

/// The screen.
#[derive(Debug)]
pub struct Screen {
    options: Options,
    frame: Option<Frame>,
    message: Option<String>,
    is_paused: bool,
}

impl Screen {
    /// A screen that has no frame yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { options, frame: None, message: None, is_paused: false }
    }

    /// Takes the newest frame. A paused screen keeps it and shows it later; a replay shows each.
    pub fn push(&mut self, frame: Frame) {
        self.frame = Some(frame);
    }

    /// Takes these frames in the place of all others: a replay has jumped. The last one is shown,
    /// and those before it are its history.
    pub fn replace(&mut self, frames: Vec<Frame>) {
        self.frame = frames.into_iter().next_back();
    }

    /// Whether the user has stopped the screen. A replay does not go on by itself meanwhile.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Shows a line until the next key: a command's result, an error, a recording's end.
    pub fn say(&mut self, text: String) {
        self.message = Some(text);
    }

    /// Shows a page of text that can be scrolled.
    pub fn show_text(&mut self, title: String, text: String) {
        let _ = (title, text);
    }

    /// Takes the names of the files that a process has open, or why they can't be told: the answer
    /// to [`Command::Files`].
    pub fn tell_files(&mut self, pid: u32, files: Result<Vec<String>, String>) {
        let _ = (pid, files);
    }

    /// Takes a key, and tells what it asks of the program.
    pub fn key(&mut self, key: KeyEvent) -> Option<Command> {
        self.message = None;
        match key.code {
            KeyCode::Char('q') => Some(Command::Quit),
            KeyCode::Char(' ') => {
                self.is_paused = !self.is_paused;
                None
            }
            _ => None,
        }
    }

    /// Draws the screen.
    pub fn draw(&mut self, frame: &mut ratatui::Frame<'_>) {
        let _ = &self.options;
        let disks = self.frame.iter().flat_map(|frame| &frame.disks);
        let names: Vec<String> = disks.map(|disk| printable(&disk.name).into_owned()).collect();
        frame.render_widget(names.join(" "), frame.area());
    }
}
