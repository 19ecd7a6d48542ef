//! The devices that come with Floodwall, as the same TOML that users write.

const PRESETS: &[(&str, &str)] = &[
    ("raid10-bbwc-2010", include_str!("../presets/raid10-bbwc-2010.toml")),
    ("raid1-3ware-2007", include_str!("../presets/raid1-3ware-2007.toml")),
    ("sas-raid10-2009", include_str!("../presets/sas-raid10-2009.toml")),
    ("hdd-7200", include_str!("../presets/hdd-7200.toml")),
    ("hdd-5400-smr", include_str!("../presets/hdd-5400-smr.toml")),
    ("sata-ssd", include_str!("../presets/sata-ssd.toml")),
    ("sata-ssd-worn", include_str!("../presets/sata-ssd-worn.toml")),
    ("nvme-consumer", include_str!("../presets/nvme-consumer.toml")),
    ("nvme-datacenter", include_str!("../presets/nvme-datacenter.toml")),
    ("usb-stick", include_str!("../presets/usb-stick.toml")),
    ("sd-card", include_str!("../presets/sd-card.toml")),
    ("cloud-gp3", include_str!("../presets/cloud-gp3.toml")),
    ("usb3-btrfs-nas-2016", include_str!("../presets/usb3-btrfs-nas-2016.toml")),
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
