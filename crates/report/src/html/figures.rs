//! All figures of a result, and one as an element of the page.

use std::fmt::Write;

use serde::Serialize;

use super::markup::{escaped, json_for_script};
use crate::chart::history::{Scale, chart as time_chart};
use crate::chart::{Chart, ChartError, Hover, Plot, css, effects, frontier, percentiles};
use crate::sheet::Sheet;
use crate::study::{Study, course};

/// The figures of a result.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// In the order in which a page shows them.
    pub charts: Vec<Chart>,
    /// If something was recorded.
    pub seeks: Option<Sheet>,
}

/// Draws all figures of a result.
///
/// # Errors
/// [`ChartError`] if the drawing library fails.
pub fn figures(study: &Study<'_>, seeks: Option<Sheet>) -> Result<Figures, ChartError> {
    let mut charts: Vec<Chart> = frontier::frontier(study)?.into_iter().collect();
    let courses: Vec<_> = study.subjects.iter().map(|s| course(study, s)).collect();
    let scale = Scale::of(courses.iter());
    for subject in &study.subjects {
        charts.extend(time_chart(study, subject, scale)?);
    }
    charts.extend(percentiles::percentiles(study)?);
    charts.extend(effects::chart(study)?);
    Ok(Figures { charts, seeks })
}

/// What the script needs to know of a figure.
#[derive(Serialize)]
struct Data<'a> {
    #[serde(flatten)]
    hover: &'a Hover,
    plots: [Plot; 2],
    widths: [u32; 2],
}

/// A figure; with its title unless the section has it already.
pub(super) fn element(out: &mut String, chart: &Chart, prefix: &str, titled: bool) {
    let id = format!("{prefix}{}-f", chart.id);
    let title = escaped(&chart.title);
    let _ = writeln!(out, "<figure class=\"chart\" id=\"{id}\" data-chart>");
    if titled {
        // The section says what it is; here it matters of what.
        let of = chart.title.split_once(": ").map_or(chart.title.as_str(), |(_, of)| of);
        let _ = writeln!(out, "<h3>{}</h3>", escaped(of));
    }
    out.push_str("<ul class=\"legend\">");
    for key in &chart.legend {
        let _ = write!(
            out,
            "<li><i style=\"--key:{}\"></i>{}</li>",
            variable(&css(key.color)),
            escaped(&key.name)
        );
    }
    let _ = write!(
        out,
        "</ul>\n<div class=\"plot\" tabindex=\"0\" role=\"slider\" aria-label=\"{title}\" \
         aria-describedby=\"{id}-d\" aria-valuenow=\"0\" \
         aria-valuetext=\"Arrow keys read off the figure\">\n\
         <div class=\"wide\">{}</div><div class=\"narrow\">{}</div>\n\
         <div class=\"cursor\" hidden></div><div class=\"tip\" hidden></div></div>\n\
         <figcaption><p class=\"caption\">{}</p><p class=\"unseen\" \
         id=\"{id}-d\">{}</p></figcaption>\n",
        chart.wide.to_element(),
        chart.narrow.to_element(),
        escaped(&chart.caption),
        escaped(&chart.alt),
    );
    let data = Data {
        hover: &chart.hover,
        plots: chart.plots,
        widths: [chart.wide.size().0, chart.narrow.size().0],
    };
    let _ = writeln!(
        out,
        "<script type=\"application/json\">{}</script>\n</figure>",
        json_for_script(&data)
    );
}

/// The stylesheet's variable of a colour: `#0072b2` is `--c0072b2`.
fn variable(color: &str) -> String {
    format!("var(--c{})", color.trim_start_matches('#'))
}
