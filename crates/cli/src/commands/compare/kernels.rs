//! `floodwall compare --kernel A --kernel B`: a guest for every trial. Guests differ in their
//! kernel alone.
//!
//! ```text
//! round × kernel, in random order
//!        ─▶ guest: floodwall lab run PRESET -- floodwall bench --out RESULT .
//! RESULT ─▶ a trial of the contest, judged as any other
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::ValueEnum;
use floodwall_device::preset_text;
use floodwall_guest::{CommandIo, Guest};
use floodwall_model::printable::printable;
use floodwall_model::runner::{Second, Step};
use floodwall_model::units::UnitError;
use floodwall_model::{Bytes, Runner, RunnerError, Scenario, Setting, Trial, Watch};
use floodwall_report::repeat::scenario_toml;
use floodwall_report::schema::{Document, Run, RunStatus};
use floodwall_tune::contest::Contender;
use serde_json::Value;

use crate::commands::bench::ScenarioArgs;
use crate::commands::lab::{Fs, check_preset, guest};
use crate::exit::{Exit, MissingError, UsageError};
use crate::output;

/// Keys in a contender's setting: the kernel's file, and its release.
const KERNEL: &str = "kernel";
const RELEASE: &str = "kernel.release";
/// Exit statuses of a `bench` that has measured. Of one round it is always 3, inconclusive.
const MEASURED: [i32; 2] = [0, 3];
/// Time between two looks at a guest.
const POLL: Duration = Duration::from_millis(50);

/// The kernels, and the device before which each of them is put.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct KernelArgs {
    /// A kernel to compare, as in 'lab run --kernel': uml, a user-mode kernel's file, or an image;
    /// twice or more. Every trial boots a guest. Needs no root and no DIR.
    #[arg(long, value_name = "[NAME=]KERNEL", requires = "device", conflicts_with_all = [
        "set", "each", "dir", "journal", "force", "allow_userspace_servers",
    ])]
    pub(super) kernel: Vec<String>,
    /// The guests' device: a preset of 'floodwall lab list', or a file.
    #[arg(long, value_name = "PRESET|FILE", requires = "kernel")]
    device: Option<String>,
    /// The device's filesystem; ext4 if absent.
    #[arg(long, value_enum, requires = "kernel")]
    fs: Option<Fs>,
    /// The device's elevator; the loop device's own, none, if absent.
    #[arg(long, value_name = "NAME", requires = "kernel")]
    scheduler: Option<String>,
    /// The memory of each guest; half of what is free if absent.
    #[arg(long, value_name = "SIZE", value_parser = bytes, requires = "kernel")]
    ram: Option<Bytes>,
}

fn bytes(text: &str) -> Result<Bytes, UnitError> {
    text.parse()
}

/// Guests of several kernels as one runner: a setting names the kernel.
pub(super) struct Guests {
    /// By the kernel's file.
    guests: BTreeMap<String, Guest>,
    device: String,
    /// Options of `lab run`.
    lab: Vec<OsString>,
    /// Options of `bench`, beside the scenario and the seed.
    bench: Vec<OsString>,
    seed: u64,
    origin: Instant,
    started_at: Duration,
    /// Of the first trial: the guest's description of the run, and the scenario with its sizes
    /// settled.
    first: Option<(Run, Value)>,
    /// Warnings of each kernel's guests, without numbers: those of the next trials differ in
    /// nothing else.
    warned: BTreeSet<(String, String)>,
    /// The exit status that the last failure of a guest stands for.
    failed: Option<Exit>,
}

impl Guests {
    /// Finds the kernels, and whether KVM runs the images among them. No guest is booted yet.
    ///
    /// # Errors
    /// A kernel or a preset that is not there; too little memory; wrong usage.
    pub(super) fn find(
        args: &KernelArgs,
        loads: &ScenarioArgs,
        origin: Instant,
    ) -> anyhow::Result<(Self, Vec<Contender>)> {
        let device = args.device.clone().context("--kernel needs --device")?;
        check_preset(&device)?;
        let mut guests: BTreeMap<String, Guest> = BTreeMap::new();
        let mut contenders = Vec::new();
        for text in &args.kernel {
            let (name, kernel) = named(text);
            // Half of the free memory differs from one guest to the next.
            let ram = guests.values().next().map(|guest| guest.ram).or(args.ram);
            let found = guest::guest(kernel, ram, CommandIo::Inherit)?;
            // Missing modules are reported before any kernel is measured.
            guest::order(&found, Vec::new(), Vec::new())?;
            let file = found.kernel.file().display().to_string();
            let setting = [(KERNEL, file.clone()), (RELEASE, found.kernel.release().to_owned())];
            let setting = setting.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
            contenders.push(Contender { name: name.to_owned(), setting });
            guests.insert(file, found);
        }
        if contenders.len() < 2 {
            return Err(UsageError("nothing to compare: give --kernel twice or more".into()).into());
        }
        choose_machine(&mut guests)?;
        let mut lab = vec![absolute(&device)?];
        let fs = args.fs.and_then(|fs| Some(fs.to_possible_value()?.get_name().to_owned()));
        for (option, value) in [("--fs", fs), ("--scheduler", args.scheduler.clone())] {
            lab.extend(value.into_iter().flat_map(|value| [option.into(), value.into()]));
        }
        let size = loads.size.map(|size| format!("{}B", size.0));
        let mut bench = Vec::new();
        for (option, value) in [("--size", size), ("--user", loads.user.clone())] {
            bench.extend(value.into_iter().flat_map(|value| [option.into(), value.into()]));
        }
        let started_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let runner = Self {
            guests,
            device,
            lab,
            bench,
            seed: loads.seed,
            origin,
            started_at,
            first: None,
            warned: BTreeSet::new(),
            failed: None,
        };
        Ok((runner, contenders))
    }

