//! Requests: the legend, and the marks of requests with a place on the device and without one.

use std::time::Duration;

use floodwall_model::Bytes;
use floodwall_model::units::human_duration;
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{BLACK, Color, RGBColor, ShapeStyle};

use super::super::marks::{Class, Mark, Marks};
use super::super::recording::Recording;
use super::super::span::{Span, utc};
use super::chart::{Area, Axes, DrawError, chart};
use super::style::{FLUSHES, GREY, LEFT, LETTER, PHASES, column, font, text_width, tint};
use crate::chart::palette::{BLUE, CRIMSON, GREEN, ORANGE, VERMILLION};
use crate::numbers;

/// Side of a mark as a share of its cell's. A dense area still looks dense, and the marks drawn
/// last leave the rest visible.
const MARK_SHARE: f64 = 0.6;
/// The shortest side of a mark, in pixels: smaller ones are hard to see.
const SMALLEST_MARK: i32 = 3;

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

pub(super) fn draw_head(
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

pub(super) fn draw_phase_names(area: &Area<'_>, span: &Span) -> Result<(), DrawError> {
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

pub(super) fn draw_flushes(area: &Area<'_>, span: &Span, marks: &Marks) -> Result<(), DrawError> {
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

const GIB: f64 = (1u64 << 30) as f64;

pub(super) fn draw_offsets<'a>(
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
