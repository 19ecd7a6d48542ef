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

use std::time::Duration;

use floodwall_model::Bytes;
use floodwall_model::units::human_duration;
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::prelude::IntoLogRange;
use plotters::series::LineSeries;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    BLACK, Color, FontTransform, IntoFont, RGBColor, ShapeStyle, TextStyle, WHITE,
};

use super::bins::{Bin, Bins, Times};
use super::marks::{Class, Frame, Mark, Marks};
use super::recording::{Operation, Recording, Request};
use super::span::{Band, Span, utc};
use crate::chart::palette::{BLUE, CRIMSON, GREEN, ORANGE, PURPLE, VERMILLION, tint_of};
use crate::numbers;
use crate::sheet::{Backend, Never, Sheet};

/// The library's error.
pub(super) type DrawError = DrawingAreaErrorKind<Never>;
type Area<'a> = DrawingArea<Backend<'a>, Shift>;
type Chart<'a, Y> = ChartContext<'a, Backend<'a>, Cartesian2d<RangedCoordf64, Y>>;

const WIDTH: i32 = 1_200;
/// Room for the names of the y axes.
const LEFT: i32 = 84;
const RIGHT: i32 = 16;
const PLOT_WIDTH: i32 = WIDTH - LEFT - RIGHT;

/// Heights, from top to bottom.
const HEAD: i32 = 84;
const PHASES: i32 = 20;
const FLUSHES: i32 = 18;
const OFFSETS: i32 = 400;
/// The line over each lower panel with its title.
const CAPTION: i32 = 30;
const RATES: i32 = 110;
const THROUGHPUT: i32 = 110;
const TIMES: i32 = 150;
const AXIS: i32 = 48;
const HEIGHT: i32 =
    HEAD + PHASES + FLUSHES + OFFSETS + 3 * CAPTION + RATES + THROUGHPUT + TIMES + AXIS;

const GREY: RGBColor = RGBColor(0x55, 0x55, 0x55);
const MESH: RGBColor = RGBColor(0xD8, 0xD8, 0xD8);

/// Strength of a phase's tint, and of its warm-up's.
const TINT: f64 = 0.16;
const WARMUP_TINT: f64 = 0.06;
/// Height of a letter, and about how wide one is: the library does not know fonts, and neither does
/// an SVG.
const LETTER: i32 = 12;
const LETTER_WIDTH: f64 = 6.6;

/// Side of a mark as a share of its cell's. A dense area still looks dense, and the marks drawn
/// last leave the rest visible.
const MARK_SHARE: f64 = 0.6;
/// The shortest side of a mark, in pixels: smaller ones are hard to see.
const SMALLEST_MARK: i32 = 3;

/// The shortest time on the logarithmic axis: less is drawn there, zero too.
const SHORTEST_US: f64 = 1.0;

fn color_of(class: Class) -> RGBColor {
    match class {
        Class::Discard => ORANGE,
        Class::Write => VERMILLION,
        Class::Read => BLUE,
        Class::Fua => BLACK,
        Class::Flush => GREEN,
        Class::Error => CRIMSON,
    }
}

fn name_of(class: Class) -> &'static str {
    match class {
        Class::Discard => "discards",
        Class::Write => "writes",
        Class::Read => "reads",
        Class::Fua => "FUA writes",
        Class::Flush => "flushes",
        Class::Error => "failed",
    }
}

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

fn font(size: i32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&BLACK)
}

/// How wide a text is, more or less.
fn text_width(text: &str) -> i32 {
    (text.chars().count() as f64 * LETTER_WIDTH) as i32
}

