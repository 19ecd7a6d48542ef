//! Userspace block servers: which processes serve this machine's block devices and FUSE
//! filesystems, and whether a dirty limit can stop them.
//!
//! ```text
//! FUSE mounts, ublkbN, nbdN ─ loop devices on their files ─▶ what is served
//! /proc/PID/fd: /dev/fuse (fdinfo: which mount), /dev/ublkcN; nbdN/pid ─▶ who serves it ─▶ Server
//! /proc/PID/task/*/stat, /proc/PID/fdinfo ─▶ PR_SET_IO_FLUSHER, buffered files ─▶ Server
//! Server … ─▶ Exposure: the dirty limits below which they can hang
//! ```
//!
//! Nothing below /proc is read on a machine that serves nothing to itself. Sizes are bytes.

mod exposure;
mod process;

use std::collections::BTreeMap;
use std::path::Path;

use floodwall_model::printable::printable;
use floodwall_model::status::{Served, Server};
use floodwall_model::{DeviceId, Reading};

use crate::bdi;
use crate::block;
use crate::mounts::{self, Mount};
use crate::queue;
use crate::root::SysRoot;
use crate::text::number_after;
use crate::topology;

pub use exposure::{Exposure, FuseLimits, fuse_limits, gap};

/// The things that a process serves.
struct Unit {
    way: Way,
    serves: Vec<Served>,
}

/// How the kernel reaches the server.
#[derive(PartialEq)]
enum Way {
    /// A FUSE connection has the number of its mount's device.
    Fuse(DeviceId),
    /// `ublkbN` is served through `/dev/ublkcN`.
    Ublk(u32, DeviceId),
    /// `nbdN`, by the process that set it up, or by the server that this one is connected to.
    Nbd(DeviceId),
}

impl Way {
    /// The number that filesystems on it have.
    fn device(&self) -> DeviceId {
        match self {
            Self::Fuse(id) | Self::Ublk(_, id) | Self::Nbd(id) => *id,
        }
    }
}

/// All servers of this machine, each process once. A server that no visible process is known to be
/// has no `pid`.
#[must_use]
pub fn read(root: &SysRoot) -> Vec<Server> {
    let mounts = mounts::read_mounts(root).into_value().unwrap_or_default();
    let units = units(root, &mounts);
    if units.is_empty() {
        return Vec::new();
    }
    let holders = Holders::read(root, &units);
    let mut by_pid: BTreeMap<u32, Vec<&Unit>> = BTreeMap::new();
    let mut not_known = Vec::new();
    for (index, unit) in units.iter().enumerate() {
        match holders.of(root, index, unit) {
            Ok(pids) => pids.into_iter().for_each(|pid| by_pid.entry(pid).or_default().push(unit)),
            Err(why) => not_known.push(unknown(unit, &why)),
        }
    }
    let known = by_pid.into_iter().map(|(pid, units)| server(root, pid, &units, &mounts));
    known.chain(not_known).collect()
}

/// A server, the devices that it serves, and its fault:
/// `loop0 and /fuse: served by pid 70 (serve), which has … open …`.
#[must_use]
pub fn describe(server: &Server) -> String {
    let mut serves: Vec<&str> = server.serves.iter().map(|served| served.name.as_str()).collect();
    // The filesystem below a loop device says nothing more.
    serves.sort_by_key(|name| name.starts_with('/'));
    let what = serves.join(" and ");
    let what = printable(&what);
    let Reading::Value(pid) = server.pid else {
        return format!(
            "{what}: its server can't be told ({})",
            server.pid.reason().unwrap_or_default()
        );
    };
    let writes = match &server.buffered {
        Reading::Value(path) => format!("has {} open for buffered writes", printable(path)),
        other => format!("may make buffered writes ({})", other.reason().unwrap_or_default()),
    };
    let flag = match server.io_flusher.reason() {
        None => "without PR_SET_IO_FLUSHER".to_owned(),
        Some(why) => format!("and may lack PR_SET_IO_FLUSHER ({why})"),
    };
    format!("{what}: served by pid {pid} ({}), which {writes} {flag}", printable(&server.name))
}

/// A process and all that it serves.
fn server(root: &SysRoot, pid: u32, units: &[&Unit], mounts: &[Mount]) -> Server {
    let is_served =
        |name: &str| units.iter().flat_map(|unit| &unit.serves).any(|served| served.name == name);
    let mut buffered = process::read_buffered(root, pid, mounts, is_served);
    let passes_on = units.iter().any(|unit| matches!(unit.way, Way::Nbd(_)));
    if passes_on && matches!(buffered, Reading::Absent(_)) && process::has_socket(root, pid) {
        buffered = Reading::Unreadable(
            "it passes requests to another process through a socket".to_owned(),
        );
    }
    Server {
        pid: Reading::Value(pid),
        name: root.read_line(&format!("/proc/{pid}/comm")).into_value().unwrap_or_default(),
        serves: units.iter().flat_map(|unit| unit.serves.clone()).collect(),
        io_flusher: process::read_io_flusher(root, pid),
        buffered,
    }
}

