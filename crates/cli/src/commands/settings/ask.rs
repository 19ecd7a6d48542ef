//! Asks on the terminal before something is changed.

use std::io::{self, BufRead, IsTerminal, Write};

use floodwall_model::printable;

use crate::ascii;
use crate::exit::UsageError;

/// Whether there is a terminal to ask at.
pub(super) fn is_possible() -> bool {
    io::stdin().is_terminal()
}

/// Asks `question`; only `y` and `yes` are a yes.
///
/// # Errors
/// [`UsageError`] without a terminal to ask at.
pub(super) fn confirm(question: &str) -> anyhow::Result<bool> {
    if !is_possible() {
        return Err(
            UsageError("nobody can be asked without a terminal: give --yes".to_owned()).into()
        );
    }
    let mut terminal = io::stderr().lock();
    write!(terminal, "{} [y/N] ", ascii::localised(&printable::lines(question)))?;
    terminal.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
