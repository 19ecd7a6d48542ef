//! `disktest`: transfers to one file or device, by crate load.
//!
//! ```text
//! words ─▶ compat::disktest::Options ─▶ target (there? large enough? in use?) ─▶ Extent
//!       ─▶ Plan ─▶ FileRun ─ heartbeats, totals ─▶ Figures ─▶ Report ─▶ stdout
//! ```

use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use floodwall_compat::disktest::{
    Counts, Data, Extent, Figures, Kind, Level, OptionError, Options, Report, Seeks, Version,
};
use floodwall_load::LoadError;
use floodwall_load::fileio::{
    self, EndSync, FileRun, FileSample, FileSet, Mode, Part, Pause, Plan, Target, Way,
};
use floodwall_stats::random::Random;
use jiff::Zoned;
use rustix::fs::OFlags;

use super::device;
use super::meter::Meter;
use crate::exit::{Exit, UsageError};
use crate::{output, signals};

/// How long an interrupt may wait.
const LOOK: Duration = Duration::from_millis(50);
/// The format of a line's moment.
const MOMENT: &str = "%Y/%m/%d-%H:%M:%S";
/// Bytes that are drawn for `-z`.
const RANDOM_BYTES: u32 = 512;

/// Runs the tool.
///
/// # Errors
/// An option that is not supported, a target that is missing, too small, of another type or in
/// use, stdout that can't be written.
pub(super) fn run(words: &[String], may_destroy: bool, meter: Meter<'_>) -> anyhow::Result<Exit> {
    let mut options = Options::parse(words).map_err(|e| UsageError(e.to_string()))?;
    let extent = examine(&mut options, may_destroy)?;
    let printer = Printer(Report { options: &options, pid: process::id() });
    match pass(&printer, &extent, meter) {
        Err(error) if error.is::<Gone>() => Ok(Exit::Done),
        done => done,
    }
}

/// The bytes of the target that take part. Nothing is written yet.
fn examine(options: &mut Options, may_destroy: bool) -> anyhow::Result<Extent> {
    let path = Path::new(&options.target).to_owned();
    let target = Target::at(&path).context("disktest")?;
    let usage = |e: OptionError| UsageError(e.to_string());
    options.settle(target.map(|target| target.is_device)).map_err(usage)?;
    // A new file is made in a directory that is there.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent.filter(|parent| target.is_none() && !parent.is_dir()) {
        let parent = parent.display();
        let why = format!("disktest: there is no directory '{parent}'; make it first");
        return Err(UsageError(why).into());
    }
    let is_device = target.is_some_and(|target| target.is_device);
    if options.writes
        && !may_destroy
        && let Some(who) = device::user_of(path.as_os_str())
    {
        let name = path.display();
        anyhow::bail!(
            "disktest: '{name}' is in use: {who}; free it, or write 'floodwall compat \
             --destructive disktest …'"
        );
    }
    Ok(Extent::of(options, target.map(|target| target.size), !is_device).map_err(usage)?)
}

/// The reader of stdout went away: a run ends, which would be for nothing.
#[derive(Debug, thiserror::Error)]
#[error("stdout is closed")]
struct Gone;

/// Lines on stdout, each at once.
struct Printer<'a>(Report<'a>);

impl Printer<'_> {
    fn print(&self, level: Level, text: &str) -> anyhow::Result<()> {
        let line = self.0.line(&Zoned::now().strftime(MOMENT).to_string(), level, text);
        if output::part_with(|out| Ok(out.write_all(line.as_bytes())?))? {
            Ok(())
        } else {
            Err(Gone.into())
        }
    }

    fn all(&self, texts: Vec<String>) -> anyhow::Result<()> {
        texts.iter().try_for_each(|text| self.print(Level::Stat, text))
    }
}

