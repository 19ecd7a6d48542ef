//! Frames of synthetic machines. Figures change with each frame; names and settings stay.

use floodwall_model::diagnosis::Verdict;
use floodwall_model::frame::{
    Disk, Frame, Group, Guard, GuardedDisk, Machine, Process, Queue, Requests, Waits,
};
use floodwall_model::workload::Workload;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// From one frame to the next.
pub(crate) const WINDOW_MS: u64 = 5_000;
const GIB: u64 = 1 << 30;

/// A machine whose frames follow each other.
pub(crate) struct Host {
    random: Pcg64Mcg,
    at_unix_ms: u64,
    disks: u32,
    processes: u32,
    is_busy: bool,
}

impl Host {
    /// Five disks and three processes. One disk is written now and then.
    pub(crate) fn idle(at_unix_ms: u64) -> Self {
        let random = Pcg64Mcg::seed_from_u64(1);
        Self { random, at_unix_ms, disks: 5, processes: 3, is_busy: false }
    }

    /// Five disks and 220 processes in containers. Of those, 200 write and wait in a frame.
    pub(crate) fn busy(at_unix_ms: u64) -> Self {
        Self { processes: 220, is_busy: true, ..Self::idle(at_unix_ms) }
    }

    /// The next frame.
    pub(crate) fn frame(&mut self) -> Frame {
        self.at_unix_ms += WINDOW_MS + self.below(3);
        let backlog = if self.is_busy { self.around(3 * GIB) } else { self.around(GIB / 500) };
        Frame {
            at_unix_ms: self.at_unix_ms,
            window_ms: WINDOW_MS + self.below(3),
            source: "bpf".into(),
            machine: Machine {
                name: "db-17.example.org".into(),
                ram_bytes: Some(64 * GIB - 12_345_344),
                dirty_bytes: Some(backlog),
                writeback_bytes: Some(self.around(backlog / 50)),
                hard_limit_bytes: Some(12 * GIB + 81_920 + 4096 * self.below(99_999)),
                background_limit_bytes: Some(6 * GIB + 40_960 + 4096 * self.below(49_999)),
                waited_percent: Some(self.percent()),
            },
            disks: (0..self.disks).map(|n| self.disk(n)).collect(),
            processes: self.processes(),
            guard: Some(self.guard()),
            ..Frame::default()
        }
    }

    fn disk(&mut self, number: u32) -> Disk {
        let is_used = self.is_busy || (number == 0 && self.below(3) == 0);
        let used = |value: u64| Some(if is_used { value } else { 0 });
        Disk {
            name: format!("nvme{number}n1"),
            id: format!("259:{}", number * 4),
            verdict: if is_used { Verdict::Flooding } else { Verdict::default() },
            model: Some("SAMSUNG MZQL23T8HCLS-00A07".into()),
            mounts: vec![format!("/srv/data{number}")],
            backlog_bytes: used(self.around(GIB / 2)),
            drain_bytes_per_s: used(self.around(GIB)),
            drain_ms: used(self.around(600)),
            hard_limit_ms: used(self.around(6_000)),
            read_bytes_per_s: used(self.around(GIB / 4)),
            written_bytes_per_s: used(self.around(GIB)),
            busy_percent: Some(if is_used { self.percent() } else { 0.0 }),
            in_flight: used(self.below(200)),
            requests: if is_used { self.requests() } else { Vec::new() },
            queue: Queue {
                scheduler: Some("none".into()),
                nr_requests: Some(1023),
                max_sectors_kib: Some(1280),
                wbt_lat_us: Some(2000),
                strict_limit: Some(false),
            },
            ..Disk::default()
        }
    }

    fn requests(&mut self) -> Vec<Requests> {
        let classes = ["read", "sync_write", "async_write", "flush"];
        let class = |class: &&str| Requests {
            class: (*class).to_owned(),
            count: self.around(3_000),
            bytes: self.around(GIB),
            queue_p50_us: Some(self.around(30)),
            queue_p99_us: Some(self.around(4_000)),
            device_p50_us: Some(self.around(300)),
            device_p99_us: Some(self.around(9_000)),
            device_max_us: Some(self.around(30_000)),
        };
        classes.iter().map(class).collect()
    }

    fn processes(&mut self) -> Vec<Process> {
        let mut used: Vec<u32> = (0..self.processes).collect();
        for _ in 0..self.processes / 11 {
            used.remove(self.below(used.len() as u64) as usize);
        }
        used.into_iter().map(|number| self.process(number)).collect()
    }

    fn process(&mut self, number: u32) -> Process {
        // What a runtime calls a container is as hard to compress as its number.
        let id = u64::from(number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let unit = format!("cri-containerd-{id:016x}{:016x}.scope", id.rotate_left(29));
        // A process whose commits are slow in one frame has slow commits in others.
        let is_victim = self.is_busy && number % 15 == 3 && self.below(4) > 0;
        let is_flood = number % 50 == 1;
        let group = Group {
            path: format!("kubepods.slice/kubepods-burstable.slice/{unit}"),
            memory_bytes: is_flood.then(|| self.around(GIB)),
            is_limited: false,
        };
        Process {
            pid: 1_000 + number * 37,
            name: ["postgres", "mysqld", "etcd", "rsync", "java"][number as usize % 5].into(),
            workload: Workload {
                unit: Some(unit),
                container: Some(format!("worker-{}", number % 7)),
                pod: Some(format!("tenant-{}/app-{:08x}-{number}", number % 13, id >> 32)),
            },
            disk: Some(format!("nvme{}n1", u64::from(number) % u64::from(self.disks))),
            group: Some(group).filter(|_| is_victim || is_flood),
            is_victim,
            is_flood,
            waits: if self.is_busy || self.below(4) == 0 { vec![self.waits()] } else { Vec::new() },
            dirtied_bytes: Some(self.around(GIB / 100)),
            throttled_ms: if self.is_busy && self.below(4) == 0 { self.around(700) } else { 0 },
            backlog_percent: Some(self.percent() / 50.0),
            ..Process::default()
        }
    }

    fn waits(&mut self) -> Waits {
        let (count, p50_us) = (self.around(150), self.around(1_200));
        let octaves = (0..6).map(|n| (8 + n, 1 + self.below(count / 3 + 1))).collect();
        Waits {
            call: "fdatasync".into(),
            count,
            p50_us,
            p99_us: (count >= 100).then(|| self.around(20_000)),
            max_us: self.around(40_000),
            sum_us: count * self.around(2_000),
            octaves,
        }
    }

    fn guard(&mut self) -> Guard {
        let guarded = |number: u32| GuardedDisk {
            name: format!("nvme{number}n1"),
            state: if self.is_busy { "pace" } else { "free" }.into(),
            since_s: self.at_unix_ms / 1000 - 1_795_000_000,
            goal_us: 10_000,
            levers: self.is_busy.then(|| format!("io.max {} MB/s", self.random.next_u64() % 900)),
            ..GuardedDisk::default()
        };
        let disks = (0..self.disks).map(guarded).collect();
        Guard { mode: "protect".into(), disks, ..Guard::default() }
    }

    /// A number below another one.
    fn below(&mut self, end: u64) -> u64 {
        self.random.next_u64() % end.max(1)
    }

    /// A number of a magnitude: from a quarter of it to four times as much.
    fn around(&mut self, magnitude: u64) -> u64 {
        let exponent = self.below(4_000) as f64 / 1_000.0 - 2.0;
        (magnitude as f64 * exponent.exp2()) as u64
    }

    fn percent(&mut self) -> f32 {
        self.below(100_000_000) as f32 / 1_000_000.0
    }
}
