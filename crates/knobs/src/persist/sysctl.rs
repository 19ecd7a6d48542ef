//! The sysctl.d(5) file: the machine's knobs.
//!
//! systemd-sysctl and `sysctl --system` read the files of all directories in the order of their
//! names alone. Floodwall's sorts behind `99-sysctl.conf` and the files of distributions. Within it
//! the background limit comes before the hard limit: coming from the kernel's defaults both usually
//! fall.
//!
//! A pair in percent has one trap that a file can't avoid. If an earlier file sets bytes, kernels
//! up to 6.14 need the ratio written twice; systemd-sysctl keeps one line a name. Their polling
//! interval then stays that of the old bytes until the next change.

use super::value::Value;
use crate::catalogue::value::{Form, check};
use crate::catalogue::{Scope, knobs};

/// Where it is.
pub const PATH: &str = "/etc/sysctl.d/99-zz-floodwall.conf";

/// The file below its first two lines.
pub(crate) fn body(machine: &[Value]) -> String {
    let mut ordered: Vec<&Value> = machine.iter().collect();
    ordered.sort_by_key(|value| rank(value.knob.name));
    ordered.iter().map(|value| format!("{} = {}\n", value.knob.name, value.value)).collect()
}

fn rank(name: &str) -> u8 {
    match name {
        "vm.dirty_bytes" | "vm.dirty_ratio" => 2,
        "vm.dirty_background_bytes" | "vm.dirty_background_ratio" => 1,
        _ => 0,
    }
}

/// Parses the output of [`body`].
///
/// # Errors
/// A line that it did not write.
pub(crate) fn parse(body: &str) -> Result<Vec<Value>, String> {
    let line = |line: &str| -> Option<Value> {
        let (name, value) = line.split_once(" = ")?;
        let knob = knobs().find(|knob| knob.scope == Scope::Global && knob.name == name)?;
        Some(Value { knob, value: check(knob, value, Form::Kernel).ok()? })
    };
    body.lines()
        .map(|text| line(text).ok_or_else(|| format!("'{text}' is not understood")))
        .collect()
}
