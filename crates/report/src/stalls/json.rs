//! Stalls as one JSON document. Every number's name ends in its unit.

use floodwall_model::stall::Stall;
use serde::Serialize;

use super::{Listing, Totals};

/// Name and version of the JSON document.
pub const SCHEMA: &str = "floodwall/stalls/1";

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    command: &'static str,
    from_unix_ms: u64,
    to_unix_ms: u64,
    /// Absent if nothing was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded_from_unix_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded_to_unix_ms: Option<u64>,
    damaged: u64,
    totals: Totals,
    stalls: &'a [Stall],
}

/// Stalls for programs, indented, without a line end after it.
///
/// # Errors
/// None that a [`Listing`] can cause; serialisation is fallible by type.
pub fn json(listing: &Listing<'_>) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(&Document {
        schema: SCHEMA,
        command: "stalls",
        from_unix_ms: listing.from_unix_ms,
        to_unix_ms: listing.to_unix_ms,
        recorded_from_unix_ms: listing.known.map(|known| known.0),
        recorded_to_unix_ms: listing.known.map(|known| known.1),
        damaged: listing.damaged,
        totals: Totals::of(listing.stalls),
        stalls: listing.stalls,
    })
}