/// A server that can't be told.
fn unknown(unit: &Unit, why: &str) -> Server {
    Server {
        pid: Reading::Unreadable(why.to_owned()),
        name: String::new(),
        serves: unit.serves.clone(),
        io_flusher: Reading::Unreadable(why.to_owned()),
        buffered: Reading::Unreadable(why.to_owned()),
    }
}

/// FUSE mounts, ublk and NBD devices that are set up, each with the loop devices that stand on it.
fn units(root: &SysRoot, mounts: &[Mount]) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    for mount in mounts.iter().filter(|mount| is_fuse(&mount.fs_type)) {
        let way = Way::Fuse(mount.device);
        if units.iter().all(|unit| unit.way != way) {
            let served = filesystem(root, mount);
            units.push(Unit { way, serves: vec![served] });
        }
    }
    let mut loops = Vec::new();
    for (name, id) in devices(root) {
        if numbered(&name, "loop").is_some() {
            loops.push((name, id));
        } else if let Some(number) = numbered(&name, "ublkb") {
            units.push(Unit {
                way: Way::Ublk(number, id),
                serves: vec![block_device(root, name, id)],
            });
        } else if numbered(&name, "nbd").is_some()
            && root.exists(&format!("{}/pid", block::directory(id)))
        {
            units.push(Unit { way: Way::Nbd(id), serves: vec![block_device(root, name, id)] });
        }
    }
    if units.is_empty() {
        return units;
    }
    for (name, id) in loops {
        let below = below(root, mounts, id);
        for unit in units.iter_mut().filter(|unit| below.contains(&unit.way.device())) {
            unit.serves.push(block_device(root, name.clone(), id));
        }
    }
    units
}

/// A FUSE filesystem and its limits.
fn filesystem(root: &SysRoot, mount: &Mount) -> Served {
    let fuse_bdi = fuse_bdi(root, mount.device);
    let limits = bdi::read_limits(root, &fuse_bdi);
    Served {
        name: mount.mountpoint.display().to_string(),
        queue_bytes: Reading::Absent("a FUSE filesystem has no request queue".to_owned()),
        fuse_bdi,
        strict_limit: limits.strict_limit,
        max_ratio_percent: limits.max_ratio_percent,
    }
}

/// The name of a FUSE filesystem's backing device: its number, with what kind it is behind that on
/// some kernels (fs/fuse/inode.c `fuse_bdi_init`).
fn fuse_bdi(root: &SysRoot, id: DeviceId) -> Reading<String> {
    let names = [id.to_string(), format!("{id}-fuse"), format!("{id}-fuseblk")];
    // That of a fuseblk mount is not its disk's.
    let mut its = names.into_iter().skip(usize::from(id.major != 0));
    match its.find(|name| root.exists(&bdi::directory(name))) {
        Some(name) => Reading::Value(name),
        None => Reading::Absent(format!("{} does not exist", bdi::directory(&id.to_string()))),
    }
}

/// Whether a filesystem's server is a process of this machine (that of virtiofs is the
/// hypervisor's).
fn is_fuse(fs_type: &str) -> bool {
    matches!(fs_type, "fuse" | "fuseblk") || fs_type.starts_with("fuse.")
}

/// Names and numbers of block devices.
fn devices(root: &SysRoot) -> Vec<(String, DeviceId)> {
    let numbers = root.list("/sys/dev/block").into_value().unwrap_or_default();
    let device = |number: String| {
        let name = root.link_name(&format!("/sys/dev/block/{number}")).into_value()?;
        Some((name, number.parse().ok()?))
    };
    numbers.into_iter().filter_map(device).collect()
}

/// The number behind a driver's prefix: partitions have none.
fn numbered(name: &str, prefix: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.parse().ok()
}

/// The devices below a loop device, and the number of the FUSE mount that its file is on.
fn below(root: &SysRoot, mounts: &[Mount], id: DeviceId) -> Vec<DeviceId> {
    let file = root.read_line(&format!("{}/loop/backing_file", block::directory(id)));
    let Some(file) = file.into_value() else { return Vec::new() };
    // A deleted file stays open, and its path is all that is left of it (drivers/block/loop.c,
    // d_path).
    let path = file.strip_suffix(" (deleted)").unwrap_or(&file);
    let stack = topology::stack(root, mounts, id);
    let mut below: Vec<DeviceId> =
        stack.devices.iter().map(|device| device.id).filter(|d| *d != id).collect();
    below.extend(mounts::covering(mounts, Path::new(path)).map(|mount| mount.device));
    below
}

