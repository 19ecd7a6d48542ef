//! A machine with which nothing is wrong, for tests to spoil.

use floodwall_model::finding::Finding;
use floodwall_model::status::{
    Device, DeviceLimits, DirtyKnobs, Drain, DrainSource, Leaf, LimitKnob, MountedOn, Queue,
    Status, Writers,
};
use floodwall_model::workload::Workload;
use floodwall_model::{DeviceId, Managers, Reading};

use super::{DiskUser, Facts, JournalFacts, look};

/// Everything that checks conclude from.
pub(crate) struct Machine {
    pub(crate) status: Status,
    pub(crate) journal: JournalFacts,
    pub(crate) managers: Managers,
    pub(crate) disk_users: Vec<DiskUser>,
}

/// The finding of an identifier, if there is one.
pub(crate) fn found(machine: &Machine, id: &str) -> Option<Finding> {
    look(machine.facts()).into_iter().find(|finding| finding.id == id)
}

fn absent<T>(why: &str) -> Reading<T> {
    Reading::Absent(why.to_owned())
}

/// A SATA SSD that drains 200 MB/s, with ext4 on it.
pub(crate) fn disk(name: &str) -> Device {
    let minor = u32::from(name.bytes().last().unwrap_or_default().saturating_sub(b'a')) * 16;
    Device {
        name: name.to_owned(),
        id: DeviceId { major: 8, minor },
        kind: "disk".into(),
        model: Reading::Value("Model 870".into()),
        driver: Reading::Value("sd".into()),
        size_bytes: Reading::Value(1 << 40),
        loop_direct_io: absent("not a loop device"),
        removable: false,
        link: absent("it is not on a server"),
        bdi: Reading::Value(format!("8:{minor}")),
        mounts: vec![MountedOn {
            mountpoint: format!("/mnt/{name}"),
            filesystem: "ext4".into(),
            through: None,
            read_only: false,
            options: vec!["rw".into(), "relatime".into()],
        }],
        path: name.to_owned(),
        notes: Vec::new(),
        dirty_bytes: Reading::Value(0),
        writeback_bytes: Reading::Value(0),
        written_bytes_per_s: Reading::Value(0.0),
        drain: Drain {
            rate_bytes_per_s: Reading::Value(200e6),
            from: DrainSource::Seen,
            now_s: Reading::Value(0.0),
            hard_limit_s: absent(""),
            background_limit_s: absent(""),
        },
        device_limit_bytes: Reading::Value(0),
        limits: DeviceLimits {
            strict_limit: Reading::Value(false),
            max_ratio_percent: Reading::Value(100.0),
            min_ratio_percent: Reading::Value(0.0),
            read_ahead_kib: Reading::Value(128),
        },
        queue: queue(),
        leaves: Vec::new(),
    }
}

fn queue() -> Queue {
    Queue {
        scheduler: Reading::Value("mq-deadline".into()),
        offered: Reading::Value(["none", "mq-deadline", "kyber", "bfq"].map(Into::into).into()),
        nr_requests: Reading::Value(64),
        wbt_lat_us: Reading::Value(2000),
        write_cache: Reading::Value("write back".into()),
        device_cache: Reading::Value("write back".into()),
        async_depth: Reading::Value(48),
        queue_async_depth: Reading::Absent("a kernel before 7".into()),
        write_expire_ms: Reading::Value(5000),
        fua: Reading::Value(false),
        rotational: Reading::Value(false),
        max_sectors_kib: Reading::Value(1280),
        nomerges_level: Reading::Value(0),
        rq_affinity_level: Reading::Value(1),
    }
}

/// The control group of a database's unit.
const DATABASE: &str = "/system.slice/postgresql.service";

/// A process that uses the first disk, in that group.
pub(crate) fn disk_user(pid: u32, name: &str, waited_s: f64, dirtied_bytes: u64) -> DiskUser {
    let disk = DeviceId { major: 8, minor: 0 };
    let group = Reading::Value(DATABASE.to_owned());
    let name = name.to_owned();
    let commits = u64::from(waited_s > 0.0);
    DiskUser {
        pid,
        name,
        disk,
        waited_s,
        committing_s: waited_s,
        commits,
        waits_for_commits: true,
        median_s: (waited_s > 0.0).then_some(waited_s),
        oldest_s: 0.0,
        dirtied_bytes,
        earlier_bytes: 0,
        group,
        workload: Workload::default(),
    }
}

