//! Other managers' configuration of Floodwall's knobs, for a captured tree.
//!
//! ```text
//! managers::read over a tree that remembers ─ paths
//!   ─▶ links | directories | files, of which the lines about knobs
//! ```
//!
//! All files that the managers look at are stored, so none is forgotten when they learn to look at
//! more. The contents of a file besides knobs are not stored.

use std::collections::BTreeSet;

use floodwall_model::Reading;

use super::entry::{Content, Entry, resolved};
use crate::managers;
use crate::root::SysRoot;

/// More links than any path has.
const MOST_LINKS: usize = 16;

/// Everything to store.
pub(super) fn entries(root: &SysRoot) -> Vec<Entry> {
    let watched = root.remembering();
    let _ = managers::read(&watched);
    let mut all = Collector { root, done: BTreeSet::new(), entries: Vec::new() };
    for path in watched.seen() {
        if is_configuration(&path) {
            all.store(&path);
        }
    }
    all.entries
}

/// Left out is udev's database, which is full of serial numbers.
fn is_configuration(path: &str) -> bool {
    let below = ["/etc/", "/usr/", "/lib/", "/run/"];
    below.iter().any(|start| path.starts_with(start)) && !path.starts_with("/run/udev/data/")
}

struct Collector<'a> {
    root: &'a SysRoot,
    done: BTreeSet<String>,
    entries: Vec<Entry>,
}

