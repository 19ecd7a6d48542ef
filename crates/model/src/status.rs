//! What `status` shows: the state of a machine's write path at one moment, as plain data.
//!
//! ```text
//! host (two observations, one window apart) → Status → report (text, JSON)
//! ```
//!
//! Every number's name ends in its unit. A state that could not be read says why: "absent",
//! "unreadable" and "zero" are three different values ([`Reading`]).

use serde::{Deserialize, Serialize};

use crate::finding::Finding;
use crate::reading::Reading;
use crate::units::DeviceId;

/// Something that a result lacks, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Its name: a knob's (`wbt_lat_usec`), a file's or a feature's.
    pub what: String,
    /// The reason, as [`Reading::why`] gives it.
    pub why: String,
}

/// The state of a machine's write path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    /// Time between the two observations that every rate comes from, in seconds.
    pub window_s: f64,
    /// The machine as a whole.
    pub machine: Machine,
    /// Every backing device that holds a mounted filesystem, each once.
    pub devices: Vec<Device>,
    /// Mounted filesystems whose dirty pages no device of the list holds (overlay, ZFS …), with
    /// the reason.
    pub elsewhere: Vec<Elsewhere>,
    /// Processes that serve block devices or filesystems of this machine.
    pub servers: Vec<Server>,
    /// The processes that waited for a disk during the window, a process several times if it
    /// waited for several devices or in several calls; the longest wait first.
    pub waiters: Reading<Vec<Waiter>>,
    /// The processes that wrote most during the window.
    pub writers: Writers,
    /// What root would add, as parts of a sentence; empty if nothing was refused.
    pub root_would_add: Vec<String>,
    /// The faults, the worst first; empty until the checks have run.
    pub findings: Vec<Finding>,
}

/// Memory, limits and pressure of the whole machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// Kernel release (/proc/sys/kernel/osrelease).
    pub kernel: Reading<String>,
    /// The distribution, then those that it is like: `debian`; `rocky rhel centos fedora`
    /// (os-release(5) `ID` and `ID_LIKE`).
    pub distribution_ids: Reading<Vec<String>>,
    /// Time since boot (/proc/uptime), in seconds.
    pub uptime_s: Reading<f64>,
    /// Hierarchy of control groups in use.
    pub cgroup: Reading<String>,
    /// Controllers that are mounted as a hierarchy of version 1 (`memory`, `blkio` …); empty if
    /// none are.
    pub cgroup_v1_controllers: Vec<String>,
    /// Controllers that version 2 has here (cgroup.controllers of its mount).
    pub cgroup_v2_controllers: Reading<Vec<String>>,
    /// Size of a page.
    pub page_bytes: u64,
    /// CPUs online.
    pub cpus: Reading<u64>,
    /// CPUs that the kernel could have (/sys/devices/system/cpu/possible); its per-CPU counters
    /// are as many.
    pub possible_cpus: Reading<u64>,
    /// The sign of a container; absent without one.
    pub container: Reading<String>,
    /// Whether a hypervisor is below (the flag `hypervisor` of /proc/cpuinfo).
    pub virtualised: Reading<bool>,
    /// Whether the reader ran under a real-time or deadline policy: the kernel shows such a reader
    /// higher limits than other tasks have.
    pub reader_is_real_time: Reading<bool>,
    /// Usable RAM (/proc/meminfo `MemTotal`).
    pub ram_bytes: Reading<u64>,
    /// Page cache not yet under writeback (`Dirty`).
    pub dirty_bytes: Reading<u64>,
    /// Page cache under writeback (`Writeback`).
    pub writeback_bytes: Reading<u64>,
    /// Above this every writer is stopped (/proc/vmstat `nr_dirty_threshold`).
    pub hard_limit_bytes: Reading<u64>,
    /// Above this the flusher starts (`nr_dirty_background_threshold`).
    pub background_limit_bytes: Reading<u64>,
    /// The knob that the hard limit comes from.
    pub hard_limit_from: Reading<LimitKnob>,
    /// The knob that the background limit comes from.
    pub background_limit_from: Reading<LimitKnob>,
    /// The knobs of the limits and times, as they read.
    pub dirty_knobs: DirtyKnobs,
    /// Age at which dirty data is written (`vm.dirty_expire_centisecs`), in milliseconds.
    pub dirty_expire_ms: Reading<u64>,
    /// Interval of the flusher's periodic wakeups (`vm.dirty_writeback_centisecs`), in
    /// milliseconds; 0 switches them off.
    pub dirty_writeback_ms: Reading<u64>,
    /// Share of the last 10 s in which some task waited for I/O (/proc/pressure/io `some avg10`),
    /// in percent.
    pub psi_io_some_avg10_percent: Reading<f64>,
    /// Share of the last 10 s in which every task waited for I/O (`full avg10`), in percent.
    pub psi_io_full_avg10_percent: Reading<f64>,
    /// Swap areas in use, those in compressed memory (zram) left out.
    pub swaps: Reading<Vec<Swap>>,
}

