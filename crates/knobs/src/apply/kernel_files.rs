//! The kernel's files: the one place that writes them.
//!
//! ```text
//! KernelFiles ─┬─ over "/"              one write(2) per value, as sysfs and procfs want it
//!              └─ over a captured tree  plain files; what the kernel does beside
//!                                       (zeroing a partner …) is imitated
//! ```

use std::io;
use std::os::fd::OwnedFd;

use floodwall_host::SysRoot;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::{priority, systemd};
use crate::catalogue::files::{Files, write_once};
use crate::catalogue::systemd::{Limit, ask};

/// Races with renames that a path of a captured tree may lose: each is rare, and over at once.
const MAX_RACES: u32 = 1000;

/// The files of a [`SysRoot`].
#[derive(Debug)]
pub struct KernelFiles {
    root: SysRoot,
    directory: OwnedFd,
    allow_userspace_servers: bool,
}

impl KernelFiles {
    /// The files below a root.
    ///
    /// # Errors
    /// The root directory can't be opened.
    pub fn new(root: &SysRoot) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(root.path(), flags, Mode::empty())?;
        Ok(Self { root: root.clone(), directory, allow_userspace_servers: false })
    }

    /// The same files, over which limits may be lowered below what userspace block servers need, or
    /// may not.
    #[must_use]
    pub fn allow_userspace_servers(mut self, allow: bool) -> Self {
        self.set_allow_userspace_servers(allow);
        self
    }

    /// See [`Self::allow_userspace_servers`].
    pub fn set_allow_userspace_servers(&mut self, allow: bool) {
        self.allow_userspace_servers = allow;
    }

    /// The root.
    #[must_use]
    pub fn root(&self) -> &SysRoot {
        &self.root
    }

    /// Whether a path stands for priorities of threads that run. A captured tree has them in a
    /// plain file.
    fn has_priorities(&self, path: &str) -> bool {
        self.root.is_live() && priority::is_ours(path)
    }

    /// Whether a path stands for a limit that systemd sets.
    fn is_systemds(&self, path: &str) -> bool {
        self.root.is_live() && Limit::parse(path).is_some()
    }

    fn open_to_write(&self, path: &str) -> rustix::io::Result<OwnedFd> {
        self.open(path, OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK)
    }

    fn open(&self, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let relative = path.trim_start_matches('/');
        if self.root.is_live() {
            return rustix::fs::openat(&self.directory, relative, flags, Mode::empty());
        }
        let mut races = 0;
        loop {
            // A captured tree's links never lead out of the tree.
            match rustix::fs::openat2(
                &self.directory,
                relative,
                flags,
                Mode::empty(),
                ResolveFlags::IN_ROOT,
            ) {
                // A `..` raced with a rename anywhere on the machine (openat2(2)).
                Err(Errno::AGAIN) if races < MAX_RACES => races += 1,
                other => return other,
            }
        }
    }

    /// Replaces a plain file's content. A kill leaves the old or the new value: the new one is
    /// padded with line ends, then cut.
    fn replace(&self, path: &str, text: &str) -> rustix::io::Result<()> {
        let length = self.read(path)?.len();
        let file = self.open_to_write(path)?;
        write_once(&file, &format!("{text}{}", "\n".repeat(length.saturating_sub(text.len()))))?;
        rustix::fs::ftruncate(&file, text.len() as u64)
    }
}

impl Files for KernelFiles {
    fn read(&self, path: &str) -> rustix::io::Result<String> {
        if self.has_priorities(path) {
            return priority::read(&self.root, path);
        }
        if self.is_systemds(path) {
            return ask::read(&self.root, path);
        }
        let mut buffer = Vec::new();
        self.root.read_into(path, &mut buffer)?;
        Ok(String::from_utf8_lossy(&buffer).into_owned())
    }

    fn list(&self, path: &str) -> Vec<String> {
        self.root.list(path).into_value().unwrap_or_default()
    }

    fn link(&self, path: &str) -> rustix::io::Result<String> {
        let link = self.open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC)?;
        let text = rustix::fs::readlinkat(link, "", Vec::new())?;
        Ok(text.to_string_lossy().into_owned())
    }

    fn write(&self, path: &str, value: &str) -> rustix::io::Result<()> {
        if self.has_priorities(path) {
            return priority::write(&self.root, path, value);
        }
        if self.is_systemds(path) {
            return systemd::write(&self.root, path, value);
        }
        if self.root.is_live() {
            return write_once(&self.open_to_write(path)?, value);
        }
        let before = self.read(path)?;
        for (path, text) in imitation::effects(path, &before, value)? {
            // A partner that an old kernel's tree does not have has nothing to be zeroed.
            if self.root.exists(&path) {
                self.replace(&path, &text)?;
            }
        }
        Ok(())
    }

    fn may_write(&self, path: &str) -> rustix::io::Result<()> {
        if self.has_priorities(path) {
            return priority::may_write(&self.root, path);
        }
        if self.is_systemds(path) {
            return systemd::may_write();
        }
        self.open_to_write(path).map(drop)
    }

    fn page_bytes(&self) -> u64 {
        self.root.page_bytes()
    }

    fn servers_root(&self) -> Option<&SysRoot> {
        (!self.allow_userspace_servers).then_some(&self.root)
    }
}

/// The kernel's side effects of a write, imitated for trees of plain files.
pub(crate) mod imitation {
    use floodwall_host::queue::choices;
    use rustix::io::Errno;

    use crate::catalogue::line::Line;
    use crate::catalogue::systemd::{self, Limit, Origin};

    /// The two names of each limit.
    const PARTNERS: [(&str, &str); 4] = [
        ("dirty_bytes", "dirty_ratio"),
        ("dirty_ratio", "dirty_bytes"),
        ("dirty_background_bytes", "dirty_background_ratio"),
        ("dirty_background_ratio", "dirty_background_bytes"),
    ];

