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
mod error;
mod marks;
mod recording;
mod span;
mod view;

pub use error::SeeksError;
pub use recording::{About, Operation, Recording, RecordingError, Request};
pub(crate) use span::utc;
pub use view::{MARKS, View};

use crate::schema::Document;
use crate::sheet::Sheet;

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
