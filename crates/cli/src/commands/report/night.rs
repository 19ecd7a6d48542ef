//! `report --from`, `report --last`: a recording ─▶ the page of a night, or its text.

use std::path::Path;

use floodwall_record::stall::{find, gaps_in};
use floodwall_record::{RecordError, Recording};
use floodwall_report::html::night_page;
use floodwall_report::night::{Night, text};
use floodwall_report::stalls::Listing;
use jiff::tz::TimeZone;

use crate::commands::recorded::nothing_then;
use crate::exit::Exit;
use crate::{output, terminal};

/// Writes the page, or without a file prints the text.
///
/// # Errors
/// A recording that is empty, in that time too, or can't be read, a page that can't be written.
pub(super) fn run(
    (from_unix_ms, to_unix_ms): (u64, u64),
    zone: &TimeZone,
    directory: &Path,
    out: Option<&Path>,
) -> anyhow::Result<Exit> {
    let found = find(directory, from_unix_ms, to_unix_ms)?;
    let known = found.known.ok_or_else(|| RecordError::Nothing(directory.to_owned()))?;
    if found.stalls.is_empty() && gaps_in(directory, from_unix_ms, to_unix_ms, known)?.is_none() {
        return Err(nothing_then(directory, known, zone));
    }
    let mut night = Night::new(Listing {
        stalls: &found.stalls,
        from_unix_ms,
        to_unix_ms,
        disk: None,
        known: Some(known),
        // It has all holes anyway.
        gaps: &[],
        damaged: found.damaged,
        zone,
    });
    let mut recording = Recording::open(directory)?;
    let reads = night.reads();
    for frame in recording.between(reads.start, reads.end) {
        night.add(&frame?);
    }
    night.finish(recording.damage().frames);
    match out {
        Some(out) => {
            let page = night_page(&night)?;
            output::write_file(out, |file| Ok(file.write_all(page.as_bytes())?))?;
        }
        None => output::result(&text(&night, terminal::style()))?,
    }
    Ok(Exit::Done)
}
