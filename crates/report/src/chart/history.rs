//! A setting second by second: latency, operations, flood, and bytes waiting in RAM, on one time
//! axis.

use floodwall_model::trial::PhaseKind;
use floodwall_model::units::{Rate, human_duration};
use plotters::drawing::IntoDrawingArea;
use plotters::element::{PathElement, Polygon, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, RGBColor};
use std::time::Duration;

use super::axis::Axis;
use super::frame::{Area, Around, DrawError, Panel, curve, font, line, panel, px, text_width};
use super::palette::{
    BLUE, CRIMSON, GREEN, GREY, INK, ORANGE, PALE, PURPLE, SKY, VERMILLION, rgb, tint_of,
};
use super::{Chart, ChartError, Curve, Hover, Key, NARROW, Plot, Unit, WIDE, css, failed, short};
use crate::numbers::{count, duration_us, whole};
use crate::sheet::{Backend, Sheet};
use crate::study::{History, Moment, Study, Subject, course};

/// Heights in pixels, from top to bottom.
const PHASES: i32 = 20;
const LATENCY: i32 = 180;
const OTHER: i32 = 120;
const AXIS: i32 = 48;
const LEFT: i32 = 72;
const RIGHT: i32 = 20;
/// Room over a panel for its name.
const NAME: i32 = 32;

/// The ends of the axes that several settings share, so that their pictures can be compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    shortest_us: f64,
    longest_us: f64,
    ops_per_s: f64,
    bytes_per_s: f64,
    bytes: f64,
}

impl Scale {
    /// Of all settings together.
    pub(crate) fn of<'a>(histories: impl Iterator<Item = &'a History>) -> Self {
        let mut scale = Self {
            shortest_us: f64::MAX,
            longest_us: 0.0,
            ops_per_s: 0.0,
            bytes_per_s: 0.0,
            bytes: 0.0,
        };
        for m in histories.flat_map(|h| &h.moments) {
            let most =
                |old: f64, new: &[Option<f64>]| new.iter().flatten().copied().fold(old, f64::max);
            scale.shortest_us =
                [m.p50_us, m.max_us].into_iter().flatten().fold(scale.shortest_us, f64::min);
            scale.longest_us = most(scale.longest_us, &[m.max_us]);
            scale.ops_per_s = most(scale.ops_per_s, &[m.ops_per_s]);
            scale.bytes_per_s =
                most(scale.bytes_per_s, &[m.flood_bytes_per_s, m.written_bytes_per_s]);
            // Limits may be far above what ever waits: they are drawn where they fit.
            scale.bytes = most(scale.bytes, &[m.dirty_bytes, m.writeback_bytes]);
        }
        scale
    }
}

/// The chart of a setting; `None` if nothing went on in time.
///
/// # Errors
/// [`ChartError`] if the library fails.
pub(crate) fn chart(
    study: &Study<'_>,
    subject: &Subject,
    scale: Scale,
) -> Result<Option<Chart>, ChartError> {
    let course = course(study, subject);
    if course.moments.is_empty() {
        return Ok(None);
    }
    let id = format!("time-{}", subject.index);
    let failed = failed(&id);
    let operations = study.operations();
    let (wide, plot) = draw(&course, scale, operations, WIDE).map_err(&failed)?;
    let (narrow, narrow_plot) = draw(&course, scale, operations, NARROW).map_err(&failed)?;
    let dead = course.moments.iter().filter(|m| m.is_dead).count();
    let length =
        human_duration(Duration::try_from_secs_f64(course.seconds.round()).unwrap_or_default());
    let phases = match course.bands.len() {
        1 => "1 phase".to_owned(),
        many => format!("{many} phases"),
    };
    let of = if study.subjects.len() > 1 { format!(": {}", subject.name) } else { String::new() };
    Ok(Some(Chart {
        id,
        title: format!("Second by second{of}"),
        caption: "One phase after another, without what lay between them. Red ticks on top: the \
            victim got under a tenth of its speed alone."
            .into(),
        alt: format!(
            "{length} in {phases}; in {} of {} moments the victim stood \
            still.",
            whole(dead as u64),
            whole(course.moments.len() as u64)
        ),
        wide,
        narrow,
        legend: legend(&course, operations),
        hover: hover(&course, operations),
        plots: [plot, narrow_plot],
    }))
}

