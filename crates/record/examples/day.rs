//! What a day of recording takes: an idle host, and a busy one with 200 processes.
//!
//! ```text
//! cargo run -p floodwall-record --example day [FRAMES]
//! ```
//!
//! A day has 17,280 frames, one every five seconds. With fewer FRAMES the figures are scaled.

#![expect(clippy::disallowed_macros, reason = "an example prints")]

#[path = "../tests/it/machine.rs"]
mod machine;

use std::error::Error;
use std::fs;

use floodwall_record::{Limits, Writer, condensed};
use machine::{Host, WINDOW_MS};

const DAY: u64 = 86_400_000 / WINDOW_MS;

/// 2026-11-27 00:00:00 UTC.
const FROM_MS: u64 = 1_795_737_600_000;

fn main() -> Result<(), Box<dyn Error>> {
    let frames = std::env::args().nth(1).map_or(Ok(DAY), |text| text.parse::<u64>())?;
    for (name, mut host) in [("idle", Host::idle(FROM_MS)), ("busy", Host::busy(FROM_MS))] {
        let dir = tempfile::tempdir()?;
        let mut writer = Writer::open(dir.path(), Limits::default())?;
        let mut json_bytes = 0;
        for _ in 0..frames {
            let frame = host.frame();
            json_bytes += serde_json::to_vec(&frame)?.len() as u64;
            let _ = writer.append(&condensed(frame))?;
        }
        let mut bytes = 0;
        for entry in fs::read_dir(dir.path())? {
            bytes += entry?.metadata()?.len();
        }
        let (mb, json_mb) = [bytes, json_bytes].map(|b| (b * DAY / frames) as f64 / 1e6).into();
        println!(
            "{name}: {mb:.2} MB a day, {} bytes a frame; JSON {json_mb:.0} MB",
            bytes / frames
        );
    }
    Ok(())
}
