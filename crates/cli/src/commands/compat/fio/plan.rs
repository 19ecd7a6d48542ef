//! A job's options and its files as they are ─▶ what the engine is asked for.

use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use floodwall_compat::fio::line::{Amount, Data, Fallocate, JobOptions, JobSpec, Sync};
use floodwall_load::fileio::Target;
use floodwall_load::jobs::{self, Allocate, JobFile, Keep, Window};
use floodwall_model::scenario;
use rustix::fs::OFlags;

use super::super::device;
use crate::exit::UsageError;

/// The seed of runs that repeat each other.
const SEED: u64 = 0x466c_6f6f_6477_616c;
/// Names of files that the tool makes up.
const FORMAT: &str = "$jobname.$jobnum.$filenum";
/// The length of a file at most (lseek(2)).
const LONGEST: u64 = i64::MAX as u64;

/// Whether a job can have its files. Nothing is written.
pub(super) fn check(job: &JobSpec, may_destroy: bool) -> anyhow::Result<()> {
    for path in paths(job)? {
        if path.is_dir() {
            let why = format!("'{}' is a directory; name a file", path.display());
            return Err(refused(&job.options, &why));
        }
        if job.options.pattern.writes && !may_destroy {
            check_unused(&path)?;
        }
    }
    Ok(())
}

/// The plan of the job with this number. Its files are looked at, and nothing is written.
pub(super) fn plan(
    job: &JobSpec,
    number: usize,
    is_read_only: bool,
) -> anyhow::Result<jobs::JobPlan> {
    let options = &job.options;
    let files = files(job, &paths(job)?)?;
    let total = files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.len));
    let least = [(options.pattern.reads, 0), (options.pattern.writes, 1)];
    let least =
        least.iter().filter(|(is_used, _)| *is_used).map(|(_, at)| options.block[*at]).min();
    if files.iter().all(|file| file.len < least.unwrap_or(0)) {
        return Err(refused(options, "its files are smaller than a block; raise size or lower bs"));
    }
    let us = Duration::from_micros;
    let io_size = options.io_size.map(|amount| amount.of(total));
    // A file size of its own: size is what goes to all files together.
    let size = match (options.file_size, options.size) {
        (Some(_), Some(Amount::Bytes(size))) if size > 0 => Some(size),
        _ => None,
    };
    Ok(jobs::JobPlan {
        files,
        stage: job.stage,
        group: job.group,
        may_make: !is_read_only,
        reads: options.pattern.reads,
        writes: options.pattern.writes,
        is_random: options.pattern.is_random,
        each_once: options.random_map,
        read_percent: options.read_percent,
        block: [options.block[0], options.block[1]],
        flags: open_flags(options),
        depth: options.engine.is_async.then_some(options.depth),
        plain_syncs: options.engine.name == "libaio",
        sync_every: options.fsync,
        sync_data_every: options.fdatasync,
        sync_at_end: options.end_fsync,
        sync_on_close: options.fsync_on_close,
        rate: [options.rate_of(false), options.rate_of(true)],
        delay: us(options.delay_us),
        ramp: us(options.ramp_us),
        time: (options.runtime_us > 0).then(|| us(options.runtime_us)),
        is_timed: options.time_based,
        loops: options.loops,
        bytes: io_size.or(size),
        requests: (options.number_ios > 0).then_some(options.number_ios),
        drops_cache: options.invalidate,
        fills: options.overwrite,
        makes_late: options.create_on_open,
        allocate: match options.fallocate {
            Fallocate::Native | Fallocate::Posix => Allocate::Blocks,
            Fallocate::Keep => Allocate::BlocksAlone,
            Fallocate::Truncate => Allocate::Length,
            Fallocate::None => Allocate::Never,
        },
        removes: options.unlink,
        ends_all: options.exit_all,
        data: match options.data {
            Data::Random => scenario::Data::Random,
            Data::HalfZero => scenario::Data::Compressible,
            Data::Zero => scenario::Data::Zero,
        },
        timed: [options.slat && options.engine.is_async, options.clat, options.lat],
        keeps: keeps(options),
        window: Some(Window {
            bytes: Duration::from_millis(options.bw_window_ms),
            requests: Duration::from_millis(options.iops_window_ms),
        }),
        seed: seed(options).wrapping_add(number as u64),
    })
}

fn refused(options: &JobOptions, why: &str) -> anyhow::Error {
    UsageError(format!("fio: job '{}': {why}", options.name)).into()
}

