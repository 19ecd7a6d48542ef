//! The content of a captured tree: exactly the files that this crate reads, without data that
//! identifies a machine or its owner.
//!
//! ```text
//! live /proc, /sys ───────────────── entries ┬─▶ (path, text | link | directory | unreadable) …
//! other managers' files ─ lines about knobs ─┘   ─▶ whoever stores them
//! ```
//!
//! Serial numbers, host names, partition and filesystem UUIDs, the boot id, servers' names and
//! addresses are left out or replaced. Paths of loop files are kept, as mount points are.
//! Unreadable files are listed as such, so that the tree tells the same as the machine.

mod configuration;
mod entry;

use floodwall_model::Reading;

use self::entry::resolved;
pub use self::entry::{Content, Entry};
use crate::memory::DIRTY_KNOBS;
use crate::mounts::is_private_option;
use crate::root::SysRoot;
use crate::servers;

/// Files of the machine as a whole.
const MACHINE: [&str; 11] = [
    "/proc/diskstats",
    "/proc/meminfo",
    "/proc/pressure/io",
    "/proc/sys/kernel/osrelease",
    "/proc/uptime",
    "/proc/vmstat",
    "/sys/class/dmi/id/product_name",
    "/sys/class/dmi/id/sys_vendor",
    "/proc/stat",
    "/proc/swaps",
    "/sys/devices/system/cpu/possible",
];
/// Files of a block device, below its directory. `device/vpd_pg89` has the serial number.
const BLOCK: [&str; 25] = [
    "dev",
    "inflight",
    "size",
    "partition",
    "removable",
    "device/model",
    "device/vendor",
    "device/rev",
    "device/firmware_rev",
    "dm/name",
    "md/level",
    "loop/backing_file",
    "loop/dio",
    "pid",
    "queue/fua",
    "queue/max_sectors_kb",
    "queue/nomerges",
    "queue/nr_requests",
    "queue/read_ahead_kb",
    "queue/rotational",
    "queue/rq_affinity",
    "queue/scheduler",
    "queue/wbt_lat_usec",
    "queue/write_cache",
    "uevent",
];
/// Files of a backing device.
const BDI: [&str; 6] =
    ["max_ratio", "max_ratio_fine", "min_ratio", "min_ratio_fine", "read_ahead_kb", "strict_limit"];

/// Everything to store of a machine, in the order in which it was read.
#[must_use]
pub fn entries(root: &SysRoot) -> Vec<Entry> {
    let mut all = Collector { root, entries: Vec::new() };
    for path in MACHINE {
        all.file(path, path, |text| match path {
            "/proc/stat" => lines(&text, |line| line.starts_with("cpu")),
            _ => text,
        });
    }
    for knob in DIRTY_KNOBS {
        let path = format!("/proc/sys/vm/{knob}");
        all.file(&path, &path, |text| text);
    }
    all.file("/etc/os-release", "/etc/os-release", |text| {
        lines(&text, |line| {
            ["PRETTY_NAME=", "ID=", "ID_LIKE="].iter().any(|key| line.starts_with(key))
        })
    });
    // One CPU's flags tell what all do.
    all.file("/proc/cpuinfo", "/proc/cpuinfo", |text| {
        text.lines()
            .find(|line| line.starts_with("flags"))
            .map(|line| format!("{line}\n"))
            .unwrap_or_default()
    });
    all.file("/proc/self/mountinfo", "/proc/self/mountinfo", |text| {
        text.lines().map(|line| without_server(line) + "\n").collect()
    });
    all.processes();
    all.servers();
    all.cgroups();
    all.interfaces();
    all.block_devices();
    all.backing_devices();
    all.btrfs();
    all.entries.extend(configuration::entries(root));
    all.entries
}

fn lines(text: &str, keep: impl Fn(&str) -> bool) -> String {
    text.lines().filter(|line| keep(line)).map(|line| format!("{line}\n")).collect()
}

