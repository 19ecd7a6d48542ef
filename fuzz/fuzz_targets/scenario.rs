//! Scenario files, and the victims, floods and sizes of the command line.

#![no_main]

use floodwall_model::scenario::{self, parse_flood, parse_victim};
use floodwall_model::{Bytes, Rate, units};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = scenario::parse(text);
    let _ = parse_victim(text);
    let _ = parse_flood(text);
    let _ = text.parse::<Bytes>();
    let _ = text.parse::<Rate>();
    let _ = units::parse_duration(text);
});
