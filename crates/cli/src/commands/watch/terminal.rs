//! The terminal: raw and on its second screen while the program runs, and as it was afterwards,
//! also after an error, a panic or a signal.

use std::env;
use std::io::{self, Stdout, Write};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use floodwall_screen::{Colours, Look, Screen};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{execute, queue};
use signal_hook::consts::{SIGCONT, SIGTSTP};
use signal_hook::low_level::emulate_default_handler;

use crate::ascii;

/// How often a signal is looked for, and how long the loop may take to end by itself.
const LOOK: Duration = Duration::from_millis(250);
const GRACE: Duration = Duration::from_secs(1);

/// The terminal that stdout is.
pub(super) struct Terminal {
    inner: ratatui::Terminal<CrosstermBackend<Stdout>>,
    /// Raised by SIGTSTP: another program asks this one to stop.
    stopped: Arc<AtomicBool>,
    /// Raised by SIGCONT.
    continued: Arc<AtomicBool>,
}

impl Terminal {
    /// Takes the terminal.
    ///
    /// # Errors
    /// It can't be made raw, or it can't be written to.
    pub(super) fn open() -> anyhow::Result<Self> {
        let (stopped, continued) = (Arc::default(), Arc::default());
        signal_hook::flag::register(SIGTSTP, Arc::clone(&stopped))
            .and_then(|_| signal_hook::flag::register(SIGCONT, Arc::clone(&continued)))
            .context("can't install signal handlers")?;
        let tell = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // The message must not end on the second screen.
            give_back();
            tell(info);
        }));
        take()?;
        let inner = ratatui::Terminal::new(CrosstermBackend::new(io::stdout()))
            .context("can't write to the terminal")?;
        Ok(Self { inner, stopped, continued })
    }

    /// Draws the screen. A terminal that knows synchronized updates shows it in one piece.
    ///
    /// # Errors
    /// It can't be written to.
    pub(super) fn draw(&mut self, screen: &mut Screen) -> anyhow::Result<()> {
        let mut draw = || -> io::Result<()> {
            queue!(io::stdout(), BeginSynchronizedUpdate)?;
            self.inner.draw(|frame| screen.draw(frame))?;
            execute!(io::stdout(), EndSynchronizedUpdate)
        };
        draw().context("can't write to the terminal")
    }

    /// Its size has changed.
    ///
    /// # Errors
    /// It can't be written to.
    pub(super) fn resized(&mut self) -> anyhow::Result<()> {
        self.inner.autoresize().context("can't write to the terminal")
    }

    /// Draws every cell anew.
    ///
    /// # Errors
    /// It can't be written to.
    pub(super) fn clear(&mut self) -> anyhow::Result<()> {
        self.inner.clear().context("can't write to the terminal")
    }

    /// Stops the process, as Ctrl-Z does, and goes on once it is continued.
    ///
    /// # Errors
    /// The terminal can't be taken again.
    pub(super) fn stop(&mut self) -> anyhow::Result<()> {
        give_back();
        emulate_default_handler(SIGTSTP).context("can't stop this process")?;
        self.again()
    }

    /// Whether another program has asked this process to stop, or has continued it.
    pub(super) fn was_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || self.continued.load(Ordering::Relaxed)
    }

    /// Stops if it was asked to, and takes the terminal again.
    ///
    /// # Errors
    /// The terminal can't be taken.
    pub(super) fn again(&mut self) -> anyhow::Result<()> {
        if self.stopped.swap(false, Ordering::Relaxed) {
            give_back();
            emulate_default_handler(SIGTSTP).context("can't stop this process")?;
        }
        self.continued.store(false, Ordering::Relaxed);
        take()?;
        self.clear()
    }
}

/// Ends the process soon after `stop` is raised, even if its loop does not. crossterm reads a
/// terminal that is gone for ever (0 bytes each time), and SIGHUP then finds no end.
pub(super) fn end_anyway(stop: &Arc<AtomicBool>) {
    let stop = Arc::clone(stop);
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
        }
        std::thread::sleep(GRACE);
        give_back();
        std::process::exit(0);
    });
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
        // The hook belongs to the terminal.
        let _ = panic::take_hook();
    }
}

fn take() -> anyhow::Result<()> {
    enable_raw_mode().context("can't make the terminal raw")?;
    execute!(io::stdout(), EnterAlternateScreen).context("can't write to the terminal")
}

/// As it was. A terminal that is gone can't be given back.
fn give_back() {
    let mut out = io::stdout();
    let _ = execute!(out, EndSynchronizedUpdate, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
    let _ = out.flush();
}

/// What the terminal can show, as the environment tells.
pub(super) fn look() -> Look {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let value = |name: &str| env::var(name).unwrap_or_default();
    Look {
        colours: colours(is_set("NO_COLOR"), &value("TERM"), &value("COLORTERM")),
        ascii: !ascii::is_utf8(),
    }
}

fn colours(no_color: bool, term: &str, colorterm: &str) -> Colours {
    let many = matches!(colorterm, "truecolor" | "24bit") || term.contains("256color");
    match (no_color || matches!(term, "" | "dumb" | "vt100" | "vt220"), many) {
        (true, _) => Colours::None,
        (false, true) => Colours::Okabe,
        (false, false) => Colours::Sixteen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_color_wins_and_few_terminals_have_many_colours() {
        for (no_color, term, colorterm, expected) in [
            (true, "xterm-256color", "truecolor", Colours::None),
            (false, "xterm-256color", "", Colours::Okabe),
            (false, "xterm", "truecolor", Colours::Okabe),
            (false, "linux", "", Colours::Sixteen),
            (false, "dumb", "", Colours::None),
        ] {
            assert_eq!(colours(no_color, term, colorterm), expected, "{term} {colorterm}");
        }
    }
}
