//! A disk over a night: how long its backlog takes, the slowest waits, what it writes, its stalls.

use floodwall_model::stall::Stall;
use floodwall_model::units::{Bytes, Rate};
use plotters::drawing::IntoDrawingArea;
use plotters::element::Rectangle;
use plotters::style::{Color, RGBColor};

use super::axis::Axis;
use super::clock::marks;
use super::frame::{Area, Around, DrawError, curve, line, panel, px};
use super::palette::{CRIMSON, GREEN, ORANGE, PURPLE, SKY, VERMILLION, rgb};
use super::{Chart, ChartError, Curve, Hover, Key, NARROW, Plot, Unit, WIDE, css, failed, short};
use crate::html::markup::slug;
use crate::local_time::{date_time, length};
use crate::night::{Bin, Course, Night};
use crate::numbers::{duration_us, whole};
use crate::sheet::{Backend, Sheet};

/// Heights in pixels, from top to bottom.
const PANEL: i32 = 120;
const AXIS: i32 = 48;
const LEFT: i32 = 72;
const RIGHT: i32 = 20;
/// Room over a panel for its name.
const NAME: i32 = 32;
/// Below a panel that has no axis.
const GAP: i32 = 14;
/// A short stall of a long night is still seen, in pixels.
const LEAST: f64 = 2.0;

/// A curve.
struct Line {
    name: &'static str,
    color: RGBColor,
    unit: Unit,
    of: fn(&Bin) -> Option<f64>,
}

const DRAIN: Line = Line {
    name: "backlog drains in",
    color: PURPLE,
    unit: Unit::Us,
    of: |bin| bin.drain_ms.map(|ms| ms as f64 * 1000.0),
};
const BACKLOG: Line = Line {
    name: "backlog",
    color: GREEN,
    unit: Unit::Bytes,
    of: |bin| bin.backlog_bytes.map(|bytes| bytes as f64),
};
const SLOWEST: Line = Line {
    name: "slowest wait",
    color: ORANGE,
    unit: Unit::Us,
    of: |bin| bin.slowest_us.map(|us| us as f64),
};
const VICTIM: Line = Line {
    name: "slowest wait of a victim",
    color: VERMILLION,
    unit: Unit::Us,
    of: |bin| bin.victim_us.map(|us| us as f64),
};
const WRITTEN: Line = Line {
    name: "written per second",
    color: SKY,
    unit: Unit::BytesPerS,
    of: |bin| bin.written_bytes_per_s.map(|bytes| bytes as f64),
};

/// The curves of each panel; the first one gives it its name. Where the drain rate is not known,
/// the backlog stands for the time that it takes.
const PANELS: [&[Line]; 3] = [&[DRAIN], &[SLOWEST, VICTIM], &[WRITTEN]];
const WITHOUT_RATE: [&[Line]; 3] = [&[BACKLOG], &[SLOWEST, VICTIM], &[WRITTEN]];

/// Those that have something to show.
fn panels(course: &Course) -> impl Iterator<Item = &'static [Line]> {
    let panels = if has(course, &DRAIN) { PANELS } else { WITHOUT_RATE };
    panels.into_iter().filter(|lines| lines.iter().any(|line| has(course, line)))
}

/// The chart of a disk.
///
/// # Errors
/// [`ChartError`] if the library fails.
pub(crate) fn chart(night: &Night<'_>, course: &Course) -> Result<Chart, ChartError> {
    let id = format!("disk-{}", slug(&course.disk));
    let failed = failed(&id);
    let stalls = stalls(night, course);
    let (wide, plot) = draw(night, course, &stalls, WIDE).map_err(&failed)?;
    let (narrow, narrow_plot) = draw(night, course, &stalls, NARROW).map_err(&failed)?;
    let legend = shown(course).map(|line| Key { color: rgb(line.color), name: line.name.into() });
    let stalled = Key { color: rgb(CRIMSON), name: "stalls".into() };
    Ok(Chart {
        id,
        title: format!("Over time: {}", course.disk),
        caption: format!(
            "Each point is the largest value of {}. A curve has a gap where no value was seen.",
            length(course.bin_ms)
        ),
        alt: format!(
            "{} from {} to {}; stalls: {}.",
            course.disk,
            date_time(night.time().start, night.zone()),
            date_time(night.time().end, night.zone()),
            whole(stalls.len() as u64)
        ),
        wide,
        narrow,
        legend: legend.chain((!stalls.is_empty()).then_some(stalled)).collect(),
        hover: hover(night, course),
        plots: [plot, narrow_plot],
    })
}

fn stalls<'a>(night: &Night<'a>, course: &Course) -> Vec<&'a Stall> {
    night.listing.stalls.iter().filter(|stall| stall.disk == course.disk).collect()
}

/// The curves that have something to show.
fn shown(course: &Course) -> impl Iterator<Item = &'static Line> {
    panels(course).flatten().filter(|line| has(course, line))
}

fn has(course: &Course, line: &Line) -> bool {
    course.bins.iter().any(|bin| (line.of)(bin).is_some())
}

fn most(course: &Course, lines: &[Line]) -> f64 {
    let values = course.bins.iter().flat_map(|bin| lines.iter().filter_map(|line| (line.of)(bin)));
    values.fold(0.0, f64::max)
}

/// Seconds from the beginning to the middle of a bin.
fn middle_s(course: &Course, bin: usize) -> f64 {
    (bin as f64 + 0.5) * course.bin_ms as f64 / 1000.0
}

/// Seconds from the beginning to the end.
fn length_s(night: &Night<'_>) -> f64 {
    let time = night.time();
    (time.end - time.start) as f64 / 1000.0
}