fn block_device(root: &SysRoot, name: String, id: DeviceId) -> Served {
    let directory = queue::directory(id);
    let requests = root.parse::<u64>(&format!("{directory}/nr_requests"));
    let kib = root.parse::<u64>(&format!("{directory}/max_sectors_kb"));
    // Each hardware queue has its own requests; a captured tree does not tell how many there are.
    let queues = root
        .list(&format!("{}/mq", block::directory(id)))
        .into_value()
        .map_or(1, |list| list.len().max(1));
    let bytes =
        |requests: u64, kib: u64| requests.saturating_mul(kib).saturating_mul(queues as u64 * 1024);
    let queue_bytes = match (requests, kib) {
        (Reading::Value(requests), Reading::Value(kib)) => Reading::Value(bytes(requests, kib)),
        _ => Reading::Unreadable(format!("the queue of {name} can't be read")),
    };
    let none = || "it is a block device".to_owned();
    Served {
        name,
        queue_bytes,
        fuse_bdi: Reading::Absent(none()),
        strict_limit: Reading::Absent(none()),
        max_ratio_percent: Reading::Absent(none()),
    }
}

/// The processes that hold the files through which devices are served.
#[derive(Default)]
struct Holders {
    /// Processes by the index of the unit.
    known: BTreeMap<usize, Vec<u32>>,
    /// Processes that serve some FUSE mount; before Linux 6.16 the kernel does not say which one.
    any_fuse: Vec<u32>,
    /// Processes that may not be looked at.
    unreadable: u64,
}

impl Holders {
    fn read(root: &SysRoot, units: &[Unit]) -> Self {
        let mut holders = Self::default();
        let names = root.list("/proc").into_value().unwrap_or_default();
        for pid in names.iter().filter_map(|name| name.parse::<u32>().ok()) {
            let descriptors = match root.list(&format!("/proc/{pid}/fd")) {
                Reading::Value(descriptors) => descriptors,
                Reading::Absent(_) => continue,
                Reading::Unreadable(_) => {
                    holders.unreadable += 1;
                    continue;
                }
            };
            for descriptor in descriptors {
                let link = root.link_target(&format!("/proc/{pid}/fd/{descriptor}")).into_value();
                match link.as_deref() {
                    Some("/dev/fuse") => holders.add_fuse(root, pid, &descriptor, units),
                    Some(link) => {
                        let number =
                            link.strip_prefix("/dev/").and_then(|name| numbered(name, "ublkc"));
                        let is =
                            |unit: &Unit| matches!(unit.way, Way::Ublk(n, _) if Some(n) == number);
                        if number.is_some() {
                            holders.add(units.iter().position(is), pid);
                        }
                    }
                    None => {}
                }
            }
        }
        holders
    }

    fn add(&mut self, index: Option<usize>, pid: u32) {
        let pids = index.map(|index| self.known.entry(index).or_default());
        if let Some(pids) = pids.filter(|pids| !pids.contains(&pid)) {
            pids.push(pid);
        }
    }

    fn add_fuse(&mut self, root: &SysRoot, pid: u32, descriptor: &str, units: &[Unit]) {
        let info =
            root.read(&format!("/proc/{pid}/fdinfo/{descriptor}")).into_value().unwrap_or_default();
        match number_after(&info, "fuse_connection") {
            Some(connection) => {
                // fs/fuse/dev.c `fuse_dev_show_fdinfo`: the superblock's dev_t,
                // major << 20 | minor.
                let id = DeviceId {
                    major: (connection >> 20) as u32,
                    minor: (connection & 0xf_ffff) as u32,
                };
                self.add(units.iter().position(|unit| unit.way == Way::Fuse(id)), pid);
            }
            None if !self.any_fuse.contains(&pid) => self.any_fuse.push(pid),
            None => {}
        }
    }

    /// The processes that may serve a unit, or why none can be told.
    fn of(&self, root: &SysRoot, index: usize, unit: &Unit) -> Result<Vec<u32>, String> {
        if let Way::Nbd(id) = unit.way {
            let pid = root.parse::<u32>(&format!("{}/pid", block::directory(id)));
            return match pid {
                Reading::Value(pid) if root.exists(&format!("/proc/{pid}")) => Ok(vec![pid]),
                _ => Err("the process that set it up is gone: the kernel speaks to the server"
                    .to_owned()),
            };
        }
        let known = self.known.get(&index).cloned().unwrap_or_default();
        let may_be =
            if matches!(unit.way, Way::Fuse(_)) { self.any_fuse.clone() } else { Vec::new() };
        match (known.is_empty(), may_be.is_empty()) {
            (false, _) => Ok(known),
            (true, false) => Ok(may_be),
            _ if self.unreadable > 0 => Err("its server is not to be seen without root".to_owned()),
            _ => Err("no process that can be seen from here serves it".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests;