/// The knobs of /proc/sys/vm behind the dirty limits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DirtyKnobs {
    /// `dirty_bytes`; 0 while the ratio is in force.
    pub hard_bytes: Reading<u64>,
    /// `dirty_ratio`; 0 while the bytes are in force.
    pub hard_ratio_percent: Reading<u64>,
    /// `dirty_background_bytes`.
    pub background_bytes: Reading<u64>,
    /// `dirty_background_ratio`.
    pub background_ratio_percent: Reading<u64>,
    /// `dirty_expire_centisecs`.
    pub expire_centisecs: Reading<i64>,
    /// `dirty_writeback_centisecs`; the kernel accepts negative numbers.
    pub writeback_centisecs: Reading<i64>,
}

/// A process that serves block devices or filesystems of this machine from userspace (FUSE, ublk,
/// NBD).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Server {
    /// Its number; absent or unreadable where the process can't be told.
    pub pid: Reading<u32>,
    /// Its name (/proc/PID/comm), as the process chose it.
    pub name: String,
    /// The things that it serves, and the loop devices on top of them.
    pub serves: Vec<Served>,
    /// Whether all its threads have set `PR_SET_IO_FLUSHER` (Linux 5.6); unreadable where it can't
    /// be told.
    pub io_flusher: Reading<bool>,
    /// A file or device that it has open for writing through the page cache; absent without one.
    pub buffered: Reading<String>,
}

impl Server {
    /// Whether a dirty limit may stop it while the machine waits for it. That needs a server that
    /// may dirty pages, and that has not told the kernel that it cleans other devices' pages.
    #[must_use]
    pub fn may_hang(&self) -> bool {
        self.io_flusher != Reading::Value(true) && !matches!(self.buffered, Reading::Absent(_))
    }
}

/// A device or filesystem that a process serves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Served {
    /// The kernel's name (`nbd0`, `loop1`), or where a FUSE filesystem is mounted.
    pub name: String,
    /// How much its queue holds (`nr_requests` × `max_sectors_kb` × hardware queues); absent for a
    /// filesystem.
    pub queue_bytes: Reading<u64>,
    /// The backing device's name in /sys/class/bdi; absent for a block device.
    pub fuse_bdi: Reading<String>,
    /// Of a filesystem: whether that backing device's limit is strict; absent before Linux 6.2.
    pub strict_limit: Reading<bool>,
    /// Of a filesystem: that backing device's share of the hard limit.
    pub max_ratio_percent: Reading<f64>,
}

/// A swap area (/proc/swaps).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Swap {
    /// The partition or file.
    pub path: String,
    /// The disks that it is on, by the kernel's names; empty if they are not known.
    pub disks: Vec<String>,
    /// Its size.
    pub size_bytes: u64,
    /// How much of it is in use.
    pub used_bytes: u64,
}

/// Of each pair of limits, one knob is in force: writing one zeroes the other
/// (mm/page-writeback.c).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKnob {
    /// A byte limit, in bytes.
    Bytes(u64),
    /// A share of the memory that could be dirtied (free pages and page cache, not RAM), in
    /// percent.
    RatioPercent(u64),
}

