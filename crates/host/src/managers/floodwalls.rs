//! Another floodwall on this machine: one that is changing settings now, or a guard that steers
//! them.

use crate::root::SysRoot;

/// A process that changes settings writes its name into the journal's lock
/// (`pid 4711 (floodwall apply …)`); the text stays when the lock is released.
const LOCK: &str = "/var/lib/floodwall/journal/lock";
/// Words of a guard's command line with which it steers nothing.
const HARMLESS: [&str; 7] =
    ["status", "history", "pause", "resume", "restore", "--dry-run", "--sim"];
/// Last words of the text about a guard. They tell it from other processes.
pub const STEERS: &str = "steers settings";
/// The name of Floodwall's processes.
const COMM: &str = "floodwall";

/// Their names, for people: `floodwall guard (process 10) steers settings`. `own_pid` is the
/// caller's process, which does not count.
#[must_use]
pub fn floodwalls(root: &SysRoot, own_pid: Option<u32>) -> Vec<String> {
    let changer = holder(root);
    let others = processes(root).into_iter().filter(|pid| Some(*pid) != own_pid);
    let name = |pid: u32| {
        let command = root.read(&format!("/proc/{pid}/cmdline")).into_value()?;
        // A process that has ended and that its parent has not waited for yet.
        if command.is_empty() {
            return None;
        }
        let words: Vec<&str> = command.split('\0').collect();
        let is_guard =
            words.get(1) == Some(&"guard") && !words.iter().any(|word| HARMLESS.contains(word));
        // A guard's worker takes the lock for each of its writes; its parent is named.
        let is_changing = changer == Some(pid) && words.get(1) != Some(&"guard-worker");
        let does = match (is_guard, is_changing) {
            (true, _) => STEERS,
            (false, true) => "is changing settings",
            (false, false) => return None,
        };
        Some(format!("{} (process {pid}) {does}", words.join(" ").trim()))
    };
    others.filter_map(name).collect()
}

/// The process that has, or had, the journal's lock.
fn holder(root: &SysRoot) -> Option<u32> {
    let text = root.read_line(LOCK).into_value()?;
    text.strip_prefix("pid ")?.split(' ').next()?.parse().ok()
}

fn processes(root: &SysRoot) -> Vec<u32> {
    let names = root.list("/proc").into_value().unwrap_or_default();
    let ours = |pid: &u32| {
        root.read_line(&format!("/proc/{pid}/comm")).value().is_some_and(|comm| comm == COMM)
    };
    names.iter().filter_map(|name| name.parse().ok()).filter(ours).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::testing::tree;

    #[test]
    fn a_guard_and_a_changer_are_found_and_nobody_else() {
        let (_dir, root) = tree(&[
            ("proc/10/comm", "floodwall\n"),
            ("proc/10/cmdline", "floodwall\0guard\0--device\0sda\0"),
            ("proc/11/comm", "floodwall\n"),
            ("proc/11/cmdline", "floodwall\0apply\0x=1\0"),
            ("proc/12/comm", "floodwall\n"),
            ("proc/12/cmdline", "floodwall\0status\0"),
            ("proc/14/comm", "floodwall\n"),
            ("proc/14/cmdline", "floodwall\0guard\0status\0--json\0"),
            ("proc/15/comm", "floodwall\n"),
            ("proc/15/cmdline", "floodwall\0guard\0--sim\0hdd-7200\0"),
            ("proc/13/comm", "bash\n"),
            ("proc/13/cmdline", "bash\0guard\0"),
            ("var/lib/floodwall/journal/lock", "pid 11 (floodwall apply x=1)"),
        ]);
        assert_eq!(
            floodwalls(&root, None),
            [
                "floodwall guard --device sda (process 10) steers settings",
                "floodwall apply x=1 (process 11) is changing settings"
            ]
        );
        assert_eq!(floodwalls(&root, Some(11)).len(), 1);
    }

    #[test]
    fn a_lock_of_a_process_that_is_gone_counts_for_nothing() {
        let (_dir, root) =
            tree(&[("var/lib/floodwall/journal/lock", "pid 11 (floodwall apply x=1)")]);
        assert!(floodwalls(&root, None).is_empty());
    }

    #[test]
    fn a_guard_is_named_once_although_its_worker_had_the_lock() {
        let (_dir, root) = tree(&[
            ("proc/10/comm", "floodwall\n"),
            ("proc/10/cmdline", "floodwall\0guard\0"),
            ("proc/11/comm", "floodwall\n"),
            ("proc/11/cmdline", "floodwall\0guard-worker\0"),
            ("var/lib/floodwall/journal/lock", "pid 11 (floodwall guard-worker)"),
        ]);
        assert_eq!(floodwalls(&root, None), ["floodwall guard (process 10) steers settings"]);
    }
}