fn draw_head(
    area: &Area<'_>,
    recording: &Recording,
    span: &Span,
    marks: &Marks,
) -> Result<(), DrawError> {
    let device = recording.about.as_ref().map_or_else(
        || "a device that the recording does not name".to_owned(),
        |a| format!("{} ({}, {})", a.name, a.preset, Bytes(a.size_bytes)),
    );
    let phase = span.phase.map_or_else(String::new, |(kind, round)| {
        format!(", phase '{}' of round {round}", kind.name())
    });
    area.draw(&Text::new(format!("What reached {device}{phase}"), (LEFT, 8), font(17)))?;
    let requests: u64 = marks.requests.iter().sum();
    let mut facts = format!(
        "{} requests in {}",
        numbers::whole(requests),
        human_duration(Duration::try_from_secs_f64(span.seconds()).unwrap_or_default())
    );
    if let Some(start) = span.start_unix_s {
        facts.push_str(&format!(" from {}", utc(start)));
    }
    if recording.missing > 0 {
        facts.push_str(&format!("; {} more were not recorded", numbers::whole(recording.missing)));
    }
    let most = marks.marks.iter().map(|m| m.requests).max().unwrap_or(0);
    if most > 1 {
        facts.push_str(&format!(
            "; a mark stands for up to {} requests side by side",
            numbers::whole(most.into())
        ));
    }
    area.draw(&Text::new(facts, (LEFT, 34), font(LETTER).color(&GREY)))?;
    let mut x = LEFT;
    for (class, requests) in Class::ALL.into_iter().zip(marks.requests) {
        if requests == 0 {
            continue;
        }
        draw_swatch(area, class, (x + 5, 65))?;
        let label = format!("{} {}", name_of(class), numbers::whole(requests));
        area.draw(&Text::new(label.clone(), (x + 15, 57), font(LETTER)))?;
        x += 15 + text_width(&label) + 18;
    }
    Ok(())
}

/// A class's mark in the legend, large enough to be seen.
fn draw_swatch(area: &Area<'_>, class: Class, (x, y): (i32, i32)) -> Result<(), DrawError> {
    let style = color_of(class).filled();
    match class {
        Class::Fua => area.draw(&Polygon::new(triangle(x, y, 5), style)),
        Class::Error => {
            area.draw(&Circle::new((x, y), 4, ShapeStyle::from(color_of(class)).stroke_width(2)))
        }
        Class::Flush => area.draw(&PathElement::new(
            [(x, y - 6), (x, y + 6)],
            ShapeStyle::from(color_of(class)).stroke_width(2),
        )),
        Class::Read | Class::Write | Class::Discard => {
            area.draw(&Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], style))
        }
    }
}

/// Upright, around a point.
fn triangle(x: i32, y: i32, half: i32) -> [(i32, i32); 3] {
    [(x, y - half), (x + half, y + half), (x - half, y + half)]
}

/// A moment's place in an area as wide as the picture.
fn column(span: &Span, time_us: f64) -> i32 {
    let share = (time_us - span.start_us) / (span.end_us - span.start_us);
    LEFT + (share.clamp(0.0, 1.0) * f64::from(PLOT_WIDTH - 1)).round() as i32
}

fn tint(band: &Band) -> ShapeStyle {
    tint_of(band.kind).mix(if band.warmup { WARMUP_TINT } else { TINT }).filled()
}

fn draw_phase_names(area: &Area<'_>, span: &Span) -> Result<(), DrawError> {
    for band in &span.bands {
        let (left, right) = (column(span, band.start_us), column(span, band.end_us));
        area.draw(&Rectangle::new([(left, 0), (right, PHASES)], tint(band)))?;
        // The whole name, a shorter one, or none: a name that is too long would cover its
        // neighbour's.
        let names = if band.warmup {
            ["warm-up".to_owned(), "w".into()]
        } else {
            [format!("{} {}", band.kind.name(), band.round), band.kind.name().into()]
        };
        if let Some(name) = names.iter().find(|name| text_width(name) <= right - left) {
            let style = font(LETTER).color(if band.warmup { &GREY } else { &BLACK });
            let style = style.pos(Pos::new(HPos::Center, VPos::Top));
            area.draw(&Text::new(name.clone(), ((left + right) / 2, 3), style))?;
        }
    }
    Ok(())
}

