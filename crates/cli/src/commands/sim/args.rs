//! What `floodwall sim` takes, and the machine that follows from it.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, Subcommand};
use floodwall_device::DeviceSpec;
use floodwall_knobs::Target;
use floodwall_knobs::catalogue::{self, Knob, Scope};
use floodwall_knobs::value::{self, Form};
use floodwall_model::setting::{FLOOD, VICTIM};
use floodwall_model::units::UnitError;
use floodwall_model::{Bytes, Setting};
use floodwall_sim::kernel::{Generation, UnknownKernel};
use floodwall_sim::{FsKind, SimOptions, UnknownFs};

use crate::commands::bench::ScenarioArgs;
use crate::commands::settings::list::parts;
use crate::commands::sim_sweep::SweepArgs;
use crate::exit::UsageError;

/// Timer ticks a second that elevators can count (`CONFIG_HZ`).
const TICKS_PER_S: [u32; 3] = [100, 250, 1000];

/// Options of `bench` that mean nothing in virtual time: refused, so not in the help.
const REFUSED: [&str; 6] = ["victim_cmd", "flood_cmd", "user", "size", "force", "same_group"];

fn without_refused(option: clap::Arg) -> clap::Arg {
    let is_refused = REFUSED.contains(&option.get_id().as_str());
    if is_refused { option.hide(true) } else { option }
}

/// The same scenarios without hardware: kernel and device both modelled, in virtual time.
///
/// The write path of an old or a new kernel over a modelled device, a thousand times faster than
/// real time. The same command prints the same bytes on any machine.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  floodwall sim --device hdd-7200
  floodwall sim --device raid10-bbwc-2010 --scenario copy-vs-database-2010 \\
    --kernel 2.6.32 --ram 6GiB
  floodwall sim --device hdd-7200 --fs ext4 --set vm.dirty_bytes=64MiB --explain
  floodwall sim --device sata-ssd --set scheduler=bfq --set victim.ioprio=be/0
  floodwall sim --device ./my-disk.toml --victim commit,threads=4 --flood seq
  floodwall sim --device raid10-bbwc-2010 --set flood:io.max=wbps=180MB \\
    --set flood:memory.high=128MiB

Devices: `floodwall lab list` names the presets.
Kernels: 2.6.18, 2.6.32, 3.2, 6.18; another is taken as the nearest of them.
Filesystems: xfs, ext4, ext3, ext3-writeback, btrfs, raw, nfs, nfs-async.
A setting is KNOB=VALUE[,KNOB=VALUE…], as compare takes it.
A knob that the kernel did not have is refused with what it had; what is not set has the \
kernel's default.
The scenarios are those of bench; commands of your own are for real machines.")]
#[command(mut_args(without_refused))]
#[command(
    args_override_self = true,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
#[command(group(ArgGroup::new("format").args(["json", "markdown"])))]
pub(crate) struct SimArgs {
    /// Many of these at once.
    #[command(subcommand)]
    pub(crate) command: Option<SimCommand>,
    /// The device: a preset, or a device file.
    #[arg(long, required = true, value_name = "PRESET|FILE.toml")]
    device: Option<String>,
    /// The kernel; one that is not modelled is taken as the nearest that is.
    #[arg(long, value_name = "RELEASE", default_value = "6.18", value_parser = kernel)]
    kernel: Kernel,
    /// RAM.
    #[arg(long, value_name = "SIZE", default_value = "24GiB", value_parser = bytes)]
    ram: Bytes,
    /// The filesystem.
    #[arg(long, value_name = "FS", default_value = "xfs", value_parser = filesystem)]
    fs: FsKind,
    /// Values of knobs; may be repeated.
    #[arg(long = "set", value_name = "KNOB=VALUE[,KNOB=VALUE…]")]
    set: Vec<String>,
    /// CPUs.
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..))]
    cpus: u32,
    /// Timer ticks a second: 100, 250 or 1000, or the nearest of them; as kernels of that release
    /// were mostly built if not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    hz: Option<u32>,
    /// Commands that the device takes at once; as many as it can use, at most 128, if not given.
    #[arg(long, value_name = "N")]
    queue_depth: Option<u32>,
    /// Queues with an elevator each, for a software RAID whose members have their own; a mirrored
    /// pair counts as one.
    #[arg(long, value_name = "N", default_value_t = 1)]
    member_queues: u32,
    /// How much of the device is used; all of it if not given.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    capacity: Option<Bytes>,

    #[command(flatten)]
    pub(crate) loads: ScenarioArgs,

    /// Say where the time of the slowest, the p99 and the median operation went; with --json on
    /// stderr.
    #[arg(long)]
    pub(crate) explain: bool,
    /// Print the result as one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the result as Markdown.
    #[arg(long)]
    pub(crate) markdown: bool,
    /// Write the JSON document to a file.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Write one line of CSV per second: operations, rates, dirty, writeback, limits, device.
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) timeline: Option<PathBuf>,
}

/// What belongs to the simulator beside one run.
#[derive(Subcommand, Debug)]
pub(crate) enum SimCommand {
    Sweep(SweepArgs),
}

/// A knob with its full name in a setting of a simulated machine. Knobs of the victims' threads
/// (`victim.ioprio`) and of a control group of the victims or floods (`flood:io.max`) are known
/// too.
fn known(name: &str) -> Option<(String, &'static Knob)> {
    if let Some((group, knob)) =
        name.split_once(':').filter(|(group, _)| [VICTIM, FLOOD].contains(group))
    {
        return catalogue::find(knob).map(|knob| (format!("{group}:{}", knob.name), knob));
    }
    let of_victims =
        |knob: &&Knob| knob.scope == Scope::Threads && Target::Victims.label(knob) == name;
    match catalogue::find(name) {
        Some(knob) => Some((knob.name.to_owned(), knob)),
        None => catalogue::knobs().find(of_victims).map(|knob| (name.to_owned(), knob)),
    }
}