/// Bins in which nothing was seen have no tooltip.
fn hover(night: &Night<'_>, course: &Course) -> Hover {
    let seen: Vec<usize> = (0..course.bins.len())
        .filter(|bin| course.bins.get(*bin).is_some_and(|bin| *bin != Bin::default()))
        .collect();
    let length_s = length_s(night);
    let x = |bin: &usize| (middle_s(course, *bin) / length_s * 1e4).round() / 1e4;
    let bins = || seen.iter().filter_map(|bin| course.bins.get(*bin));
    let curves = shown(course).map(|line| Curve {
        name: line.name.into(),
        color: css(rgb(line.color)),
        unit: line.unit,
        y: bins().map(|bin| (line.of)(bin).map(short)).collect(),
    });
    Hover::Curves {
        x: seen.iter().map(x).collect(),
        at: seen.iter().map(|bin| date_time(course.began_unix_ms(*bin), night.zone())).collect(),
        curves: curves.collect(),
    }
}

fn draw(
    night: &Night<'_>,
    course: &Course,
    stalls: &[&Stall],
    width: i32,
) -> Result<(Sheet, Plot), DrawError> {
    let panels: Vec<&[Line]> = panels(course).collect();
    let below = |at: usize| if at + 1 == panels.len() { AXIS } else { GAP };
    let height: i32 = (0..panels.len()).map(|at| NAME + PANEL + below(at)).sum();
    let mut sheet = Sheet::new(px(width), px(height));
    let plot = {
        let mut rest = Backend(&mut sheet).into_drawing_area();
        let mut first: Option<Plot> = None;
        let mut bottom = 0;
        for (at, lines) in panels.iter().enumerate() {
            let (area, others) = rest.split_vertically(px(NAME + PANEL + below(at)));
            rest = others;
            let plot = one(&area, night, course, stalls, lines, below(at))?;
            bottom = plot.1 + plot.3;
            first = first.or(Some(plot));
        }
        // The cursor goes through all panels.
        first.map_or_else(Plot::default, |p| Plot(p.0, p.1, p.2, bottom - p.1))
    };
    Ok((sheet, plot))
}

/// One panel over the whole width.
fn one(
    area: &Area<'_>,
    night: &Night<'_>,
    course: &Course,
    stalls: &[&Stall],
    lines: &[Line],
    below: i32,
) -> Result<Plot, DrawError> {
    let Some(first) = lines.first() else { return Ok(Plot::default()) };
    let time = night.time();
    let length_s = length_s(night);
    let is_narrow = area.dim_in_pixel().0 < px(WIDE).unsigned_abs();
    let marks = marks(time.start, time.end, night.zone(), if is_narrow { 3 } else { 8 });
    let x = Axis::plain(0.0, length_s, marks.iter().map(|(at, _)| *at).collect());
    let most = most(course, lines);
    let y = match (first.unit, first.name == SLOWEST.name) {
        (_, true) => Axis::decades(least(course, lines), most, 4),
        // Marks at round numbers of the unit that is shown.
        (Unit::Bytes, _) => Axis::plain(0.0, most * 1.1, binary_marks(most)),
        (_, false) => Axis::linear(most * 1.1, 3),
    };
    let y_mark = |value: &f64| mark(first.unit, *value);
    let x_mark = |at: &f64| {
        let marked = marks.iter().find(|(mark, _)| (mark - at).abs() < 1e-6);
        marked.map_or_else(String::new, |(_, text)| text.clone())
    };
    let around = Around {
        left: LEFT,
        right: RIGHT,
        top: NAME,
        bottom: if below == AXIS { AXIS } else { 0 },
        y_name: first.name,
        y_mark: &y_mark,
        x_mark: &x_mark,
        x_name: "",
    };
    let (mut chart, plot) = panel(area, x, y, &around)?;
    let least_s = LEAST * f64::from(px(1)) * length_s / f64::from(plot.2.max(1));
    let after_s = |unix_ms: u64| unix_ms.saturating_sub(time.start) as f64 / 1000.0;
    for stall in stalls {
        let from = after_s(stall.began_unix_ms).min(length_s - least_s);
        let to = after_s(stall.ended_unix_ms).max(from + least_s).min(length_s);
        let corners = [(from, f64::MIN_POSITIVE), (to, f64::MAX)];
        chart.draw_series([Rectangle::new(corners, CRIMSON.mix(0.18).filled())])?;
    }
    for l in lines {
        let points: Vec<Option<(f64, f64)>> = course
            .bins
            .iter()
            .enumerate()
            .map(|(at, bin)| Some((middle_s(course, at), (l.of)(bin)?)))
            .collect();
        curve(&mut chart, &points, line(l.color, 3))?;
    }
    Ok(plot)
}

fn least(course: &Course, lines: &[Line]) -> f64 {
    let values = course.bins.iter().flat_map(|bin| lines.iter().filter_map(|line| (line.of)(bin)));
    values.fold(f64::MAX, f64::min)
}

/// Three marks at most, at powers of two.
fn binary_marks(most: f64) -> Vec<f64> {
    let step = (most.max(1.0) / 2.0).log2().floor().exp2();
    (0..=3).map(|n| f64::from(n) * step).take_while(|mark| *mark <= most).collect()
}

fn mark(unit: Unit, value: f64) -> String {
    let text = match unit {
        Unit::Us => duration_us(value),
        Unit::Bytes => Bytes(value as u64).to_string(),
        Unit::BytesPerS | Unit::PerS => Rate(value).to_string(),
    };
    text.replace(".00 ", " ").replace(".0 ", " ")
}
