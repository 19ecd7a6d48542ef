//! How the screen looks: colours, marks and signs.
//!
//! ```text
//! Colours: Okabe | Sixteen | None ─▶ styles by role (victim, flood, guard, header, selected …)
//! ascii                           ─▶ marks, bars, and the signs of texts
//! ```
//!
//! Colour is never the only sign of anything: victims and floods have marks, a selected row is
//! reversed. Colours are of letters and marks; the terminal's own ground stays, because it may be
//! dark or light. Bars of headers set both.

use std::borrow::Cow;

use floodwall_model::printable::ascii_sign;
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::bar;

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Which colours.
    pub colours: Colours,
    /// Only characters of ASCII, except in names.
    pub ascii: bool,
}

/// Which colours a terminal shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    /// Okabe and Ito's ("Color Universal Design", 2008), the nearest of xterm's 256. Terminals of
    /// 24 bits have those as well, and their escapes are shorter on the way through ssh.
    Okabe,
    /// The terminal's own sixteen.
    Sixteen,
    /// No colour (`NO_COLOR`): bold, dim and reverse alone.
    None,
}

/// Okabe and Ito's sky blue, #56b4e9.
const SKY: Color = Color::Indexed(74);
/// Vermillion, #d55e00.
const VERMILLION: Color = Color::Indexed(166);
/// Bluish green, #009e73.
const GREEN: Color = Color::Indexed(36);
/// Orange, #e69f00.
const ORANGE: Color = Color::Indexed(178);
/// Blue, #0072b2.
const BLUE: Color = Color::Indexed(25);
/// Grounds and letters of bars.
const GREY: Color = Color::Indexed(238);
const WHITE: Color = Color::Indexed(255);
const BLACK: Color = Color::Indexed(16);

/// Bars in ASCII, from one eighth to full.
const ASCII_BARS: bar::Set<'static> = bar::Set {
    empty: " ",
    one_eighth: ".",
    one_quarter: ":",
    three_eighths: "-",
    half: "=",
    five_eighths: "+",
    three_quarters: "*",
    seven_eighths: "%",
    full: "#",
};

impl Look {
    /// A process that waits long.
    pub(crate) fn victim(self) -> Style {
        self.colour(SKY, Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// A process that floods.
    pub(crate) fn flood(self) -> Style {
        self.colour(VERMILLION, Color::LightRed).add_modifier(Modifier::BOLD)
    }

    /// What the guard does.
    pub(crate) fn guard(self) -> Style {
        self.colour(GREEN, Color::Green).add_modifier(Modifier::BOLD)
    }

    /// A warning.
    pub(crate) fn warning(self) -> Style {
        self.colour(ORANGE, Color::Yellow).add_modifier(Modifier::BOLD)
    }

    /// A figure or word that matters most.
    pub(crate) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Text that matters less.
    pub(crate) fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Bars of waits.
    pub(crate) fn wait_bars(self) -> Style {
        self.colour(SKY, Color::Cyan)
    }

    /// Bars of writes and of what they pile up.
    pub(crate) fn flood_bars(self) -> Style {
        self.colour(VERMILLION, Color::LightRed)
    }

    /// The header of a table or pane.
    pub(crate) fn header(self, has_focus: bool) -> Style {
        let (ground, letters) = match (self.colours, has_focus) {
            (Colours::Okabe, true) => (BLUE, WHITE),
            (Colours::Okabe, false) => (GREY, WHITE),
            (Colours::Sixteen, true) => (Color::Blue, Color::White),
            (Colours::Sixteen, false) => (Color::Gray, Color::Black),
            (Colours::None, true) => return self.strong().add_modifier(Modifier::REVERSED),
            (Colours::None, false) => return self.strong(),
        };
        self.strong().bg(ground).fg(letters)
    }

    /// The bars of a question.
    pub(crate) fn question(self) -> Style {
        match self.colours {
            Colours::Okabe => self.strong().bg(ORANGE).fg(BLACK),
            Colours::Sixteen => self.strong().bg(Color::Yellow).fg(Color::Black),
            Colours::None => self.header(true),
        }
    }

    /// The selected row of the table that has the focus.
    pub(crate) fn selected(self) -> Style {
        Style::new().fg(Color::Reset).bg(Color::Reset).add_modifier(Modifier::REVERSED)
    }

    fn colour(self, okabe: Color, sixteen: Color) -> Style {
        match self.colours {
            Colours::Okabe => Style::new().fg(okabe),
            Colours::Sixteen => Style::new().fg(sixteen),
            Colours::None => Style::new(),
        }
    }

    /// The mark of a victim.
    pub(crate) fn victim_mark(self) -> &'static str {
        if self.ascii { "*" } else { "●" }
    }

    /// The mark of a flood.
    pub(crate) fn flood_mark(self) -> &'static str {
        if self.ascii { "^" } else { "▲" }
    }

    /// The mark of the column that orders a table.
    pub(crate) fn sort_mark(self) -> &'static str {
        if self.ascii { "v" } else { "▼" }
    }

    /// What stands for the rest of a text that is cut.
    pub(crate) fn cut_mark(self) -> &'static str {
        if self.ascii { "~" } else { "…" }
    }

    /// What stands for an unknown value.
    pub(crate) fn unknown(self) -> &'static str {
        if self.ascii { "-" } else { "–" }
    }

    /// Symbols of vertical bars.
    pub(crate) fn bar_set(self) -> bar::Set<'static> {
        if self.ascii { ASCII_BARS } else { bar::NINE_LEVELS }
    }

    /// The symbol of a horizontal bar.
    pub(crate) fn block(self) -> &'static str {
        if self.ascii { "#" } else { "█" }
    }

    /// A text with Floodwall's signs as the terminal can show them. Names stay as they are.
    pub(crate) fn text<'a>(self, text: &'a str) -> Cow<'a, str> {
        if !self.ascii || !text.contains(|c| ascii_sign(c).is_some()) {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        for character in text.chars() {
            match ascii_sign(character) {
                Some(sign) => out.push_str(sign),
                None => out.push(character),
            }
        }
        Cow::Owned(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colours_nothing_has_one() {
        let look = Look { colours: Colours::None, ascii: true };
        for style in [
            look.victim(),
            look.flood(),
            look.guard(),
            look.warning(),
            look.wait_bars(),
            look.flood_bars(),
            look.question(),
            look.header(true),
            look.header(false),
        ] {
            assert_eq!((style.fg, style.bg), (None, None));
        }
    }

    #[test]
    fn marks_and_texts_are_ascii_where_the_terminal_shows_no_more() {
        let look = Look { colours: Colours::Okabe, ascii: true };
        let marks = [
            look.victim_mark(),
            look.flood_mark(),
            look.sort_mark(),
            look.cut_mark(),
            look.unknown(),
            look.block(),
        ];
        assert!(marks.iter().all(|mark| mark.is_ascii()));
        assert_eq!(look.text("12 µs – 3 × 4 → Müller"), "12 us - 3 x 4 -> Müller");
    }
}