/// A curve of the chart.
struct Line {
    name: &'static str,
    color: RGBColor,
    width: u32,
    unit: Unit,
    of: fn(&Moment) -> Option<f64>,
}

const TIMES: [Line; 3] = [
    Line { name: "longest", color: ORANGE, width: 2, unit: Unit::Us, of: |m| m.max_us },
    Line { name: "p99", color: VERMILLION, width: 3, unit: Unit::Us, of: |m| m.p99_us },
    Line { name: "median", color: BLUE, width: 4, unit: Unit::Us, of: |m| m.p50_us },
];
const OPS: Line =
    Line { name: "operations", color: INK, width: 3, unit: Unit::PerS, of: |m| m.ops_per_s };
const RATES: [Line; 2] = [
    Line {
        name: "device writes",
        color: SKY,
        width: 3,
        unit: Unit::BytesPerS,
        of: |m| m.written_bytes_per_s,
    },
    Line {
        name: "flood writes",
        color: VERMILLION,
        width: 4,
        unit: Unit::BytesPerS,
        of: |m| m.flood_bytes_per_s,
    },
];
const WAITING: [Line; 4] = [
    Line {
        name: "dirty limit",
        color: CRIMSON,
        width: 2,
        unit: Unit::Bytes,
        of: |m| m.limit_bytes,
    },
    Line {
        name: "background limit",
        color: PALE,
        width: 2,
        unit: Unit::Bytes,
        of: |m| m.background_bytes,
    },
    Line {
        name: "writeback",
        color: GREEN,
        width: 3,
        unit: Unit::Bytes,
        of: |m| m.writeback_bytes,
    },
    Line { name: "dirty", color: PURPLE, width: 4, unit: Unit::Bytes, of: |m| m.dirty_bytes },
];

fn all() -> impl Iterator<Item = &'static Line> {
    TIMES.iter().rev().chain([&OPS]).chain(RATES.iter().rev()).chain(WAITING.iter().rev())
}

fn has(course: &History, of: &Line) -> bool {
    course.moments.iter().any(|m| (of.of)(m).is_some())
}

fn legend(course: &History, operations: &str) -> Vec<Key> {
    let shown = all().filter(|l| has(course, l));
    shown.map(|l| Key { color: rgb(l.color), name: name_of(l, operations).into() }).collect()
}

fn name_of<'a>(line: &Line, operations: &'a str) -> &'a str
where
    'static: 'a,
{
    if line.unit == Unit::PerS { operations } else { line.name }
}

fn hover(course: &History, operations: &str) -> Hover {
    let at = course.moments.iter().map(|m| {
        let band = course.bands.get(m.band);
        let what = band
            .map_or_else(String::new, |b| format!(", {} of round {}", phase_name(b.kind), b.round));
        format!("{:.0} s{what}{}", m.at_s, if m.is_dead { ", stalled" } else { "" })
    });
    let x = |m: &Moment| (m.at_s / course.seconds.max(1e-9) * 1e4).round() / 1e4;
    let curves = all().filter(|l| has(course, l)).map(|l| Curve {
        name: name_of(l, operations).into(),
        color: css(rgb(l.color)),
        unit: l.unit,
        y: course.moments.iter().map(|m| (l.of)(m).map(short)).collect(),
    });
    Hover::Curves {
        x: course.moments.iter().map(x).collect(),
        at: at.collect(),
        curves: curves.collect(),
    }
}

fn phase_name(kind: PhaseKind) -> &'static str {
    match kind {
        PhaseKind::Victim => "victim alone",
        PhaseKind::Flood => "flood alone",
        PhaseKind::Both => "both",
        PhaseKind::Burst => "burst",
    }
}

