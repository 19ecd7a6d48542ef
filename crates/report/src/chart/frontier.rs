//! What the victim keeps against what the flood keeps: one mark a setting.

use plotters::drawing::IntoDrawingArea;
use plotters::element::{Circle, PathElement, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, RGBColor};

use super::axis::Axis;
use super::frame::{Around, DrawError, bold, line, panel, px, text_width};
use super::palette::{BLUE, GROUND, INK, PALE, VERMILLION, rgb};
use super::{Chart, ChartError, Hover, Key, NARROW, Plot, Point, WIDE, failed};
use crate::numbers::{count, duration_us, interval, percent, whole};
use crate::sheet::{Backend, Sheet};
use crate::study::{Role, Study, Subject};
use crate::told;

/// Characters of a name that stand in the picture.
const NAME: usize = 34;

/// The chart; `None` with fewer than two settings that have both figures.
///
/// # Errors
/// [`ChartError`] if the library fails.
pub(crate) fn frontier(study: &Study<'_>) -> Result<Option<Chart>, ChartError> {
    let placed: Vec<&Subject> = study.subjects.iter().filter(|s| s.spot().is_some()).collect();
    if placed.len() < 2 {
        return Ok(None);
    }
    let failed = failed("frontier");
    let (wide, plot) = draw(&placed, WIDE, 460).map_err(&failed)?;
    let (narrow, narrow_plot) = draw(&placed, NARROW, 360).map_err(&failed)?;
    let axes = Axes::of(&placed);
    let points = placed
        .iter()
        .filter_map(|subject| {
            let spot = subject.spot()?;
            let at = (axes.x_share(spot.flood.value), axes.y_share(spot.victim.value));
            Some(Point { at: [at, at], name: subject.name.clone(), lines: lines(study, subject) })
        })
        .collect();
    let mut legend = vec![Key { color: rgb(INK), name: "what others are compared with".into() }];
    if let Some(answer) = placed.iter().find(|s| s.role == Role::Answer) {
        let what = if study.is_recommended() { "recommended" } else { "the best candidate" };
        legend.push(Key { color: rgb(VERMILLION), name: format!("{what}: {}", answer.name) });
    }
    legend.push(Key { color: rgb(BLUE), name: "no other setting beats it".into() });
    legend.push(Key { color: rgb(PALE), name: "beaten by another".into() });
    let on = placed.iter().filter(|s| s.on_frontier).count();
    let beyond: Vec<String> = placed
        .iter()
        .filter_map(|s| Some(format!("{} ({})", s.name, s.passed_over.as_ref()?)))
        .collect();
    let beyond = if beyond.is_empty() {
        String::new()
    } else {
        format!(
            " Above and to the right of the recommended one, and not recommended: {}.",
            beyond.join("; ")
        )
    };
    Ok(Some(Chart {
        id: "frontier".into(),
        title: "What the victim keeps, and what the flood keeps".into(),
        caption: format!(
            "Each mark is a setting; up and to the right is better. Bars are 95 % intervals. \
             Bursts count too for what beats what: a setting may be \
             unbeaten because it leaves bursts alone.{beyond}"
        ),
        alt: format!(
            "{} settings, of which {on} are beaten by no other; the table below has their figures.",
            placed.len()
        ),
        wide,
        narrow,
        legend,
        hover: Hover::Points { points },
        plots: [plot, narrow_plot],
    }))
}

/// The ends of both axes, in percent.
struct Axes {
    x: f64,
    y: f64,
}

impl Axes {
    fn of(placed: &[&Subject]) -> Self {
        let most = |of: fn(&Subject) -> Option<f64>| {
            placed.iter().filter_map(|s| of(s)).fold(0.0, f64::max)
        };
        let end = |share: f64| (share * 1.06).max(1.0) * 100.0;
        Self {
            x: end(most(|s| Some(s.spot()?.flood.value))),
            y: end(most(|s| Some(s.spot()?.victim.value))),
        }
    }

    fn x_share(&self, share: f64) -> f64 {
        rounded((100.0 * share / self.x).clamp(0.0, 1.0))
    }

    fn y_share(&self, share: f64) -> f64 {
        rounded((1.0 - 100.0 * share / self.y).clamp(0.0, 1.0))
    }
}

fn rounded(share: f64) -> f64 {
    (share * 1e4).round() / 1e4
}

fn color_of(subject: &Subject) -> RGBColor {
    match subject.role {
        Role::Reference => INK,
        Role::Answer => VERMILLION,
        Role::Frontier => BLUE,
        Role::Other => PALE,
    }
}

