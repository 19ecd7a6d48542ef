//! The disks of a recording, by the names that users give them. The recording may be of another
//! machine, so this machine's devices say nothing.

use std::collections::BTreeSet;

use floodwall_model::frame::Disk;

use crate::exit::UsageError;

/// A disk's name or number without the directory of devices: `sda` for `/dev/sda`.
pub(super) fn bare(text: &str) -> &str {
    text.strip_prefix("/dev/").unwrap_or(text)
}

/// Whether a [`bare`] name or number is that of a disk.
pub(super) fn is_called(disk: &Disk, name: &str) -> bool {
    disk.name == name || disk.id == name
}

/// The error of a disk that is not in `frames`, which have `others`.
pub(super) fn no_disk(text: &str, frames: &str, others: &BTreeSet<String>) -> UsageError {
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    let others = if others.is_empty() { "none".to_owned() } else { others.join(", ") };
    UsageError(format!("--device: there is no disk '{text}' in {frames}; disks there: {others}"))
}
