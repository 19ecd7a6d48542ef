//! `floodwall export`: settings in the formats of programs that keep them across boots.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use anyhow::Context;
use floodwall_knobs::export::{self, MARK};

use super::{PlaceArgs, sources};
use crate::exit::{Exit, UsageError};
use crate::output;

/// The program that reads the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// sysctl.d: the machine's knobs
    Sysctl,
    /// A udev rule: a disk's knobs
    Udev,
    /// A TuneD profile
    Tuned,
    /// tmpfiles.d lines
    SystemdTmpfiles,
    /// A drop-in of one of systemd's units: limits of its group, its I/O priority
    SystemdDropIn,
}

impl From<Format> for export::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Sysctl => Self::Sysctl,
            Format::Udev => Self::Udev,
            Format::Tuned => Self::Tuned,
            Format::SystemdTmpfiles => Self::SystemdTmpfiles,
            Format::SystemdDropIn => Self::SystemdDropIn,
        }
    }
}

/// Print settings as a sysctl.d file, udev rules, a TuneD profile, tmpfiles.d lines or a drop-in
///
/// Nothing is changed. A setting that the format can't say is refused, and so is a file that
/// floodwall export has not written. A unit that is named by unit:NAME has to run; one that does
/// not is named by its group's path, such as system.slice/backup.service.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  floodwall export --format sysctl preset:2016-bandwidth-delay
  floodwall export --format systemd-drop-in unit:backup:memory.high=1GiB
  floodwall export --format udev --device sda scheduler=bfq -o 99-disk.rules")]
pub(crate) struct ExportArgs {
    /// KNOB=VALUE, FILE.toml, preset:NAME, or - for a file on stdin
    #[arg(required = true, value_name = "SETTING")]
    settings: Vec<String>,
    /// The format: that of this program
    #[arg(long, value_enum)]
    format: Format,
    /// The device of knobs that name none, such as sda
    #[arg(long, value_name = "DEV")]
    device: Option<String>,
    /// Write a file instead of stdout
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Runs the command.
///
/// # Errors
/// What could not be done; [`Exit::of`] turns it into a status.
pub(crate) fn run(args: &ExportArgs) -> anyhow::Result<Exit> {
    let place = args.place.open()?;
    let device = place.device(args.device.as_deref())?;
    let asked = sources::read(&place, device.as_ref(), &args.settings)?;
    let text = export::export(&place.root, &asked.changes, args.format.into())
        .map_err(|e| UsageError(e.to_string()))?;
    match &args.out {
        None => output::result(&text)?,
        Some(path) => {
            output::check_writable(path)?;
            check_ours(path)?;
            output::write_file(path, |out| Ok(out.write_all(text.as_bytes())?))?;
        }
    }
    Ok(Exit::Done)
}

/// Refuses a file that floodwall has not written. An absent or empty file will do.
fn check_ours(path: &Path) -> anyhow::Result<()> {
    let file = match File::open(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        other => other.with_context(|| format!("can't read '{}'", path.display()))?,
    };
    let mut head = Vec::new();
    let length = MARK.len() as u64;
    file.take(length)
        .read_to_end(&mut head)
        .with_context(|| format!("can't read '{}'", path.display()))?;
    if head.is_empty() || head == MARK.as_bytes() {
        return Ok(());
    }
    let why = "was not written by floodwall export; name another file, or move it away";
    Err(UsageError(format!("'{}' {why}", path.display())).into())
}
