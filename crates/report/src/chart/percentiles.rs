//! Latency by percentile, one curve a setting.

use floodwall_model::LatencyCounts;
use floodwall_model::trial::PhaseKind;
use plotters::drawing::IntoDrawingArea;
use plotters::element::Circle;
use plotters::style::{Color, RGBColor};

use super::axis::Axis;
use super::frame::{Around, DrawError, LETTER, curve, line, panel, px, text_width};
use super::palette::{INK, PALE, SERIES, VERMILLION, rgb};
use super::{Chart, ChartError, Curve, Hover, Key, NARROW, Plot, Unit, WIDE, css, failed, short};
use crate::numbers::{duration_us, whole};
use crate::sheet::{Backend, Sheet};
use crate::study::{self, Role, Study, percentile_text};

/// Settings at most: more curves can't be told apart.
const MOST: usize = 6;

struct Line {
    name: String,
    color: RGBColor,
    width: u32,
    curve: study::Curve,
}

/// The chart; `None` if no operation was timed.
///
/// # Errors
/// [`ChartError`] if the library fails.
pub(crate) fn percentiles(study: &Study<'_>) -> Result<Option<Chart>, ChartError> {
    let lines = lines(study);
    if lines.is_empty() {
        return Ok(None);
    }
    let failed = failed("latency");
    let (wide, plot) = draw(&lines, WIDE, 420).map_err(&failed)?;
    let (narrow, narrow_plot) = draw(&lines, NARROW, 340).map_err(&failed)?;
    let last = last(&lines);
    let places: Vec<f64> = longest(&lines).iter().map(|p| p.0).collect();
    let curves = lines.iter().map(|l| Curve {
        name: l.name.clone(),
        color: css(rgb(l.color)),
        unit: Unit::Us,
        y: places.iter().map(|at| value_at(&l.curve, *at)).collect(),
    });
    let said: Vec<String> = lines
        .iter()
        .map(|l| {
            let at = |nines| value_at(&l.curve, nines).map(duration_us);
            let p99 = at(2.0).map_or_else(String::new, |t| format!("p99 {t}, "));
            let max = l.curve.points.last().map_or(0.0, |p| p.1);
            format!(
                "{}: {p99}longest {} of {} operations",
                l.name,
                duration_us(max),
                whole(l.curve.operations)
            )
        })
        .collect();
    Ok(Some(Chart {
        id: "latency".into(),
        title: format!("How long {} take", study.operations()),
        caption:
            "Every step to the right is another nine: a curve that stays low to the right has \
            no slow tail. Curves end at their longest operation."
                .into(),
        alt: said.join(". ") + ".",
        wide,
        narrow,
        legend: lines.iter().map(|l| Key { color: rgb(l.color), name: l.name.clone() }).collect(),
        hover: Hover::Curves {
            x: places.iter().map(|p| (p / last * 1e4).round() / 1e4).collect(),
            at: places.iter().map(|p| percentile_text(*p)).collect(),
            curves: curves.collect(),
        },
        plots: [plot, narrow_plot],
    }))
}

/// The victim alone under the reference, then the leading settings beside the flood; without a
/// flood each setting alone.
fn lines(study: &Study<'_>) -> Vec<Line> {
    let mut lines = Vec::new();
    let leading = study.leading(MOST);
    let several = study.subjects.len() > 1;
    let beside = leading.iter().any(|s| !study.latencies(s, PhaseKind::Both).is_empty());
    let add = |lines: &mut Vec<Line>, name: String, color, width, counts: LatencyCounts| {
        lines.extend(study::curve(&counts).map(|curve| Line { name, color, width, curve }));
    };
    if beside && let Some(reference) = study.reference() {
        let alone = study.latencies(reference, PhaseKind::Victim);
        add(&mut lines, "alone, without a flood".into(), PALE, 3, alone);
    }
    let kind = if beside { PhaseKind::Both } else { PhaseKind::Victim };
    let mut others = SERIES.iter();
    for subject in leading {
        let color = match subject.role {
            Role::Reference => INK,
            Role::Answer => VERMILLION,
            Role::Frontier | Role::Other => others.next().copied().unwrap_or(PALE),
        };
        let name = match (several, beside) {
            (true, _) => subject.name.clone(),
            (false, true) => "beside the flood".into(),
            (false, false) => "alone".into(),
        };
        let width = if matches!(subject.role, Role::Reference | Role::Answer) { 5 } else { 3 };
        add(&mut lines, name, color, width, study.latencies(subject, kind));
    }
    lines
}

