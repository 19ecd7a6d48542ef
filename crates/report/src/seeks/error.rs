//! Why there is no picture.

/// Why there is no picture.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeeksError {
    /// A phase was asked for and no result says when it ran.
    #[error("can't tell when phases ran without a result; name one with --result")]
    NoResult,
    /// Recording and result have no common time.
    #[error(
        "the {what} does not say its Unix time, so the phases have no place in it; make it again \
         with this version"
    )]
    NoUnixTime {
        /// `recording` or `result`.
        what: &'static str,
    },
    /// There is no such phase.
    #[error("the result has no phase {wanted}; it has: {there}")]
    NoPhase {
        /// The phase, and the round if one was named.
        wanted: String,
        /// Those there are.
        there: String,
    },
    /// The recording is of another time.
    #[error(
        "the recording covers {recorded}, but {what} {ran}; record while the bench runs (floodwall \
         lab record NAME --follow --out FILE.csv)"
    )]
    NotCovered {
        /// From when to when.
        recorded: String,
        /// The part of the result to show.
        what: String,
        /// When it ran.
        ran: String,
    },
    /// The drawing library failed.
    #[error("can't draw the picture: {0}")]
    Draw(String),
}
