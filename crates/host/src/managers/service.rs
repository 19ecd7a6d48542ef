//! Whether a program runs, and whether it is started at boot.

use floodwall_model::Reading;

use crate::root::SysRoot;

/// Where an administrator's choice of units is kept, as links in `*.wants` directories
/// (systemctl(1), `enable`).
const UNITS: &str = "/etc/systemd/system";

/// Whether systemd starts a unit at boot; `None` where that can't be told.
pub(super) fn is_started(root: &SysRoot, unit: &str) -> Option<bool> {
    let names = root.list(UNITS).into_value()?;
    let wanted = |directory: &String| {
        let link = format!("{UNITS}/{directory}/{unit}");
        // The link counts even if its target does not exist.
        directory.ends_with(".wants")
            && (root.link_target(&link).value().is_some() || root.exists(&link))
    };
    Some(names.iter().any(wanted))
}

/// Whether the process of a PID file runs: its number exists and belongs to a program of one of
/// these names.
pub(super) fn runs(root: &SysRoot, pid_file: &str, names: &[&str]) -> bool {
    let Reading::Value(pid) = root.parse::<u32>(pid_file) else { return false };
    let comm = root.read_line(&format!("/proc/{pid}/comm"));
    comm.value().is_some_and(|comm| names.iter().any(|name| comm.starts_with(name)))
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
        assert_eq!(is_started(&root, "tuned.service"), Some(true));
        assert_eq!(is_started(&root, "tlp.service"), Some(false));
        let (_dir, root) = tree(&[]);
        assert_eq!(is_started(&root, "tlp.service"), None);
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
        assert!(runs(&root, "/run/tuned/tuned.pid", &["tuned"]));
        for file in ["/run/gone.pid", "/run/other.pid", "/run/none.pid", "/run/broken.pid"] {
            assert!(!runs(&root, file, &["tuned"]), "{file}");
        }
    }
}
