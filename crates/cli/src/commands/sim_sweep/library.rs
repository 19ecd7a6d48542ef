//! What the names in a sweep's file stand for: presets and built-in scenarios, files beside the
//! sweep's, and the knobs of the kernel.

use std::path::{Path, PathBuf};

use floodwall_device::DeviceSpec;
use floodwall_knobs::catalogue;
use floodwall_knobs::value::{self, Form};
use floodwall_model::scenario::{self, Scenario};
use floodwall_sim::sweep::{Library, builtin_device, builtin_scenario};

use crate::commands::sim::known;

/// Looks files up relative to the directory of the sweep's.
pub(super) struct Files {
    directory: PathBuf,
}

impl Files {
    pub(super) fn beside(file: &Path) -> Self {
        Self { directory: file.parent().unwrap_or(Path::new("")).to_owned() }
    }

    /// The text of a file; `None` for a name that is not a path.
    fn text(&self, name: &str) -> Option<Result<String, String>> {
        if !name.contains(['/', '.']) {
            return None;
        }
        let path = self.directory.join(name);
        Some(
            std::fs::read_to_string(&path)
                .map_err(|e| format!("can't read '{}': {e}", path.display())),
        )
    }
}

impl Library for Files {
    fn device(&self, name: &str) -> Result<DeviceSpec, String> {
        match self.text(name) {
            None => builtin_device(name),
            Some(text) => DeviceSpec::parse(&text?).map_err(|e| format!("'{name}': {e}")),
        }
    }

    fn scenario(&self, name: &str) -> Result<Scenario, String> {
        match self.text(name) {
            None => builtin_scenario(name),
            Some(text) => scenario::parse(&text?).map_err(|e| format!("'{name}': {e}")),
        }
    }

    fn knob(&self, name: &str) -> Result<String, String> {
        match known(name) {
            Some((name, _)) => Ok(name),
            // Tunables of elevators that are gone: the model knows them.
            None if name.starts_with("iosched.") => Ok(name.to_owned()),
            None => {
                let near = catalogue::nearest(name);
                let hint = if near.is_empty() {
                    String::new()
                } else {
                    format!("; did you mean {}?", near.join(" or "))
                };
                Err(format!("there is no knob '{name}'{hint}"))
            }
        }
    }

    fn value(&self, knob: &str, text: &str) -> Result<String, String> {
        match known(knob) {
            Some((_, knob)) => value::check(knob, text, Form::Person).map_err(|e| e.to_string()),
            None => Ok(text.trim().to_owned()),
        }
    }
}
