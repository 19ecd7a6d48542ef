//! Virtual devices.

use std::process::Command;

use floodwall_testing::process::{done, json, output};

const FLOODWALL: &str = env!("CARGO_BIN_EXE_floodwall");

/// A virtual device of the lab. Dropping it takes it down.
pub(crate) struct Lab {
    name: String,
    pub(crate) node: String,
    /// Where it is mounted, unless it is raw.
    pub(crate) mount: String,
}

impl Lab {
    /// With the words that say what is made on it.
    pub(crate) fn up(preset: &str, words: &[&str]) -> Result<Self, String> {
        let name = format!("compat-{}", std::process::id());
        let mut up = Command::new(FLOODWALL);
        up.args(["lab", "up", preset, "--size", "256MiB", "--json", "--name", &name]).args(words);
        let told = json(&output(&mut up)?)?;
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        Ok(Self { name, node: text(&told["device"]), mount: text(&told["mounts"][0]) })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = done(Command::new(FLOODWALL).args(["lab", "down", &self.name]));
    }
}
