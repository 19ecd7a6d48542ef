//! The page of results: one article a result.

use std::fmt::Write;

use super::document::document;
use super::figures::{Figures, element};
use super::markup::{escaped, slug};
use super::{facts, hero, tables};
use crate::sheet::Sheet;
use crate::study::Study;
use crate::view;

/// Results and their figures as one HTML document.
#[must_use]
pub fn page(results: &[(Study<'_>, Figures)]) -> String {
    let title = match results {
        [(one, _)] => format!("{}: {}", command(one), view::title(one.document)),
        many => format!("{} results", many.len()),
    };
    let mut main = String::with_capacity(1 << 20);
    if results.len() > 1 {
        overview(&mut main, results);
    }
    for (i, (study, figures)) in results.iter().enumerate() {
        article(&mut main, study, figures, &prefix(results.len(), i));
    }
    let links = links(results);
    let end = "Everything here is computed from the stored results; <code>floodwall report</code> \
               writes it again, on any machine.";
    document(&title, ("To the results", &links), &main, end)
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

/// Where the links at the top lead: the id, and its name.
fn links(results: &[(Study<'_>, Figures)]) -> Vec<(String, String)> {
    if let [(study, figures)] = results {
        let sections = sections(study, figures).into_iter();
        return sections.map(|(id, name)| (id.to_owned(), name.to_owned())).collect();
    }
    let all = results.iter().enumerate();
    let top = |i: usize| format!("{}top", prefix(results.len(), i));
    all.map(|(i, (study, _))| (top(i), short_source(study))).collect()
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