/// From the first line to the last.
fn pass(printer: &Printer<'_>, extent: &Extent, meter: Meter<'_>) -> anyhow::Result<Exit> {
    let stop = signals::stop_flag()?;
    printer.print(Level::Start, &printer.0.start(extent))?;
    printer.print(Level::Info, "Starting pass")?;
    let is_passed = match measure(printer, extent, &stop, meter) {
        Err(error) if error.is::<LoadError>() => {
            printer.print(Level::Error, &error.to_string())?;
            false
        }
        done => done?,
    };
    let (how, exit) = if is_passed { ("Passed", Exit::Done) } else { ("Failed", Exit::Failed) };
    printer.print(Level::End, &format!("Test Done ({how})"))?;
    Ok(exit)
}

/// The engine's plan.
fn plan(options: &Options, extent: &Extent) -> Plan {
    let is_linear = options.seeks_as == Seeks::Linear;
    let every = options.sync_every;
    Plan {
        way: if is_linear { Way::Sequential { laps: None } } else { Way::Random },
        mode: match (options.reads, options.writes) {
            (_, false) => Mode::Read,
            (false, true) => Mode::Write,
            (true, true) if options.seeks_as == Seeks::Random => {
                let (reads, writes) = options.duty;
                Mode::Mixed(f64::from(reads) / f64::from(writes))
            }
            (true, true) => Mode::WriteThenRead,
        },
        block: options.block,
        threads: options.threads,
        sync_every: every.filter(|every| *every > 1),
        sync_each: every == Some(1),
        end_sync: match options.kind {
            Kind::File => EndSync::ByThread,
            Kind::Raw | Kind::Block => EndSync::Never,
        },
        data_only: false,
        syncs_are_events: false,
        limit: extent.seeks,
        rate: None,
        seed: seed(options),
    }
}

fn seed(options: &Options) -> u64 {
    options.seed.unwrap_or_else(|| process::id().into())
}

/// The target, opened for what is done to it alone.
fn files(options: &Options, extent: &Extent) -> Result<FileSet, LoadError> {
    let mut flags = match (options.reads, options.writes) {
        (_, false) => OFlags::RDONLY,
        (false, true) => OFlags::WRONLY,
        (true, true) => OFlags::RDWR,
    };
    flags.set(OFlags::CREATE, options.writes && options.kind == Kind::File);
    flags.set(OFlags::DIRECT, options.direct);
    let pattern = match options.data {
        Data::Counter => (0..=u8::MAX).collect(),
        Data::Random => {
            let mut random = Random::seeded(seed(options));
            (0..RANDOM_BYTES).map(|_| random.below(256) as u8).collect()
        }
    };
    let part = Part { from: extent.from, len: extent.len };
    FileSet::of_target(Path::new(&options.target), flags, part, pattern)
}

/// Makes the transfers and prints their figures; whether all went well.
fn measure(
    printer: &Printer<'_>,
    extent: &Extent,
    stop: &AtomicBool,
    meter: Meter<'_>,
) -> anyhow::Result<bool> {
    let options = printer.0.options;
    let (least, most) = options.pause_ms;
    let pause = Pause { least: Duration::from_millis(least), most: Duration::from_millis(most) };
    let pause = Some(pause).filter(|pause| !pause.most.is_zero());
    let mut run =
        FileRun::start_with_pauses(files(options, extent)?, plan(options, extent), pause)?;
    let _followed = meter.follow_files(&run)?;
    let mut course = Course::of(&run, options);
    let mut is_passed = true;
    let ended = loop {
        if let Some(ended) = run.wait_until(Some(course.next())) {
            break ended;
        }
        let (now, done) = (Instant::now(), figures(&run.sample()));
        if course.end.is_some() {
            continue;
        }
        if course.is_beat(now) {
            printer.all(printer.0.heartbeat(&course.beat(done, options.version)))?;
        }
        course.look(now, &done, extent.seeks);
        let is_hung = course.is_hung(now, options.timeout_s);
        if is_hung || stop.load(Ordering::Relaxed) {
            let (level, text) = match options.timeout_s.filter(|_| is_hung) {
                Some(s) => (Level::Error, format!("no transfer ended within {s} seconds")),
                None => (Level::Warn, "interrupted".to_owned()),
            };
            printer.print(level, &text)?;
            (course.end, is_passed) = (Some(now), false);
        }
        if course.end.is_some() {
            run.ask_to_stop();
        }
    };
    let seconds = course.seconds(ended);
    let all = Figures { seconds, ..figures(&run.finish()?) };
    printer.all(printer.0.totals(&all))?;
    Ok(is_passed)
}

