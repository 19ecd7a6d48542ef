//! Whether a program runs, and whether it is started at boot.

use floodwall_model::Reading;

use crate::root::SysRoot;

/// Where an administrator's choice of units is kept, as links in `*.wants` directories
/// (systemctl(1), `enable`).
const UNITS: &str = "/etc/systemd/system";

/// Whether systemd starts a unit at boot.
pub(super) fn at_boot(root: &SysRoot, unit: &str) -> Reading<bool> {
    match root.list(UNITS) {
        Reading::Value(names) => {
            let wanted = |directory: &String| {
                let link = format!("{UNITS}/{directory}/{unit}");
                // The link counts even if its target does not exist.
                directory.ends_with(".wants")
                    && (root.link_target(&link).value().is_some() || root.exists(&link))
            };
            Reading::Value(names.iter().any(wanted))
        }
        Reading::Absent(_) => {
            Reading::Absent(format!("there is no {UNITS}: what starts at boot can't be told"))
        }
        Reading::Unreadable(why) => Reading::Unreadable(why),
    }
}

/// Whether the process of a PID file runs: its number exists and belongs to a program of one of
/// these names.
pub(super) fn runs(root: &SysRoot, pid_file: &str, names: &[&str]) -> Reading<bool> {
    match root.parse::<u32>(pid_file) {
        Reading::Value(pid) => match root.read_line(&format!("/proc/{pid}/comm")) {
            Reading::Value(comm) => Reading::Value(names.iter().any(|name| comm.starts_with(name))),
            Reading::Absent(_) => Reading::Value(false),
            Reading::Unreadable(why) => Reading::Unreadable(why),
        },
        Reading::Absent(_) => Reading::Value(false),
        Reading::Unreadable(why) => Reading::Unreadable(why),
    }
}

/// Whether the machine runs on mains (/sys/class/power_supply); absent where nothing tells, as on
/// most servers.
pub(super) fn on_mains(root: &SysRoot) -> Reading<bool> {
    let directory = "/sys/class/power_supply";
    let supplies = root.list(directory).into_value().unwrap_or_default();
    let mut on_mains = Reading::Absent(format!("no mains adapter is in {directory}"));
    for supply in supplies {
        let file = |name: &str| format!("{directory}/{supply}/{name}");
        if root.read_line(&file("type")).value().is_some_and(|kind| kind == "Mains") {
            match root.parse::<u8>(&file("online")) {
                Reading::Value(1) => return Reading::Value(true),
                other => on_mains = other.map(|online| online != 0),
            }
        }
    }
    on_mains
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::testing::tree;

    #[test]
    fn units_are_started_where_a_target_wants_them() {
        let (_dir, root) = tree(&[(
            "etc/systemd/system/multi-user.target.wants/tuned.service",
            "->/usr/lib/systemd/system/tuned.service",
        )]);
        assert_eq!(at_boot(&root, "tuned.service"), Reading::Value(true));
        assert_eq!(at_boot(&root, "tlp.service"), Reading::Value(false));
        let (_dir, root) = tree(&[]);
        assert!(matches!(at_boot(&root, "tlp.service"), Reading::Absent(_)));
    }

    #[test]
    fn a_pid_file_of_a_process_that_is_gone_or_another_one_counts_for_nothing() {
        let (_dir, root) = tree(&[
            ("run/tuned/tuned.pid", "812\n"),
            ("proc/812/comm", "tuned\n"),
            ("run/gone.pid", "813\n"),
            ("run/other.pid", "814\n"),
            ("proc/814/comm", "bash\n"),
            ("run/broken.pid", "x\n"),
        ]);
        let runs = |file| runs(&root, file, &["tuned"]);
        assert_eq!(runs("/run/tuned/tuned.pid"), Reading::Value(true));
        for file in ["/run/gone.pid", "/run/other.pid", "/run/none.pid"] {
            assert_eq!(runs(file), Reading::Value(false), "{file}");
        }
        assert!(runs("/run/broken.pid").is_unreadable());
    }

    #[test]
    fn mains_is_what_an_adapter_says() {
        let (_dir, root) = tree(&[
            ("sys/class/power_supply/AC/type", "Mains\n"),
            ("sys/class/power_supply/AC/online", "0\n"),
            ("sys/class/power_supply/BAT0/type", "Battery\n"),
        ]);
        assert_eq!(on_mains(&root), Reading::Value(false));
        let (_dir, root) = tree(&[]);
        assert!(matches!(on_mains(&root), Reading::Absent(_)));
    }
}