/// Requests that logs need.
fn keeps(options: &JobOptions) -> Option<Keep> {
    let logs = &options.logs;
    let is_logged = logs.bw.is_some() || logs.iops.is_some() || logs.lat.is_some();
    let keep = if logs.average_ms > 0 { Keep::Milliseconds } else { Keep::Each };
    is_logged.then_some(keep)
}

fn seed(options: &JobOptions) -> u64 {
    if let Some(seed) = options.seed {
        return seed;
    }
    if options.random_repeat {
        return SEED;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64 ^ u64::from(process::id()) << 32
}

fn open_flags(options: &JobOptions) -> OFlags {
    let mut flags = OFlags::empty();
    flags.set(OFlags::DIRECT, options.direct);
    flags.set(OFlags::SYNC, options.sync == Sync::Sync);
    flags.set(OFlags::DSYNC, options.sync != Sync::None);
    flags
}

fn check_unused(path: &Path) -> anyhow::Result<()> {
    let Some(who) = device::user_of(path.as_os_str()) else { return Ok(()) };
    bail!(
        "fio: '{}' is in use: {who}; free it, or write 'floodwall compat --destructive fio …'",
        path.display()
    )
}

/// The names of a job's files.
fn paths(job: &JobSpec) -> anyhow::Result<Vec<PathBuf>> {
    let options = &job.options;
    let directories = &options.directories;
    let directory = match directories.len() {
        0 => PathBuf::new(),
        count => PathBuf::from(&directories[job.clone as usize % count]),
    };
    if !directories.is_empty() && !directory.is_dir() {
        let name = directory.display();
        let why = format!("'{name}' is not a directory; make it, or name another directory");
        return Err(refused(options, &why));
    }
    if !options.filenames.is_empty() {
        let names = options.filenames.iter();
        // As fio joins them: an absolute name is below the directory, too.
        let joined = |name: &String| match directories.is_empty() {
            true => PathBuf::from(name),
            false => directory.join(name.trim_start_matches('/')),
        };
        return Ok(names.map(joined).collect());
    }
    let format = options.filename_format.as_deref().unwrap_or(FORMAT);
    let name = |number: u32| {
        let name = format.replace("$jobname", &options.name);
        let name = name.replace("$jobnum", &job.clone.to_string());
        directory.join(name.replace("$filenum", &number.to_string()))
    };
    Ok((0..options.files.unwrap_or(1)).map(name).collect())
}

/// The parts of the files that requests go to, as fio's `setup_files` has them (filesetup.c).
fn files(job: &JobSpec, paths: &[PathBuf]) -> anyhow::Result<Vec<JobFile>> {
    let options = &job.options;
    let count = paths.len() as u64;
    let file = |path: &PathBuf| {
        let failed = |why: &str| refused(options, &format!("'{}' {why}", path.display()));
        let there = Target::at(path).context("fio")?;
        let whole = there.map_or(0, |target| target.size);
        let increment = options.offset_increment.of(whole).checked_mul(u64::from(job.clone));
        let from = increment.and_then(|by| by.checked_add(aligned(options, options.offset, whole)));
        let from = from.ok_or_else(|| failed("has no such offset; lower offset_increment"))?;
        let rest = whole.checked_sub(from);
        let beyond = || failed("ends before the offset; lower offset, or raise size");
        let len = match (options.file_size, options.size) {
            (Some(len), _) => len.checked_sub(from).ok_or_else(beyond)?,
            (None, Some(Amount::Bytes(size))) if size > 0 => size / count,
            _ if whole == 0 => {
                return Err(failed("does not exist, and size is missing; write size=SIZE"));
            }
            (None, Some(amount @ Amount::Percent(_))) => {
                let least = options.block[0].min(options.block[1]);
                let len = amount.of(whole).min(rest.ok_or_else(beyond)?);
                if len == whole { len } else { len / least * least }
            }
            (None, _) => rest.ok_or_else(beyond)?,
        };
        let end = from.checked_add(len).filter(|end| *end <= LONGEST);
        end.ok_or_else(|| failed("would be too long for a file; lower offset or size"))?;
        let is_device = there.is_some_and(|target| target.is_device && target.size > 0);
        let len = if is_device { len.min(rest.unwrap_or(0)) } else { len };
        Ok(JobFile { path: path.clone(), from, len })
    };
    paths.iter().map(file).collect()
}

/// An offset in percent begins with a block.
fn aligned(options: &JobOptions, offset: Amount, whole: u64) -> u64 {
    let block = options.block[0].min(options.block[1]);
    match offset {
        Amount::Bytes(bytes) => bytes,
        percent @ Amount::Percent(_) => percent.of(whole) / block * block,
    }
}