/// A run's moments.
struct Course {
    begin: Instant,
    /// When it is asked to stop.
    deadline: Option<Instant>,
    /// Seconds from heartbeat to heartbeat, and those of the next one.
    every_s: u64,
    beat_s: Option<u64>,
    /// At the last heartbeat.
    last: Figures,
    /// How many transfers there were, and since when.
    moved: (u64, Instant),
    /// When the last transfer that counts was begun, or almost: syncs may follow.
    end: Option<Instant>,
}

impl Course {
    fn of(run: &FileRun, options: &Options) -> Self {
        let begin = run.begin();
        let every_s = options.heartbeat_s.map_or(0, u64::from);
        Self {
            begin,
            deadline: options.time_s.map(|seconds| begin + Duration::from_secs(seconds.into())),
            every_s,
            beat_s: (every_s > 0).then_some(every_s),
            last: Figures::default(),
            moved: (0, begin),
            end: None,
        }
    }

    /// When there is something to do.
    fn next(&self) -> Instant {
        let moments = [self.deadline.filter(|_| self.end.is_none()), self.next_beat()];
        moments.into_iter().flatten().chain([Instant::now() + LOOK]).min().unwrap_or(self.begin)
    }

    /// The next heartbeat. There is none at the end.
    fn next_beat(&self) -> Option<Instant> {
        let beat = self.begin + Duration::from_secs(self.beat_s?);
        let is_before = self.end.is_none() && self.deadline.is_none_or(|deadline| beat < deadline);
        is_before.then_some(beat)
    }

    fn is_beat(&self, now: Instant) -> bool {
        self.next_beat().is_some_and(|beat| now >= beat)
    }

    /// The figures of a heartbeat.
    fn beat(&mut self, done: Figures, version: Version) -> Figures {
        let seconds = self.beat_s.unwrap_or(1);
        self.beat_s = Some(seconds + self.every_s);
        let all = Figures { seconds, ..done };
        let before = std::mem::replace(&mut self.last, all);
        match version {
            Version::V1_2 => all,
            Version::V1_4 => Figures {
                seconds: seconds - before.seconds,
                reads: all.reads.since(before.reads),
                writes: all.writes.since(before.writes),
            },
        }
    }

    /// Notes what has moved, and the end.
    fn look(&mut self, now: Instant, done: &Figures, seeks: Option<u64>) {
        let transfers = done.reads.transfers + done.writes.transfers;
        if transfers > self.moved.0 {
            self.moved = (transfers, now);
        }
        let is_over = seeks.is_some_and(|seeks| transfers >= seeks);
        if is_over || self.deadline.is_some_and(|deadline| now >= deadline) {
            self.end = Some(now);
        }
    }

    fn is_hung(&self, now: Instant, timeout_s: Option<u32>) -> bool {
        let timeout = timeout_s.map(|seconds| Duration::from_secs(seconds.into()));
        self.end.is_none() && timeout.is_some_and(|timeout| now - self.moved.1 >= timeout)
    }

    /// Whole seconds up to the end.
    fn seconds(&self, ended: Instant) -> u64 {
        (self.end.unwrap_or(ended) - self.begin).as_secs().max(1)
    }
}

fn figures(sample: &FileSample) -> Figures {
    let fileio::Counts { reads, writes, read_bytes, written_bytes, .. } = sample.counts;
    Figures {
        seconds: 0,
        reads: Counts { transfers: reads, bytes: read_bytes },
        writes: Counts { transfers: writes, bytes: written_bytes },
    }
}
