//! Stored trials, one JSON file each, and the section of a document that follows from them.

use std::path::Path;

use published::document::replace_section;
use published::origin::{self, Origin};
use published::stored;
use serde_json::Value;

/// All trials in the directory `data`, and their origin.
pub(crate) fn read_all(data: &Path) -> anyhow::Result<(Vec<Value>, Origin)> {
    let trials: Vec<Value> = stored::read_all(data)?.into_values().collect();
    let origins: Vec<Origin> = trials.iter().map(origin::of_measurement).collect();
    Ok((trials, Origin::of_parts(&origins)))
}

/// Prints the section `name`, and writes it into the document `out` if one is given.
pub(crate) fn publish(
    (section, origin): (String, Origin),
    out: Option<&Path>,
    name: &str,
    command: &str,
) -> anyhow::Result<()> {
    print!("{section}");
    out.map_or(Ok(()), |out| {
        replace_section(out, name, command, &section, &origin, &origin::root()?)
    })
}
