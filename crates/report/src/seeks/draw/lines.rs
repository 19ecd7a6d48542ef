//! Curves over time: rates, throughput and times.

use std::time::Duration;

use floodwall_model::units::human_duration;
use plotters::coord::ranged1d::Ranged;
use plotters::element::{Circle, PathElement, Text};
use plotters::prelude::IntoLogRange;
use plotters::series::LineSeries;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{RGBColor, ShapeStyle};

use super::super::bins::{Bin, Bins, Times};
use super::super::span::Span;
use super::chart::{Area, Axes, Chart, DrawError, chart};
use super::style::{CAPTION, GREY, LEFT, LETTER, RIGHT, WIDTH, font, text_width};
use crate::chart::palette::{BLUE, ORANGE, PURPLE, VERMILLION};
use crate::numbers;

/// The shortest time on the logarithmic axis: less is drawn there, zero too.
const SHORTEST_US: f64 = 1.0;

/// A line of a lower panel.
struct Line {
    name: &'static str,
    color: RGBColor,
    width: u32,
    of: fn(&Bin) -> Option<f64>,
}

pub(super) fn draw_rates(area: &Area<'_>, span: &Span, bins: &Bins) -> Result<(), DrawError> {
    let lines = [
        Line { name: "requests", color: GREY, width: 1, of: |b| Some(b.requests_per_s) },
        Line {
            name: "seeks: reads and writes that do not go on where the one before ended",
            color: PURPLE,
            width: 2,
            of: |b| Some(b.seeks_per_s),
        },
    ];
    draw_caption(area, &lines, bins)?;
    let top = bins.max(|b| b.requests_per_s).max(1.0) * 1.05;
    let axes = Axes { name: "per second", format: &|v| numbers::count(*v), labels: 4, time: false };
    draw_lines(&mut chart(area, span, 0.0..top, CAPTION, &axes)?, span, bins, &lines)
}

pub(super) fn draw_throughput(area: &Area<'_>, span: &Span, bins: &Bins) -> Result<(), DrawError> {
    let lines = [
        Line { name: "read", color: BLUE, width: 2, of: |b| Some(b.read_bytes_per_s / 1e6) },
        Line {
            name: "written",
            color: VERMILLION,
            width: 2,
            of: |b| Some(b.written_bytes_per_s / 1e6),
        },
    ];
    draw_caption(area, &lines, bins)?;
    let top = bins.max(|b| b.read_bytes_per_s.max(b.written_bytes_per_s) / 1e6).max(0.01) * 1.05;
    let axes = Axes { name: "MB/s", format: &|v| numbers::count(*v), labels: 4, time: false };
    draw_lines(&mut chart(area, span, 0.0..top, CAPTION, &axes)?, span, bins, &lines)
}

pub(super) fn draw_times(area: &Area<'_>, span: &Span, bins: &Bins) -> Result<(), DrawError> {
    fn of(bin: &Bin, value: fn(&Times) -> f64) -> Option<f64> {
        bin.times.as_ref().map(value).map(|us| us.max(SHORTEST_US))
    }
    let lines = [
        Line { name: "queue p50", color: ORANGE, width: 1, of: |b| of(b, |t| t.queue_p50_us) },
        Line { name: "queue p99", color: ORANGE, width: 2, of: |b| of(b, |t| t.queue_p99_us) },
        Line { name: "service p50", color: BLUE, width: 1, of: |b| of(b, |t| t.service_p50_us) },
        Line { name: "service p99", color: BLUE, width: 2, of: |b| of(b, |t| t.service_p99_us) },
    ];
    draw_caption(area, &lines, bins)?;
    let longest = bins.max(|b| lines.iter().filter_map(|l| (l.of)(b)).fold(0.0, f64::max));
    let top = 10f64.powf(longest.max(10.0 * SHORTEST_US).log10().ceil());
    let axes = Axes { name: "time", format: &power_of_ten, labels: 8, time: true };
    let range = (SHORTEST_US..top).log_scale();
    draw_lines(&mut chart(area, span, range, CAPTION, &axes)?, span, bins, &lines)
}

/// `1 µs`, `10 ms`, `100 s`.
fn power_of_ten(us: &f64) -> String {
    let (value, unit) = match *us {
        us if us >= 1e6 => (us / 1e6, "s"),
        us if us >= 1e3 => (us / 1e3, "ms"),
        us => (us, "µs"),
    };
    format!("{value:.0} {unit}")
}

fn draw_caption(area: &Area<'_>, lines: &[Line], bins: &Bins) -> Result<(), DrawError> {
    let mut x = LEFT;
    for line in lines {
        let style = ShapeStyle::from(line.color).stroke_width(line.width);
        area.draw(&PathElement::new([(x, 18), (x + 18, 18)], style))?;
        area.draw(&Text::new(line.name, (x + 24, 10), font(LETTER)))?;
        x += 24 + text_width(line.name) + 18;
    }
    let slice = Duration::try_from_secs_f64(bins.width_us / 1e6).unwrap_or_default();
    let style = font(LETTER).color(&GREY).pos(Pos::new(HPos::Right, VPos::Top));
    area.draw(&Text::new(format!("per {}", human_duration(slice)), (WIDTH - RIGHT, 10), style))
}

fn draw_lines<Y>(
    chart: &mut Chart<'_, Y>,
    span: &Span,
    bins: &Bins,
    lines: &[Line],
) -> Result<(), DrawError>
where
    Y: Ranged<ValueType = f64>,
{
    for line in lines {
        let points: Vec<Option<(f64, f64)>> = bins
            .bins
            .iter()
            .map(|bin| {
                let middle = span.axis_s(bin.start_us + bins.width_us / 2.0);
                (line.of)(bin).map(|value| (middle, value))
            })
            .collect();
        let style = ShapeStyle::from(line.color).stroke_width(line.width);
        // Nothing was measured in a gap, so nothing is drawn through it.
        for run in points.split(Option::is_none) {
            let run: Vec<(f64, f64)> = run.iter().flatten().copied().collect();
            match run.as_slice() {
                [] => {}
                [alone] => {
                    chart.draw_series([Circle::new(*alone, line.width, style.filled())])?;
                }
                _ => {
                    chart.draw_series(LineSeries::new(run, style))?;
                }
            }
        }
    }
    Ok(())
}
