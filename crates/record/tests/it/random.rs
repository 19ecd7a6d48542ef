//! Frames in which every field may be there or not, with hostile names.

use floodwall_model::diagnosis::Verdict;
use floodwall_model::finding::Severity;
use floodwall_model::frame::{
    Disk, Finding, Frame, Group, Guard, GuardedDisk, Machine, Process, Queue, Requests, Waits,
};
use floodwall_model::status::DrainSource;
use floodwall_model::workload::Workload;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const NAMES: [&str; 8] =
    ["sda", "", "db\u{1b}[31m", "\"'\\", "größe", "\u{202e}gpj", "# HELP", "a,b\n\"c\""];

/// Draws frames.
pub(crate) struct Random(Pcg64Mcg);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// A frame of a moment.
    pub(crate) fn frame(&mut self, at_unix_ms: u64) -> Frame {
        Frame {
            at_unix_ms,
            window_ms: self.number(),
            source: self.name(),
            machine: Machine {
                name: self.name(),
                ram_bytes: self.maybe(Self::number),
                dirty_bytes: self.maybe(Self::number),
                writeback_bytes: self.maybe(Self::number),
                hard_limit_bytes: self.maybe(Self::number),
                background_limit_bytes: self.maybe(Self::number),
                waited_percent: self.maybe(Self::percent),
            },
            disks: self.some(Self::disk),
            processes: self.some(Self::process),
            guard: self.maybe(Self::guard),
            findings: self.some(|random| Finding {
                id: random.name(),
                severity: Severity::Warning,
                title: random.name(),
                subjects: random.some(Self::name),
            }),
            unseen: self.some(Self::name),
            root_would_add: self.some(Self::name),
            lost_events: self.number(),
        }
    }

    fn disk(&mut self) -> Disk {
        Disk {
            name: self.name(),
            id: self.name(),
            verdict: if self.bool() { Verdict::Stalling } else { Verdict::Quiet },
            model: self.maybe(Self::name),
            mounts: self.some(Self::name),
            backlog_bytes: self.maybe(Self::number),
            drain_bytes_per_s: self.maybe(Self::number),
            drain_from: DrainSource::default(),
            drain_ms: self.maybe(Self::number),
            hard_limit_ms: self.maybe(Self::number),
            peak_backlog_bytes: self.maybe(Self::number),
            limit_bytes: self.maybe(Self::number),
            read_bytes_per_s: self.maybe(Self::number),
            written_bytes_per_s: self.maybe(Self::number),
            busy_percent: self.maybe(Self::percent),
            in_flight: self.maybe(Self::number),
            requests: self.some(|random| Requests {
                class: random.name(),
                count: random.number(),
                queue_p99_us: random.maybe(Self::number),
                ..Requests::default()
            }),
            queue: Queue {
                scheduler: self.maybe(Self::name),
                strict_limit: self.maybe(Self::bool),
                ..Queue::default()
            },
        }
    }

    fn process(&mut self) -> Process {
        Process {
            pid: self.0.next_u32() % 4,
            name: self.name(),
            workload: Workload {
                unit: self.maybe(Self::name),
                container: self.maybe(Self::name),
                pod: self.maybe(Self::name),
            },
            group: self.maybe(|random| Group {
                path: random.name(),
                memory_bytes: random.maybe(Self::number),
                is_limited: random.bool(),
            }),
            disk: self.maybe(Self::name),
            is_victim: self.bool(),
            is_flood: self.bool(),
            waits: self.some(|random| Waits {
                call: random.name(),
                count: random.number(),
                p99_us: random.maybe(Self::number),
                octaves: random.some(|random| (random.0.next_u32() as u8, random.number())),
                ..Waits::default()
            }),
            waiting: self.number(),
            oldest_us: self.number(),
            oldest_call: self.maybe(Self::name),
            dirtied_bytes: self.maybe(Self::number),
            throttled_ms: self.number(),
            backlog_percent: self.maybe(Self::percent),
        }
    }

    fn guard(&mut self) -> Guard {
        Guard {
            mode: self.name(),
            dry_run: self.bool(),
            paused_s: self.maybe(Self::number),
            disks: self.some(|random| GuardedDisk {
                name: random.name(),
                levers: random.maybe(Self::name),
                pressure_percent: random.maybe(Self::percent),
                held: random.some(Self::name),
                ..GuardedDisk::default()
            }),
            left_out: self.some(Self::name),
        }
    }

    fn some<T>(&mut self, draw: impl Fn(&mut Self) -> T) -> Vec<T> {
        let count = self.0.next_u32() % 4;
        (0..count).map(|_| draw(self)).collect()
    }

    fn maybe<T>(&mut self, draw: impl Fn(&mut Self) -> T) -> Option<T> {
        self.bool().then(|| draw(self))
    }

    fn bool(&mut self) -> bool {
        self.0.next_u32() & 1 == 0
    }

    fn number(&mut self) -> u64 {
        let bits = self.0.next_u32() % 65;
        self.0.next_u64().checked_shr(bits).unwrap_or(0)
    }

    fn percent(&mut self) -> f32 {
        self.0.next_u32() as f32 / 4e7
    }

    fn name(&mut self) -> String {
        NAMES[self.0.next_u32() as usize % NAMES.len()].to_owned()
    }
}
