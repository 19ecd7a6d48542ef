//! `floodwall explain`: what a finding, a knob, a preset or a word is, from the tables and
//! documents that the code uses.
//!
//! ```text
//! name ─┬─ finding, knob, word ─▶ its page (Markdown) ─▶ report::manual ─▶ stdout
//!       └─ preset ─▶ the table ─────────────────────────────┘
//! ```

use std::fmt::Write;

use floodwall_host::findings::{self, CHECKS};
use floodwall_knobs::catalogue::{find, knobs, nearest, page};
use floodwall_knobs::presets::{self, PRESETS};
use floodwall_model::toml_text;
use floodwall_report::status::Style;
use floodwall_report::status::table::wrap;
use floodwall_report::{glossary, manual};

use super::sources::no_preset;
use crate::exit::{Exit, UsageError};
use crate::{output, terminal};

/// Explain a finding, a knob, a preset or a word of the output; without a name, list all of them
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  floodwall explain FW001
  floodwall explain vm.dirty_bytes
  floodwall explain preset:2010-15MB
  floodwall explain drain time")]
pub(crate) struct ExplainArgs {
    /// A finding, such as FW001, a knob, such as nr_requests, preset:NAME, or a word of Floodwall's
    /// output, such as victim
    name: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// [`UsageError`] for a name that there is not.
pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<Exit> {
    let style = terminal::style();
    let text = if args.name.is_empty() {
        list(style)
    } else {
        manual::render(&explained(&args.name.join(" "))?, style)
    };
    output::screen(&text)?;
    Ok(Exit::Done)
}

/// The page of a finding for the terminal; `None` if there is no such finding.
pub(crate) fn page_of_finding(id: &str) -> Option<String> {
    let page = is_finding(id).then(|| finding_page(id).ok())??;
    Some(manual::render(&page, Style { color: false, ..terminal::style() }))
}

/// The page of a name, as Markdown.
fn explained(name: &str) -> anyhow::Result<String> {
    match name.strip_prefix("preset:") {
        Some(preset) => preset_page(preset),
        None if is_finding(name) => finding_page(name),
        None => knob_or_word_page(name),
    }
}

fn list(style: Style) -> String {
    let mut parts = Vec::new();
    let findings = CHECKS.iter().map(|c| (format!("{:<6} {}", c.id, c.worst), c.title.to_owned()));
    parts.push(part("Findings", 16, findings, style));
    let knobs = knobs().map(|knob| (knob.name.to_owned(), knob.does.to_owned()));
    parts.push(part("Knobs", 32, knobs, style));
    let presets = PRESETS.iter().map(|p| (format!("preset:{}", p.name), p.changes.join(" ")));
    parts.push(part("Presets", 36, presets, style));
    let words = glossary::words().map(|word| (word.name().to_owned(), word.does()));
    parts.push(part("Words", 20, words, style));
    parts.join("\n")
}

/// A heading, and below it each name with what it is, in columns that fit.
fn part(
    title: &str,
    column: usize,
    entries: impl Iterator<Item = (String, String)>,
    style: Style,
) -> String {
    let mut text = manual::render(&format!("# {title}"), style);
    // Half a terminal at least is left for what is said.
    let column = column.min(style.width / 2);
    for (name, does) in entries {
        // Only Markdown's marks of code are in these texts.
        let lines = wrap(&does.replace('`', ""), style.width.saturating_sub(column + 1));
        let beside = name.chars().count() <= column;
        if !beside {
            let _ = writeln!(text, "{name}");
        }
        for (i, line) in lines.iter().enumerate() {
            let left = if i == 0 && beside { &*name } else { "" };
            let _ = writeln!(text, "{left:<column$} {line}");
        }
    }
    text
}

/// Whether a name is meant to be a finding's, such as `FW018` or `18`: no knob begins so.
fn is_finding(name: &str) -> bool {
    let mut letters = name.chars();
    if !name.is_empty() && name.chars().all(|c| c.is_ascii_digit()) {
        return true;
    }
    let begins = matches!((letters.next(), letters.next()), (Some('f' | 'F'), Some('w' | 'W')));
    begins && letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

fn finding_page(id: &str) -> anyhow::Result<String> {
    let check = findings::find(id).ok_or_else(|| {
        let near = findings::nearest(id);
        let hint = if near.is_empty() {
            "floodwall explain lists all".to_owned()
        } else {
            format!("did you mean {}?", near.join(" or "))
        };
        let end = |check: Option<&findings::Check>| check.map_or("", |check| check.id);
        let (first, last) = (end(CHECKS.first()), end(CHECKS.last()));
        UsageError(format!("there is no finding '{id}', they are {first} to {last}; {hint}"))
    })?;
    Ok(check.page.to_owned())
}

/// A name that is a knob's and a word's has both pages.
fn knob_or_word_page(name: &str) -> anyhow::Result<String> {
    // Settings and remedies write it behind a device: `sda.nr_requests`,
    // `backup.service:sda.io.max`.
    let behind_device = name.match_indices(['.', ':']).filter_map(|(at, _)| name.get(at + 1..));
    let knob = std::iter::once(name).chain(behind_device).find_map(find).map(page);
    let word = glossary::find(name).map(|word| word.page());
    let pages: Vec<String> = knob.into_iter().chain(word).collect();
    if pages.is_empty() { Err(unknown(name).into()) } else { Ok(pages.join("\n")) }
}

fn unknown(name: &str) -> UsageError {
    let hint = if presets::find(name).is_some() {
        format!("did you mean preset:{name}?")
    } else {
        let near = alike(name);
        if near.is_empty() {
            "floodwall explain lists all".to_owned()
        } else {
            format!("did you mean {}?", near.join(" or "))
        }
    };
    UsageError(format!("there is no knob or word '{name}'; {hint}"))
}

/// Up to three names that a mistyped one may have meant, the nearest first.
fn alike(name: &str) -> Vec<String> {
    let knobs = nearest(name).into_iter().map(str::to_owned);
    let word = glossary::nearest(name).map(str::to_owned);
    let mut near: Vec<String> = knobs.chain(word).collect();
    if near.is_empty() {
        let preset = toml_text::nearest(name, PRESETS.iter().map(|preset| preset.name));
        near.extend(preset.map(|preset| format!("preset:{preset}")));
    }
    let first = toml_text::nearest(name, near.iter().map(String::as_str)).map(str::to_owned);
    near.sort_by_key(|one| Some(one) != first.as_ref());
    // A knob and a word may have one name; the nearest comes first, twice then.
    near.dedup();
    near.truncate(3);
    near
}

fn preset_page(name: &str) -> anyhow::Result<String> {
    let preset = presets::find(name).ok_or_else(|| UsageError(no_preset(name)))?;
    let changes: String = preset.changes.iter().map(|change| format!("    {change}\n")).collect();
    Ok(format!(
        "# preset:{}\n\n{changes}\n{}\n\nsource: {}\n",
        preset.name, preset.remark, preset.source
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NARROW: Style = Style { color: false, width: 80 };

    /// Every name that is listed.
    fn names() -> Vec<String> {
        let findings = CHECKS.iter().map(|check| check.id.to_owned());
        let knobs = knobs().map(|knob| knob.name.to_owned());
        let presets = PRESETS.iter().map(|preset| format!("preset:{}", preset.name));
        let words = glossary::words().flat_map(|word| word.names()).map(str::to_owned);
        findings.chain(knobs).chain(presets).chain(words).collect()
    }

    #[test]
    fn every_page_fits_a_terminal_and_has_no_marks_of_markdown() {
        for name in names() {
            let page = manual::render(&explained(&name).unwrap(), NARROW);
            for line in page.lines() {
                let code = line.starts_with("    ");
                let one_word = !line.trim().contains(' ');
                assert!(code || one_word || line.chars().count() <= 80, "{name}: {line}");
                let marks = line.starts_with('#') || line.contains("](") || line.contains("|--");
                assert!(code || !marks && !line.contains('`'), "{name}: {line}");
            }
        }
    }

    #[test]
    fn a_name_of_both_has_both_pages() {
        let page = explained("nr_requests").unwrap();
        assert!(page.contains("### nr_requests") && page.contains("# queue, "), "{page}");
    }

    #[test]
    fn the_list_has_its_headings_and_fits() {
        let text = list(NARROW);
        for title in ["Findings\n", "\nKnobs\n", "\nPresets\n", "\nWords\n"] {
            assert!(text.contains(title), "{title}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
