//! The devices that come with Floodwall, as the same TOML that users write.

const PRESETS: &[(&str, &str)] = &[
    ("raid10-bbwc-2010", include_str!("../presets/raid10-bbwc-2010.toml")),
    ("hdd-7200", include_str!("../presets/hdd-7200.toml")),
    ("null", include_str!("../presets/null.toml")),
];

/// Names of the presets.
pub fn preset_names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|(name, _)| *name)
}

/// The TOML text of a preset: a start for one's own.
#[must_use]
pub fn preset_text(name: &str) -> Option<&'static str> {
    PRESETS.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}