/// The name of a knob of a simulated machine as a setting spells it.
pub(crate) fn knob_name(name: &str) -> Result<String, String> {
    match known(name) {
        Some((name, _)) => Ok(name),
        // Tunables of elevators that are gone: the model knows them.
        None if name.starts_with("iosched.") => Ok(name.to_owned()),
        None => {
            let near = catalogue::nearest(name).join(" or ");
            let hint = if near.is_empty() { near } else { format!("; did you mean {near}?") };
            Err(format!("there is no knob '{name}'{hint}"))
        }
    }
}

/// A knob's value as the kernel's file takes it, from what a person writes.
pub(crate) fn knob_value(knob: &str, given: &str) -> Result<String, String> {
    match known(knob) {
        Some((_, knob)) => value::check(knob, given, Form::Person).map_err(|e| e.to_string()),
        None => Ok(given.trim().to_owned()),
    }
}

/// A preset by name, or a device file by its path below a directory.
pub(crate) fn device_of(name: &str, directory: &Path) -> Result<DeviceSpec, String> {
    if !name.contains(['/', '.']) {
        return DeviceSpec::preset(name).map_err(|e| e.to_string());
    }
    let text = std::fs::read_to_string(directory.join(name))
        .map_err(|e| format!("can't read the device file '{name}': {e}"))?;
    DeviceSpec::parse(&text).map_err(|e| format!("'{name}': {e}"))
}

fn bytes(text: &str) -> Result<Bytes, UnitError> {
    text.parse()
}

fn filesystem(text: &str) -> Result<FsKind, UnknownFs> {
    text.parse()
}

fn kernel(text: &str) -> Result<Kernel, UnknownKernel> {
    Ok(Kernel { generation: Generation::nearest(text)?, asked: text.to_owned() })
}

/// A kernel that was asked for, and the one that is modelled in its place.
#[derive(Clone, Debug)]
struct Kernel {
    generation: Generation,
    asked: String,
}

impl Kernel {
    /// Whether another minor release is modelled; a point release of the same one is no other
    /// kernel.
    fn is_another(&self) -> bool {
        let modelled = self.generation.to_string();
        let rest = self.asked.strip_prefix(&modelled);
        !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

/// The modelled number of ticks nearest to one that is asked for; of two as near the smaller.
fn nearest_hz(asked: u32) -> u32 {
    TICKS_PER_S.into_iter().min_by_key(|hz| hz.abs_diff(asked)).unwrap_or(asked)
}

impl SimArgs {
    /// The machine that was asked for.
    pub(crate) fn options(&self) -> anyhow::Result<SimOptions> {
        self.check_loads()?;
        Ok(SimOptions {
            capacity: self.capacity,
            generation: self.kernel.generation,
            ram: self.ram,
            cpus: self.cpus,
            hz: self.hz.map(nearest_hz),
            fs: self.fs,
            queue_depth: self.queue_depth,
            member_queues: self.member_queues,
            seed: self.loads.seed,
            explain: self.explain,
            ..SimOptions::new(self.device()?)
        })
    }

    /// Refuses what means something on a real machine only.
    fn check_loads(&self) -> Result<(), UsageError> {
        let why = if self.loads.size.is_some() {
            "--size bounds the space on a real disk; use --capacity, or size= of a victim or flood"
        } else if self.loads.force {
            "--force is about filesystems of a real machine; leave it out"
        } else if self.loads.names_user() {
            "--user is for commands, which can't run in virtual time; leave it out"
        } else {
            return Ok(());
        };
        Err(UsageError(why.to_owned()))
    }

    /// What to know of the machine before its figures.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let (asked, generation) = (&self.kernel.asked, self.kernel.generation);
        let taken = self.kernel.is_another();
        let kernel =
            taken.then(|| format!("Linux {asked} is not modelled: it is taken as {generation}"));
        let ticks = self.hz.map(|hz| (hz, nearest_hz(hz))).filter(|(hz, nearest)| hz != nearest);
        let ticks = ticks.map(|(hz, nearest)| {
            format!("{hz} timer ticks a second are not modelled: {nearest} are taken")
        });
        kernel.into_iter().chain(ticks).collect()
    }

    fn device(&self) -> Result<DeviceSpec, UsageError> {
        let name = self.device.as_deref().unwrap_or_default();
        device_of(name, Path::new("")).map_err(|e| UsageError(format!("--device: {e}")))
    }

    /// The setting that was asked for, its values as the kernel's files take them.
    pub(crate) fn setting(&self) -> anyhow::Result<Setting> {
        let mut setting = Setting::default();
        for text in self.set.iter().flat_map(|texts| parts(texts)) {
            let (name, given) = text.split_once('=').ok_or_else(|| {
                UsageError(format!("--set {text}: write KNOB=VALUE, such as vm.dirty_bytes=64MiB"))
            })?;
            let wrong = |e| UsageError(format!("--set {text}: {e}"));
            let name = knob_name(name.trim()).map_err(wrong)?;
            let value = knob_value(&name, given).map_err(wrong)?;
            setting.0.insert(name, value);
        }
        Ok(setting)
    }

    /// The kernel's release as results print it.
    pub(crate) fn release(&self) -> String {
        format!("{} (simulated)", self.kernel.generation)
    }
}
