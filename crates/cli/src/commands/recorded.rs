//! What a recording has: its disks, by the names that users give them, and its time. The recording
//! may be of another machine, so this machine's devices say nothing.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use anyhow::anyhow;
use floodwall_model::frame::{Disk, Frame};
use floodwall_record::{RecordError, Recording};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Milliseconds of an hour.
const HOUR_MS: u64 = 3_600_000;
/// The frames that [`find_disk`] looks at.
pub(super) const LOOKED_AT: &str =
    "the recording, of which the last frame and one an hour were looked at";

/// A disk's name or number without the directory of devices: `sda` for `/dev/sda`.
pub(super) fn bare(text: &str) -> &str {
    text.strip_prefix("/dev/").unwrap_or(text)
}

/// Whether a [`bare`] name or number is that of a disk.
pub(super) fn is_called(disk: &Disk, name: &str) -> bool {
    disk.name == name || disk.id == name
}

/// The kernel's name of a disk that is called by a [`bare`] name or number; `others` get those that
/// are not. All frames would take minutes on a busy machine, so the last one and one an hour of a
/// time are looked at.
///
/// # Errors
/// A recording that can't be read.
pub(super) fn find_disk(
    recording: &mut Recording,
    name: &str,
    time: Range<u64>,
    others: &mut BTreeSet<String>,
) -> Result<Option<String>, RecordError> {
    let mut frame = recording.last_frame()?;
    let mut at_ms = time.start;
    while let Some(Frame { disks, .. }) = frame {
        for disk in disks {
            if is_called(&disk, name) {
                return Ok(Some(disk.name));
            }
            others.insert(disk.name);
        }
        frame = if at_ms < time.end { recording.seek(at_ms)? } else { None };
        at_ms = at_ms.max(frame.as_ref().map_or(0, |frame| frame.at_unix_ms)) + HOUR_MS;
    }
    Ok(None)
}

/// Says that a disk is not in `frames`, which have `others`.
pub(super) fn no_disk(text: &str, frames: &str, others: &BTreeSet<String>) -> String {
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    let others = if others.is_empty() { "none".to_owned() } else { others.join(", ") };
    format!("there is no disk '{text}' in {frames}; disks there: {others}")
}

/// The error of a time in which nothing was recorded, and the times that were.
pub(super) fn nothing_then(
    path: &Path,
    (first, last): (u64, u64),
    zone: &TimeZone,
) -> anyhow::Error {
    let (first, last) = (local(first, zone), local(last, zone));
    let path = path.display();
    anyhow!("nothing was recorded in that time; '{path}' has recordings from {first} to {last}")
}

/// A moment, in milliseconds since 1970, as the clocks of a time zone show it.
pub(super) fn local(unix_ms: u64, zone: &TimeZone) -> String {
    let moment = i64::try_from(unix_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    moment.map_or_else(
        || format!("{unix_ms} ms"),
        |moment| moment.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_shown_by_the_clock_of_the_place() {
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        assert_eq!(local(1_795_737_600_000, &berlin), "2026-11-27 01:00:00");
        assert_eq!(local(u64::MAX, &berlin), format!("{} ms", u64::MAX));
    }
}