impl Machine {
    /// 6.18, 16 GiB, 8 CPUs, byte limits sized for its one disk, control groups of version 2, PSI.
    pub(crate) fn healthy() -> Self {
        let status = Status {
            window_s: 1.0,
            machine: floodwall_model::status::Machine {
                kernel: Reading::Value("6.18.0".into()),
                distribution_ids: absent("/etc/os-release does not exist"),
                uptime_s: Reading::Value(1e5),
                cgroup: Reading::Value("v2".into()),
                cgroup_v1_controllers: Vec::new(),
                cgroup_v2_controllers: Reading::Value(vec!["io".into(), "memory".into()]),
                page_bytes: 4096,
                cpus: Reading::Value(8),
                possible_cpus: Reading::Value(8),
                container: absent("nothing tells of a container"),
                virtualised: Reading::Value(false),
                reader_is_real_time: Reading::Value(false),
                ram_bytes: Reading::Value(16 << 30),
                dirty_bytes: Reading::Value(0),
                writeback_bytes: Reading::Value(0),
                hard_limit_bytes: Reading::Value(192 << 20),
                background_limit_bytes: Reading::Value(32 << 20),
                hard_limit_from: Reading::Value(LimitKnob::Bytes(192 << 20)),
                background_limit_from: Reading::Value(LimitKnob::Bytes(32 << 20)),
                dirty_knobs: DirtyKnobs {
                    hard_bytes: Reading::Value(192 << 20),
                    hard_ratio_percent: Reading::Value(0),
                    background_bytes: Reading::Value(32 << 20),
                    background_ratio_percent: Reading::Value(0),
                    expire_centisecs: Reading::Value(3000),
                    writeback_centisecs: Reading::Value(500),
                },
                dirty_expire_ms: Reading::Value(30_000),
                dirty_writeback_ms: Reading::Value(5_000),
                psi_io_some_avg10_percent: Reading::Value(0.0),
                psi_io_full_avg10_percent: Reading::Value(0.0),
                swaps: Reading::Value(Vec::new()),
            },
            devices: vec![disk("sda")],
            elsewhere: Vec::new(),
            servers: Vec::new(),
            waiters: absent("no probe"),
            writers: Writers::default(),
            root_would_add: Vec::new(),
            findings: Vec::new(),
        };
        let mut machine = Self {
            status,
            journal: JournalFacts::default(),
            managers: Managers::default(),
            disk_users: Vec::new(),
        };
        machine.persist("vm.dirty_bytes", "201326592");
        machine.persist("vm.dirty_background_bytes", "33554432");
        machine
    }

    pub(crate) fn facts(&self) -> Facts<'_> {
        Facts {
            status: &self.status,
            journal: &self.journal,
            managers: &self.managers,
            disk_users: &self.disk_users,
        }
    }

    /// Both limits as byte limits that are in force; persistent too.
    pub(crate) fn limits(&mut self, hard: u64, background: u64) {
        let machine = &mut self.status.machine;
        machine.hard_limit_bytes = Reading::Value(hard);
        machine.background_limit_bytes = Reading::Value(background);
        machine.dirty_knobs.hard_bytes = Reading::Value(hard);
        machine.dirty_knobs.background_bytes = Reading::Value(background);
        self.managers.claims.clear();
        self.persist("vm.dirty_bytes", &hard.to_string());
        self.persist("vm.dirty_background_bytes", &background.to_string());
    }

    /// Both hard limits; the kernel turns them into zero.
    pub(crate) fn knobs(&mut self, bytes: u64, ratio: u64) {
        let machine = &mut self.status.machine;
        machine.dirty_knobs.hard_bytes = Reading::Value(bytes);
        machine.dirty_knobs.hard_ratio_percent = Reading::Value(ratio);
        machine.hard_limit_bytes = Reading::Value(0);
        self.managers.claims.clear();
        self.persist("vm.dirty_ratio", &ratio.to_string());
        self.persist("vm.dirty_background_bytes", "33554432");
    }

    pub(crate) fn kernel(&mut self, release: &str) {
        self.status.machine.kernel = Reading::Value(release.to_owned());
    }

    /// So much waits on the first disk.
    pub(crate) fn backlog(&mut self, bytes: u64) {
        let device = &mut self.status.devices[0];
        device.dirty_bytes = Reading::Value(bytes);
        device.drain.now_s = Reading::Value(bytes as f64 / 200e6);
    }

    /// A claim by sysctl.d that is in force.
    pub(crate) fn persist(&mut self, knob: &str, value: &str) {
        self.managers.claims.push(super::others::claim(knob, value));
    }

    /// A disk below another device.
    pub(crate) fn leaf(&self, name: &str) -> Leaf {
        let disk = disk(name);
        Leaf {
            name: disk.name,
            id: disk.id,
            model: disk.model,
            driver: disk.driver,
            size_bytes: disk.size_bytes,
            written_bytes_per_s: disk.written_bytes_per_s,
            queue: disk.queue,
        }
    }

    /// A device-mapper device over others.
    pub(crate) fn stacked(&self, name: &str, leaves: Vec<Leaf>) -> Device {
        let mut device = disk(name);
        device.name = name.to_owned();
        device.id = DeviceId { major: 253, minor: 0 };
        device.kind = "lvm".into();
        device.model = absent("it is virtual");
        device.driver = absent("it is virtual");
        device.queue.scheduler = Reading::Value("none".into());
        device.queue.wbt_lat_us = absent("no writeback throttling");
        device.queue.device_cache = absent("it is no disk");
        device.leaves = leaves;
        device
    }
}
