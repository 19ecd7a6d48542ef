//! The plan, and where its results go.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use processes::child::said;
use serde_json::{Value, json};

use super::flood::Kind;
use super::load::{Load, SECONDS, name};
use super::trial::{Trial, Who};
use super::way::{NO_GROUP, NO_PACE, Way};
use crate::devices::Floodwall;

const NO_TRACEPOINTS: &str =
    "the guard needs tracepoints, which user-mode Linux has not: boot an image with --kernel FILE";
/// The trials behind the tables of docs/lab.md.
pub(super) const DATA: &str = "benches/lab/victims";

/// The arguments.
#[derive(clap::Args, Clone)]
pub(crate) struct Options {
    /// Device to measure on: a preset, or a file with a model
    #[arg(long, default_value = "raid10-bbwc-2010")]
    pub(super) preset: String,
    /// Elevator that the device is given, such as the mq-deadline of a disk; the loop device's own
    /// without it
    #[arg(long)]
    pub(super) scheduler: Option<String>,
    /// Measure behind the kernel of a user-mode guest with so much memory
    #[arg(long, value_name = "MEMORY")]
    pub(super) guest: Option<String>,
    /// The guest's kernel: an image, in which the guard works, instead of user-mode Linux
    #[arg(long, value_name = "FILE", requires = "guest")]
    pub(super) kernel: Option<PathBuf>,
    #[command(flatten)]
    pub(super) load: Load,
    /// Rounds of each
    #[arg(long, default_value_t = 5)]
    pub(super) rounds: u32,
    /// Which victims
    #[arg(long, value_delimiter = ',', default_value = "postgres,sqlite")]
    pub(super) victims: Vec<Who>,
    /// Beside which floods
    #[arg(long, value_delimiter = ',', default_value = "copy")]
    pub(super) floods: Vec<Kind>,
    /// Under what
    #[arg(long, value_delimiter = ',', default_value = "default,15mb,guard")]
    pub(super) ways: Vec<Way>,
    /// Where what was measured is kept
    #[arg(long, default_value = DATA)]
    pub(super) data: PathBuf,
    /// Where the guard's log goes
    #[arg(long, default_value = "target/lab-victims")]
    pub(super) logs: PathBuf,
    /// Measure at most this many trials now, the others in later runs
    #[arg(long, default_value_t = usize::MAX, hide_default_value = true)]
    pub(super) trials: usize,
    /// The document whose section is written anew; only printed without it
    #[arg(long)]
    pub(super) out: Option<PathBuf>,
}

impl Options {
    /// What a stored trial must agree with.
    pub(super) fn plan(&self) -> anyhow::Result<Value> {
        let mut plan = self.load.plan();
        plan["preset"] = json!(self.device());
        if let Some(file) = self.model() {
            let text = std::fs::read_to_string(file);
            plan["model"] =
                json!(text.with_context(|| format!("can't read '{}'", file.display()))?);
        }
        plan["scheduler"] = json!(self.scheduler);
        // Absent in trials that are older than guests.
        if let Some(memory) = &self.guest {
            plan["guest"] = json!(memory);
        }
        if let Some(kernel) = &self.kernel {
            plan["kernel"] = json!(stem(kernel));
        }
        Ok(plan)
    }

    /// Whether this binary can do it, before anything is measured.
    pub(super) fn check(&self, floodwall: &Floodwall) -> anyhow::Result<()> {
        if self.ways.contains(&Way::Paced) {
            ensure!(self.guest.is_some(), NO_GROUP);
            ensure!(self.load.pace.is_some(), NO_PACE);
        }
        if self.ways.iter().any(|way| way.is_guarded()) {
            ensure!(self.guest.is_none() || self.kernel.is_some(), NO_TRACEPOINTS);
            let help = said(
                Command::new(&floodwall.program).args(["guard", "--help"]).stdin(Stdio::null()),
            );
            help.context("this floodwall has no guard; leave it out with --ways default,15mb")?;
        }
        Ok(())
    }

    /// The file of a model that is in no preset.
    fn model(&self) -> Option<&Path> {
        let is_file = self.preset.contains('/') || self.preset.ends_with(".toml");
        is_file.then(|| Path::new(&self.preset))
    }

    /// The preset's name, or that of the model's file.
    fn device(&self) -> String {
        self.model().map_or_else(|| self.preset.clone(), stem)
    }

    /// Of a trial's file. The parts that have a default are absent then, as in older files.
    pub(super) fn name(&self, trial: Trial) -> String {
        let Trial { who, flood, way, round } = trial;
        let guest = self.guest.as_ref().map(|_| "guest".to_owned());
        let rate = self.load.rate.map(|rate| rate.to_string());
        let seconds = (self.load.seconds != SECONDS).then(|| format!("{}s", self.load.seconds));
        let flood = (flood != Kind::Copy).then(|| name(flood));
        let parts = [
            Some(self.device()),
            guest,
            self.kernel.as_deref().map(stem),
            Some(name(who)),
            rate,
            seconds,
            flood,
            Some(name(way)),
            Some(round.to_string()),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join("-")
    }

    /// A trial's file in a directory. A name may hold dots.
    pub(super) fn file(&self, dir: &Path, trial: Trial, extension: &str) -> PathBuf {
        dir.join(format!("{}.{extension}", self.name(trial)))
    }

    /// Victims and floods in turn, and ways in an order that rotates with the round.
    pub(super) fn trials(&self) -> Vec<Trial> {
        let mut all = Vec::new();
        for round in 1..=self.rounds {
            for &who in &self.victims {
                for &flood in &self.floods {
                    for at in 0..self.ways.len() {
                        let way = self.ways[(at + round as usize - 1) % self.ways.len()];
                        all.push(Trial { who, flood, way, round });
                    }
                }
            }
        }
        all
    }
}

/// A file's name without what is behind its last dot.
fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
