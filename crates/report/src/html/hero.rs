//! The top of a result: its message, in a sentence and in large numbers.

use std::fmt::Write;

use floodwall_model::Setting;
use floodwall_stats::versus::{Compared, Figure, Verdict};

use super::markup::escaped;
use crate::numbers::count;
use crate::schema::RunStatus;
use crate::study::{Study, Subject};
use crate::told;
use crate::view::{self, View};

/// A large number.
struct Tile {
    value: String,
    what: String,
    /// The value before, or the interval.
    beside: String,
    /// `better`, `worse`, or neither.
    class: &'static str,
}

/// Title, sentence, large numbers, and what to know before believing them.
pub(super) fn hero(out: &mut String, study: &Study<'_>, prefix: &str) {
    let document = study.document;
    let command =
        document.run.command.split_whitespace().find(|w| *w != "floodwall").unwrap_or("result");
    let mut about = vec![command.to_owned()];
    if document.run.started_at_unix_s > 0.0 {
        about.push(crate::seeks::utc(document.run.started_at_unix_s));
    }
    about.extend(document.run.device.as_ref().map(|d| d.name.clone()));
    about.push(study.source.clone());
    let title = document.scenario.get("name").and_then(|v| v.as_str()).unwrap_or("result");
    let description =
        document.scenario.get("description").and_then(|v| v.as_str()).unwrap_or_default();
    let heading = study.headline().unwrap_or_else(|| title.to_owned());
    let _ = writeln!(
        out,
        "<header class=\"hero\">\n<p class=\"eyebrow\">{}</p>\n<h1 id=\"{prefix}top\">{}</h1>",
        escaped(&about.join(" · ")),
        escaped(&heading),
    );
    let (lead, knobs) = lead(study);
    // Of many settings the heading is the sentence.
    if lead.trim_end_matches('.') != heading {
        let _ = writeln!(out, "<p class=\"lead\">{}</p>", escaped(&lead));
    }
    if !knobs.is_empty() {
        out.push_str("<ul class=\"chips\" aria-label=\"The setting\">");
        for (knob, value) in &knobs.0 {
            let _ = write!(out, "<li><code>{} = {}</code></li>", escaped(knob), escaped(value));
        }
        out.push_str("</ul>\n");
    }
    if !description.is_empty() || heading != title {
        let _ = writeln!(
            out,
            "<p class=\"scenario\">Scenario: {}</p>",
            escaped(&view::title(document))
        );
    }
    let tiles = tiles(study);
    if !tiles.is_empty() {
        out.push_str("<ul class=\"tiles\">\n");
        for t in tiles {
            let _ = writeln!(
                out,
                "<li class=\"{}\"><span class=\"what\">{}</span><strong>{}</strong><span \
                 class=\"beside\">{}</span></li>",
                t.class,
                escaped(&t.what),
                escaped(&t.value),
                escaped(&t.beside),
            );
        }
        out.push_str("</ul>\n");
    }
    notices(out, study);
    out.push_str("</header>\n");
}

/// The sentence, and the setting that it is about; where the sentence holds the setting in brackets
/// it stands beside instead of in it.
fn lead(study: &Study<'_>) -> (String, Setting) {
    let sentence = study.sentence();
    let recommended = study.document.contest.as_ref().and_then(|c| c.recommended.as_ref());
    let setting = recommended.map(|r| r.setting.clone()).unwrap_or_default();
    let bracketed = format!(" ({setting})");
    if setting.is_empty() {
        (sentence, setting)
    } else {
        (sentence.replacen(&bracketed, "", 1), setting)
    }
}

fn tiles(study: &Study<'_>) -> Vec<Tile> {
    if study.document.contest.is_none() {
        return of_one(study);
    }
    // A comparison of two is about the second one.
    let answer =
        study.answer().or_else(|| study.subjects.get(1).filter(|_| study.subjects.len() == 2));
    answer.map(|a| of_answer(study, a)).unwrap_or_default()
}

/// The four figures of a single setting.
fn of_one(study: &Study<'_>) -> Vec<Tile> {
    let view = View::of(study.document);
    let figures = view.figures.into_iter().map(|f| {
        let interval =
            if f.interval.is_empty() { String::new() } else { format!("{}; ", f.interval) };
        let what = match f.name {
            "victim_kept" => "the victim keeps",
            "flood_kept" => "the flood keeps",
            "burst_kept" => "bursts keep",
            _ => "stalled seconds",
        };
        Tile {
            value: f.value,
            what: what.into(),
            beside: format!("{interval}{}", f.meaning),
            class: "",
        }
    });
    figures.collect()
}

/// What an answer changes, figure by figure.
fn of_answer(study: &Study<'_>, answer: &Subject) -> Vec<Tile> {
    told::shown(&answer.versus).filter_map(|c| of_figure(study, c)).collect()
}

fn of_figure(study: &Study<'_>, c: &Compared) -> Option<Tile> {
    c.value?;
    let what = match c.figure {
        Figure::VictimIops => format!("{} beside the flood", study.operations()),
        Figure::DeadShare => "seconds stalled".into(),
        figure => told::name(figure, study.operations()).to_owned(),
    };
    let class = match c.verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Same | Verdict::Untold | Verdict::Unknown => "",
    };
    let before = told::value(c.figure, c.reference);
    let beside = format!("instead of {before}{}{}", factor(c), told::unsure(c));
    Some(Tile { value: told::value(c.figure, c.value), what, beside, class })
}

/// `, 21×`, `, 88 %`, or for a latency that fell `, 221× less`; empty if it is the same.
fn factor(c: &Compared) -> String {
    if c.verdict == Verdict::Same {
        return String::new();
    }
    let tail = matches!(c.figure, Figure::VictimP99Us | Figure::VictimSlowestUs);
    match c.difference {
        Some(e) if tail && e.value > 0.0 && e.value < 1.0 => {
            format!(", {}× less", count(1.0 / e.value))
        }
        _ => told::ratio(c).map_or_else(String::new, |ratio| format!(", {ratio}")),
    }
}

/// The run's faults and warnings.
fn notices(out: &mut String, study: &Study<'_>) {
    let run = &study.document.run;
    let mut notices: Vec<String> = Vec::new();
    if let RunStatus::Partial { why } = &run.status {
        notices.push(format!("Partial result: {why}."));
    }
    notices.extend(run.warnings.iter().cloned());
    if notices.is_empty() {
        return;
    }
    out.push_str("<ul class=\"notices\" aria-label=\"Notes\">\n");
    for notice in notices {
        let _ = writeln!(out, "<li>{}</li>", escaped(&notice));
    }
    out.push_str("</ul>\n");
}