/// The points of the curve that goes furthest: the places that can be read off.
fn longest(lines: &[Line]) -> &[(f64, f64)] {
    let furthest = |l: &&Line| l.curve.points.last().map_or(0.0, |p| p.0);
    let longest = lines.iter().max_by(|a, b| furthest(a).total_cmp(&furthest(b)));
    longest.map_or(&[], |l| l.curve.points.as_slice())
}

/// Where the axis ends, in nines.
fn last(lines: &[Line]) -> f64 {
    longest(lines).last().map_or(0.0, |p| p.0).max(1.0)
}

fn value_at(curve: &study::Curve, nines: f64) -> Option<f64> {
    let (end, max) = *curve.points.last()?;
    let next = curve.points.iter().find(|p| p.0 >= nines - 1e-9).map(|p| p.1);
    next.or((nines <= end).then_some(max)).map(short)
}

/// The marks whose texts don't run into each other, from the last one down. `unit`: sheet units a
/// nine.
fn readable(marks: &[f64], unit: f64) -> Vec<f64> {
    let mut kept: Vec<f64> = Vec::new();
    // Where the text to the right begins.
    let mut end = f64::MAX;
    for mark in marks.iter().rev() {
        let (middle, half) = (mark * unit, f64::from(text_width(&percentile_text(*mark))) / 2.0);
        if middle + half + f64::from(px(LETTER / 2)) <= end {
            kept.push(*mark);
            end = middle - half;
        }
    }
    kept.reverse();
    kept
}

fn draw(lines: &[Line], width: i32, height: i32) -> Result<(Sheet, Plot), DrawError> {
    let mut sheet = Sheet::new(px(width), px(height));
    let plot = {
        let area = Backend(&mut sheet).into_drawing_area();
        let values = || lines.iter().flat_map(|l| &l.curve.points).map(|p| p.1);
        let (low, high) = values().fold((f64::MAX, 1.0f64), |(l, h), v| (l.min(v), h.max(v)));
        let last = last(lines);
        let mut marks: Vec<f64> = (0..=last as i32).map(f64::from).collect();
        if width == WIDE {
            marks.insert(1, 2f64.log10());
        }
        let (left, right) = (72, if width == WIDE { 24 } else { 30 });
        let marks = readable(&marks, f64::from(px(width - left - right)) / last);
        let around = Around {
            left,
            right,
            top: 30,
            bottom: 52,
            y_name: "latency",
            y_mark: &|v| duration_us(*v).replace(".00 ", " ").replace(".0 ", " "),
            x_mark: &|v| percentile_text(*v),
            x_name: if width == WIDE {
                "share of the operations that were no slower"
            } else {
                "operations that were no slower"
            },
        };
        let (mut chart, plot) = panel(
            &area,
            Axis::plain(0.0, last, marks),
            Axis::decades(low.max(1.0), high, 7),
            &around,
        )?;
        // The first ones matter most, so they come on top.
        for l in lines.iter().rev() {
            let points: Vec<Option<(f64, f64)>> =
                l.curve.points.iter().copied().map(Some).collect();
            curve(&mut chart, &points, line(l.color, l.width))?;
            if let Some(end) = l.curve.points.last() {
                chart.draw_series([Circle::new(*end, l.width + 4, l.color.filled())])?;
            }
        }
        plot
    };
    Ok((sheet, plot))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_whose_texts_would_run_into_each_other_are_left_out() {
        let marks = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(readable(&marks, f64::from(px(100))), marks);
        let narrow = readable(&marks, f64::from(px(242)) / 5.0);
        assert_eq!(narrow.last(), Some(&5.0));
        assert!(narrow.len() < marks.len() && narrow.len() > 2, "{narrow:?}");
    }
}