/// One backing device: what the kernel keeps dirty pages for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Device {
    /// The kernel's name (`sda`, `dm-0`), or the server for a network filesystem.
    pub name: String,
    /// Its number; `0:NN` for filesystems without a block device.
    pub id: DeviceId,
    /// The kind of device: `disk`, `crypt 'root'`, `raid1`, `loop over /srv/disk.img`, `nfs` …
    pub kind: String,
    /// Vendor and model.
    pub model: Reading<String>,
    /// The driver of the device behind it (`sd`, `virtio_blk`, `nvme`).
    pub driver: Reading<String>,
    /// Capacity.
    pub size_bytes: Reading<u64>,
    /// Whether a loop device reads and writes its file past the page cache; absent for all others.
    pub loop_direct_io: Reading<bool>,
    /// Whether it is on USB, has removable media, or is an SD card.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub removable: bool,
    /// The network link to the server; absent for local filesystems.
    pub link: Reading<Link>,
    /// Its entry in /sys/class/bdi (`8:0`, `btrfs-1`).
    pub bdi: Reading<String>,
    /// Filesystems on it, by mount point.
    pub mounts: Vec<MountedOn>,
    /// The devices from this one down to those that drain, as `dm-0 → md0 → sda + sdb`; only this
    /// one's name if it drains itself.
    pub path: String,
    /// Where the path could not be followed, and why.
    pub notes: Vec<String>,
    /// Pages dirtied and not yet under writeback (debugfs `BdiReclaimable`).
    pub dirty_bytes: Reading<u64>,
    /// Pages under writeback (debugfs `BdiWriteback`).
    pub writeback_bytes: Reading<u64>,
    /// Bytes that the block device completed writing during the window, a second
    /// (/proc/diskstats).
    pub written_bytes_per_s: Reading<f64>,
    /// How fast it drains, and how long that would take.
    pub drain: Drain,
    /// This device's present share of the hard limit (debugfs `BdiDirtyThresh`).
    pub device_limit_bytes: Reading<u64>,
    /// Limits of this device alone.
    pub limits: DeviceLimits,
    /// Its own request queue.
    pub queue: Queue,
    /// The devices that really drain, where that is not this one.
    pub leaves: Vec<Leaf>,
}

/// How fast a device drains.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drain {
    /// Bytes per second.
    pub rate_bytes_per_s: Reading<f64>,
    /// Where the rate comes from.
    pub from: DrainSource,
    /// (dirty + writeback) / rate, in seconds.
    pub now_s: Reading<f64>,
    /// What the whole hard limit would take, in seconds.
    pub hard_limit_s: Reading<f64>,
    /// What the whole background limit would take, in seconds.
    pub background_limit_s: Reading<f64>,
}

/// The kernel's own first guess of a drain rate, in bytes a second (mm/backing-dev.c `INIT_BW`). It
/// stands in for a rate that is not known.
pub const FIRST_GUESS: f64 = 100e6;

/// Where a drain rate comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DrainSource {
    /// Bytes written during the window by a device that was backlogged at both of its ends.
    Seen,
    /// The same of earlier windows of the same program: the device is not backlogged now.
    SeenEarlier,
    /// The kernel's running mean (debugfs `BdiWriteBandwidth`), which keeps its last value while
    /// the device idles.
    KernelEstimate,
    /// Nothing is known. A reader takes words that it does not know for this one.
    #[default]
    #[serde(other)]
    Unknown,
}

impl DrainSource {
    /// Whether the device wrote so fast while it was backlogged, now or earlier.
    #[must_use]
    pub fn is_seen(self) -> bool {
        matches!(self, Self::Seen | Self::SeenEarlier)
    }
}

/// A filesystem on a device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct MountedOn {
    /// Where.
    pub mountpoint: String,
    /// Its type (`ext4`).
    pub filesystem: String,
    /// The partition or member through which it is on the device, if not the device itself.
    pub through: Option<String>,
    /// Whether the mount or the filesystem is read-only.
    pub read_only: bool,
    /// The mount's and the filesystem's options, without names and addresses of servers and users.
    pub options: Vec<String>,
}

/// The network link that a filesystem's server is reached through.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Link {
    /// The interface.
    pub interface: String,
    /// Its speed (/sys/class/net/NAME/speed), in bytes a second.
    pub bytes_per_s: f64,
    /// How the interface was found, for people.
    pub found_by: String,
}

/// A filesystem whose dirty pages no listed device holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Elsewhere {
    /// Where it is mounted.
    pub mountpoint: String,
    /// Its type.
    pub filesystem: String,
    /// The reason why it has no row.
    pub why: String,
}

/// Limits of one backing device (/sys/class/bdi/ID).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceLimits {
    /// Whether the device's own limit holds even while the machine is below its own; since kernel
    /// 6.2.
    pub strict_limit: Reading<bool>,
    /// Largest share of the hard limit, in percent.
    pub max_ratio_percent: Reading<f64>,
    /// Share of the hard limit kept for it, in percent.
    pub min_ratio_percent: Reading<f64>,
    /// Read-ahead, in KiB.
    pub read_ahead_kib: Reading<u64>,
}

