//! The settings that a user asks for: `KNOB=VALUE`, `preset:NAME`, `FILE.toml`, or `-` for such a
//! file on stdin.
//!
//! ```toml
//! why = "nightly backup"        # remembered in the journal
//! device = "sda"                # meant where a device's knob names none
//! [settings]
//! vm.dirty_bytes = "64MiB"
//! nr_requests = 64
//! "sdb.scheduler" = "bfq"
//! ```
//!
//! From standard input, lines of sysctl.d do as well (`vm.dirty_bytes = 67108864`, as
//! `floodwall size` prints them).

use floodwall_knobs::presets::{self, PRESETS};
use floodwall_knobs::{Change, Device};
use floodwall_model::toml_text;
use serde::Deserialize;

use super::{Place, list};
use crate::exit::UsageError;

/// The requested changes.
pub(super) struct Asked {
    pub(super) changes: Vec<Change>,
    /// Their reasons, if the files give any.
    pub(super) why: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    why: Option<String>,
    device: Option<String>,
    #[serde(default)]
    settings: toml::Table,
    /// Lines of sysctl.d, before any table.
    #[serde(default)]
    vm: toml::Table,
}

/// Stands for a file that is piped in.
const STDIN: &str = "-";

/// A file, for messages.
fn shown(path: &str) -> String {
    if path == STDIN { "standard input".to_owned() } else { format!("'{path}'") }
}

/// Reads all of them, in their order. `device` is meant where a device's knob names none.
pub(super) fn read(
    place: &Place,
    device: Option<&Device>,
    texts: &[String],
) -> anyhow::Result<Asked> {
    let mut asked = Asked { changes: Vec::new(), why: Vec::new() };
    for text in texts {
        if let Some(name) = text.strip_prefix("preset:") {
            let preset = presets::find(name).ok_or_else(|| UsageError(no_preset(name)))?;
            for change in preset.changes {
                asked.changes.push(parse(place, device, change)?);
            }
        } else if text == STDIN || text.ends_with(".toml") {
            read_file(place, device, text, &mut asked)?;
        } else {
            let parts = list::parts(text);
            for part in &parts {
                asked.changes.push(parse(place, device, part)?);
            }
            if parts.is_empty() {
                parse(place, device, text)?;
            }
        }
    }
    Ok(asked)
}

/// The message for an unknown preset.
pub(super) fn no_preset(name: &str) -> String {
    let names = PRESETS.iter().map(|preset| preset.name);
    match toml_text::nearest(name, names.clone()) {
        Some(near) => format!("there is no preset '{name}'; did you mean preset:{near}?"),
        None => {
            format!(
                "there is no preset '{name}'; there are {}",
                names.collect::<Vec<_>>().join(", ")
            )
        }
    }
}

fn parse(place: &Place, device: Option<&Device>, text: &str) -> anyhow::Result<Change> {
    Change::parse(&place.root, device, text).map_err(|e| UsageError(e.to_string()).into())
}

fn read_file(
    place: &Place,
    device: Option<&Device>,
    path: &str,
    asked: &mut Asked,
) -> anyhow::Result<()> {
    let file = SettingsFile::read(path)?;
    let named = place.device(file.device.as_deref())?;
    for (knob, value) in file.pairs {
        let change =
            Change::parse(&place.root, named.as_ref().or(device), &format!("{knob}={value}"));
        asked.changes.push(change.map_err(|e| UsageError(format!("{}: {e}", shown(path))))?);
    }
    asked.why.extend(file.why);
    Ok(())
}

/// The content of a settings file.
pub(crate) struct SettingsFile {
    why: Option<String>,
    /// Meant where a device's knob names none.
    pub(crate) device: Option<String>,
    /// Knobs and values as people write them; at least one.
    pub(crate) pairs: Vec<(String, String)>,
}

impl SettingsFile {
    /// Reads one; `-` is standard input.
    ///
    /// # Errors
    /// [`UsageError`], with the line.
    pub(crate) fn read(path: &str) -> anyhow::Result<Self> {
        let wrong = |why: String| UsageError(format!("{}: {why}", shown(path)));
        let read = if path == STDIN {
            std::io::read_to_string(std::io::stdin())
        } else {
            std::fs::read_to_string(path)
        };
        let text = read.map_err(|e| UsageError(format!("can't read {}: {e}", shown(path))))?;
        let file: File = toml::from_str(&text).map_err(|e| {
            let (line, message) = toml_text::place_and_message(&text, &e);
            UsageError(format!("{}, line {line}: {message}", shown(path)))
        })?;
        let mut pairs = Vec::new();
        flatten("", &file.settings, &mut pairs).map_err(&wrong)?;
        let mut sysctls = Vec::new();
        flatten("vm", &file.vm, &mut sysctls).map_err(&wrong)?;
        // What `size` prints; in a file a bare number could be meant otherwise.
        let is_piped = path == STDIN;
        pairs.extend(sysctls.into_iter().map(|pair| if is_piped { in_bytes(pair) } else { pair }));
        if pairs.is_empty() {
            return Err(
                wrong("its [settings] are empty; write KNOB = \"VALUE\" lines".to_owned()).into()
            );
        }
        Ok(Self { why: file.why, device: file.device, pairs })
    }
}

/// The kernel's own unit of a size, which a sysctl does not name.
fn in_bytes((knob, value): (String, String)) -> (String, String) {
    let is_bare = value.bytes().all(|b| b.is_ascii_digit());
    let value = if is_bare && knob.ends_with("_bytes") { format!("{value}B") } else { value };
    (knob, value)
}

/// `vm.dirty_bytes = 1` is a table `vm` to TOML; here it is a knob's name again.
fn flatten(
    prefix: &str,
    table: &toml::Table,
    pairs: &mut Vec<(String, String)>,
) -> Result<(), String> {
    for (key, value) in table {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            toml::Value::Table(inner) => flatten(&name, inner, pairs)?,
            toml::Value::String(text) => pairs.push((name, text.clone())),
            toml::Value::Integer(number) => pairs.push((name, number.to_string())),
            toml::Value::Boolean(flag) => pairs.push((name, u8::from(*flag).to_string())),
            _ => return Err(format!("{name} is neither text nor a whole number")),
        }
    }
    Ok(())
}
