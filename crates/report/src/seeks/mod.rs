//! A picture of what reached a lab's device: offset over time, and below it seeks, throughput,
//! queue and service time.
//!
//! ```text
//! CSV ─▶ Recording ─┐                 ┌▶ marks (thinned) ─┐
//!                   ├▶ span (phases) ─┤                   ├▶ draw ─▶ SVG
//! result Document ──┘                 └▶ bins (rates) ────┘
//! ```
//!
//! Streams are slanted lines, random I/O is a cloud, a seek is a jump between them: why a disk is
//! slow can be seen at once. The idea is that of C. Mason's seekwatcher. The same recording, result
//! and view always give the same text.

mod bins;
mod draw;
mod marks;
mod recording;
mod span;

use floodwall_model::PhaseKind;

pub use recording::{About, Operation, Recording, RecordingError, Request};
pub(crate) use span::utc;

use crate::schema::Document;
use crate::sheet::Sheet;

/// Marks of a picture unless told otherwise: at most 105 bytes each, so that a picture stays under
/// 2 MB.
pub const MARKS: usize = 18_000;

/// What a picture shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Only this phase with its warm-up; needs a result.
    pub phase: Option<PhaseKind>,
    /// Of this round; the first that was recorded if absent.
    pub round: Option<u32>,
    /// The most marks for requests.
    pub marks: usize,
}

impl Default for View {
    fn default() -> Self {
        Self { phase: None, round: None, marks: MARKS }
    }
}

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

/// Draws a recording. With a result, phases are shaded and named, and the axis counts from the
/// run's start.
///
/// # Errors
/// [`SeeksError`] if the result and the recording don't belong together, or the view is not in
/// them.
pub fn picture(
    recording: &Recording,
    result: Option<&Document>,
    view: &View,
) -> Result<Sheet, SeeksError> {
    if result.is_none() && (view.phase.is_some() || view.round.is_some()) {
        return Err(SeeksError::NoResult);
    }
    let span = span::Span::new(recording, result, view)?;
    draw::sheet(recording, &span, view.marks).map_err(|e| SeeksError::Draw(e.to_string()))
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
