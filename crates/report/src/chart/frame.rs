//! What all charts have in common: a panel with its grid, marks and names.

use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind};
use plotters::element::{Circle, Text};
use plotters::series::LineSeries;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, RGBColor, ShapeStyle, TextStyle};
use plotters_backend::{BackendCoord, FontStyle};
use serde::Serialize;

use super::axis::Axis;
use super::palette::{GREY, GRID, GROUND};
use crate::sheet::{Backend, Never, UNIT};

/// A plotting area in sheet units: left, top, width, height.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Plot(pub(crate) i32, pub(crate) i32, pub(crate) i32, pub(crate) i32);

impl Plot {
    /// A place as fractions of the area, to four digits: a tenth of a pixel.
    pub(crate) fn share(self, (x, y): BackendCoord) -> (f64, f64) {
        let of = |v: i32, low: i32, length: i32| {
            (f64::from(v - low) / f64::from(length.max(1)) * 1e4).round() / 1e4
        };
        (of(x, self.0, self.2), of(y, self.1, self.3))
    }
}

pub(super) type Area<'a> = DrawingArea<Backend<'a>, Shift>;
pub(super) type Panel<'a> = ChartContext<'a, Backend<'a>, Cartesian2d<Axis, Axis>>;
pub(super) type DrawError = DrawingAreaErrorKind<Never>;

/// Height of a letter, in pixels.
pub(super) const LETTER: i32 = 13;

/// Pixels as sheet units.
pub(super) const fn px(pixels: i32) -> i32 {
    pixels * UNIT
}

pub(super) fn font(color: RGBColor) -> TextStyle<'static> {
    ("sans-serif", px(LETTER)).into_font().color(&color)
}

pub(super) fn bold(color: RGBColor) -> TextStyle<'static> {
    ("sans-serif", px(LETTER)).into_font().style(FontStyle::Bold).color(&color)
}

pub(super) fn line(color: RGBColor, half_pixels: u32) -> ShapeStyle {
    ShapeStyle::from(color).stroke_width(half_pixels)
}

/// About how wide a text is, in sheet units: a sheet knows no font.
pub(super) fn text_width(text: &str) -> i32 {
    (text.chars().count() as f64 * f64::from(px(LETTER)) * 0.54) as i32
}

/// The margins around a panel; lengths in pixels.
pub(super) struct Around<'a> {
    /// Room for the marks of the y axis.
    pub(super) left: i32,
    pub(super) right: i32,
    /// Room above, for the name of the y axis.
    pub(super) top: i32,
    /// Room for the marks of the x axis; 0 for none.
    pub(super) bottom: i32,
    /// What the y axis shows; stands above it, where a phone has room too.
    pub(super) y_name: &'a str,
    pub(super) y_mark: &'a dyn Fn(&f64) -> String,
    pub(super) x_mark: &'a dyn Fn(&f64) -> String,
    /// What the x axis shows; below its marks.
    pub(super) x_name: &'a str,
}

/// A panel, and where its plotting area is on the sheet.
pub(super) fn panel<'a>(
    area: &Area<'a>,
    x: Axis,
    y: Axis,
    around: &Around<'_>,
) -> Result<(Panel<'a>, Plot), DrawError> {
    let mut chart = ChartBuilder::on(area)
        .margin_top(px(around.top))
        .margin_right(px(around.right))
        .y_label_area_size(px(around.left))
        .x_label_area_size(px(around.bottom))
        .build_cartesian_2d(x, y)?;
    let (columns, rows) = chart.plotting_area().get_pixel_range();
    let plot = Plot(columns.start, rows.start, columns.end - columns.start, rows.end - rows.start);
    let mut mesh = chart.configure_mesh();
    mesh.bold_line_style(line(GRID, 2))
        .light_line_style(GROUND.mix(0.0))
        .axis_style(GROUND.mix(0.0))
        // No marks are drawn; their room keeps the numbers off the panel.
        .set_all_tick_mark_size(px(6))
        .x_label_formatter(&around.x_mark)
        .y_label_formatter(&around.y_mark)
        .label_style(font(GREY));
    mesh.draw()?;
    let base = area.get_base_pixel();
    if !around.y_name.is_empty() {
        area.draw(&Text::new(around.y_name.to_owned(), (0, px(around.top - 22)), bold(GREY)))?;
    }
    if !around.x_name.is_empty() {
        let below = rows.end - base.1 + px(around.bottom - LETTER - 4);
        let style = bold(GREY).pos(Pos::new(HPos::Right, VPos::Top));
        area.draw(&Text::new(around.x_name.to_owned(), (columns.end - base.0, below), style))?;
    }
    Ok((chart, plot))
}

/// A curve with gaps where nothing was measured; a lone point becomes a dot.
pub(super) fn curve(
    panel: &mut Panel<'_>,
    points: &[Option<(f64, f64)>],
    style: ShapeStyle,
) -> Result<(), DrawError> {
    for run in points.split(Option::is_none) {
        let run: Vec<(f64, f64)> = run.iter().flatten().copied().collect();
        match run.as_slice() {
            [] => {}
            [alone] => {
                panel.draw_series([Circle::new(*alone, style.stroke_width + 1, style.filled())])?;
            }
            _ => {
                panel.draw_series(LineSeries::new(run, style))?;
            }
        }
    }
    Ok(())
}