/// A mount's source `host:/path` becomes `server:/path`, and options that hold addresses are left
/// out.
fn without_server(line: &str) -> String {
    let Some((before, after)) = line.split_once(" - ") else { return line.to_owned() };
    let mut fields = after.splitn(3, ' ');
    let (Some(fs_type), Some(source), Some(options)) =
        (fields.next(), fields.next(), fields.next())
    else {
        return line.to_owned();
    };
    let source = match source.split_once(":/") {
        Some((_, path)) => format!("server:/{path}"),
        None if source.starts_with("//") => "//server/share".to_owned(),
        None => source.to_owned(),
    };
    let options: Vec<&str> = options.split(',').filter(|o| !is_private_option(o)).collect();
    format!("{before} - {fs_type} {source} {}", options.join(","))
}

struct Collector<'a> {
    root: &'a SysRoot,
    entries: Vec<Entry>,
}

impl Collector<'_> {
    /// Stores what `from` holds, changed, at `to`; nothing if it is absent.
    fn file(&mut self, from: &str, to: &str, change: impl FnOnce(String) -> String) {
        let content = match self.root.read(from) {
            Reading::Value(text) => Content::Text(change(text)),
            Reading::Absent(_) => return,
            Reading::Unreadable(_) => Content::Unreadable,
        };
        self.entries.push(Entry { path: to.to_owned(), content });
    }

    /// Stores a link and returns the absolute path that it points to.
    fn link(&mut self, from: &str, to: &str) -> Option<String> {
        let target = self.root.link_target(from).into_value()?;
        let absolute = resolved(from, &target);
        self.entries.push(Entry { path: to.to_owned(), content: Content::Link(target) });
        Some(absolute)
    }

    fn names(&self, path: &str) -> Vec<String> {
        self.root.list(path).into_value().unwrap_or_default()
    }

    fn processes(&mut self) {
        for pid in
            self.names("/proc").into_iter().filter(|name| name.bytes().all(|b| b.is_ascii_digit()))
        {
            for file in ["comm", "io"] {
                let path = format!("/proc/{pid}/{file}");
                self.file(&path, &path, |text| text);
            }
        }
    }

    /// What tells of userspace block servers: the flags and open files of those processes alone.
    fn servers(&mut self) {
        let remembering = self.root.remembering();
        let servers = servers::read(&remembering);
        let of_server = |path: &str| {
            let pids = servers.iter().filter_map(|server| server.pid.value());
            pids.into_iter().any(|pid| path.strip_prefix(&format!("/proc/{pid}/")).is_some())
        };
        for path in remembering.seen().into_iter().filter(|path| of_server(path)) {
            if path.ends_with("/mountinfo") {
                self.file(&path, &path, |text| {
                    text.lines().map(|line| without_server(line) + "\n").collect()
                });
            } else if path.contains("/fd/") {
                self.link(&path, &path);
            } else if path.contains("/fdinfo/") || path.ends_with("/stat") {
                self.file(&path, &path, |text| text);
            }
        }
    }

    /// The controllers of version 2, where it is mounted by convention.
    fn cgroups(&mut self) {
        for mount in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
            let path = format!("{mount}/cgroup.controllers");
            self.file(&path, &path, |text| text);
        }
    }

    /// Speed and state of the network's interfaces; a name made of a hardware address
    /// (systemd.net-naming-scheme(7)) becomes another one.
    fn interfaces(&mut self) {
        for (i, name) in self.names("/sys/class/net").into_iter().enumerate() {
            let shown = if name.starts_with("enx") { format!("enx{i}") } else { name.clone() };
            for file in ["operstate", "speed"] {
                // Reading the speed of an interface without one fails with EINVAL: it is absent.
                if let Reading::Value(text) =
                    self.root.read(&format!("/sys/class/net/{name}/{file}"))
                {
                    let path = format!("/sys/class/net/{shown}/{file}");
                    self.entries.push(Entry { path, content: Content::Text(text) });
                }
            }
        }
    }

    fn block_devices(&mut self) {
        for number in self.names("/sys/dev/block") {
            let link = format!("/sys/dev/block/{number}");
            // Loop and zram devices that are not set up.
            if self.root.parse::<u64>(&format!("{link}/size")) == Reading::Value(0) {
                continue;
            }
            let Some(dir) = self.link(&link, &link) else { continue };
            let name = dir.rsplit('/').next().unwrap_or_default();
            let class = format!("/sys/class/block/{name}");
            self.link(&class, &class);
            for file in BLOCK {
                self.file(&format!("{link}/{file}"), &format!("{dir}/{file}"), |text| match file {
                    // Not DISKSEQ, PARTUUID, PARTNAME.
                    "uevent" => lines(&text, |line| {
                        ["MAJOR=", "MINOR=", "DEVNAME=", "DEVTYPE="]
                            .iter()
                            .any(|key| line.starts_with(key))
                    }),
                    _ => text,
                });
            }
            self.file(&format!("{link}/dm/uuid"), &format!("{dir}/dm/uuid"), |text| {
                text.split_once('-').map(|(maker, _)| format!("{maker}-\n")).unwrap_or_default()
            });
            for driver in ["device/driver", "device/device/driver"] {
                self.link(&format!("{link}/{driver}"), &format!("{dir}/{driver}"));
            }
            // The address says where the disk is plugged in; the first directory is the only one.
            if let Some(address) = self.names(&format!("{link}/device/scsi_disk")).first() {
                let file = |address: &str| format!("device/scsi_disk/{address}/cache_type");
                self.file(
                    &format!("{link}/{}", file(address)),
                    &format!("{dir}/{}", file("0:0:0:0")),
                    |text| text,
                );
            }
            for knob in self.names(&format!("{link}/queue/iosched")) {
                let file = format!("queue/iosched/{knob}");
                self.file(&format!("{link}/{file}"), &format!("{dir}/{file}"), |text| text);
            }
            for slave in self.names(&format!("{link}/slaves")) {
                self.link(&format!("{link}/slaves/{slave}"), &format!("{dir}/slaves/{slave}"));
            }
        }
    }

    fn backing_devices(&mut self) {
        for name in self.names("/sys/class/bdi") {
            let link = format!("/sys/class/bdi/{name}");
            if self.root.parse::<u64>(&format!("/sys/dev/block/{name}/size")) == Reading::Value(0) {
                continue;
            }
            let Some(dir) = self.link(&link, &link) else { continue };
            for file in BDI {
                self.file(&format!("{link}/{file}"), &format!("{dir}/{file}"), |text| text);
            }
            let stats = format!("/sys/kernel/debug/bdi/{name}/stats");
            self.file(&stats, &stats, |text| text);
        }
    }

    fn btrfs(&mut self) {
        let named: Vec<String> =
            self.names("/sys/fs/btrfs").into_iter().filter(|name| name != "features").collect();
        for (i, uuid) in named.iter().enumerate() {
            let (from, to) =
                (format!("/sys/fs/btrfs/{uuid}"), format!("/sys/fs/btrfs/filesystem-{}", i + 1));
            for device in self.names(&format!("{from}/devices")) {
                self.link(&format!("{from}/devices/{device}"), &format!("{to}/devices/{device}"));
            }
            self.link(&format!("{from}/bdi"), &format!("{to}/bdi"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_and_addresses_are_left_out() {
        assert_eq!(
            without_server(
                "36 22 0:44 / /mnt rw - nfs4 files.example.com:/exports \
                 rw,vers=4.2,clientaddr=10.0.0.5,addr=10.0.0.1"
            ),
            "36 22 0:44 / /mnt rw - nfs4 server:/exports rw,vers=4.2"
        );
        assert_eq!(
            without_server("37 22 0:45 / /win rw - cifs //nas/private rw,username=me,vers=3.1.1"),
            "37 22 0:45 / /win rw - cifs //server/share rw,vers=3.1.1"
        );
        let disk = "22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw,errors=remount-ro";
        assert_eq!(without_server(disk), disk);
    }
}
