//! Recordings of requests (`lab record`).

#![no_main]

use floodwall_report::seeks::Recording;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(recording) = Recording::parse(text) {
        assert!(!recording.requests.is_empty());
    }
});
