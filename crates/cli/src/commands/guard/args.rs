//! The command line of `floodwall guard`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use floodwall_daemon::Flags;
use floodwall_model::units::parse_duration;
use floodwall_report::repeat::quoted;

use crate::commands::settings::JOURNAL;

/// Longest time for which somebody may tell the guard to pause: longer is for ever.
const LONGEST_PAUSE: Duration = Duration::from_secs(365 * 86_400);

/// Stay on, and protect processes that wait for a disk from those that flood it
///
/// Nothing is written until a process that waits for a disk (a victim: it commits or reads) meets a
/// process that floods the disk. Then the guard paces the flood, if the flood's control group holds
/// no victim. Otherwise it shortens the disk's queue, as far as the victims' goal needs it. It puts
/// everything back once either is gone, and when it ends (Ctrl-C, SIGTERM). If it dies or hangs, a
/// small process beside it does so. SIGHUP reads the configuration again.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  floodwall guard                    # everything at its default
  floodwall guard --dry-run          # says what it would do, writes nothing
  floodwall guard --p99 20ms --device sda
  floodwall guard --check            # is /etc/floodwall/guard.toml right?
  floodwall guard --sim hdd-7200     # a simulated machine; without root
  floodwall guard status             # from another terminal")]
pub(crate) struct GuardArgs {
    #[command(subcommand)]
    pub(super) command: Option<GuardCommand>,
    #[command(flatten)]
    pub(super) run: RunArgs,
}

/// Questions and orders to a guard, and the repair after one that was killed.
#[derive(clap::Subcommand, Debug)]
pub(super) enum GuardCommand {
    /// What the running guard sees, holds and does, device by device
    #[command(after_help = "Examples:
  floodwall guard status
  floodwall guard status --json")]
    Status {
        #[command(flatten)]
        reach: Reach,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// What the running guard has done, and why
    #[command(after_help = "Examples:
  floodwall guard history
  floodwall guard history --last 20")]
    History {
        #[command(flatten)]
        reach: Reach,
        /// Only the last N
        #[arg(long, value_name = "N", value_parser = last)]
        last: Option<u32>,
        /// Print JSON, one document a line
        #[arg(long)]
        json: bool,
    },
    /// Have the running guard put everything back and do nothing until it is told to resume
    #[command(after_help = "Examples:
  floodwall guard pause
  floodwall guard pause --for 10m")]
    Pause {
        #[command(flatten)]
        reach: Reach,
        /// Resume by itself after this time
        #[arg(long = "for", value_name = "TIME", value_parser = pause)]
        time: Option<Duration>,
    },
    /// Have a paused guard go on
    #[command(after_help = "Examples:
  floodwall guard resume")]
    Resume {
        #[command(flatten)]
        reach: Reach,
    },
    /// Put back what a guard that was killed has left behind; does nothing while one runs
    #[command(after_help = "Examples:
  floodwall guard restore")]
    Restore {
        /// Called by the guard's own parent process
        #[arg(long, hide = true)]
        by_parent: bool,
        /// Where journals are kept; /var/lib/floodwall/journal if not given
        #[arg(long, value_name = "DIR")]
        journal: Option<PathBuf>,
    },
}

/// How a running guard is reached.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Reach {
    /// Its socket, if it is not where it usually is
    #[arg(long, value_name = "PATH")]
    pub(super) socket: Option<PathBuf>,
}

impl Reach {
    /// A command for the same guard, in quotation marks: `'floodwall guard pause --for 10m'`.
    pub(super) fn command(&self, does: &str) -> String {
        let socket = match &self.socket {
            None => String::new(),
            Some(path) => format!(" --socket {}", quoted(&path.display().to_string())),
        };
        format!("'floodwall guard {does}{socket}'")
    }
}

/// What a guard is started with; each goes before what the configuration file says.
#[derive(clap::Args, Debug)]
pub(super) struct RunArgs {
    /// Read this configuration; without it /etc/floodwall/guard.toml, if it is there
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// How long 99 of 100 synchronous operations may take. Without it 9 of 10 may take four times
    /// as long as while nothing floods
    #[arg(long, value_name = "TIME")]
    pub(super) p99: Option<String>,
    /// What comes first: protect (the victims' goal) or balance (the product of the victims' speed
    /// and the flood's) [default: protect]
    #[arg(long, value_name = "MODE")]
    pub(super) mode: Option<String>,
    /// Steer only this device (sda, /dev/nvme0n1, 8:0, or a directory on it); may be repeated
    #[arg(long = "device", value_name = "DEVICE")]
    pub(super) devices: Vec<String>,
    /// Leave this device alone; may be repeated
    #[arg(long, value_name = "DEVICE")]
    pub(super) exclude: Vec<String>,
    /// Decide and log, but write nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Where to look: auto, bpf or perf
    #[arg(long, value_name = "SOURCE")]
    pub(super) source: Option<String>,
    /// Serve OpenMetrics here: 127.0.0.1:9750 or unix:/run/floodwall/metrics.sock; off without it
    #[arg(long, value_name = "LISTEN")]
    pub(super) metrics: Option<String>,
    /// Where status, history, pause and resume reach it [default: /run/floodwall/guard.sock; with
    /// --sim one of your own]
    #[arg(long, value_name = "PATH")]
    pub(super) socket: Option<String>,
    /// Read the configuration, report its first error, and end
    #[arg(long)]
    pub(super) check: bool,
    /// How many decisions are kept for floodwall guard history [default: 1000]
    #[arg(long, value_name = "N")]
    pub(super) history: Option<i64>,
    /// Guard a simulated machine with this device instead, in real time; this machine is not
    /// touched
    #[arg(long, value_name = "PRESET", conflicts_with_all = ["devices", "exclude", "source"])]
    pub(super) sim: Option<String>,
    /// Where journals are kept; /var/lib/floodwall/journal if not given
    #[arg(long, value_name = "DIR")]
    pub(super) journal: Option<PathBuf>,
    /// End with the process that has started this one: a check
    #[arg(long, hide = true)]
    pub(super) with_parent: bool,
}

/// The journal's directory, as named or by default.
pub(super) fn journal(named: Option<&Path>) -> PathBuf {
    named.map_or_else(|| Path::new("/").join(JOURNAL), Path::to_owned)
}

impl RunArgs {
    /// As the guard takes them.
    pub(super) fn flags(&self) -> Flags {
        Flags {
            config: self.config.clone(),
            p99: self.p99.clone(),
            mode: self.mode.clone(),
            devices: self.devices.clone(),
            exclude: self.exclude.clone(),
            dry_run: self.dry_run,
            source: self.source.clone(),
            metrics: self.metrics.clone(),
            socket: self.socket.clone(),
            history: self.history,
            sim: self.sim.clone(),
            journal: journal(self.journal.as_deref()),
        }
    }
}

fn last(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "write how many decisions to show, 1 or more".to_owned())
}

fn pause(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|e| e.to_string())?;
    if time.is_zero() || time > LONGEST_PAUSE {
        return Err(format!("'{text}' is out of range: write 1s to 8760h, or leave --for out"));
    }
    Ok(time)
}
