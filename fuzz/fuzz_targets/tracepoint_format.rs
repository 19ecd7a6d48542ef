//! Format files of tracepoints.

#![no_main]

use floodwall_probe::format::Format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = Format::parse(text);
});
