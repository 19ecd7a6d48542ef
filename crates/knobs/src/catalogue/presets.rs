//! Settings that others have published or ship, by name, each with its source and its known
//! drawbacks.

/// A named setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// Its knobs and values, as people write them.
    pub changes: &'static [&'static str],
    /// Its author, and where it was read.
    pub source: &'static str,
    /// Facts to know before using it.
    pub remark: &'static str,
}

/// All of them.
pub static PRESETS: &[Preset] = &[
    Preset {
        name: "kernel-default",
        changes: &["vm.dirty_ratio=20", "vm.dirty_background_ratio=10"],
        source: "mm/page-writeback.c since Linux 2.6.32",
        remark: "A share of memory whatever the device: with 64 GiB of it and a disk of 100 MB/s \
            the limit takes two minutes to drain.",
    },
    Preset {
        name: "2010-15MB",
        changes: &["vm.dirty_bytes=15MB"],
        source: "question and answer on limiting background flushes, 2010: Adaptec 5405Z with 512 \
            MB of cache, RAID 10 of ten disks, Linux 2.6.32",
        remark: "33 to 700 commits a second there, for 14 % of the sequential write speed and \
            nearly all of the write cache.",
    },
    Preset {
        name: "2016-bandwidth-delay",
        changes: &["vm.dirty_bytes=201326592B", "vm.dirty_background_bytes=33554432B"],
        source: "article on vm.dirty_bytes and vm.dirty_background_bytes, 2016: NFS over 1 Gbit/s \
            Ethernet, 1.5 s and 0.25 s of the link",
        remark: "Right for that link; `floodwall size` works it out for others.",
    },
    Preset {
        name: "tuned-throughput-performance",
        changes: &["vm.dirty_ratio=40", "vm.dirty_background_ratio=10"],
        source: "TuneD, profile throughput-performance (commit 2bfa442)",
        remark: "The default on RHEL servers. Doubles the kernel's hard limit.",
    },
    Preset {
        name: "tuned-latency-performance",
        changes: &["vm.dirty_ratio=10", "vm.dirty_background_ratio=3"],
        source: "TuneD, profile latency-performance (commit 2bfa442)",
        remark: "Still a share of memory whatever the device.",
    },
    Preset {
        name: "tuned-postgresql",
        changes: &["vm.dirty_bytes=512MiB", "vm.dirty_background_bytes=64MiB"],
        source: "TuneD, profile postgresql (commit 2bfa442)",
        remark: "In bytes, the same for every device.",
    },
    Preset {
        name: "popos",
        changes: &["vm.dirty_bytes=256MiB", "vm.dirty_background_bytes=128MiB"],
        source: "Pop!_OS default-settings (commit 3f0be51, December 2021)",
        remark: "Was 16 MiB and 4 MiB before, which made btrfs unusable.",
    },
    Preset {
        name: "cachyos",
        changes: &["vm.dirty_bytes=256MiB", "vm.dirty_background_bytes=64MiB"],
        source: "CachyOS-Settings (commit e642336, December 2024)",
        remark: "In bytes, the same for every device.",
    },
];

/// A preset by its name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::change::Change;
    use crate::plan::plan;
    use crate::testing::{files_of, machine};

    #[test]
    fn every_preset_can_be_planned() {
        let (_dir, files) = files_of(&machine());
        for preset in PRESETS {
            let changes: Vec<Change> = preset
                .changes
                .iter()
                .map(|text| Change::parse(files.root(), None, text).unwrap())
                .collect();
            let plan = plan(&changes, &files).unwrap();
            assert_eq!(plan.is_empty(), preset.name == "kernel-default", "{}", preset.name);
        }
    }

    #[test]
    fn the_published_numbers() {
        let (_dir, files) = files_of(&machine());
        let values = |name: &str| -> Vec<String> {
            let changes = find(name).unwrap().changes;
            changes
                .iter()
                .map(|text| Change::parse(files.root(), None, text).unwrap().value)
                .collect()
        };
        assert_eq!(values("2010-15MB"), ["15000000"]);
        assert_eq!(values("2016-bandwidth-delay"), ["201326592", "33554432"]);
        assert_eq!(values("popos"), ["268435456", "134217728"]);
        assert_eq!(values("cachyos"), ["268435456", "67108864"]);
        assert!(find("nothing").is_none());
    }
}