fn draw(
    course: &History,
    scale: Scale,
    operations: &str,
    width: i32,
) -> Result<(Sheet, Plot), DrawError> {
    let (timed, operated) = (TIMES.iter().any(|l| has(course, l)), has(course, &OPS));
    let flooded = RATES.iter().any(|l| has(course, l));
    let waiting = WAITING.iter().any(|l| has(course, l));
    // The time axis is below the last panel that there is.
    let last = if waiting {
        3
    } else if flooded {
        2
    } else if operated {
        1
    } else {
        0
    };
    let below = |i: usize| if i == last { AXIS } else { 14 };
    let heights =
        [(timed, LATENCY, 0), (operated, OTHER, 1), (flooded, OTHER, 2), (waiting, OTHER, 3)];
    let panels: i32 = heights.iter().filter(|h| h.0).map(|h| NAME + h.1 + below(h.2)).sum();
    let mut sheet = Sheet::new(px(width), px(PHASES + panels));
    let plot = {
        let root = Backend(&mut sheet).into_drawing_area();
        let (phases, mut rest) = root.split_vertically(px(PHASES));
        draw_phases(&phases, course, width)?;
        let mut first: Option<Plot> = None;
        let mut bottom = 0;
        for (there, height, i) in heights {
            if !there {
                continue;
            }
            let (area, others) = rest.split_vertically(px(NAME + height + below(i)));
            rest = others;
            let plot = match i {
                0 => {
                    let axis = Axis::decades(scale.shortest_us.max(1.0), scale.longest_us, 5);
                    let mark = |v: &f64| duration_us(*v).replace(".00 ", " ").replace(".0 ", " ");
                    one(&area, course, (axis, 1.0), "latency", &mark, &TIMES, below(i))?
                }
                1 => {
                    let axis = Axis::linear(scale.ops_per_s * 1.05, 3);
                    one(
                        &area,
                        course,
                        (axis, 1.0),
                        &format!("{operations} per second"),
                        &|v| count(*v),
                        &[OPS],
                        below(i),
                    )?
                }
                2 => {
                    let axis = Axis::linear(scale.bytes_per_s * 1.05, 3);
                    one(
                        &area,
                        course,
                        (axis, 1.0),
                        "written per second",
                        &|v| short_rate(*v),
                        &RATES,
                        below(i),
                    )?
                }
                _ => {
                    let unit = BinaryUnit::of(scale.bytes);
                    let axis = Axis::linear(scale.bytes / unit.bytes * 1.15, 3);
                    let mark = |v: &f64| format!("{} {}", count(*v), unit.name);
                    one(
                        &area,
                        course,
                        (axis, unit.bytes),
                        "waiting in RAM",
                        &mark,
                        &WAITING,
                        below(i),
                    )?
                }
            };
            bottom = plot.1 + plot.3;
            first = first.or(Some(plot));
        }
        // The cursor goes through all panels.
        first.map_or_else(Plot::default, |p| Plot(p.0, p.1, p.2, bottom - p.1))
    };
    Ok((sheet, plot))
}

/// The unit of the axis of waiting bytes, chosen so that its marks are round.
struct BinaryUnit {
    name: &'static str,
    bytes: f64,
}

impl BinaryUnit {
    /// The largest unit that goes into `most` at least twice.
    fn of(most: f64) -> Self {
        let units = [("GiB", (1u64 << 30) as f64), ("MiB", (1u64 << 20) as f64)];
        let fits = units.into_iter().find(|(_, bytes)| most >= 2.0 * bytes);
        let (name, bytes) = fits.unwrap_or(("KiB", 1_024.0));
        Self { name, bytes }
    }
}

/// `200 MB/s` without what the panel's name says already.
fn short_rate(bytes_per_s: f64) -> String {
    Rate(bytes_per_s).to_string().replace("/s", "").replace(".00 ", " ").replace(".0 ", " ")
}

