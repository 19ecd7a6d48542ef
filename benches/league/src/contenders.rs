//! The contenders besides the grid and `tune`: the kernel's default, and settings that were
//! published or are shipped.

use anyhow::Context;
use floodwall_knobs::presets::{PRESETS, Preset};
use floodwall_model::{Bytes, Setting};

/// The default by name.
pub(crate) const DEFAULT: &str = "default";

/// The default and every preset that differs from it.
pub(crate) fn all() -> anyhow::Result<Vec<(&'static str, Setting)>> {
    let mut all = vec![(DEFAULT, Setting::default())];
    for preset in PRESETS.iter().filter(|p| p.name != "kernel-default") {
        all.push((preset.name, setting(preset)?));
    }
    Ok(all)
}

/// A preset as a setting: values as kernel files take them.
fn setting(preset: &Preset) -> anyhow::Result<Setting> {
    let pair = |text: &&str| {
        let (knob, value) =
            text.split_once('=').with_context(|| format!("'{text}' is no setting"))?;
        let plain = if value.parse::<i64>().is_ok() {
            value.to_owned()
        } else {
            value.parse::<Bytes>()?.0.to_string()
        };
        Ok((knob.to_owned(), plain))
    };
    preset.changes.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_settings_in_the_kernels_numbers() {
        let all = all().unwrap();
        assert_eq!(all.len(), PRESETS.len());
        let of = |name: &str| all.iter().find(|(n, _)| *n == name).unwrap().1.to_string();
        assert_eq!(of("2010-15MB"), "vm.dirty_bytes=15000000");
        assert_eq!(
            of("2016-bandwidth-delay"),
            "vm.dirty_background_bytes=33554432,vm.dirty_bytes=201326592"
        );
        assert_eq!(
            of("tuned-latency-performance"),
            "vm.dirty_background_ratio=3,vm.dirty_ratio=10"
        );
    }
}