    /// What a result says of the run, and the scenario as the guests have settled it; `None` before
    /// the first trial.
    pub(super) fn close(self, failure: Option<&anyhow::Error>) -> Option<(Run, Value)> {
        let (mut run, scenario) = self.first?;
        run.command = "compare".into();
        run.status =
            failure.map_or(RunStatus::Complete, |e| RunStatus::Partial { why: output::message(e) });
        run.started_at_unix_s = self.started_at.as_secs_f64();
        run.seconds = self.origin.elapsed().as_secs_f64();
        let releases: BTreeSet<&str> =
            self.guests.values().map(|guest| guest.kernel.release()).collect();
        run.host.kernel = Some(releases.into_iter().collect::<Vec<_>>().join(", "));
        // As --ram takes it. What each kernel leaves of it differs.
        run.host.ram_bytes = self.guests.values().next().map(|guest| guest.ram.0);
        if let Some(device) = &mut run.device {
            device.name = self.device;
        }
        Some((run, scenario))
    }

    /// A failure of the whole comparison, with the exit status of the guest that caused it.
    pub(super) fn failure(&self, error: anyhow::Error) -> anyhow::Error {
        match self.failed {
            Some(Exit::Usage) => UsageError(output::message(&error)).into(),
            Some(Exit::Missing) => MissingError(output::message(&error)).into(),
            _ => error,
        }
    }

    /// Measures one trial in a guest. The first settles sizes and rates for all.
    fn trial(
        &mut self,
        scenario: &Scenario,
        kernel: &str,
        round: u32,
        watch: &mut dyn Watch,
    ) -> anyhow::Result<Trial> {
        let dir = tempfile::tempdir().context("can't make a directory for a guest's result")?;
        let dir = dir.path().canonicalize().context("can't tell where a guest's result is")?;
        let [result, log, file] =
            ["result.json", "log", "scenario.toml"].map(|name| dir.join(name));
        let settled = self.first.as_ref().map(|(_, settled)| settled.clone());
        let settled = settled.map_or_else(|| serde_json::to_value(scenario), Ok);
        let toml = settled.ok().and_then(|stored| scenario_toml(&with_rounds(stored, 1)));
        fs::write(&file, toml.context("the scenario can't be written as a file")?)
            .with_context(|| format!("can't write '{}'", file.display()))?;
        let output =
            File::create(&log).with_context(|| format!("can't make '{}'", log.display()))?;
        let guest =
            self.guests.get(kernel).with_context(|| format!("there is no guest of '{kernel}'"))?;
        let guest = Guest { io: CommandIo::Log(Arc::new(output)), ..guest.clone() };
        let order = guest::order(
            &guest,
            self.command_line(&guest, &result, &file, round),
            vec![dir.clone()],
        )?;
        let begin_s = self.origin.elapsed().as_secs_f64();
        let (status, notes) =
            run(&guest, &order, watch).inspect_err(|e| self.failed = Some(Exit::of(e)))?;
        if watch.stop() {
            anyhow::bail!("interrupted");
        }
        if !status.code().is_some_and(|code| MEASURED.contains(&code)) {
            self.failed = match status.code() {
                Some(2) => Some(Exit::Usage),
                Some(4) => Some(Exit::Missing),
                _ => Some(Exit::Failed),
            };
            anyhow::bail!("in the guest of {kernel}: {status}: {}", last_words(&log));
        }
        let text = fs::read_to_string(&result).context("a guest left no result")?;
        let document = Document::read(&text).context("a guest's result")?;
        let mut trial =
            document.trials.into_iter().next().context("a guest's result has no trial")?;
        trial.round = round;
        for phase in &mut trial.phases {
            phase.start_s += begin_s;
        }
        let settled = with_rounds(document.scenario, scenario.timing.rounds);
        let mut run = document.run;
        run.warnings.extend(notes);
        self.keep(run, settled, guest.kernel.release(), watch);
        Ok(trial)
    }

