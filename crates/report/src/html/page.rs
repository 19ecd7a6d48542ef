//! The document: head, navigation, one article a result.

use std::fmt::Write;

use super::figures::{Figures, element};
use super::markup::{escaped, slug};
use super::{facts, hero, tables};
use crate::sheet::Sheet;
use crate::study::Study;
use crate::view;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Results and their figures as one HTML document.
#[must_use]
pub fn page(results: &[(Study<'_>, Figures)]) -> String {
    let title = match results {
        [(one, _)] => format!("{}: {}", command(one), view::title(one.document)),
        many => format!("{} results", many.len()),
    };
    let mut out = String::with_capacity(1 << 20);
    // Writing to a String never fails.
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n\
         <meta name=\"generator\" content=\"floodwall {}\">\n\
         <title>Floodwall report: {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">To the results</a>\n",
        env!("CARGO_PKG_VERSION"),
        escaped(&title),
    );
    header(&mut out, results);
    out.push_str("<main id=\"main\">\n");
    if results.len() > 1 {
        overview(&mut out, results);
    }
    for (i, (study, figures)) in results.iter().enumerate() {
        article(&mut out, study, figures, &prefix(results.len(), i));
    }
    let _ = write!(
        out,
        "</main>\n<footer>Written by floodwall {}. Everything here is computed from the stored \
         results; <code>floodwall report</code> writes it again, on any machine.</footer>\n\
         <script>\n\
         {SCRIPT}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
    );
    out
}

/// What ids of a result begin with, so that those of several differ.
fn prefix(results: usize, i: usize) -> String {
    if results == 1 { String::new() } else { format!("r{}-", i + 1) }
}

fn command(study: &Study<'_>) -> String {
    let command = study.document.run.command.as_str();
    let word = command.split_whitespace().find(|w| *w != "floodwall").unwrap_or("result");
    word.to_owned()
}

fn header(out: &mut String, results: &[(Study<'_>, Figures)]) {
    out.push_str(
        "<header class=\"top\">\n<span class=\"brand\"><svg viewBox=\"0 0 24 24\" \
        aria-hidden=\"true\"><path d=\"M3 4h5v16H3zM10 8h4v12h-4zM16 \
        12h5v8h-5z\"/></svg>Floodwall</span>\n<nav aria-label=\"Sections\"><ul>\n",
    );
    if let [(study, figures)] = results {
        let sections = sections(study, figures);
        for (id, name) in sections {
            let _ = writeln!(out, "<li><a href=\"#{id}\">{name}</a></li>");
        }
    } else {
        for (i, (study, _)) in results.iter().enumerate() {
            let _ = writeln!(
                out,
                "<li><a href=\"#{}top\">{}</a></li>",
                prefix(results.len(), i),
                escaped(&short_source(study))
            );
        }
    }
    out.push_str(
        "</ul></nav>\n<button type=\"button\" id=\"theme\" aria-pressed=\"false\" \
        hidden>Dark</button>\n</header>\n",
    );
}

/// What several results say, before each says it at length.
fn overview(out: &mut String, results: &[(Study<'_>, Figures)]) {
    let _ = writeln!(
        out,
        "<section aria-labelledby=\"all-h\">\n<h2 id=\"all-h\">{} results</h2>\n\
         <ol class=\"said\">",
        results.len()
    );
    for (i, (study, _)) in results.iter().enumerate() {
        let _ = writeln!(
            out,
            "<li><a href=\"#{}top\">{}</a> ({}): {}</li>",
            prefix(results.len(), i),
            escaped(&short_source(study)),
            escaped(&command(study)),
            escaped(&study.sentence()),
        );
    }
    out.push_str("</ol>\n</section>\n");
}

fn short_source(study: &Study<'_>) -> String {
    let file = study.source.rsplit('/').next().unwrap_or_default();
    file.strip_suffix(".json").unwrap_or(file).to_owned()
}

/// The sections that there are, with their ids.
fn sections(study: &Study<'_>, figures: &Figures) -> Vec<(&'static str, &'static str)> {
    let mut sections = Vec::new();
    let has = |id: &str| figures.charts.iter().any(|c| c.id.starts_with(id));
    for (there, id, name) in [
        (has("frontier"), "frontier", "Frontier"),
        (has("time-"), "time", "Over time"),
        (has("latency"), "latency", "Latency"),
        (has("knobs"), "knobs", "Knobs"),
        (figures.seeks.is_some(), "seeks", "Seeks"),
        (true, "tables", if study.subjects.len() > 1 { "Settings" } else { "Phases" }),
        (true, "machine", "Machine"),
        (true, "repeat", "Repeat"),
    ] {
        if there {
            sections.push((id, name));
        }
    }
    sections
}

fn article(out: &mut String, study: &Study<'_>, figures: &Figures, prefix: &str) {
    let _ = writeln!(out, "<article aria-labelledby=\"{prefix}top\">");
    hero::hero(out, study, prefix);
    let section = |out: &mut String, id: &str, heading: &str, body: &dyn Fn(&mut String)| {
        let _ = writeln!(
            out,
            "<section id=\"{prefix}{id}\" aria-labelledby=\"{prefix}{id}-h\">\n\
             <h2 id=\"{prefix}{id}-h\">{}</h2>",
            escaped(heading)
        );
        body(out);
        out.push_str("</section>\n");
    };
    let chart = |id: &str| figures.charts.iter().find(|c| c.id == id);
    for (id, _) in sections(study, figures) {
        match id {
            "time" => {
                section(out, id, "Second by second", &|out| times(out, study, figures, prefix))
            }
            "seeks" => section(out, id, "What reached the device", &|out| {
                if let Some(seeks) = &figures.seeks {
                    seeks_figure(out, seeks);
                }
            }),
            "tables" => section(
                out,
                id,
                if study.subjects.len() > 1 { "All settings" } else { "Phase by phase" },
                &|out| tables::tables(out, study, prefix),
            ),
            "machine" => section(out, id, "The machine", &|out| facts::machine(out, study)),
            "repeat" => section(out, id, "To repeat it", &|out| facts::repeat(out, study, prefix)),
            _ => {
                let Some(one) = chart(id) else { continue };
                section(out, id, &one.title, &|out| element(out, one, prefix, false));
            }
        }
    }
    out.push_str("</article>\n");
}

/// The reference and the answer below each other; the others one at a time.
fn times(out: &mut String, study: &Study<'_>, figures: &Figures, prefix: &str) {
    let charts: Vec<_> = figures.charts.iter().filter(|c| c.id.starts_with("time-")).collect();
    let id_of = |index: usize| format!("time-{index}");
    let first: Vec<String> = [study.reference(), study.answer().or(study.subjects.get(1))]
        .into_iter()
        .flatten()
        .map(|s| id_of(s.index))
        .collect();
    for one in charts.iter().filter(|c| first.contains(&c.id)) {
        element(out, one, prefix, charts.len() > 1);
    }
    let others: Vec<_> = charts.iter().filter(|c| !first.contains(&c.id)).collect();
    if others.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "<p class=\"chooser\" hidden><label for=\"{prefix}other\">Another setting, on the same \
         axes:</label> \
         <select id=\"{prefix}other\" data-target=\"{prefix}other-time\"><option \
         value=\"\">none</option>"
    );
    for one in &others {
        let name = study
            .subjects
            .iter()
            .find(|s| id_of(s.index) == one.id)
            .map_or("", |s| s.name.as_str());
        let _ = writeln!(
            out,
            "<option value=\"{prefix}t-{}\">{}</option>",
            slug(&one.id),
            escaped(name)
        );
    }
    let _ =
        writeln!(out, "</select></p>\n<div id=\"{prefix}other-time\" aria-live=\"polite\"></div>");
    // A browser neither lays out nor paints the content of a template until a script inserts it.
    for one in &others {
        let _ = writeln!(out, "<template id=\"{prefix}t-{}\">", slug(&one.id));
        element(out, one, prefix, true);
        out.push_str("</template>\n");
    }
}

fn seeks_figure(out: &mut String, seeks: &Sheet) {
    let svg = seeks.to_element();
    let _ = writeln!(
        out,
        "<figure class=\"seeks\"><div class=\"scroll\" tabindex=\"0\" role=\"img\" \
         aria-label=\"Picture of the requests over time and place\">{svg}</div>\n\
         <figcaption><p class=\"caption\">Streams are slanted lines, random I/O is a cloud, a seek \
         is a jump between them.</p></figcaption></figure>"
    );
}