fn draw_flushes(area: &Area<'_>, span: &Span, marks: &Marks) -> Result<(), DrawError> {
    for band in &span.bands {
        let (left, right) = (column(span, band.start_us), column(span, band.end_us));
        area.draw(&Rectangle::new([(left, 0), (right, FLUSHES)], tint(band)))?;
    }
    let style = font(LETTER).pos(Pos::new(HPos::Right, VPos::Top));
    area.draw(&Text::new("flushes", (LEFT - 8, 2), style))?;
    for mark in marks.marks.iter().filter(|m| m.offset_bytes.is_none()) {
        let x = column(span, mark.time_us);
        if mark.class == Class::Error {
            area.draw(&Circle::new(
                (x, FLUSHES / 2),
                4,
                ShapeStyle::from(CRIMSON).stroke_width(2),
            ))?;
        } else {
            let style = GREEN.mix(density(mark)).stroke_width(1);
            area.draw(&PathElement::new([(x, 3), (x, FLUSHES - 3)], style))?;
        }
    }
    Ok(())
}

/// How opaque a mark is that stands for several.
fn density(mark: &Mark) -> f64 {
    match mark.requests {
        0 | 1 => 0.6,
        2 | 3 => 0.8,
        _ => 1.0,
    }
}

/// Room on the axis of offsets around a single place, in bytes.
const SMALLEST_ROOM: u64 = 1 << 20;

const GIB: f64 = (1u64 << 30) as f64;

fn draw_offsets<'a>(
    area: &Area<'a>,
    span: &Span,
    marks: &Marks,
    (low, high): (u64, u64),
) -> Result<(), DrawError> {
    let (low, high) = (low as f64 / GIB, high as f64 / GIB);
    let decimals = (1.0 - (high - low).log10().floor()).clamp(0.0, 6.0) as usize;
    let format = move |gib: &f64| format!("{gib:.decimals$}");
    let chart = chart(
        area,
        span,
        low..high,
        0,
        &Axes { name: "offset, GiB", format: &format, labels: 9, time: false },
    )?;
    let size = ((marks.cell_px * MARK_SHARE).round() as i32).max(SMALLEST_MARK);
    for mark in &marks.marks {
        let Some(offset) = mark.offset_bytes else { continue };
        let at = (span.axis_s(mark.time_us), offset as f64 / GIB);
        let (x, y) = chart.plotting_area().map_coordinate(&at);
        let color = color_of(mark.class);
        let screen = chart.plotting_area().use_screen_coord();
        match mark.class {
            Class::Read | Class::Write | Class::Discard => {
                let corner = (x - size / 2, y - size / 2);
                let opposite = (corner.0 + size, corner.1 + size);
                screen
                    .draw(&Rectangle::new([corner, opposite], color.mix(density(mark)).filled()))?;
            }
            Class::Fua => {
                screen.draw(&Polygon::new(triangle(x, y, 3), color.mix(density(mark)).filled()))?
            }
            Class::Flush => {}
            Class::Error => {
                screen.draw(&Circle::new((x, y), 4, ShapeStyle::from(color).stroke_width(2)))?
            }
        }
    }
    Ok(())
}

/// A line of a lower panel.
struct Line {
    name: &'static str,
    color: RGBColor,
    width: u32,
    of: fn(&Bin) -> Option<f64>,
}

fn draw_rates(area: &Area<'_>, span: &Span, bins: &Bins) -> Result<(), DrawError> {
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

fn draw_throughput(area: &Area<'_>, span: &Span, bins: &Bins) -> Result<(), DrawError> {
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

fn draw_times(area: &Area<'_>, span: &Span, bins: &Bins) -> Result<(), DrawError> {
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

/// The labels beside a panel.
struct Axes<'a> {
    name: &'a str,
    format: &'a dyn Fn(&f64) -> String,
    /// Labels on the y axis, at most.
    labels: usize,
    /// Whether the time axis is below it.
    time: bool,
}

/// A panel with its phases, mesh and axes.
fn chart<'a, Y>(
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
