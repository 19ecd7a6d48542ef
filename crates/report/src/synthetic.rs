//! Made-up runs for tests: every number is chosen, so that what a table or a sentence should say
//! can be worked out by hand.

use floodwall_model::trial::{
    BurstTotals, DeviceSample, HostSample, Interval, LoadTotals, OpLatencies, Warmup,
};
use floodwall_model::{LatencyCounts, Phase, PhaseKind, Scenario, Setting, Trial, scenario};

use floodwall_stats::estimate::Estimate;

use crate::schema::contest::{Contender, Contest, Outcome, Recommended};
use crate::schema::{Document, ResultDevice, ResultFilesystem, ResultHost, Run};

/// Seconds of each phase.
pub(crate) const SECONDS: usize = 12;

/// What a victim gets in one second: operations, and how long each of them takes.
pub(crate) type OpsSecond = (u32, u64);

const MS: u64 = 1_000_000;

/// One run: what victims get alone and beside the flood, as a function of round and second.
pub(crate) struct Made {
    pub(crate) scenario: Scenario,
    pub(crate) rounds: u32,
    pub(crate) alone: fn(u32, usize) -> OpsSecond,
    pub(crate) beside: fn(u32, usize) -> OpsSecond,
    pub(crate) reads: bool,
    pub(crate) timed: bool,
}

impl Made {
    /// The 2010 disaster: 1,500 commits a second alone, a few dozen in three seconds of twelve
    /// beside the flood.
    pub(crate) fn damage() -> Self {
        Self {
            scenario: scenario::builtin("copy-vs-database").unwrap().unwrap(),
            rounds: 3,
            alone: |round, _| (1_500 + 8 * round, MS),
            beside: |_, s| if s % 4 == 3 { (160, 20 * MS) } else { (1, 1_170 * MS) },
            reads: false,
            timed: true,
        }
    }

    /// Nothing happens: 99 % of the commits, the same latency.
    pub(crate) fn harmless() -> Self {
        Self { beside: |_, s| (1_490 + s as u32 % 3, MS + 50_000), ..Self::damage() }
    }

    /// Rounds differ more than the flood does.
    pub(crate) fn inconclusive() -> Self {
        Self {
            alone: |round, _| (1_000 * round, MS),
            beside: |round, s| (1_800 / round + s as u32 % 2, MS),
            ..Self::damage()
        }
    }

    /// Random reads, as in `unpack-vs-reads`.
    pub(crate) fn reads() -> Self {
        Self {
            scenario: scenario::builtin("unpack-vs-reads").unwrap().unwrap(),
            reads: true,
            beside: |_, s| (300 + s as u32 % 2, 5 * MS),
            ..Self::damage()
        }
    }

    pub(crate) fn document(&self) -> Document {
        Document::new(run(), &self.scenario, self.trials(), None).unwrap()
    }

    pub(crate) fn trials(&self) -> Vec<Trial> {
        (1..=self.rounds)
            .map(|round| {
                let mut phases = Vec::new();
                let start = f64::from(round) * 100.0;
                if !self.scenario.victims.is_empty() {
                    phases.push(self.phase(PhaseKind::Victim, round, start));
                }
                if !self.scenario.floods.is_empty() {
                    phases.push(self.phase(PhaseKind::Flood, round, start + 20.0));
                }
                if phases.len() == 2 {
                    phases.push(self.phase(PhaseKind::Both, round, start + 40.0));
                }
                if self.scenario.burst.is_some() {
                    phases.push(burst(round, start + 60.0));
                }
                Trial { setting: setting(), round, phases }
            })
            .collect()
    }

