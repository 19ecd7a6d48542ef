//! `sysbench`: its fileio test, run by crate load in the current directory.
//!
//! ```text
//! words ─▶ compat::sysbench::Options ─┬▶ prepare, cleanup ─▶ load::fileio::{make, remove}
//!                                     └▶ run ─▶ Plan ─▶ FileRun ─▶ Figures ─▶ Report ─▶ stdout
//! ```

use std::path::Path;
use std::process;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use floodwall_compat::sysbench::{
    Command, Counts, Dialect, Figures, Made, Mode, OpenFlags, Options, Report, ThreadCounts,
};
use floodwall_load::fileio::{
    self, EndSync, FileIoError, FileRun, FileSample, FileSet, Found, Plan, Size, Way,
};
use floodwall_load::{Dir, LoadError};
use floodwall_model::LatencyCounts;
use rustix::fs::OFlags;

use super::meter::Meter;
use crate::exit::{Exit, UsageError};
use crate::{output, signals};

/// Where the files are.
const HERE: &str = ".";
/// A line of a run is this late: a run whose time is up at the same moment ends before it.
const LATE: Duration = Duration::from_millis(1);

/// Runs the tool.
///
/// # Errors
/// An option that is not supported, files that are missing or don't fit, a failed call on one,
/// stdout that can't be written.
pub(super) fn run(words: &[String], meter: Meter<'_>) -> anyhow::Result<Exit> {
    let options = Options::parse(words).map_err(|e| UsageError(e.to_string()))?;
    match command(&here()?, &options, meter) {
        Err(error) if error.is::<Gone>() => Ok(Exit::Done),
        done => done.map(|()| Exit::Done),
    }
}

fn here() -> anyhow::Result<Dir> {
    Dir::open(Path::new(HERE)).context("can't open the current directory")
}

/// Whether a run finds the files that it does not make. Nothing is written to them.
///
/// # Errors
/// The first file that is missing or does not fit.
pub(super) fn check(options: &Options) -> anyhow::Result<()> {
    match options.mode {
        None | Some(Mode::SeqWr) => Ok(()),
        Some(mode) => files(&here()?, options, mode).map(drop),
    }
}

fn command(dir: &Dir, options: &Options, meter: Meter<'_>) -> anyhow::Result<()> {
    let report = Report(options);
    report.warning().into_iter().for_each(output::notice);
    tell(&report.head(concat!("floodwall ", env!("CARGO_PKG_VERSION"))))?;
    match options.command {
        Command::Prepare => prepare(dir, options, report),
        Command::Run => measure(dir, options, report, meter),
        Command::Cleanup => {
            tell(report.removing())?;
            Ok(fileio::remove(dir, options.files)?)
        }
    }
}

/// The reader of stdout went away: a run ends, which would be for nothing.
#[derive(Debug, thiserror::Error)]
#[error("stdout is closed")]
struct Gone;

/// Writes a part of the output at once; whether there is a reader.
fn write(text: &str) -> anyhow::Result<bool> {
    output::part_with(|out| Ok(out.write_all(text.as_bytes())?))
}

/// The same of work that is done without a reader, too.
fn tell(text: &str) -> anyhow::Result<()> {
    write(text).map(drop)
}

/// The same of a run.
fn print(text: &str) -> anyhow::Result<()> {
    if write(text)? { Ok(()) } else { Err(Gone.into()) }
}

fn size(options: &Options, block: u64) -> Size {
    Size { files: options.files, len: options.file_len(), block }
}

fn open_flags(flags: OpenFlags) -> OFlags {
    let pairs =
        [(flags.sync, OFlags::SYNC), (flags.dsync, OFlags::DSYNC), (flags.direct, OFlags::DIRECT)];
    pairs.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| *flag).collect()
}

fn prepare(dir: &Dir, options: &Options, report: Report<'_>) -> anyhow::Result<()> {
    let stop = signals::stop_flag()?;
    tell(&report.making())?;
    let begin = Instant::now();
    let written = make(dir, options, report, &stop)?;
    tell(&report.written(written, begin.elapsed()))
}

fn make(
    dir: &Dir,
    options: &Options,
    report: Report<'_>,
    stop: &AtomicBool,
) -> anyhow::Result<u64> {
    let mut printed = Ok(());
    let mut found = |name: &str, found| {
        let made = match found {
            Found::Nothing => Made::Created,
            Found::Part => Made::Extended,
            Found::Whole => Made::Reused,
        };
        if printed.is_ok() {
            printed = tell(&report.made(name, made));
        }
    };
    let flags = open_flags(options.flags);
    let made = fileio::make(dir, size(options, options.block), flags, &mut found, stop);
    let written = match made {
        Err(FileIoError::Load(LoadError::Interrupted)) => anyhow::bail!(
            "sysbench: prepare was interrupted and removed nothing; prepare again to go on, or \
             cleanup"
        ),
        made => made.context("sysbench: prepare")?,
    };
    printed.map(|()| written)
}

/// The engine's plan.
fn plan(options: &Options, mode: Mode) -> Plan {
    let is_old = options.dialect == Dialect::V0_4;
    let is_random = mode.is_random();
    let sync_every = (options.fsync_freq > 0).then_some(u64::from(options.fsync_freq));
    let limit = (options.events > 0).then_some(options.events);
    Plan {
        way: match is_random {
            true => Way::Random,
            false => Way::Sequential { laps: is_old.then_some(1) },
        },
        mode: match mode {
            Mode::SeqRd | Mode::RndRd => fileio::Mode::Read,
            Mode::RndRw => fileio::Mode::Mixed(options.rw_ratio),
            Mode::SeqWr | Mode::SeqReWr | Mode::RndWr => fileio::Mode::Write,
        },
        block: options.request_len(),
        threads: options.threads,
        // 0.4 prints both of a sequential run, and does neither.
        sync_every: sync_every.filter(|_| is_random || !is_old),
        limit: limit.filter(|_| is_random || !is_old),
        sync_each: options.fsync_all,
        end_sync: match (options.fsync_end, is_old) {
            (false, _) => EndSync::Never,
            (true, false) => EndSync::ByThread,
            (true, true) => EndSync::AfterLast,
        },
        data_only: options.fdatasync,
        syncs_are_events: !is_old,
        rate: (options.rate > 0).then_some(f64::from(options.rate)),
        seed: options.seed.unwrap_or_else(seed),
    }
}

