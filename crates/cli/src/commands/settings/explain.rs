//! `floodwall explain`: what a finding, a knob or a preset is, from the tables that the code uses.

use std::fmt::Write;

use floodwall_host::findings::{self, CHECKS};
use floodwall_knobs::catalogue::{find, knobs, nearest, page};
use floodwall_knobs::presets::{self, PRESETS};
use floodwall_model::toml_text;

use super::sources::no_preset;
use crate::exit::{Exit, UsageError};
use crate::output;

/// Explain a finding, a knob or a preset; without a name, list all of them
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  floodwall explain FW001
  floodwall explain vm.dirty_bytes
  floodwall explain preset:2010-15MB")]
pub(crate) struct ExplainArgs {
    /// A finding, such as FW001, a knob, such as nr_requests, or preset:NAME
    name: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// [`UsageError`] for a name that there is not.
pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<Exit> {
    let text = match args.name.as_deref() {
        None => list(),
        Some(name) => match name.strip_prefix("preset:") {
            Some(preset) => explain_preset(preset)?,
            None if is_finding(name) => explain_finding(name)?,
            None => explain_knob(name)?,
        },
    };
    output::result(&text)?;
    Ok(Exit::Done)
}

fn list() -> String {
    let mut text = String::new();
    for check in CHECKS {
        let _ = writeln!(text, "{:<6} {:<9} {}", check.id, check.worst, check.title);
    }
    text.push('\n');
    for knob in knobs() {
        let _ = writeln!(text, "{:<32} {}", knob.name, knob.does);
    }
    text.push('\n');
    for preset in PRESETS {
        let _ = writeln!(
            text,
            "{:<36} {}",
            format!("preset:{}", preset.name),
            preset.changes.join(" ")
        );
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

fn explain_finding(id: &str) -> anyhow::Result<String> {
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
    Ok(check.page.trim_start_matches("# ").to_owned())
}

fn explain_knob(name: &str) -> anyhow::Result<String> {
    // Settings and remedies write it behind a device: `sda.nr_requests`,
    // `backup.service:sda.io.max`.
    let behind_device = name.match_indices(['.', ':']).filter_map(|(at, _)| name.get(at + 1..));
    let knob = std::iter::once(name).chain(behind_device).find_map(find).ok_or_else(|| {
        if presets::find(name).is_some() {
            return UsageError(format!("there is no knob '{name}'; did you mean preset:{name}?"));
        }
        let near = nearest(name);
        let preset = toml_text::nearest(name, PRESETS.iter().map(|preset| preset.name));
        let hint = match preset {
            Some(preset) if near.is_empty() => format!("; did you mean preset:{preset}?"),
            None if near.is_empty() => "; floodwall explain lists all".to_owned(),
            _ => format!("; did you mean {}?", near.join(" or ")),
        };
        UsageError(format!("there is no knob '{name}'{hint}"))
    })?;
    Ok(page(knob).trim_start_matches("### ").to_owned())
}

fn explain_preset(name: &str) -> anyhow::Result<String> {
    let preset = presets::find(name).ok_or_else(|| UsageError(no_preset(name)))?;
    let changes: String = preset.changes.iter().map(|change| format!("  {change}\n")).collect();
    Ok(format!(
        "preset:{}\n\n{changes}\n{}\nsource: {}\n",
        preset.name, preset.remark, preset.source
    ))
}
