//! A panel with its axes.

use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind};
use plotters::element::{Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontTransform, WHITE};

use super::super::span::Span;
use super::style::{AXIS, GREY, LEFT, LETTER, MESH, RIGHT, column, font, tint};
use crate::sheet::{Backend, Never};

/// The library's error.
pub(super) type DrawError = DrawingAreaErrorKind<Never>;
pub(super) type Area<'a> = DrawingArea<Backend<'a>, Shift>;
pub(super) type Chart<'a, Y> = ChartContext<'a, Backend<'a>, Cartesian2d<RangedCoordf64, Y>>;

/// The labels beside a panel.
pub(super) struct Axes<'a> {
    pub(super) name: &'a str,
    pub(super) format: &'a dyn Fn(&f64) -> String,
    /// Labels on the y axis, at most.
    pub(super) labels: usize,
    /// Whether the time axis is below it.
    pub(super) time: bool,
}

/// A panel with its phases, mesh and axes.
pub(super) fn chart<'a, Y>(
    area: &Area<'a>,
    span: &Span,
    values: Y,
    caption: i32,
    axes: &Axes<'_>,
) -> Result<Chart<'a, Y::CoordDescType>, DrawError>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let seconds = span.axis_s(span.start_us)..span.axis_s(span.end_us);
    let mut chart = ChartBuilder::on(area)
        .margin_top(caption)
        .margin_right(RIGHT)
        .y_label_area_size(LEFT)
        .x_label_area_size(if axes.time { AXIS } else { 0 })
        .build_cartesian_2d(seconds, values)?;
    let plot = chart.plotting_area().use_screen_coord();
    let (columns, rows) = chart.plotting_area().get_pixel_range();
    for band in &span.bands {
        let x = |us| column(span, us) - LEFT + columns.start;
        let corners = [(x(band.start_us), rows.start), (x(band.end_us), rows.end)];
        plot.draw(&Rectangle::new(corners, tint(band)))?;
    }
    let format = |v: &f64| (axes.format)(v);
    let mut mesh = chart.configure_mesh();
    mesh.bold_line_style(MESH)
        .light_line_style(WHITE.mix(0.0))
        .axis_style(GREY)
        .x_labels(12)
        .y_labels(axes.labels)
        .y_label_formatter(&format)
        .label_style(font(LETTER));
    if axes.time {
        mesh.x_desc(format!("seconds since {}", span.zero_name));
    }
    mesh.draw()?;
    // The library's own name of an axis would stand half outside.
    let style =
        font(LETTER).pos(Pos::new(HPos::Center, VPos::Center)).transform(FontTransform::Rotate270);
    let middle = caption + (rows.end - rows.start) / 2;
    area.draw(&Text::new(axes.name.to_owned(), (16, middle), style))?;
    Ok(chart)
}
