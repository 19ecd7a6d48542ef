//! The picture: panels over one time axis.
//!
//! ```text
//! title, legend
//! phases        names over tinted bands that go through all panels
//! flushes       one tick a flush: it has no place on the device
//! offset        GiB, one mark a request or several (marks.rs)
//! rates         requests and seeks a second
//! throughput    MB/s read and written
//! times         queue and service, p50 and p99, logarithmic
//! time axis
//! ```
//!
//! Colours are Okabe and Ito's, which colour-blind readers can tell apart; rare things differ in
//! shape too, percentiles in line width. The picture brings its own white ground, so a dark viewer
//! shows it as a light one does. Lengths are pixels of the picture's own size.

mod chart;
mod lines;
mod marks;
mod style;

use plotters::drawing::IntoDrawingArea;
use plotters::style::WHITE;

use super::bins::Bins;
use super::marks::{Frame, Marks};
use super::recording::{Operation, Recording, Request};
use super::span::Span;
use crate::sheet::{Backend, Sheet};
use chart::DrawError;
use lines::{draw_rates, draw_throughput, draw_times};
use marks::{draw_flushes, draw_head, draw_offsets, draw_phase_names};
use style::{
    CAPTION, FLUSHES, HEAD, HEIGHT, OFFSETS, PHASES, PLOT_WIDTH, RATES, THROUGHPUT, WIDTH,
};

/// Room on the axis of offsets around a single place, in bytes.
const SMALLEST_ROOM: u64 = 1 << 20;

/// Draws the picture, with at most `most` marks.
pub(super) fn sheet(recording: &Recording, span: &Span, most: usize) -> Result<Sheet, DrawError> {
    let offsets = offsets(recording, span);
    let frame = Frame {
        span,
        offsets: offsets.0..=offsets.1,
        width_px: PLOT_WIDTH.unsigned_abs(),
        height_px: OFFSETS.unsigned_abs(),
    };
    let marks = Marks::new(&recording.requests, &frame, most);
    let bins = Bins::new(recording, span);
    let mut sheet = Sheet::of_pixels(WIDTH, HEIGHT);
    {
        let root = Backend(&mut sheet).into_drawing_area();
        root.fill(&WHITE)?;
        let (head, below) = root.split_vertically(HEAD);
        draw_head(&head, recording, span, &marks)?;
        let (phases, below) = below.split_vertically(PHASES);
        draw_phase_names(&phases, span)?;
        let (flushes, below) = below.split_vertically(FLUSHES);
        draw_flushes(&flushes, span, &marks)?;
        let (panel, below) = below.split_vertically(OFFSETS);
        draw_offsets(&panel, span, &marks, offsets)?;
        let (panel, below) = below.split_vertically(CAPTION + RATES);
        draw_rates(&panel, span, &bins)?;
        let (panel, below) = below.split_vertically(CAPTION + THROUGHPUT);
        draw_throughput(&panel, span, &bins)?;
        draw_times(&below, span, &bins)?;
        root.present()?;
    }
    Ok(sheet)
}

/// The axis of offsets: the shown range, and a little room above and below so that no mark lies on
/// the edge.
fn offsets(recording: &Recording, span: &Span) -> (u64, u64) {
    let has_place = |r: &&Request| r.operation != Operation::Flush && span.contains(r.time_us);
    let shown = || recording.requests.iter().filter(has_place);
    let low = shown().map(|r| r.offset_bytes).min().unwrap_or(0);
    let high = shown().map(|r| r.offset_bytes + r.size_bytes).max().unwrap_or(0);
    let room = ((high - low) / 40).max(SMALLEST_ROOM);
    (low.saturating_sub(room), high.saturating_add(room))
}
