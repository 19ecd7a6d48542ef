//! What each knob's values gave: a row a value, a mark a setting, a bar at their median.

use plotters::drawing::IntoDrawingArea;
use plotters::element::{Circle, PathElement, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, RGBColor, ShapeStyle};

use super::frame::{Area, DrawError, bold, font, line, px};
use super::frontier::shortened;
use super::palette::{BLUE, GREY, GRID, INK, VERMILLION, rgb};
use super::{Chart, ChartError, Hover, Key, NARROW, Plot, Point, WIDE, failed};
use crate::numbers::percent;
use crate::sheet::{Backend, Sheet};
use crate::study::{Effect, Spot, Study, Trait, effects};

/// Heights in pixels.
const ROW: i32 = 24;
const KNOB: i32 = 30;
const HEAD: i32 = 26;
const FOOT: i32 = 24;
/// Least distance of two marks: a text such as `100 %` and a blank.
const LEAST: i32 = 42;

/// The chart; `None` where settings differ in nothing.
///
/// # Errors
/// [`ChartError`] if the library fails.
pub(crate) fn chart(study: &Study<'_>) -> Result<Option<Chart>, ChartError> {
    let effects = effects(study);
    if effects.is_empty() {
        return Ok(None);
    }
    let failed = failed("knobs");
    let (wide, plot, mut points) = draw(study, &effects, WIDE).map_err(&failed)?;
    let (narrow, narrow_plot, narrow_points) = draw(study, &effects, NARROW).map_err(&failed)?;
    for (point, narrow) in points.iter_mut().zip(narrow_points) {
        point.at[1] = narrow.at[0];
    }
    let said = effects.iter().map(|e| {
        let values = e
            .values
            .iter()
            .map(|v| format!("{} {} %", v.value, v.victim.map_or_else(|| "–".into(), percent)));
        format!("{}: {}", e.knob, values.collect::<Vec<_>>().join(", "))
    });
    Ok(Some(Chart {
        id: "knobs".into(),
        title: "What each knob does".into(),
        caption:
            "Each mark is a setting with that value, the bar their median. Settings differ in \
            other knobs too: full marks are those that changed this knob \
                  alone. The knob whose values are furthest apart comes first."
                .into(),
        alt: format!(
            "Median share that the victim keeps. \
            {}.",
            said.collect::<Vec<_>>().join("; ")
        ),
        wide,
        narrow,
        legend: vec![
            Key { color: rgb(BLUE), name: "victim keeps".into() },
            Key { color: rgb(VERMILLION), name: "flood keeps".into() },
        ],
        hover: Hover::Points { points },
        plots: [plot, narrow_plot],
    }))
}

/// One of the two columns.
struct Column {
    name: &'static str,
    color: RGBColor,
    left: i32,
    width: i32,
    most: f64,
    of: fn(&Spot) -> f64,
    median: fn(&Trait) -> Option<f64>,
}

impl Column {
    fn x(&self, share: f64) -> i32 {
        self.left + (share / self.most * f64::from(self.width)).round() as i32
    }
}