impl Collector<'_> {
    fn put(&mut self, path: &str, content: Content) {
        if self.done.insert(path.to_owned()) {
            self.entries.push(Entry { path: path.to_owned(), content });
        }
    }

    /// Stores the links that a path leads through, and the file at its end.
    fn store(&mut self, named: &str) {
        let mut path = named.to_owned();
        for _ in 0..MOST_LINKS {
            let Some((link, target)) = self.first_link(&path) else {
                let content = self.content(named, &path);
                self.put(&path, content);
                return;
            };
            let rest = path[link.len()..].to_owned();
            path = if target.starts_with('/') { target.clone() } else { resolved(&link, &target) }
                + &rest;
            self.put(&link, Content::Link(target));
            if !self.root.exists(&path) || path.starts_with("/dev/") {
                return;
            }
        }
    }

    /// The first part of a path that is a link, and its target.
    fn first_link(&self, path: &str) -> Option<(String, String)> {
        let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]);
        let parts = ends.filter_map(|end| path.get(..end));
        parts.map(str::to_owned).find_map(|part| {
            let target = self.root.link_target(&part).into_value()?;
            Some((part, target))
        })
    }

    fn content(&self, named: &str, path: &str) -> Content {
        if self.root.list(path).value().is_some() {
            return Content::Directory;
        }
        match self.root.read(path) {
            Reading::Value(text) => Content::Text(managers::redacted(named, &text)),
            Reading::Absent(_) | Reading::Unreadable(_) => Content::Unreadable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::testing::{put, tree};

    /// The stored part of a tree, as a tree.
    fn captured(root: &SysRoot) -> (tempfile::TempDir, SysRoot) {
        let dir = tempfile::tempdir().unwrap();
        for entry in super::super::entries(root) {
            let path = dir.path().join(entry.path.trim_start_matches('/'));
            match entry.content {
                Content::Text(text) => put(&path, &text),
                Content::Link(target) => put(&path, &format!("->{target}")),
                Content::Directory => {
                    std::fs::DirBuilder::new().recursive(true).create(path).unwrap();
                }
                Content::Unreadable => put(&path.join("was-unreadable"), ""),
            }
        }
        let root = SysRoot::new(dir.path()).unwrap();
        (dir, root)
    }

    #[test]
    fn managers_of_a_captured_machine_are_those_of_the_machine() {
        for name in ["debian-12", "rhel-8", "rhel-9", "ubuntu-24.04", "server-md-crypt-lvm"] {
            let root = SysRoot::new(&floodwall_testing::tree::host(name)).unwrap();
            let (_dir, stored) = captured(&root);
            assert_eq!(managers::read(&stored), managers::read(&root), "{name}");
        }
    }

    /// Every known manager, with a private text in each file.
    const FILES: [(&str, &str); 21] = [
        ("lib", "->usr/lib"),
        ("proc/sys/vm/dirty_ratio", "20\n"),
        ("proc/77/comm", "tuned\n"),
        ("run/systemd/system/x", ""),
        ("run/tuned/tuned.pid", "77\n"),
        ("sys/class/block/sda", "->../../devices/pci/block/sda"),
        ("sys/dev/block/8:0", "->../../devices/pci/block/sda"),
        ("sys/devices/pci/block/sda/dev", "8:0\n"),
        ("sys/devices/pci/block/sda/size", "1000\n"),
        ("sys/devices/pci/block/sda/queue/scheduler", "[none] bfq\n"),
        (
            "etc/sysctl.d/10-a.conf",
            "kernel.hostname = secret-4\nvm.dirty_ratio = 5\nvm.dirty_* = 7\n# secret-5\n",
        ),
        ("etc/sysctl.d/99-sysctl.conf", "->../sysctl.conf"),
        ("etc/sysctl.conf", "# secret-6\nvm.dirty_background_ratio=3\n"),
        ("etc/sysctl.d/20-b.conf", "->/dev/null"),
        ("usr/lib/sysctl.d/20-b.conf", "vm.dirty_ratio=6\n"),
        (
            "etc/tmpfiles.d/x.conf",
            "f /home/secret-7 - - - - x\nw /sys/block/sda/queue/scheduler - - - - bfq\n",
        ),
        (
            "etc/udev/rules.d/60-x.rules",
            "# secret-8\nKERNEL!=\"sd*\", GOTO=\"end\"\n\
             ENV{ID_SERIAL}==\"secret-9\", SYMLINK+=\"secret-10\", ATTR{queue/scheduler}=\"bfq\"\n\
             KERNEL==\"sda\", \\\n  OWNER=\"secret-11\", ATTR{queue/nr_requests}=\"64\"\n\
             LABEL=\"end\"\n",
        ),
        (
            "etc/tlp.conf",
            "DISK_DEVICES=\"ata-secret-3 sdb\"\nDISK_IOSCHED=\"bfq none\" # secret-1\n\
             USB_DENYLIST=secret-12\nMAX_LOST_WORK_SECS_ON_BAT=60\n",
        ),
        ("usr/sbin/tlp", "#!/bin/sh\n# secret-13\n"),
        ("etc/tuned/active_profile", "mine\n"),
        (
            "etc/tuned/mine/tuned.conf",
            "[main]\nsummary=secret-14\n[variables]\nlimit=9\npassword=secret-16\n[sysctl]\n\
             vm.dirty_ratio=${limit}\nkernel.domainname=secret-15/x\n[disk]\ndevices=sd*\n\
             elevator=bfq\n",
        ),
    ];

    #[test]
    fn only_what_is_said_of_knobs_is_stored() {
        let (_source, root) = tree(&FILES);
        let wants = _source.path().join("etc/systemd/system/multi-user.target.wants");
        put(&wants.join("tlp.service"), "->/usr/lib/systemd/system/tlp.service");
        let (dir, stored) = captured(&root);
        let text = |path: &str| stored.read(path).into_value().unwrap_or_default();
        assert_eq!(text("/etc/sysctl.d/10-a.conf"), "\nvm.dirty_ratio = 5\nvm.dirty_* = 7\n");
        assert_eq!(
            text("/etc/udev/rules.d/60-x.rules"),
            "\nKERNEL!=\"sd*\", GOTO=\"end\"\nENV{ID_SERIAL}==\"left-out\", \
             ATTR{queue/scheduler}=\"bfq\"\nKERNEL==\"sda\", ATTR{queue/nr_requests}=\"64\"\n\n\
             LABEL=\"end\"\n"
        );
        assert_eq!(stored.link_target("/lib"), Reading::Value("usr/lib".into()));
        // No private text is anywhere, not even in a name.
        let all = std::process::Command::new("grep")
            .args(["-r", "secret"])
            .arg(dir.path())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&all.stdout), "");
        let names =
            std::process::Command::new("find").arg(dir.path()).args(["-name", "*secret*"]).output();
        assert_eq!(String::from_utf8_lossy(&names.unwrap().stdout), "");

        // The findings are the same, except where a rule knows a disk by its serial number.
        let (mut here, mut there) = (managers::read(&root), managers::read(&stored));
        let mut of_serial = 0;
        for claims in [&mut here.claims, &mut there.claims] {
            for claim in claims.iter_mut() {
                if claim.file.ends_with("60-x.rules") && claim.line == 3 {
                    of_serial += 1;
                    claim.standing = floodwall_model::managers::Standing::Wins;
                }
            }
        }
        assert_eq!(of_serial, 2);
        assert_eq!(there, here);
        for who in ["TuneD", "TLP", "sysctl", "udev", "tmpfiles"] {
            assert!(here.claims.iter().any(|claim| claim.who.contains(who)), "{who}");
        }
    }
}
