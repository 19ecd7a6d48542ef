//! How text is laid out.

/// How text is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether marks are coloured; the caller knows of terminals and `NO_COLOR`.
    pub color: bool,
    /// Columns to fit in; text that can't be wrapped may stand out.
    pub width: usize,
}

impl Default for Style {
    /// No colour, 100 columns.
    fn default() -> Self {
        Self { color: false, width: 100 }
    }
}
