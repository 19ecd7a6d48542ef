//! A runner whose truth is a formula: what a setting keeps, and how far single trials are off it.

use floodwall_model::trial::{BurstTotals, DeviceSample, Interval, OpLatencies, Warmup};
use floodwall_model::{
    HostSample, LatencyCounts, Phase, PhaseKind, Runner, RunnerError, Scenario, Setting, Trial,
    Watch, scenario as scenarios,
};
use floodwall_stats::random::Random;

use crate::space::Description;

/// A disk of a large machine under the settings that most kernels boot with; how fast it drains is
/// still to be said.
pub(crate) fn disk() -> Description {
    Description {
        hard_limit_bytes: Some(4 << 30),
        least_hard_bytes: None,
        queues: vec![String::new()],
        scheduler: Some("mq-deadline".into()),
        schedulers: ["none", "mq-deadline", "kyber", "bfq"].map(String::from).to_vec(),
        nr_requests: Some(256),
        max_sectors_kb: Some(1024),
        wbt_lat_us: Some(2_000),
        strict_limit: false,
        byte_limits: true,
        ..Description::default()
    }
}

/// A setting's true shares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Truth {
    pub(crate) victim: f64,
    pub(crate) dead: f64,
    pub(crate) flood: f64,
    pub(crate) burst: f64,
}

type Surface = Box<dyn Fn(&Setting) -> Result<Truth, String>>;

/// Victim operations a second when it is alone.
const ALONE: f64 = 5_000.0;
/// Bytes a second of the flood alone.
const FLOOD: f64 = 200e6;
/// Bytes a second of a burst under the default.
const BURST: f64 = 2e9;

/// Rounds are off by `noise` (one standard deviation of the logarithm) as wholes, seconds by a
/// tenth; dead seconds come in runs.
pub(crate) struct SurfaceRunner {
    noise: f64,
    surface: Surface,
    pub(crate) seed: u64,
    pub(crate) runs: u64,
    /// Virtual seconds spent.
    pub(crate) seconds: f64,
    pub(crate) interrupt_at: Option<u64>,
    /// From this run on every trial fails: the device is gone.
    pub(crate) vanish_at: Option<u64>,
    /// Runs in which the hypervisor takes most of the machine.
    pub(crate) robbed_at: Vec<u64>,
}

impl SurfaceRunner {
    pub(crate) fn new(
        noise: f64,
        surface: impl Fn(&Setting) -> Result<Truth, String> + 'static,
    ) -> Self {
        Self {
            noise,
            surface: Box::new(surface),
            seed: 1,
            runs: 0,
            seconds: 0.0,
            interrupt_at: None,
            vanish_at: None,
            robbed_at: Vec::new(),
        }
    }

    fn phase(&self, kind: PhaseKind, seconds: usize, truth: Truth, random: &mut Random) -> Phase {
        let luck = (self.noise * random.normal()).exp();
        let flood_luck = (self.noise / 3.0 * random.normal()).exp();
        let mut dead = random.unit() < truth.dead;
        let mut intervals = Vec::new();
        for s in 0..seconds {
            // A bistable device: in its bad state as often as the truth says, and for two seconds
            // on average.
            if random.unit() < 0.5 {
                dead = random.unit() < truth.dead;
            }
            let share = match kind {
                PhaseKind::Victim => 1.0,
                PhaseKind::Both if dead => 0.001 * luck,
                PhaseKind::Both => truth.victim / (1.0 - truth.dead).max(0.05) * luck,
                _ => 0.0,
            };
            let ops = (ALONE * share * (1.0 + 0.1 * random.normal())).max(0.0) as u32;
            let flood = match kind {
                PhaseKind::Flood => FLOOD,
                PhaseKind::Both => FLOOD * truth.flood * flood_luck,
                _ => 0.0,
            };
            // Four threads in a closed loop: latency is four over the rate.
            let latency = (4e9 / f64::from(ops.max(1))) as u64;
            let latencies = OpLatencies {
                commit: LatencyCounts::from_buckets(
                    [(floodwall_model::latency::bucket_of(latency), u64::from(ops))],
                    latency * u64::from(ops),
                    latency,
                ),
                ..OpLatencies::default()
            };
            let device = DeviceSample { written_bytes: flood as u64, ..DeviceSample::default() };
            intervals.push(Interval {
                start_s: s as f64,
                seconds: 1.0,
                victim_ops: if kind.has_victim() { vec![ops] } else { vec![] },
                latencies: if kind.has_victim() { latencies } else { OpLatencies::default() },
                flood_bytes: flood as u64,
                host: HostSample {
                    device: Some(device),
                    steal_ms: Some(if self.robbed_at.contains(&self.runs) { 700 } else { 10 }),
                    ..HostSample::default()
                },
                ..Interval::default()
            });
        }
        let burst = (kind == PhaseKind::Burst).then(|| BurstTotals {
            bytes: 1 << 30,
            seconds: f64::from(1 << 30)
                / (BURST * truth.burst * (self.noise / 5.0 * random.normal()).exp()),
        });
        Phase {
            kind,
            start_s: self.seconds,
            seconds: seconds as f64,
            warmup: Warmup::default(),
            intervals: if burst.is_some() { vec![] } else { intervals },
            overrun: OpLatencies::default(),
            victims: vec![],
            floods: vec![],
            burst,
            cut_short: None,
        }
    }
}

impl Runner for SurfaceRunner {
    fn run(
        &mut self,
        scenario: &Scenario,
        setting: &Setting,
        round: u32,
        _: &mut dyn Watch,
    ) -> Result<Trial, RunnerError> {
        self.runs += 1;
        let failed =
            |why: String| RunnerError { source: why.into(), partial: None, interrupted: false };
        if self.vanish_at.is_some_and(|at| self.runs >= at) {
            return Err(failed("the device is gone".into()));
        }
        let truth = (self.surface)(setting).map_err(failed)?;
        let mut random = Random::seeded(self.seed.wrapping_mul(1_000_003).wrapping_add(self.runs));
        let mut trial = Trial { setting: setting.clone(), round, phases: Vec::new() };
        let seconds = scenario.timing.measure.as_secs() as usize;
        for kind in scenario.phase_kinds() {
            // Warm-up, settling, draining.
            self.seconds += if kind == PhaseKind::Burst { 3.0 } else { seconds as f64 + 6.0 };
            trial.phases.push(self.phase(kind, seconds, truth, &mut random));
            if self.interrupt_at == Some(self.runs) {
                let partial = Some(Box::new(trial));
                return Err(RunnerError {
                    source: "interrupted".into(),
                    partial,
                    interrupted: true,
                });
            }
        }
        Ok(trial)
    }
}

/// The default scenario with so many rounds.
pub(crate) fn scenario(rounds: u32) -> Scenario {
    let mut scenario = scenarios::builtin("copy-vs-database").unwrap().unwrap();
    scenario.timing.rounds = rounds;
    scenario
}
