//! A diagnosis for people (one paragraph, and what can be done) and for programs (JSON).
//!
//! ```text
//! Diagnosis ─┬─ text: paragraph ─ what was not seen ─ actions with their prices
//!            └─ json: {"schema": "floodwall/why/1", …}, every number's name ends in its unit
//! ```

mod sentences;
#[cfg(test)]
mod tests;

use floodwall_model::diagnosis::{Action, Diagnosis, Disk, Verdict};
use floodwall_model::printable::printable;
use floodwall_model::status::Drain;
use serde::Serialize;

use crate::status::Style;
use crate::status::table::wrap;

/// Name and version of the JSON document.
pub const SCHEMA: &str = "floodwall/why/1";

/// Where commands and prices begin.
const INDENT: &str = "      ";
/// At the end of a command's line, for a shell.
const GOES_ON: &str = " \\";

/// A diagnosis for people.
#[must_use]
pub fn text(diagnosis: &Diagnosis, style: Style) -> String {
    let style = Style { width: style.prose(), ..style };
    let mut lines = sentence(diagnosis, style);
    for more in sentences::more(diagnosis) {
        lines.push(String::new());
        lines.extend(wrap(&more, style.width));
    }
    if !diagnosis.actions.is_empty() {
        let as_root = if diagnosis.actions_need_root { ", as root" } else { "" };
        let may_fix = diagnosis.actions.iter().any(|action| !action.settings.is_empty());
        let fix = if may_fix { " (floodwall fix tries the first change)" } else { "" };
        lines.extend([String::new(), format!("What can be done{as_root}{fix}:")]);
        lines.extend(diagnosis.actions.iter().flat_map(|action| shown(action, style.width)));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// The first paragraph alone, in lines.
#[must_use]
pub fn sentence(diagnosis: &Diagnosis, style: Style) -> Vec<String> {
    coloured(wrap(&sentences::paragraph(diagnosis), style.prose()), diagnosis, style)
}

/// Actions: for each its name, its command, its gain and price.
#[must_use]
pub fn actions(actions: &[Action], style: Style) -> String {
    actions.iter().flat_map(|action| shown(action, style.prose())).collect::<Vec<_>>().join("\n")
}

/// An action that is about to be carried out: its name, its gain and price.
#[must_use]
pub fn guess(action: &Action, style: Style) -> String {
    let what = wrap(&format!("First guess: {}", action.what), style.prose());
    let room = style.prose().saturating_sub(INDENT.len()).max(20);
    what.into_iter().chain(gain_and_price(action, "", room)).collect::<Vec<_>>().join("\n")
}

/// What a change gained: the first victim's wait on a disk, and the disk's drain rate, before it
/// and after it. `wait_s` is `None` if the victim no longer waits, `after` if nothing is known of
/// the disk.
#[must_use]
pub fn gained(before: &Disk, wait_s: Option<f64>, after: Option<&Drain>, style: Style) -> String {
    wrap(&sentences::gained(before, wait_s, after), style.prose()).join("\n")
}

/// A diagnosis for programs: one JSON document, indented, without a line end after it.
///
/// # Errors
/// None that a [`Diagnosis`] can cause; serialisation is fallible by type.
pub fn json(diagnosis: &Diagnosis) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(&Document { schema: SCHEMA, command: "why", diagnosis })
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    command: &'static str,
    #[serde(flatten)]
    diagnosis: &'a Diagnosis,
}

/// One action: its name, its command, its price.
fn shown(action: &Action, width: usize) -> Vec<String> {
    let room = width.saturating_sub(INDENT.len()).max(20);
    let mut lines = indented("  ", wrap(&action.what, room));
    if let Some(command) = &action.command {
        let mut parts = command_lines(command, room.saturating_sub(GOES_ON.len()));
        let last = parts.len().saturating_sub(1);
        // So that it can be copied.
        parts.iter_mut().take(last).for_each(|part| part.push_str(GOES_ON));
        lines.extend(indented(INDENT, parts));
    }
    let ends = if action.settings.is_empty() { "" } else { "; undone by itself after ten minutes" };
    lines.extend(gain_and_price(action, ends, room));
    lines
}

fn gain_and_price(action: &Action, ends: &str, room: usize) -> Vec<String> {
    let gain = action.gain.iter().map(|gain| format!("gain: {gain}"));
    let told = gain.chain([format!("price: {}{ends}", action.price)]);
    told.flat_map(|text| indented(INDENT, wrap(&text, room))).collect()
}

/// A command in lines, broken between words of the shell: one that is too long stands out, so that
/// the command can be copied.
fn command_lines(command: &str, room: usize) -> Vec<String> {
    let command = printable(command);
    let mut is_quoted = false;
    let words = command.split(|character: char| {
        is_quoted ^= character == '\'';
        character == ' ' && !is_quoted
    });
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn indented(indent: &str, lines: Vec<String>) -> Vec<String> {
    lines.into_iter().map(|line| format!("{indent}{line}")).collect()
}

/// Only the name that the paragraph begins with has a colour.
fn coloured(mut lines: Vec<String>, diagnosis: &Diagnosis, style: Style) -> Vec<String> {
    let disk = diagnosis.disks.first();
    let victim = disk.and_then(|disk| disk.victims.first()).map(|one| (&one.process, 31));
    let flood = disk.and_then(|disk| disk.floods.first()).map(|one| (&one.process, 33));
    let first = match diagnosis.verdict {
        Verdict::Stalling => victim,
        Verdict::Flooding => flood,
        Verdict::Quiet | Verdict::Unknown => None,
    };
    if let (true, Some((process, code)), Some(line)) = (style.color, first, lines.first_mut())
        && let Some(rest) = line.strip_prefix(&*printable(&process.name))
    {
        *line = format!("\u{1b}[{code}m{}\u{1b}[0m{rest}", printable(&process.name));
    }
    lines
}
