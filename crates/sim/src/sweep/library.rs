//! The meaning of the names in a sweep's file. The presets and built-in scenarios are known here.
//! The reader of the file knows its files and the kernel's ranges.

use floodwall_device::DeviceSpec;
use floodwall_model::scenario::{self, Scenario};
use floodwall_model::toml_text;

/// Looks names up. Every error is a sentence for the author of the file: the fault and an accepted
/// form; the line is added to it.
pub trait Library {
    /// A device by the name of a preset or the path of a device file.
    ///
    /// # Errors
    /// The device does not exist, or the reason why its description is invalid.
    fn device(&self, name: &str) -> Result<DeviceSpec, String>;

    /// A scenario by name, or by the path of a scenario file.
    ///
    /// # Errors
    /// The scenario does not exist, or the reason why it is invalid.
    fn scenario(&self, name: &str) -> Result<Scenario, String>;

    /// A knob's name as a [`Setting`](floodwall_model::Setting) spells it.
    ///
    /// # Errors
    /// That there is no such knob.
    fn knob(&self, name: &str) -> Result<String, String>;

    /// A knob's value as the kernel's file takes it, from what a person writes (`64MiB`).
    ///
    /// # Errors
    /// That the knob does not take it.
    fn value(&self, knob: &str, text: &str) -> Result<String, String>;
}

/// A preset.
///
/// # Errors
/// No preset has this name; with the nearest name.
pub fn builtin_device(name: &str) -> Result<DeviceSpec, String> {
    DeviceSpec::preset(name).map_err(|e| e.to_string())
}

/// A built-in scenario.
///
/// # Errors
/// No built-in scenario has this name; with the nearest name.
pub fn builtin_scenario(name: &str) -> Result<Scenario, String> {
    match scenario::builtin(name) {
        Some(found) => found.map_err(|e| e.to_string()),
        None => {
            let hint = match toml_text::nearest(name, scenario::builtin_names()) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!(
                    "there are {}",
                    scenario::builtin_names().collect::<Vec<_>>().join(", ")
                ),
            };
            Err(format!("there is no scenario '{name}'; {hint}"))
        }
    }
}