/// A request queue's settings (/sys/block/NAME/queue).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Queue {
    /// The elevator in use.
    pub scheduler: Reading<String>,
    /// The elevators that may be chosen. Others may be in modules that are not loaded.
    pub offered: Reading<Vec<String>>,
    /// Requests that may be queued.
    pub nr_requests: Reading<u64>,
    /// Target latency of writeback throttling, in microseconds; 0 is off.
    pub wbt_lat_us: Reading<u64>,
    /// `write back` (the device has a volatile cache) or `write through`, as the kernel believes.
    pub write_cache: Reading<String>,
    /// What the device itself told of its cache when it was found (`cache_type` of a SCSI or SATA
    /// disk).
    pub device_cache: Reading<String>,
    /// Requests that everything but synchronous reads may take (`iosched/async_depth` of
    /// mq-deadline).
    pub async_depth: Reading<u64>,
    /// The same of every elevator (`queue/async_depth`), which in Linux 7 has taken the place of
    /// mq-deadline's own.
    pub queue_async_depth: Reading<u64>,
    /// How long mq-deadline may pass a write over, in milliseconds (`iosched/write_expire`).
    pub write_expire_ms: Reading<u64>,
    /// Whether the device takes forced-unit-access writes.
    pub fua: Reading<bool>,
    /// Whether it seeks, as the kernel believes.
    pub rotational: Reading<bool>,
    /// Largest request, in KiB.
    pub max_sectors_kib: Reading<u64>,
    /// 0 merges all it can, 1 only simple ones, 2 none.
    pub nomerges_level: Reading<u64>,
    /// 0 completes anywhere, 1 in the submitter's group of CPUs, 2 on its CPU.
    pub rq_affinity_level: Reading<u64>,
}

/// A device that really drains, below another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Leaf {
    /// The kernel's name.
    pub name: String,
    /// Its number.
    pub id: DeviceId,
    /// Vendor and model.
    pub model: Reading<String>,
    /// The driver of the device behind it.
    pub driver: Reading<String>,
    /// Capacity.
    pub size_bytes: Reading<u64>,
    /// Bytes that it completed writing during the window, a second (/proc/diskstats).
    pub written_bytes_per_s: Reading<f64>,
    /// Its request queue.
    pub queue: Queue,
}

/// What a process waited for on a device during the window: one kind of call, or its reads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Waiter {
    /// Its number; 0 for all processes that were too many to be told apart.
    pub pid: u32,
    /// Its name (/proc/PID/comm).
    pub name: String,
    /// The disk, by the kernel's name.
    pub device: Reading<String>,
    /// The kind of call (`fsync`, …) or `read`; absent while the first one is under way.
    pub call: Reading<String>,
    /// Calls that ended, a second.
    pub calls_per_s: f64,
    /// Half of these calls were faster, in microseconds; absent if none ended.
    pub p50_us: Reading<f64>,
    /// 99 % of them were faster.
    pub p99_us: Reading<f64>,
    /// The slowest.
    pub max_us: Reading<f64>,
    /// The time that its threads waited in them, added up. The first row's includes the longest
    /// call under way, as far as it lies in the window.
    pub waited_us: f64,
    /// That time as a share of the window; threads that wait at the same time add up, to 100 % at
    /// most.
    pub waited_percent: f64,
    /// Calls and reads of any kind under way at the window's end. In a process's first row alone.
    pub waiting_calls: u32,
    /// How long the longest of them had been under way, in microseconds.
    pub oldest_us: f64,
}

/// The writers of the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Writers {
    /// The processes that dirtied most, largest first. Where a probe looked on, also processes that
    /// were only throttled, and a process once a device.
    pub top: Vec<Writer>,
    /// Processes whose counters could be read at the window's end.
    pub readable_processes: u64,
    /// Processes whose counters could not be read (other users' without root).
    pub unreadable_processes: u64,
    /// Why the list as a whole is missing, if it is.
    pub missing: Option<String>,
}

/// One process that wrote (/proc/PID/io; pages count when they are dirtied, not when they reach the
/// device).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Writer {
    /// Its number.
    pub pid: u32,
    /// Its name (/proc/PID/comm), at most 15 bytes.
    pub comm: Reading<String>,
    /// Bytes that it dirtied during the window (`write_bytes`), a second.
    pub dirtied_bytes_per_s: f64,
    /// Dirty bytes that it took back during the window by truncating or deleting
    /// (`cancelled_write_bytes`), a second.
    pub cancelled_bytes_per_s: f64,
    /// The disk that it is believed to write to, by the kernel's name; only a probe tells.
    pub device: Reading<String>,
    /// Share of the window that it slept because too much was dirty; its threads' sleep adds up, to
    /// 100 % at most. Only a probe tells.
    pub throttled_percent: Reading<f64>,
}
