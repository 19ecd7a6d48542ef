//! The terminal that stdout is, or what stands for it: its size and whether it takes colours.
//!
//! ```text
//! stdout is a terminal ─▶ its width and height
//! otherwise            ─▶ COLUMNS, else 100 columns; no height
//! ```

use std::env;
use std::io::{self, IsTerminal};

use floodwall_report::status::Style;

/// Columns where neither a terminal nor `COLUMNS` tells, so that piped output does not depend on
/// the window that it was made in.
const PIPED: usize = 100;
/// Less does not hold a figure with its name; more is no screen's width.
const WIDTHS: std::ops::RangeInclusive<usize> = 40..=1000;

/// How text on stdout is laid out.
pub(crate) fn style() -> Style {
    let no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    Style { color: io::stdout().is_terminal() && !no_color, width: width() }
}

/// Columns of text on stdout.
pub(crate) fn width() -> usize {
    let columns = env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    fitting(size().map(|(columns, _)| columns), columns)
}

/// Lines of the screen; `None` if stdout is no terminal.
pub(crate) fn height() -> Option<usize> {
    size().map(|(_, lines)| lines).filter(|lines| *lines > 0)
}

/// Columns and lines of the terminal that stdout is.
fn size() -> Option<(usize, usize)> {
    let stdout = io::stdout();
    let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok())??;
    Some((size.ws_col.into(), size.ws_row.into()))
}

/// A serial line's terminal knows no size and says 0.
fn fitting(terminal: Option<usize>, columns: Option<usize>) -> usize {
    let told = terminal.into_iter().chain(columns).find(|columns| *columns > 0);
    told.map_or(PIPED, |columns| columns.clamp(*WIDTHS.start(), *WIDTHS.end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terminal_decides_then_columns_then_a_fixed_width() {
        assert_eq!(fitting(Some(80), Some(120)), 80);
        assert_eq!(fitting(Some(0), Some(120)), 120);
        assert_eq!(fitting(None, Some(0)), PIPED);
        assert_eq!([fitting(None, Some(7)), fitting(Some(9999), None)], [40, 1000]);
    }
}
