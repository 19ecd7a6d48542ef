//! A library for tests: presets and built-in scenarios, `tiny` (a second of everything), and a
//! handful of knobs.

use floodwall_device::DeviceSpec;
use floodwall_model::scenario::{self, Scenario};
use floodwall_model::{Bytes, toml_text};

use super::{Library, Sweep, builtin_device, builtin_scenario, parse};

const TINY: &str = r#"
name = "tiny"
burst = "1MiB"
[[victim]]
kind = "commit"
block = "4KiB"
size = "1MiB"
[[flood]]
kind = "seq"
size = "64MiB"
[timing]
rounds = 2
measure = "2s"
warmup_max = "1s"
settle = "10ms"
device_cache = "1B"
"#;
const KNOBS: [&str; 5] =
    ["vm.dirty_bytes", "vm.dirty_background_bytes", "scheduler", "nr_requests", "wbt_lat_usec"];

pub(crate) struct Shelf;

impl Library for Shelf {
    fn device(&self, name: &str) -> Result<DeviceSpec, String> {
        builtin_device(name)
    }

    fn scenario(&self, name: &str) -> Result<Scenario, String> {
        if name == "tiny" {
            scenario::parse(TINY).map_err(|e| e.to_string())
        } else {
            builtin_scenario(name)
        }
    }

    fn knob(&self, name: &str) -> Result<String, String> {
        match toml_text::nearest(name, KNOBS) {
            _ if KNOBS.contains(&name) => Ok(name.to_owned()),
            Some(near) => Err(format!("there is no knob '{name}'; did you mean {near}?")),
            None => Err(format!("there is no knob '{name}'")),
        }
    }

    fn value(&self, knob: &str, text: &str) -> Result<String, String> {
        if !knob.ends_with("bytes") {
            return Ok(text.to_owned());
        }
        text.parse::<Bytes>().map(|bytes| bytes.0.to_string()).map_err(|e| e.to_string())
    }
}

pub(crate) fn sweep(text: &str) -> Sweep {
    parse(text, &Shelf).unwrap_or_else(|e| panic!("{e}"))
}