    fn phase(&self, kind: PhaseKind, round: u32, start_s: f64) -> Phase {
        let second = |s| {
            let (ops, ns) = match kind {
                PhaseKind::Victim => (self.alone)(round, s),
                PhaseKind::Both => (self.beside)(round, s),
                PhaseKind::Flood | PhaseKind::Burst => (0, 0),
            };
            let flood = match kind {
                PhaseKind::Flood => 251_000_000,
                PhaseKind::Both => 216_000_000 + u64::from(round) * 1_000_000,
                PhaseKind::Victim | PhaseKind::Burst => 0,
            };
            self.interval(s, ops, ns, flood)
        };
        let intervals: Vec<Interval> = (0..SECONDS).map(second).collect();
        let total = |name: &str, bytes: fn(&Interval) -> u64| {
            let mut latencies = OpLatencies::default();
            intervals.iter().for_each(|i| latencies.merge(&i.latencies));
            LoadTotals {
                name: name.into(),
                ops: intervals.iter().flat_map(|i| &i.victim_ops).map(|n| u64::from(*n)).sum(),
                bytes: intervals.iter().map(bytes).sum(),
                latencies,
                cpu_us: Some(1_234_567),
                ..LoadTotals::default()
            }
        };
        let victims =
            self.scenario.victims.iter().map(|v| total(&v.name, |i| i.victim_bytes)).collect();
        let floods =
            self.scenario.floods.iter().map(|f| total(&f.name, |i| i.flood_bytes)).collect();
        let mut overrun = OpLatencies::default();
        if kind == PhaseKind::Both && self.timed && !self.reads {
            overrun.commit = LatencyCounts::from_values([3_200 * MS]);
        }
        Phase {
            kind,
            start_s,
            seconds: SECONDS as f64,
            warmup: Warmup {
                seconds: 2.5,
                steady: Some(true),
                verdict: "no trend in the last 10 samples (p = 0.86)".into(),
                flood_bytes: 1 << 30,
            },
            overrun,
            victims: if kind.has_victim() { victims } else { vec![] },
            floods: if kind.has_flood() { floods } else { vec![] },
            intervals,
            burst: None,
            cut_short: None,
        }
    }

    fn interval(&self, s: usize, ops: u32, ns: u64, flood_bytes: u64) -> Interval {
        // Latencies spread a little, so that sums and maxima are not those of one bucket.
        let latency = |part: u64| {
            if self.timed {
                LatencyCounts::from_values((0..ops).map(|k| ns * part / 10 + 37 * u64::from(k)))
            } else {
                LatencyCounts::default()
            }
        };
        let latencies = if self.reads {
            OpLatencies { read: latency(10), ..OpLatencies::default() }
        } else {
            OpLatencies {
                commit: latency(10),
                write: latency(1),
                sync: latency(9),
                ..OpLatencies::default()
            }
        };
        Interval {
            start_s: s as f64,
            seconds: 1.0,
            victim_ops: vec![ops],
            latencies,
            victim_bytes: u64::from(ops) * 16_384,
            flood_bytes,
            host: host_sample(s as u64, flood_bytes),
        }
    }
}

fn host_sample(second: u64, flood_bytes: u64) -> HostSample {
    let flooding = flood_bytes > 0;
    HostSample {
        dirty_bytes: Some(if flooding { 1_500_000_000 + 1_000_000 * second } else { 400_000 }),
        writeback_bytes: Some(if flooding { 64 << 20 } else { 0 }),
        dirty_threshold_bytes: Some(3_200_000_000),
        background_threshold_bytes: Some(1_600_000_000),
        psi_io_some_us: Some(if flooding { 930_000 } else { 12_000 }),
        psi_io_full_us: None,
        steal_ms: Some(3),
        device: Some(DeviceSample {
            read_ops: 2,
            read_bytes: 8_192,
            write_ops: 900,
            written_bytes: if flooding { 216_000_000 } else { 24_000_000 },
            flush_ops: Some(14),
            busy_ms: 998,
            weighted_ms: 31_000,
            in_flight: 32,
        }),
    }
}

