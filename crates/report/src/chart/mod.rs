//! The charts of a report, drawn by a charting library on [`Sheet`]s.
//!
//! ```text
//! study (numbers) ─▶ frontier | history | percentiles | effects
//!   ─▶ Chart { wide sheet, narrow sheet, hover } ─▶ html | SVG | PNG
//! ```
//!
//! Each chart is drawn twice, for a screen and for a phone, because letters that shrink with a
//! picture can't be read. Tooltips are data, not drawing (`Hover`): places are fractions of the
//! plotting area, so one set serves both.

mod axis;
mod clock;
pub(crate) mod effects;
mod frame;
pub(crate) mod frontier;
pub(crate) mod history;
pub(crate) mod night;
pub(crate) mod palette;
pub(crate) mod percentiles;

use serde::Serialize;

use crate::html::markup::slug;
use crate::sheet::{Align, Ink, Shape, Sheet};
use crate::study::Study;
pub(crate) use frame::Plot;
use frame::{LETTER, px, text_width};

/// Width of a chart on a screen, in pixels.
pub(crate) const WIDE: i32 = 980;
/// Width of a chart on a phone, in pixels: the narrowest phones in use have 320, less the page's
/// margins.
pub(crate) const NARROW: i32 = 344;

/// Why a chart could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("can't draw the chart '{chart}': {why}")]
pub struct ChartError {
    /// Which.
    pub chart: String,
    /// What the library said.
    pub why: String,
}

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Its name in file names and links: letters, digits and hyphens.
    pub id: String,
    /// The heading.
    pub title: String,
    /// How to read it, in a sentence or two.
    pub caption: String,
    /// A text for users who can't see it.
    pub alt: String,
    /// For a screen.
    pub wide: Sheet,
    /// For a phone.
    pub(crate) narrow: Sheet,
    /// Colours and their meanings.
    pub(crate) legend: Vec<Key>,
    /// The data of the tooltips.
    pub(crate) hover: Hover,
    /// Where the plotting area is: on the wide sheet, on the narrow one.
    pub(crate) plots: [Plot; 2],
}

impl Chart {
    /// Its name as a file, without ending.
    #[must_use]
    pub fn file_name(&self, study: &Study<'_>) -> String {
        let index = self.id.strip_prefix("time-").and_then(|i| i.parse::<usize>().ok());
        let subject =
            index.filter(|_| study.subjects.len() > 1).and_then(|i| study.subjects.get(i));
        let name = subject.map(|s| slug(&s.name).chars().take(48).collect::<String>());
        name.map_or_else(
            || self.id.replace("time-0", "time"),
            |name| format!("{}-{}", self.id, name.trim_end_matches('-')),
        )
    }

    /// The wide sheet with title and legend over it, for a separate file.
    #[must_use]
    pub fn standing_alone(&self) -> Sheet {
        let (width, height) = self.wide.size();
        let (margin, letter) = (px(16), f64::from(px(LETTER)));
        let align = Align { across: 1, down: 0 };
        let text = |text: &str, at, size, bold, color| Shape::Text {
            text: text.to_owned(),
            at,
            size,
            bold,
            ink: Ink { rgb: palette::rgb(color), alpha: 1.0 },
            align,
            quarter_turns: 0,
        };
        let mut shapes =
            vec![text(&self.title, (margin, px(24)), letter * 1.3, true, palette::INK)];
        let (mut x, mut y) = (margin, px(52));
        for key in &self.legend {
            let length = text_width(&key.name) + px(34);
            if x > margin && x + length > width as i32 {
                (x, y) = (margin, y + px(20));
            }
            let ink = Ink { rgb: key.color, alpha: 1.0 };
            shapes.push(Shape::Circle {
                center: (x + px(5), y),
                radius: px(5).unsigned_abs(),
                ink,
                outline: None,
            });
            shapes.push(text(&key.name, (x + px(15), y), letter, false, palette::GREY));
            x += length;
        }
        let head = y + px(22);
        let mut sheet = Sheet::new(width as i32 + 2 * margin, height as i32 + head + margin);
        sheet.shapes = shapes;
        sheet.shapes.extend(self.wide.shapes.iter().map(|s| s.moved(margin, head)));
        sheet
    }
}

/// An entry of a legend.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// The colour, as in [`palette`].
    pub(crate) color: (u8, u8, u8),
    /// The name in the legend.
    pub(crate) name: String,
}

/// The data of a chart's tooltips.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Hover {
    /// The nearest of several points.
    Points {
        /// All of them.
        points: Vec<Point>,
    },
    /// What all curves say at one place of the axis.
    Curves {
        /// Places as fractions of the plotting area's width, ascending.
        x: Vec<f64>,
        /// Name of each place.
        at: Vec<String>,
        /// The curves.
        curves: Vec<Curve>,
    },
}

/// A point that can be pointed at.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Point {
    /// Where it is on the wide sheet and on the narrow one, as fractions of the plotting area.
    pub(crate) at: [(f64, f64); 2],
    /// Its name.
    pub(crate) name: String,
    /// Lines under it.
    pub(crate) lines: Vec<String>,
}

/// A curve that can be read off.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Curve {
    pub(crate) name: String,
    /// Its colour as CSS writes it.
    pub(crate) color: String,
    /// How its numbers are written.
    pub(crate) unit: Unit,
    /// A number for each place; `None` where a number is absent.
    pub(crate) y: Vec<Option<f64>>,
}

/// How numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    /// Microseconds.
    Us,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerS,
    /// Per second.
    PerS,
}

/// Three significant digits are more than a pixel shows, and shorter by two thirds.
pub(crate) fn short(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10f64.powf(2.0 - value.abs().log10().floor());
    (value * scale).round() / scale
}

pub(crate) fn css(color: (u8, u8, u8)) -> String {
    format!("#{:02x}{:02x}{:02x}", color.0, color.1, color.2)
}

/// Converts the library's errors.
pub(crate) fn failed<E: std::fmt::Display>(chart: &str) -> impl Fn(E) -> ChartError + use<E> {
    let chart = chart.to_owned();
    move |e| ChartError { chart: chart.clone(), why: e.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_under_the_pointer_are_short() {
        assert_eq!(
            [1_234.567, 0.0012345, 0.0, 99.96, 1e9].map(short),
            [1_230.0, 0.00123, 0.0, 100.0, 1e9]
        );
        assert_eq!(short(f64::NAN), 0.0);
    }

    #[test]
    fn places_are_shares_of_the_plotting_area() {
        let plot = Plot(100, 50, 200, 400);
        assert_eq!(
            [plot.share((100, 50)), plot.share((300, 450)), plot.share((150, 150))],
            [(0.0, 0.0), (1.0, 1.0), (0.25, 0.25)]
        );
    }
}
