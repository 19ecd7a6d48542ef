//! The price of being wrong: searches on devices that are ten times noisier than a quiet one.
//!
//! ```text
//! each trial: the device's clock runs e^(σ·|z|) times slower, z normal
//!   ─▶ search ─▶ recommended? ─▶ judged on the device without the noise
//! ```
//!
//! A quiet device's trials differ by some 5 %; σ = 0.5 is ten times that. A recommendation is false
//! if its score, judged in fresh and long rounds, is not above the default's.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use floodwall_device::Nanos;
use floodwall_device::fault::Disturbance;
use floodwall_device::spec::{Fault, FaultKind};
use floodwall_model::{Runner, RunnerError, Scenario, Setting, Trial, Watch};
use floodwall_sim::{SimOptions, SimRunner};
use floodwall_stats::random::Random;
use floodwall_tune::objective::Reference;
use floodwall_tune::tuner::{Clock, Options, tune};
use published::document::replace_section;
use published::origin::{self, Origin};
use published::stored;
use serde::{Deserialize, Serialize};

use crate::cells::{self, Cell};
use crate::measure::Place;
use crate::run::{SEARCH_S, told};

/// Standard deviation of the logarithm of the device's slowness.
const SIGMA: f64 = 0.5;
/// Longer than any search.
const FOREVER: Nanos = Nanos::from_secs(1_000_000);

/// What the figure depends on.
const INPUTS: [&str; 3] = ["tuner", "simulator", "device-presets"];

/// How many, and where the figure goes.
#[derive(clap::Args)]
pub(crate) struct NoiseArgs {
    /// Searches, spread over all cells
    #[arg(long, default_value_t = 200)]
    runs: usize,
    /// Where the verdicts are kept
    #[arg(long, default_value = "benches/league/data/noise.json")]
    data: PathBuf,
    /// The document whose section is written anew
    #[arg(long, default_value = "docs/league.md")]
    out: PathBuf,
    /// Only print
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// A machine whose device is of another speed in every trial.
struct Noisy {
    machine: SimOptions,
    random: Random,
}

impl Noisy {
    fn slowness(&mut self) -> f64 {
        (SIGMA * self.random.normal().abs()).exp()
    }
}

impl Runner for Noisy {
    fn run(
        &mut self,
        scenario: &Scenario,
        setting: &Setting,
        round: u32,
        watch: &mut dyn Watch,
    ) -> Result<Trial, RunnerError> {
        let mut machine = self.machine.clone();
        let factor_permille = (1e3 * self.slowness()) as u64;
        let slow = Disturbance::Slow {
            factor_permille: factor_permille.max(1_000),
            from: Nanos(0),
            to: FOREVER,
        };
        machine.device.faults.push(Fault { member: None, kind: FaultKind::Clock(slow) });
        SimRunner::new(machine).run(scenario, setting, round, watch)
    }
}

/// The stored results of all searches.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Noise {
    pub(crate) origin: Origin,
    searches: Vec<Search>,
}

/// What became of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Search {
    seed: u64,
    cell: String,
    /// The recommendation, if any.
    recommended: Option<Recommended>,
}

/// A recommendation on the device without the noise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Recommended {
    setting: Setting,
    /// Its score over the default's, as a logarithm.
    log_gain: f64,
}

/// Runs all and writes the section.
pub(crate) fn run(args: &NoiseArgs) -> anyhow::Result<()> {
    let root = origin::root()?;
    let noise = Noise { origin: Origin::now(&root, &INPUTS)?, searches: searches(args.runs)? };
    let section = section(&noise);
    println!("{section}");
    if args.dry_run {
        return Ok(());
    }
    stored::write(&args.data, &noise)?;
    replace_section(&args.out, "league-noise", "league noise", &section, &noise.origin, &root)
}

/// The searches on noisy devices, by their seeds.
fn searches(runs: usize) -> anyhow::Result<Vec<Search>> {
    let cells = cells::all();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(cell) = (i < runs).then(|| cells.get(i % cells.len())).flatten()
                    else {
                        break;
                    };
                    let search = one(cell, i as u64);
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Ok(Search { recommended: Some(r), .. }) = &search
                        && r.log_gain <= 0.0
                    {
                        eprintln!(
                            "false: {}, {}: {:.3} of the default's score",
                            cell.name(),
                            r.setting,
                            r.log_gain.exp()
                        );
                    }
                    found.push(search);
                    if found.len() % 20 == 0 {
                        eprintln!("{} of {runs} searches", found.len());
                    }
                }
            });
        }
    });
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut found: Vec<Search> = found.into_iter().collect::<anyhow::Result<_>>()?;
    found.sort_by_key(|search| search.seed);
    Ok(found)
}

/// The section from the stored data.
fn section(noise: &Noise) -> String {
    let gains: Vec<f64> =
        noise.searches.iter().filter_map(|s| Some(s.recommended.as_ref()?.log_gain)).collect();
    let wrong = gains.iter().filter(|gain| **gain <= 0.0).count();
    let (total, right) = (noise.searches.len(), gains.len() - wrong);
    format!(
        "{total} searches of {SEARCH_S:.0} s, over all cells, on devices whose speed is drawn \
         anew for each trial (e^({SIGMA} · |z|) times slower). {right} recommended a setting \
         better than the default, {wrong} ({:.1} %; goal: under 5 %) one that is not, {} none.\n",
        100.0 * wrong as f64 / total.max(1) as f64,
        total - gains.len()
    )
}

fn one(cell: &Cell, seed: u64) -> anyhow::Result<Search> {
    let machine = cell.machine(seed)?;
    let scenario = cell.scenario()?;
    let in_force = SimRunner::new(machine.clone()).check(&scenario, &Setting::default())?;
    let mut runner = Noisy { machine: machine.clone(), random: Random::seeded(seed) };
    let options = Options { seconds: SEARCH_S, seed, ..Options::default() };
    let mut space_of = |reference: &Reference| cells::space(&machine, &in_force, reference);
    let outcome =
        tune(&mut runner, &scenario, &mut space_of, &options, Clock::Trials, &mut (), &mut |_| ());
    let setting = told(&outcome).setting;
    if setting.is_empty() {
        return Ok(Search { seed, cell: cell.name(), recommended: None });
    }
    let place = Place { machine: cell.machine(1)?, scenario };
    let reference = place.reference()?;
    let judged =
        |s: &Setting| place.judge(s, &reference).map_err(|why| anyhow::anyhow!("{s}: {why}"));
    let log_gain = judged(&setting)?.score - judged(&Setting::default())?.score;
    Ok(Search { seed, cell: cell.name(), recommended: Some(Recommended { setting, log_gain }) })
}
