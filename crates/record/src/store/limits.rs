//! How much of a recording is kept: whole days go, the oldest first, and never the present one.

use super::day::Day;
use super::directory::Directory;
use super::error::RecordError;

/// Old days go once the present day, or the recorder, has so many frames (an hour of them). So a
/// clock that is wrong for a moment, as at boot, removes nothing.
pub(crate) const FRAMES_BEFORE_AGE: u64 = 720;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Days before the present one; 0 keeps the present one alone.
    pub days: u32,
    /// Bytes of all files together. The present day and the stall log stay even if they alone are
    /// larger.
    pub bytes: u64,
}

impl Default for Limits {
    /// Thirty days, 1 GB: a busy host's day takes less than 60 MB.
    fn default() -> Self {
        Self { days: 30, bytes: 1_000_000_000 }
    }
}

/// Removes days that are beyond the limits; the bytes of those that stay, without the present one.
/// `today_bytes` are those of the present one and of the stall log.
pub(super) fn enforce(
    directory: &Directory,
    limits: Limits,
    today: Day,
    today_bytes: u64,
    may_age: bool,
) -> Result<u64, RecordError> {
    let age = i32::try_from(limits.days).unwrap_or(i32::MAX);
    let mut kept = Vec::new();
    for day in directory.days()? {
        if day == today {
        } else if may_age && today.days_since(day) > age {
            remove(directory, day)?;
        } else {
            let bytes = directory.length(&day.frames())? + directory.length(&day.index())?;
            kept.push((day, bytes));
        }
    }
    let mut bytes: u64 = kept.iter().map(|(_, bytes)| bytes).sum();
    for (day, of_day) in kept {
        if bytes.saturating_add(today_bytes) <= limits.bytes {
            break;
        }
        remove(directory, day)?;
        bytes -= of_day;
    }
    Ok(bytes)
}

/// The index goes last: a day without one is not found again.
fn remove(directory: &Directory, day: Day) -> Result<(), RecordError> {
    directory.remove(&day.frames())?;
    directory.remove(&day.index())
}
