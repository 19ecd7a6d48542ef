//! How text is laid out.

/// How text is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether marks are coloured; the caller knows of terminals and `NO_COLOR`.
    pub color: bool,
    /// Columns to fit in; text that can't be wrapped may stand out.
    pub width: usize,
}

/// Longer lines of a paragraph are hard to read.
const PROSE: usize = 100;

impl Style {
    /// Columns of paragraphs.
    #[must_use]
    pub fn prose(self) -> usize {
        self.width.min(PROSE)
    }
}

impl Default for Style {
    /// No colour, 100 columns.
    fn default() -> Self {
        Self { color: false, width: 100 }
    }
}