/// Another one each time.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64 ^ u64::from(process::id()) << 32
}

/// The files of a run, opened; new ones for [`Mode::SeqWr`].
fn files(dir: &Dir, options: &Options, mode: Mode) -> anyhow::Result<FileSet> {
    let (size, flags) = (size(options, options.request_len()), open_flags(options.flags));
    let files = match mode {
        Mode::SeqWr => FileSet::create(dir, size, flags),
        // 0.4 does not look at lengths: the file that was published in 2010 was 88 KiB short.
        Mode::SeqReWr | Mode::RndWr if options.dialect == Dialect::V0_4 => {
            FileSet::open_of_any_length(dir, size, flags)
        }
        _ => FileSet::open(dir, size, flags),
    };
    files.context("sysbench")
}

fn measure(
    dir: &Dir,
    options: &Options,
    report: Report<'_>,
    meter: Meter<'_>,
) -> anyhow::Result<()> {
    let mode = options.mode.context("sysbench: run needs a mode")?;
    print(&report.setup())?;
    let mut run = FileRun::start(files(dir, options, mode)?, plan(options, mode))?;
    let _followed = meter.follow_files(&run)?;
    print(report.started())?;
    let mut course = Course::of(&mut run, options);
    let ended = loop {
        let moment = course.next();
        if let Some(ended) = run.wait_until(moment) {
            break ended;
        }
        let now = Instant::now();
        if course.deadline.is_some_and(|deadline| now >= deadline) {
            (course.deadline, course.out_of_time) = (None, true);
            run.ask_to_stop();
        }
        if course.line.is_some_and(|line| now >= line) {
            let figures = course.interval(run.sample(), now);
            print(&report.interval(now - course.begin, &figures))?;
        }
    };
    let (begin, out_of_time) = (course.begin, course.out_of_time);
    let figures = course.whole(run.finish().context("sysbench")?, ended - begin);
    print(&report.end(&figures, out_of_time))
}

/// A run's moments, and its counts at the last of them.
struct Course {
    /// When figures begin.
    begin: Instant,
    /// When it is asked to stop.
    deadline: Option<Instant>,
    out_of_time: bool,
    /// When the next line is due, and the time between lines.
    line: Option<Instant>,
    interval: Duration,
    /// At the begin, after the time to warm up.
    first: FileSample,
    /// At the last line.
    last: (Counts, Instant),
    /// Of the intervals so far.
    latencies: LatencyCounts,
    min_ns: u64,
}

impl Course {
    /// Begins after the time to warm up, if the run does not end before.
    fn of(run: &mut FileRun, options: &Options) -> Self {
        let (mut begin, mut first) = (run.begin(), FileSample::default());
        if options.warmup_s > 0 {
            begin += Duration::from_secs(options.warmup_s.into());
            let _ = run.wait_until(Some(begin));
            first = run.sample();
        }
        let after =
            |seconds: u32| (seconds > 0).then(|| begin + Duration::from_secs(seconds.into()));
        Self {
            begin,
            deadline: after(options.time_s),
            out_of_time: false,
            line: after(options.interval_s).map(|line| line + LATE),
            interval: Duration::from_secs(options.interval_s.into()),
            last: (counts(&first), begin),
            first,
            latencies: LatencyCounts::default(),
            min_ns: u64::MAX,
        }
    }

    /// When there is something to do.
    fn next(&self) -> Option<Instant> {
        self.deadline.into_iter().chain(self.line).min()
    }

    /// Since the last line.
    fn interval(&mut self, sample: FileSample, now: Instant) -> Figures {
        self.line = self.line.map(|line| line + self.interval);
        self.latencies.merge(&sample.latencies);
        self.min_ns = self.min_ns.min(sample.min_ns);
        let (before, since) = std::mem::replace(&mut self.last, (counts(&sample), now));
        Figures {
            elapsed: now - since,
            counts: self.last.0.since(&before),
            latencies: sample.latencies,
            ..Figures::default()
        }
    }

    /// Since the begin.
    fn whole(mut self, sample: FileSample, elapsed: Duration) -> Figures {
        self.latencies.merge(&sample.latencies);
        let min_ns = self.min_ns.min(sample.min_ns);
        let before = self.first.threads.iter().copied().map(thread);
        // Without a time to warm up there is no first sample.
        let before = before.chain(std::iter::repeat(ThreadCounts::default()));
        let threads = sample.threads.iter().copied().map(thread).zip(before);
        Figures {
            elapsed,
            counts: counts(&sample).since(&counts(&self.first)),
            min_ns: if self.latencies.is_empty() { 0 } else { min_ns },
            latencies: self.latencies,
            threads: threads.map(|(now, before)| now.since(before)).collect(),
        }
    }
}

fn counts(sample: &FileSample) -> Counts {
    let fileio::Counts { reads, writes, syncs, read_bytes, written_bytes } = sample.counts;
    Counts { reads, writes, syncs, read_bytes, written_bytes }
}

fn thread(thread: fileio::ThreadCounts) -> ThreadCounts {
    ThreadCounts { events: thread.events, event_ns: thread.event_ns }
}