fn burst(round: u32, start_s: f64) -> Phase {
    Phase {
        kind: PhaseKind::Burst,
        start_s,
        seconds: 0.5,
        warmup: Warmup::default(),
        intervals: vec![],
        overrun: OpLatencies::default(),
        victims: vec![],
        floods: vec![],
        burst: Some(BurstTotals { bytes: 1 << 30, seconds: 0.49 + 0.01 * f64::from(round) }),
        cut_short: None,
    }
}

fn setting() -> Setting {
    [
        ("vm.dirty_ratio", "20"),
        ("vm.dirty_background_ratio", "10"),
        ("vm.dirty_bytes", "0"),
        ("vm.dirty_background_bytes", "0"),
        ("scheduler", "mq-deadline"),
        ("nr_requests", "256"),
        ("wbt_lat_usec", "75000"),
        ("bdi.max_ratio", "100"),
    ]
    .into_iter()
    .map(|(knob, value)| (knob.to_owned(), value.to_owned()))
    .collect()
}

/// A ratio of five rounds with its interval.
pub(crate) fn estimate(value: f64, low: f64, high: f64) -> Estimate {
    Estimate { value, low: Some(low), high: Some(high), rounds: 5 }
}

/// A run on a machine that does not exist.
pub(crate) fn run() -> Run {
    Run {
        command: "floodwall bench /data".into(),
        floodwall_version: "0.1.0".into(),
        started_at_unix_s: 1_790_000_000.25,
        seconds: 305.125,
        first_operation_ms: Some(31.5),
        host: ResultHost {
            kernel: Some("6.18.5".into()),
            ram_bytes: Some(16 << 30),
            cpus: Some(4),
            distribution: Some("Debian GNU/Linux 12 (bookworm)".into()),
            virtualisation: None,
        },
        device: Some(ResultDevice {
            name: "sda".into(),
            model: Some("ATA ST1000DM003".into()),
            firmware: Some("CC43".into()),
            scheduler: Some("mq-deadline".into()),
            rotational: Some(true),
            size_bytes: Some(1_000_204_886_016),
            leaves: vec![],
        }),
        filesystem: Some(ResultFilesystem {
            kind: "ext4".into(),
            mount_options: "rw,relatime".into(),
            path: "sda1 on sda".into(),
        }),
        ..Run::default()
    }
}

/// Three settings: the disaster of 2010, one that cures it, one that the kernel refused; with a
/// recommendation or a mere comparison.
pub(crate) fn contest(searched: bool) -> Document {
    let cured = Made { beside: |_, s| (300 + s as u32 % 3, 12 * MS), rounds: 5, ..Made::damage() };
    let mut trials = Made { rounds: 5, ..Made::damage() }.trials();
    trials.extend(cured.trials());
    let small: Setting =
        [("vm.dirty_bytes".to_owned(), "15000000".to_owned())].into_iter().collect();
    let contender = |name: &str, setting: &Setting, trials: std::ops::Range<usize>| Contender {
        name: name.into(),
        setting: setting.clone(),
        trials: trials.collect(),
        ..Contender::default()
    };
    let refused = "the kernel refused sda.scheduler = cfq: no such elevator; it has none, bfq";
    let finals =
        |trials: std::ops::Range<usize>| if searched { trials.collect() } else { Vec::new() };
    let contenders = vec![
        Contender { final_trials: finals(2..5), ..contender("default", &Setting::default(), 0..5) },
        Contender { final_trials: finals(7..10), ..contender("2010-15MB", &small, 5..10) },
        Contender { failure: Some(refused.into()), ..contender("cfq", &Setting::default(), 0..0) },
    ];
    let recommended = searched.then(|| Recommended {
        outcome: Outcome::Recommended,
        contender: Some(1),
        setting: small,
        why: "Recommended: 2010-15MB: p99 from 1.17 s to 12 ms.".into(),
        summary: None,
        settle_s: None,
        score_ratio: Some(12.3),
        p99_target_us: None,
        keep: None,
    });
    let contest = Contest { contenders, frontier: Vec::new(), recommended };
    Document::of_contest(run(), &Made::damage().scenario, trials, contest).unwrap()
}