    /// The files that a write changes, and their new contents. The written file comes first. A kill
    /// in between leaves bytes and ratio both set, which reads as byte mode, and as one of the two
    /// values that the journal knows.
    pub(crate) fn effects(
        path: &str,
        before: &str,
        value: &str,
    ) -> Result<Vec<(String, String)>, Errno> {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        if name == "scheduler" {
            return Ok(vec![(path.to_owned(), choose(before, value)?)]);
        }
        if let Some(limit) = Limit::parse(path) {
            let (_, lines) = systemd::split(before);
            let lines =
                if name.starts_with("io.") { merge(lines, value) } else { format!("{value}\n") };
            let view = limit.view_after(&lines);
            let both =
                [Origin::RunTime, Origin::UnitFiles].map(|origin| (limit.at(origin), view.clone()));
            return Ok([both.to_vec(), vec![(limit.kernel_file(), lines)]].concat());
        }
        if name.starts_with("io.") {
            return Ok(vec![(path.to_owned(), merge(before, value))]);
        }
        let mut files = vec![(path.to_owned(), format!("{value}\n"))];
        let partner = PARTNERS.iter().find(|(one, _)| *one == name).map(|(_, other)| *other);
        let unchanged_hard_limit =
            matches!(name, "dirty_bytes" | "dirty_ratio") && before.trim() == value.trim();
        if let (Some(partner), false) = (partner, unchanged_hard_limit) {
            files.push((format!("{directory}/{partner}"), "0\n".to_owned()));
        }
        Ok(files)
    }

    /// `none [bfq]` with another choice in the brackets.
    fn choose(before: &str, value: &str) -> Result<String, Errno> {
        let names: Vec<&str> = choices(before).collect();
        if !names.contains(&value) {
            return Err(Errno::INVAL);
        }
        let shown: Vec<String> = names
            .iter()
            .map(|name| if *name == value { format!("[{name}]") } else { (*name).to_owned() })
            .collect();
        Ok(format!("{}\n", shown.join(" ")))
    }

    /// One device's line, changed in the keys that are named; the other lines stay.
    fn merge(before: &str, value: &str) -> String {
        let new = Line::parse(value);
        let mut lines: Vec<String> = Vec::new();
        let mut merged = None;
        for line in before.lines().filter(|line| !line.trim().is_empty()) {
            let old = Line::parse(line);
            if old.key == new.key {
                merged = Some(lines.len());
                lines.push(old.with(&new).to_string());
            } else {
                lines.push(line.to_owned());
            }
        }
        if merged.is_none() {
            lines.push(new.to_string());
        }
        lines.push(String::new());
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, KernelFiles) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            floodwall_testing::tree::put(&dir.path().join(path), text);
        }
        let files = KernelFiles::new(&SysRoot::new(dir.path()).unwrap()).unwrap();
        (dir, files)
    }

    #[test]
    fn a_captured_tree_zeroes_partners_as_the_kernel_does() {
        let (_dir, files) = tree(&[
            ("proc/sys/vm/dirty_bytes", "0\n"),
            ("proc/sys/vm/dirty_ratio", "20\n"),
            ("proc/sys/vm/dirty_background_ratio", "10\n"),
        ]);
        let at =
            |name: &str| files.read(&format!("/proc/sys/vm/{name}")).unwrap().trim().to_owned();
        files.write("/proc/sys/vm/dirty_bytes", "15000000").unwrap();
        assert_eq!((at("dirty_bytes"), at("dirty_ratio")), ("15000000".into(), "0".into()));
        // Unchanged, so byte mode stays on.
        files.write("/proc/sys/vm/dirty_ratio", "0").unwrap();
        assert_eq!(at("dirty_bytes"), "15000000");
        files.write("/proc/sys/vm/dirty_ratio", "20").unwrap();
        assert_eq!((at("dirty_bytes"), at("dirty_ratio")), ("0".into(), "20".into()));
        // A tree without the byte knobs, as before 2.6.29.
        files.write("/proc/sys/vm/dirty_background_ratio", "5").unwrap();
        assert_eq!(at("dirty_background_ratio"), "5");
    }

    #[test]
    fn a_captured_tree_keeps_the_list_of_elevators_and_other_devices_lines() {
        let (_dir, files) = tree(&[
            ("sys/queue/scheduler", "none [mq-deadline] kyber bfq \n"),
            ("sys/fs/cgroup/a/io.max", "8:16 rbps=1 wbps=max riops=max wiops=max\n"),
        ]);
        files.write("/sys/queue/scheduler", "bfq").unwrap();
        assert_eq!(files.read("/sys/queue/scheduler").unwrap(), "none mq-deadline kyber [bfq]\n");
        assert_eq!(files.write("/sys/queue/scheduler", "cfq"), Err(Errno::INVAL));
        files.write("/sys/fs/cgroup/a/io.max", "8:0 wbps=5").unwrap();
        files.write("/sys/fs/cgroup/a/io.max", "8:0 rbps=7").unwrap();
        assert_eq!(
            files.read("/sys/fs/cgroup/a/io.max").unwrap(),
            "8:16 rbps=1 wbps=max riops=max wiops=max\n8:0 wbps=5 rbps=7\n"
        );
    }

    #[test]
    fn a_link_out_of_the_tree_stays_inside() {
        let (dir, files) = tree(&[("sys/value", "1\n")]);
        std::os::unix::fs::symlink("/sys/value", dir.path().join("link")).unwrap();
        files.write("/link", "2").unwrap();
        assert_eq!(files.read("/sys/value").unwrap(), "2\n");
        assert_eq!(files.write("/sys/none", "2"), Err(Errno::NOENT));
    }
}
