//! Drain rates for `floodwall size --device`: which directory stands for a device, and a line a
//! second while it is measured.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use floodwall_bench::runner::{Bounds, DrainRate};
use floodwall_bench::{BenchError, HostRunner, Options};
use floodwall_host::locate::{self, Location};
use floodwall_host::{block, mounts};
use floodwall_knobs::Device;
use floodwall_knobs::size::Drain;
use floodwall_model::runner::{Second, Step};
use floodwall_model::units::human_duration;
use floodwall_model::{Bytes, Rate, Watch};
use floodwall_report::numbers::percent;
use serde_json::{Value, json};

use super::Place;
use crate::exit::UsageError;
use crate::output::notice;
use crate::signals;

/// After so long a measurement ends, however little was written.
const TIME: Duration = Duration::from_secs(10);

/// A measured device.
pub(super) struct Measured {
    /// Its name and rate.
    pub(super) drain: Drain,
    directory: PathBuf,
    rate: DrainRate,
}

impl Measured {
    /// For a comment under the limits.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "{} drains {}, measured over {} in '{}' ({} written, removed again)",
            self.drain.name,
            Rate(self.rate.bytes_per_s),
            human_duration(Duration::try_from_secs_f64(self.rate.seconds).unwrap_or_default()),
            self.directory.display(),
            self.rate.written
        )];
        lines.extend(self.rate.notes.iter().map(|note| format!("{}: {note}", self.drain.name)));
        lines
    }

    /// For programs.
    pub(super) fn document(&self) -> Value {
        json!({
            "name": self.drain.name,
            "directory": self.directory,
            "bytes_per_s": self.rate.bytes_per_s,
            "seconds": self.rate.seconds,
            "written_bytes": self.rate.written.0,
            "notes": self.rate.notes,
        })
    }
}

/// Measures devices, one after another: `sda`, or a directory on the device.
///
/// # Errors
/// [`UsageError`] for what is no device with a filesystem that can be written; what the measurement
/// says.
pub(super) fn measure(
    place: &Place,
    names: &[String],
    bytes: Bytes,
) -> anyhow::Result<Vec<Measured>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    if !place.root.is_live() {
        return Err(UsageError(
            "nothing can be measured on a captured tree: give --rate".to_owned(),
        )
        .into());
    }
    let stop = signals::stop_flag()?;
    // All of them are found, and told apart, before the first byte is written.
    let mut found: Vec<(String, PathBuf)> = Vec::new();
    for name in names {
        let directory = directory(place, name)?;
        let device =
            name_of(place, &locate::locate(&place.root, &directory).map_err(BenchError::from)?);
        if let Some((_, other)) = found.iter().find(|(known, _)| *known == device) {
            let (here, there) = (directory.display(), other.display());
            let why = format!("'{there}' and '{here}' are both on {device}: give one of them");
            return Err(UsageError(why).into());
        }
        found.push((device, directory));
    }
    found.iter().map(|(_, directory)| one(place, directory, bytes, &stop)).collect()
}

fn one(
    place: &Place,
    directory: &Path,
    bytes: Bytes,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Measured> {
    let options = Options::new(Instant::now(), Arc::clone(stop));
    let mut runner =
        HostRunner::open(place.root.clone(), directory, options).map_err(without_force)?;
    let name = name_of(place, runner.location());
    notice(&format!(
        "{name}: writing up to {bytes} below '{}' for up to {} s; it is removed again",
        runner.location().directory.display(),
        TIME.as_secs()
    ));
    let measured = runner.drain_rate(Bounds { bytes, time: TIME }, &mut Lines { name: &name });
    let directory = runner.location().directory.clone();
    // The scratch directory goes in either case; the first error is the one that counts.
    let closed = runner.close();
    let rate = measured?;
    closed?;
    let drain = Drain { name, bytes_per_s: rate.bytes_per_s as u64 };
    Ok(Measured { drain, directory, rate })
}

/// `bench` can be forced to measure where there is no writeback; limits for it would mean nothing.
fn without_force(error: BenchError) -> anyhow::Error {
    match error {
        BenchError::NoWriteback { dir, filesystem, reason } => UsageError(format!(
            "'{}' is on {filesystem}: {reason}; name a directory on a disk, or give --rate",
            dir.display()
        ))
        .into(),
        other => other.into(),
    }
}

/// The device whose limits a directory's writes come under, as settings name it: its disk, or the
/// filesystem's own backing device.
fn name_of(place: &Place, location: &Location) -> String {
    let disk = location.queue_device.filter(|_| location.queue_devices.len() == 1);
    let bdi = || location.bdi.value().cloned().unwrap_or_else(|| location.mount.device.to_string());
    disk.map_or_else(bdi, |id| {
        block::read_name(&place.root, id).into_value().unwrap_or_else(|| id.to_string())
    })
}

/// A directory as it is; for a device the mount point with most space of those on it.
fn directory(place: &Place, name: &str) -> anyhow::Result<PathBuf> {
    let path = Path::new(name);
    if path.is_dir() && (name.contains('/') || name == ".") {
        return Ok(path.to_owned());
    }
    let device = Device::find(&place.root, name).map_err(|e| UsageError(e.to_string()))?;
    let id = device.number.parse().ok();
    let on_it = |location: &Location| match id {
        Some(id) => {
            location.queue_device == Some(id)
                || matches!(location.leaves.as_slice(), [leaf] if leaf.id == id)
        }
        // A network mount or a btrfs, by its backing device.
        None => location.bdi.value().is_some_and(|bdi| *bdi == device.number),
    };
    let usable = |point: PathBuf| {
        let here = locate::locate(&place.root, &point).ok()?;
        let fits = on_it(&here) && !here.read_only && here.has_own_writeback();
        let space = locate::free_space(&point).ok()?.available;
        fits.then_some((space, point))
    };
    let points = mounts::read_mounts(&place.root).into_value().unwrap_or_default();
    let found = points
        .into_iter()
        .filter_map(|mount| usable(mount.mountpoint))
        .max_by_key(|(space, _)| *space);
    found.map(|(_, point)| point).ok_or_else(|| {
        let why = "no filesystem that can be written is mounted from it";
        UsageError(format!(
            "can't measure {name}: {why}; name a directory, --device DIR, or give --rate"
        ))
        .into()
    })
}

/// A line a second on stderr.
struct Lines<'a> {
    name: &'a str,
}

impl Watch for Lines<'_> {
    fn step(&mut self, step: Step<'_>) {
        notice(&format!("{}: {}", self.name, step.what));
    }

    fn second(&mut self, second: &Second<'_>) {
        if let (Some(done), Some(rate)) = (second.done, second.drain_bytes_per_s) {
            notice(&format!("{}: {} %, {}", self.name, percent(done), Rate(rate)));
        }
    }

    fn warn(&mut self, message: &str) {
        notice(&format!("warning: {}: {message}", self.name));
    }
}
