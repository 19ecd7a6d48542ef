//! How the screen looks: colours, marks and signs.

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
    /// Okabe and Ito's, the nearest of xterm's 256.
    Okabe,
    /// The terminal's own sixteen.
    Sixteen,
    /// No colour (`NO_COLOR`): bold, dim and reverse alone.
    None,
}