fn draw(
    study: &Study<'_>,
    effects: &[Effect],
    width: i32,
) -> Result<(Sheet, Plot, Vec<Point>), DrawError> {
    let rows: i32 = effects.iter().map(|e| KNOB + ROW * e.values.len() as i32).sum();
    let (w, height) = (px(width), px(HEAD + rows + FOOT));
    // On a phone labels stand over their row.
    let labels = if width == WIDE { px(230) } else { px(110) };
    // The last mark of a column and the first of the next one stand in it.
    let gap = px(if width == WIDE { 40 } else { 28 });
    let each = (w - labels - 2 * gap) / 2;
    let spots = || study.subjects.iter().filter_map(crate::study::Subject::spot);
    let most = |of: fn(&Spot) -> f64| spots().map(|s| of(&s)).fold(1.0f64, f64::max) * 1.02;
    let columns = [
        Column {
            name: "victim keeps",
            color: BLUE,
            left: labels,
            width: each,
            most: most(|s| s.victim.value),
            of: |s| s.victim.value,
            median: |v| v.victim,
        },
        Column {
            name: "flood keeps",
            color: VERMILLION,
            left: labels + each + gap,
            width: each,
            most: most(|s| s.flood.value),
            of: |s| s.flood.value,
            median: |v| v.flood,
        },
    ];
    let plot = Plot(0, 0, w, height);
    let mut sheet = Sheet::new(w, height);
    let mut points = Vec::new();
    {
        let area = Backend(&mut sheet).into_drawing_area();
        for column in &columns {
            draw_grid(&area, column, height)?;
        }
        let mut y = px(HEAD);
        for effect in effects {
            let name = shortened(&effect.knob, if width == WIDE { 80 } else { 40 });
            let style = bold(INK).pos(Pos::new(HPos::Left, VPos::Bottom));
            area.draw(&Text::new(name, (0, y + px(KNOB - 5)), style))?;
            y += px(KNOB);
            for value in &effect.values {
                let middle = y + px(ROW) / 2;
                let color = if value.is_default { GREY } else { INK };
                let label = shortened(&value.value, if width == WIDE { 32 } else { 13 });
                let style = font(color).pos(Pos::new(HPos::Left, VPos::Center));
                area.draw(&Text::new(label, (px(8), middle), style))?;
                for column in &columns {
                    points.extend(draw_row(&area, study, column, effect, value, middle, plot)?);
                }
                y += px(ROW);
            }
        }
    }
    Ok((sheet, plot, points))
}

fn draw_grid(area: &Area<'_>, column: &Column, height: i32) -> Result<(), DrawError> {
    area.draw(&Text::new(column.name, (column.left, 0), bold(column.color)))?;
    let bottom = height - px(FOOT);
    let step = step(column.most, column.width);
    let marks = (0..20).map(|i| f64::from(i) * step).take_while(|m| *m <= column.most);
    for mark in marks {
        let x = column.x(mark);
        area.draw(&PathElement::new([(x, px(HEAD)), (x, bottom)], line(GRID, 2)))?;
        let style = font(GREY).pos(Pos::new(HPos::Center, VPos::Top));
        area.draw(&Text::new(format!("{} %", percent(mark)), (x, bottom + px(5)), style))?;
    }
    Ok(())
}

/// From mark to mark: far enough apart for their texts. `width`: of the column, in sheet units.
fn step(most: f64, width: i32) -> f64 {
    let mut step = if most > 1.6 { 1.0 } else { 0.5 };
    while f64::from(width) * step / most < f64::from(px(LEAST)) && step < most {
        step *= 2.0;
    }
    step
}

fn draw_row(
    area: &Area<'_>,
    study: &Study<'_>,
    column: &Column,
    effect: &Effect,
    value: &Trait,
    y: i32,
    plot: Plot,
) -> Result<Vec<Point>, DrawError> {
    let mut points = Vec::new();
    area.draw(&PathElement::new([(column.x(0.0), y), (column.x(column.most), y)], line(GRID, 1)))?;
    if let Some(median) = (column.median)(value) {
        let x = column.x(median);
        area.draw(&Rectangle::new(
            [(x - 3, y - px(8)), (x + 3, y + px(8))],
            column.color.filled(),
        ))?;
    }
    for index in &value.subjects {
        let Some(subject) = study.subjects.get(*index) else { continue };
        let Some(spot) = subject.spot() else { continue };
        let share = (column.of)(&spot);
        let at = (column.x(share), y);
        let alone = value.alone.contains(index);
        let style: ShapeStyle =
            if alone { column.color.filled() } else { column.color.mix(0.6).stroke_width(3) };
        area.draw(&Circle::new(at, px(5), style))?;
        let at = plot.share(at);
        let alone = if alone { ", which changed this knob alone" } else { "" };
        let name = format!("{}: {}", effect.knob, value.value);
        points.push(Point {
            at: [at, at],
            name,
            lines: vec![
                format!("{} {} %", column.name, percent(share)),
                format!("{}{alone}", subject.name),
            ],
        });
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_as_far_apart_as_their_texts_need() {
        assert!((step(1.02, px(335)) - 0.5).abs() < 1e-9);
        assert!((step(1.02, px(89)) - 0.5).abs() < 1e-9);
        assert!((step(10.2, px(89)) - 8.0).abs() < 1e-9);
        assert!((step(3.0, px(335)) - 1.0).abs() < 1e-9);
    }
}
