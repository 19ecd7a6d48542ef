//! CPUs, hypervisors, containers and scheduling policies, as far as they bear on writeback.

use std::path::Path;

use floodwall_model::Reading;
use floodwall_model::proc_stat::ProcStat;

use crate::mounts::{self, Mount};
use crate::root::{SysRoot, not_understood};

/// CPUs that the kernel could have (`nr_cpu_ids`): its per-CPU counters are as many, however few
/// are online.
#[must_use]
pub fn read_possible_cpus(root: &SysRoot) -> Reading<u64> {
    let path = "/sys/devices/system/cpu/possible";
    // `0-7`, or `0,2-7`: the last number is the highest.
    root.read_line(path).and_then(|text| {
        match text.rsplit([',', '-']).next().map(str::parse::<u64>) {
            Some(Ok(last)) => Reading::Value(last.saturating_add(1)),
            _ => not_understood(path, &text),
        }
    })
}

/// A value of /etc/os-release, or of /usr/lib/os-release (os-release(5)).
pub(crate) fn read_os_release(root: &SysRoot, key: &str) -> Reading<String> {
    let path = "/etc/os-release";
    root.read(path).or_else(|| root.read("/usr/lib/os-release")).and_then(|text| {
        let value = |line: &str| Some(line.strip_prefix(key)?.strip_prefix('=')?.trim().to_owned());
        match text.lines().find_map(value) {
            Some(value) => Reading::Value(value.trim_matches(['"', '\'']).to_owned()),
            None => Reading::Absent(format!("{path} has no {key}")),
        }
    })
}

/// The distribution and those that it is like, as os-release(5) calls them.
pub(crate) fn read_distribution_ids(root: &SysRoot) -> Reading<Vec<String>> {
    read_os_release(root, "ID").map(|id| {
        let like = read_os_release(root, "ID_LIKE").into_value().unwrap_or_default();
        [id.as_str()].into_iter().chain(like.split_whitespace()).map(str::to_owned).collect()
    })
}

/// Whether a hypervisor is below: hypervisors set the CPUID bit that /proc/cpuinfo shows as the
/// flag `hypervisor`. Only x86 has it.
#[must_use]
pub(crate) fn read_hypervisor_flag(root: &SysRoot) -> Reading<bool> {
    root.read("/proc/cpuinfo").map(|text| {
        text.lines()
            .filter(|line| line.starts_with("flags"))
            .any(|line| line.split_whitespace().any(|flag| flag == "hypervisor"))
    })
}

/// The sign of a container. Its configuration files are the container's, while the kernel and its
/// knobs are the host's.
#[must_use]
pub(crate) fn read_container(root: &SysRoot, mounts: &[Mount]) -> Reading<String> {
    // Docker, Podman and systemd-nspawn leave a mark.
    let marks = ["/.dockerenv", "/run/.containerenv", "/run/systemd/container"];
    if let Some(mark) = marks.into_iter().find(|mark| root.exists(mark)) {
        return Reading::Value(format!("{mark} is there"));
    }
    match mounts::covering(mounts, Path::new("/")) {
        Some(mount) if mount.fs_type == "overlay" => {
            Reading::Value("the root is an overlay".to_owned())
        }
        Some(_) => Reading::Absent("nothing tells of a container".to_owned()),
        None => Reading::Unreadable("it is not known what is mounted".to_owned()),
    }
}

/// Whether this thread runs under a real-time or deadline policy: such a reader is shown higher
/// thresholds than other tasks have (mm/page-writeback.c `domain_dirty_limits`).
#[must_use]
pub(crate) fn read_is_real_time(root: &SysRoot) -> Reading<bool> {
    let path = "/proc/thread-self/stat";
    root.read_line(path).and_then(|stat| {
        match ProcStat::parse(stat.as_bytes()).and_then(ProcStat::is_real_time) {
            Some(is_real_time) => Reading::Value(is_real_time),
            None => not_understood(path, &stat),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::testing::tree;

    #[test]
    fn possible_cpus_count_from_zero() {
        for (text, count) in [("0-63\n", 64), ("0\n", 1), ("0,2-7\n", 8)] {
            let (_dir, root) = tree(&[("sys/devices/system/cpu/possible", text)]);
            assert_eq!(read_possible_cpus(&root), Reading::Value(count));
        }
        let (_dir, root) = tree(&[("sys/devices/system/cpu/possible", "many\n")]);
        assert!(read_possible_cpus(&root).is_unreadable());
    }

    #[test]
    fn a_container_is_known_by_its_marks_or_its_root() {
        let read = |files: &[(&str, &str)]| {
            let (_dir, root) = tree(files);
            let mounts = mounts::read_mounts(&root).into_value().unwrap_or_default();
            read_container(&root, &mounts)
        };
        let disk = ("proc/self/mountinfo", "22 1 8:2 / / rw - ext4 /dev/sda2 rw\n");
        let overlay = ("proc/self/mountinfo", "22 1 0:50 / / rw - overlay overlay rw\n");
        assert!(matches!(read(&[disk]), Reading::Absent(_)));
        assert_eq!(read(&[overlay]), Reading::Value("the root is an overlay".into()));
        assert_eq!(
            read(&[disk, (".dockerenv", "")]),
            Reading::Value("/.dockerenv is there".into())
        );
        assert!(read(&[]).is_unreadable());
    }

    #[test]
    fn a_policy_behind_any_name() {
        let read = |policy: &str| {
            let stat = format!("1 (a b) c) R {} {policy} 0\n", "0 ".repeat(37).trim_end());
            let (_dir, root) = tree(&[("proc/thread-self/stat", &stat)]);
            read_is_real_time(&root)
        };
        assert_eq!(read("0"), Reading::Value(false));
        assert_eq!(read("1"), Reading::Value(true));
        assert_eq!(read("6"), Reading::Value(true));
        let (_dir, root) = tree(&[]);
        assert!(matches!(read_is_real_time(&root), Reading::Absent(_)));
    }
}