/// One panel over the whole width.
fn one(
    area: &Area<'_>,
    course: &History,
    (y, divisor): (Axis, f64),
    name: &str,
    mark: &dyn Fn(&f64) -> String,
    lines: &[Line],
    below: i32,
) -> Result<Plot, DrawError> {
    let seconds = course.seconds.max(1.0);
    let around = Around {
        left: LEFT,
        right: RIGHT,
        top: NAME,
        bottom: if below == AXIS { AXIS } else { 0 },
        y_name: name,
        y_mark: mark,
        x_mark: &|v| format!("{v:.0} s"),
        x_name: if below == AXIS { "seconds measured" } else { "" },
    };
    let narrow = area.dim_in_pixel().0 < px(WIDE).unsigned_abs();
    let (mut chart, plot) =
        panel(area, Axis::linear(seconds, if narrow { 4 } else { 10 }), y, &around)?;
    for band in &course.bands {
        let corners = [(band.from_s, f64::MIN_POSITIVE), (band.to_s, f64::MAX)];
        chart.draw_series([Rectangle::new(corners, tint_of(band.kind).mix(0.07).filled())])?;
    }
    for l in lines {
        draw_line(&mut chart, course, l, divisor)?;
    }
    Ok(plot)
}

fn draw_line(
    chart: &mut Panel<'_>,
    course: &History,
    l: &Line,
    divisor: f64,
) -> Result<(), DrawError> {
    let value = |m: &Moment| (l.of)(m).map(|v| v / divisor);
    let mut points: Vec<Option<(f64, f64)>> = Vec::with_capacity(course.moments.len());
    let mut band = None;
    for m in &course.moments {
        // Nothing goes on from one phase to the next.
        if band.is_some_and(|b| b != m.band) {
            points.push(None);
        }
        band = Some(m.band);
        points.push(value(m).map(|v| (m.at_s, v)));
    }
    if l.name == "dirty" {
        for run in points.split(Option::is_none).filter(|run| run.len() > 1) {
            let top: Vec<(f64, f64)> = run.iter().flatten().copied().collect();
            let (Some(first), Some(last)) = (top.first().copied(), top.last().copied()) else {
                continue;
            };
            let around: Vec<(f64, f64)> =
                [(first.0, 0.0)].into_iter().chain(top).chain([(last.0, 0.0)]).collect();
            chart.draw_series([Polygon::new(around, l.color.mix(0.15).filled())])?;
        }
    }
    // A limit above the picture would be drawn along its edge.
    let top = chart.y_range().end;
    if l.unit == Unit::Bytes && l.name.ends_with("limit") {
        points.iter_mut().for_each(|p| *p = p.filter(|p| p.1 <= top));
    }
    curve(chart, &points, line(l.color, l.width))
}

/// Names of the phases, and a tick for each dead second.
fn draw_phases(area: &Area<'_>, course: &History, width: i32) -> Result<(), DrawError> {
    let plot_width = px(width - LEFT - RIGHT);
    let column =
        |s: f64| px(LEFT) + (s / course.seconds.max(1.0) * f64::from(plot_width)).round() as i32;
    for band in &course.bands {
        let (left, right) = (column(band.from_s), column(band.to_s));
        area.draw(&Rectangle::new(
            [(left, 0), (right, px(PHASES - 5))],
            tint_of(band.kind).mix(0.16).filled(),
        ))?;
        let names =
            [format!("{} {}", phase_name(band.kind), band.round), phase_name(band.kind).to_owned()];
        if let Some(name) = names.iter().find(|n| text_width(n) + px(4) <= right - left) {
            let style = font(GREY).pos(Pos::new(HPos::Center, VPos::Center));
            area.draw(&Text::new(name.clone(), ((left + right) / 2, px(PHASES - 5) / 2), style))?;
        }
    }
    for m in course.moments.iter().filter(|m| m.is_dead) {
        let x = column(m.at_s);
        let tick = [(x, px(PHASES - 4)), (x, px(PHASES))];
        area.draw(&PathElement::new(tick, line(CRIMSON, 3)))?;
    }
    Ok(())
}
