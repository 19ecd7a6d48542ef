//! Sizes, text and tints. Lengths are pixels of the picture's own size.

use plotters::style::{BLACK, Color, IntoFont, RGBColor, ShapeStyle, TextStyle};

use super::super::span::{Band, Span};
use crate::chart::palette::tint_of;

pub(super) const WIDTH: i32 = 1_200;
/// Room for the names of the y axes.
pub(super) const LEFT: i32 = 84;
pub(super) const RIGHT: i32 = 16;
pub(super) const PLOT_WIDTH: i32 = WIDTH - LEFT - RIGHT;

/// Heights, from top to bottom.
pub(super) const HEAD: i32 = 84;
pub(super) const PHASES: i32 = 20;
pub(super) const FLUSHES: i32 = 18;
pub(super) const OFFSETS: i32 = 400;
/// The line over each lower panel with its title.
pub(super) const CAPTION: i32 = 30;
pub(super) const RATES: i32 = 110;
pub(super) const THROUGHPUT: i32 = 110;
pub(super) const TIMES: i32 = 150;
pub(super) const AXIS: i32 = 48;
pub(super) const HEIGHT: i32 =
    HEAD + PHASES + FLUSHES + OFFSETS + 3 * CAPTION + RATES + THROUGHPUT + TIMES + AXIS;

pub(super) const GREY: RGBColor = RGBColor(0x55, 0x55, 0x55);
pub(super) const MESH: RGBColor = RGBColor(0xD8, 0xD8, 0xD8);

/// Strength of a phase's tint, and of its warm-up's.
pub(super) const TINT: f64 = 0.16;
pub(super) const WARMUP_TINT: f64 = 0.06;
/// Height of a letter, and about how wide one is: the library does not know fonts, and neither does
/// an SVG.
pub(super) const LETTER: i32 = 12;
pub(super) const LETTER_WIDTH: f64 = 6.6;

pub(super) fn font(size: i32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&BLACK)
}

/// How wide a text is, more or less.
pub(super) fn text_width(text: &str) -> i32 {
    (text.chars().count() as f64 * LETTER_WIDTH) as i32
}

/// A moment's place in an area as wide as the picture.
pub(super) fn column(span: &Span, time_us: f64) -> i32 {
    let share = (time_us - span.start_us) / (span.end_us - span.start_us);
    LEFT + (share.clamp(0.0, 1.0) * f64::from(PLOT_WIDTH - 1)).round() as i32
}

pub(super) fn tint(band: &Band) -> ShapeStyle {
    tint_of(band.kind).mix(if band.warmup { WARMUP_TINT } else { TINT }).filled()
}