    /// What the guest's first command is.
    fn command_line(
        &self,
        guest: &Guest,
        result: &Path,
        scenario: &Path,
        round: u32,
    ) -> Vec<OsString> {
        let mut words: Vec<OsString> = ["lab", "run"].map(OsString::from).into();
        words.extend(self.lab.iter().cloned());
        words.extend(["--".into(), guest.program.clone().into()]);
        words.extend(["bench", "--progress", "never"].map(OsString::from));
        let seed = self.seed.wrapping_add(round.into()).to_string();
        words.extend(["--seed".into(), seed.into(), "--out".into(), result.into()]);
        words.extend(["--scenario".into(), scenario.into()]);
        words.extend(self.bench.iter().cloned());
        words.push(".".into());
        guest::in_guest(words.into_iter())
    }

    /// Keeps the first trial's description, and warns of guests that were not alike.
    fn keep(&mut self, run: Run, scenario: Value, release: &str, watch: &mut dyn Watch) {
        for warning in &run.warnings {
            let words: String = warning.chars().filter(|c| !c.is_numeric()).collect();
            if self.warned.insert((release.to_owned(), words)) {
                watch.warn(&format!("Linux {release}: {warning}"));
            }
        }
        match &self.first {
            Some((_, first)) if *first != scenario => {
                watch.warn(&format!(
                    "Linux {release} has less room than the first kernel: sizes differ"
                ));
            }
            Some(_) => {}
            None => self.first = Some((run, scenario)),
        }
    }
}

impl Runner for Guests {
    fn run(
        &mut self,
        scenario: &Scenario,
        setting: &Setting,
        round: u32,
        watch: &mut dyn Watch,
    ) -> Result<Trial, RunnerError> {
        let kernel = setting.get(KERNEL).unwrap_or_default();
        let expected_s = scenario.planned_seconds() / f64::from(scenario.timing.rounds.max(1));
        // Round 0: what a guest warns of is no disturbance by others, which a pause between phases
        // would show.
        watch.step(Step { what: "measuring in a guest", phase: None, round: 0, expected_s });
        let trial = self.trial(scenario, kernel, round, watch);
        trial.map_err(|e| RunnerError {
            source: output::message(&e).into(),
            partial: None,
            interrupted: watch.stop(),
        })
    }
}

/// KVM runs all images, or none: guests differ in their kernel alone.
fn choose_machine(guests: &mut BTreeMap<String, Guest>) -> anyhow::Result<()> {
    for guest in guests.values_mut() {
        guest.use_kvm_if_it_works()?;
        if guest.kernel.is_emulated() {
            guests.values_mut().for_each(|guest| guest.kernel.emulate(true));
            break;
        }
    }
    Ok(())
}

/// A stored scenario with another number of rounds.
fn with_rounds(mut scenario: Value, rounds: u32) -> Value {
    if let Some(timing) = scenario.get_mut("timing").and_then(Value::as_object_mut) {
        timing.insert("rounds".into(), rounds.into());
    }
    scenario
}

/// Runs a guest, and reports progress every second. Returns its command's status, and the notes
/// about the guest.
fn run(
    guest: &Guest,
    order: &floodwall_guest::Order,
    watch: &mut dyn Watch,
) -> anyhow::Result<(ExitStatus, Vec<String>)> {
    let mut notes = Vec::new();
    let stop = AtomicBool::new(false);
    let (mut begin, mut elapsed_s) = (Instant::now(), 0.0);
    let ended = thread::scope(|scope| {
        let runs = scope.spawn(|| guest.run(order, &stop, &mut |note| notes.push(note.to_owned())));
        while !runs.is_finished() {
            stop.store(watch.stop(), Ordering::Relaxed);
            thread::sleep(POLL);
            if begin.elapsed() >= Duration::from_secs(1) {
                begin += Duration::from_secs(1);
                elapsed_s += 1.0;
                watch.second(&Second {
                    elapsed_s,
                    done: None,
                    interval: None,
                    drain_bytes_per_s: None,
                });
            }
        }
        runs.join()
    });
    let status = ended.map_err(|_| anyhow::anyhow!("the guest's thread has panicked"))??;
    Ok((status, notes))
}

/// The last line that a guest's command wrote.
fn last_words(log: &Path) -> String {
    let text =
        fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    printable(last.unwrap_or("it said nothing")).into_owned()
}

/// `[NAME=]KERNEL`. A file whose name holds `=` needs a name before it.
fn named(text: &str) -> (&str, &OsStr) {
    let (name, kernel) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty() && !name.contains('/'))
        .unwrap_or((text, text));
    (name, OsStr::new(kernel))
}

/// A device's file as the guest finds it; a preset's name as it is.
fn absolute(device: &str) -> anyhow::Result<OsString> {
    if preset_text(device).is_some() {
        return Ok(device.into());
    }
    let path: PathBuf =
        std::path::absolute(device).with_context(|| format!("can't tell where '{device}' is"))?;
    Ok(path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_called_as_it_is_given_or_by_its_name() {
        assert_eq!(named("uml"), ("uml", OsStr::new("uml")));
        assert_eq!(named("new=./linux"), ("new", OsStr::new("./linux")));
        assert_eq!(named("./a=b/linux"), ("./a=b/linux", OsStr::new("./a=b/linux")));
    }
}
