//! Files and programs that distributions ship, by name.
//!
//! Only names that were seen in the packages themselves are here: a wrong owner is worse than none.

/// A file by its directory's beginning and its name.
struct Shipped {
    /// What the path begins with.
    below: &'static str,
    /// The file's name.
    name: &'static str,
    /// `ID` of /etc/os-release, where others (an administrator who follows a wiki) use the same
    /// name.
    distribution: &'static str,
    /// The distribution or package that ships it.
    by: &'static str,
}

const FILES: [Shipped; 8] = [
    // pop-os/default-settings: 16/4 MiB in 2020, 256/128 MiB since December 2021.
    Shipped {
        below: "/",
        name: "10-pop-default-settings.conf",
        distribution: "",
        by: "Pop!_OS (pop-default-settings)",
    },
    // CachyOS/CachyOS-Settings: 99- until 2025, 70- since.
    Shipped {
        below: "/",
        name: "70-cachyos-settings.conf",
        distribution: "",
        by: "CachyOS (cachyos-settings)",
    },
    Shipped {
        below: "/",
        name: "99-cachyos-settings.conf",
        distribution: "",
        by: "CachyOS (cachyos-settings)",
    },
    Shipped {
        below: "/usr/lib/udev/rules.d/",
        name: "60-ioschedulers.rules",
        distribution: "cachyos",
        by: "CachyOS (cachyos-settings)",
    },
    Shipped {
        below: "/usr/lib/udev/rules.d/",
        name: "61-kyber-tune.rules",
        distribution: "",
        by: "CachyOS (cachyos-settings)",
    },
    // Fedora's systemd.spec, Source18; RHEL 9 and its rebuilds have it too.
    Shipped {
        below: "/usr/lib/udev/rules.d/",
        name: "60-block-scheduler.rules",
        distribution: "",
        by: "systemd-udev of Fedora and RHEL",
    },
    // "Copyright (c) 2021 SUSE LLC": to be copied to /etc and edited there.
    Shipped { below: "/usr/lib/udev/rules.d/", name: "60-io-scheduler.rules", distribution: "", by: "SUSE" },
    Shipped {
        below: "/",
        name: "60-usb-dirty-pages-udev.rules",
        distribution: "",
        by: "usb-dirty-pages-udev (BigLinux)",
    },
];

/// The distribution or package that ships a file, where its name tells.
pub(super) fn by(path: &str, distribution: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    FILES
        .iter()
        .find(|file| {
            file.name == name
                && path.starts_with(file.below)
                && (file.distribution.is_empty() || file.distribution == distribution)
        })
        .map(|file| file.by)
}

/// Knobs that a program sets which udev rules are known to run; empty for any other program.
pub(super) fn knobs_of_program(name: &str) -> &'static [&'static str] {
    match name {
        // Manjaro's and its copies: 16 MiB, 50 %, strict. The share that is written last is the one
        // that stays.
        "udev-usb-sync" => &["bdi.max_bytes", "bdi.max_ratio", "bdi.strict_limit"],
        "usb-dirty-pages-udev" => &["bdi.max_bytes", "bdi.strict_limit"],
        "cachyos-kyber-tune" => &["iosched.read_lat_nsec", "iosched.write_lat_nsec"],
        _ => &[],
    }
}

/// The programs that [`knobs_of_program`] knows.
pub(super) const PROGRAMS: [&str; 3] = ["udev-usb-sync", "usb-dirty-pages-udev", "cachyos-kyber-tune"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_alone_is_not_always_enough() {
        assert_eq!(
            by("/etc/sysctl.d/10-pop-default-settings.conf", "pop"),
            Some("Pop!_OS (pop-default-settings)")
        );
        let rules = "/usr/lib/udev/rules.d/60-ioschedulers.rules";
        assert_eq!(by(rules, "cachyos"), Some("CachyOS (cachyos-settings)"));
        assert_eq!(by(rules, "arch"), None);
        assert_eq!(by("/etc/udev/rules.d/60-ioschedulers.rules", "cachyos"), None);
        assert_eq!(by("/etc/sysctl.d/99-site.conf", "pop"), None);
    }

    #[test]
    fn every_program_that_is_looked_for_sets_known_knobs() {
        for program in PROGRAMS {
            let knobs = knobs_of_program(program);
            assert!(!knobs.is_empty() && knobs.iter().all(|knob| super::super::is_known(knob)), "{program}");
        }
    }
}