fn draw(placed: &[&Subject], width: i32, height: i32) -> Result<(Sheet, Plot), DrawError> {
    let mut sheet = Sheet::new(px(width), px(height));
    let plot = {
        let area = Backend(&mut sheet).into_drawing_area();
        let axes = Axes::of(placed);
        let marks = if width == WIDE { 6 } else { 4 };
        let around = Around {
            left: 60,
            right: 28,
            top: 30,
            bottom: 52,
            y_name: "victim keeps",
            y_mark: &|v| format!("{v:.0} %"),
            x_mark: &|v| format!("{v:.0} %"),
            x_name: "flood keeps",
        };
        let (mut chart, plot) =
            panel(&area, Axis::linear(axes.x, marks), Axis::linear(axes.y, 6), &around)?;
        // What matters most is drawn last, on top.
        let mut order: Vec<&&Subject> = placed.iter().collect();
        order.sort_by_key(|s| std::cmp::Reverse((s.role, s.index)));
        for subject in &order {
            let Some(spot) = subject.spot() else { continue };
            let color = color_of(subject);
            let at = (100.0 * spot.flood.value, 100.0 * spot.victim.value);
            if subject.role != Role::Other {
                let bar = line(color, 2).color.mix(0.45).stroke_width(3);
                let across = spot.flood.ends().map(|(a, b)| [(100.0 * a, at.1), (100.0 * b, at.1)]);
                let down = spot.victim.ends().map(|(a, b)| [(at.0, 100.0 * a), (at.0, 100.0 * b)]);
                chart.draw_series(
                    across.into_iter().chain(down).map(|ends| PathElement::new(ends, bar)),
                )?;
            }
            let radius = match subject.role {
                Role::Reference | Role::Answer => 15,
                Role::Frontier => 11,
                Role::Other => 8,
            };
            chart.draw_series([
                Circle::new(at, radius + 3, GROUND.filled()),
                Circle::new(at, radius, color.filled()),
            ])?;
        }
        for subject in order.iter().filter(|s| matches!(s.role, Role::Reference | Role::Answer)) {
            let Some(spot) = subject.spot() else { continue };
            let at = (100.0 * spot.flood.value, 100.0 * spot.victim.value);
            let (x, y) = chart.plotting_area().map_coordinate(&at);
            let name = shortened(&subject.name, if width == WIDE { NAME } else { NAME / 2 });
            // To the left of the mark if there is no room to its right.
            let fits = x + px(14) + text_width(&name) < plot.0 + plot.2;
            let (x, side) = if fits { (x + px(13), HPos::Left) } else { (x - px(13), HPos::Right) };
            // Above the mark: its bars go through the middle.
            let y = (y - px(4)).max(plot.1 + px(8));
            let style = bold(color_of(subject)).pos(Pos::new(side, VPos::Bottom));
            area.draw(&Text::new(name, (x, y), style))?;
        }
        plot
    };
    Ok((sheet, plot))
}

pub(super) fn shortened(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    name.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// The lines of the tooltip of a setting.
fn lines(study: &Study<'_>, subject: &Subject) -> Vec<String> {
    let mut lines = Vec::new();
    let Some(s) = &subject.summary else { return lines };
    let share = |e: &floodwall_stats::estimate::Estimate| {
        format!("{} % ({})", percent(e.value), interval(e, percent))
    };
    for (name, estimate) in [
        ("victim keeps", &s.victim_kept),
        ("flood keeps", &s.flood_kept),
        ("bursts keep", &s.burst_kept),
    ] {
        lines.extend(estimate.as_ref().map(|e| format!("{name} {}", share(e))));
    }
    if let Some((both, iops)) = s.both.as_ref().and_then(|b| Some((b, b.iops?))) {
        let tail = both.operation_us.map(|l| l.tail());
        let tail =
            tail.map_or_else(String::new, |t| format!(", {} {}", t.kind.name(), duration_us(t.us)));
        lines.push(format!("{} {}/s{tail}", count(iops), study.operations()));
    }
    if let Some(dead) = s.dead_seconds {
        lines.push(format!(
            "{} of {} seconds stalled",
            whole(dead.value.round() as u64),
            whole(s.of_seconds)
        ));
    }
    lines.extend(
        told::shown(&subject.versus)
            .map(|c| format!("{}: {}", told::verdict(c), told::phrase(c, study.operations()))),
    );
    lines.extend(subject.passed_over.as_ref().map(|why| format!("not recommended: {why}")));
    if !subject.setting.is_empty() {
        lines.push(subject.setting.to_string().replace(',', ", "));
    }
    lines
}
