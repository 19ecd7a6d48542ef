//! `iostat`: samples of /proc at each interval, until the last report or an interrupt.
//!
//! ```text
//! words ─▶ compat::iostat::Options
//! /proc, clock, uname ─▶ Sample ─▶ Report ─▶ stdout, each report at once
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

use floodwall_compat::iostat::{Machine, Options, Partitions, Report, Sample};
use floodwall_host::SysRoot;
use floodwall_model::printable;
use jiff::Zoned;

use crate::exit::{Exit, UsageError};
use crate::{output, signals};

/// Formats of the day and of a moment where `S_TIME_FORMAT` is `ISO`.
const ISO: (&str, &str) = ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S%z");
/// The same otherwise, as the locale C has them.
const POSIX: (&str, &str) = ("%m/%d/%y", "%m/%d/%y %H:%M:%S");
/// How long an interrupt may wait.
const LOOK: Duration = Duration::from_millis(50);

/// Runs the tool.
///
/// # Errors
/// An option that is not supported, files of /proc that can't be read, stdout that can't be
/// written.
pub(super) fn run(words: &[String]) -> anyhow::Result<Exit> {
    let words: Vec<String> = words.iter().map(|word| kernel_name(word)).collect();
    let options = Options::parse(&words).map_err(|e| UsageError(e.to_string()))?;
    let interval = options.interval_s.map(|seconds| Duration::from_secs(seconds.into()));
    let is_json = options.json;
    let is_iso = env::var_os("S_TIME_FORMAT").is_some_and(|format| format == "ISO");
    let (day, time) = if is_iso { ISO } else { POSIX };
    let root = SysRoot::live()?;
    let stop = signals::stop_flag()?;
    let mut report = Report::new(options);
    let mut due = Instant::now();
    let (mut now, mut next) = (Zoned::now(), sample(&root)?);
    let header = report.header(&machine(), &next, &now.strftime(day).to_string());
    if !write(&header, is_json)? {
        return Ok(Exit::Done);
    }
    loop {
        let text = report.next(next, &partitions(&root), &now.strftime(time).to_string());
        if !write(&text, is_json)? {
            return Ok(Exit::Done);
        }
        let Some(interval) = interval.filter(|_| !report.is_done()) else { break };
        due += interval;
        if !wait(due, &stop) {
            break;
        }
        (now, next) = (Zoned::now(), sample(&root)?);
    }
    write(report.footer(), is_json)?;
    Ok(Exit::Done)
}

/// Writes a text at once; whether there is still a reader.
fn write(text: &str, is_json: bool) -> anyhow::Result<bool> {
    let text = if is_json { printable::json(text) } else { printable::lines(text) };
    output::part_with(|out| Ok(out.write_all(text.as_bytes())?))
}

/// Waits for a moment; whether it came before an interrupt.
fn wait(due: Instant, stop: &AtomicBool) -> bool {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(LOOK));
    }
}

fn sample(root: &SysRoot) -> anyhow::Result<Sample> {
    let read = |path: &str| {
        let text = root.read(path);
        let why = text.why().unwrap_or_default();
        text.into_value().ok_or_else(|| anyhow::anyhow!("{why}; iostat needs {path}"))
    };
    // The uptime is the divisor of what disks did until it is read.
    let (stat, disks) = (read("/proc/stat")?, read("/proc/diskstats")?);
    Ok(Sample::parse(&stat, &disks, &read("/proc/uptime")?)?)
}

/// Partitions and their disks: `/sys/class/block/sda1` leads to `…/block/sda/sda1`.
fn partitions(root: &SysRoot) -> Partitions {
    let pair = |name: String| {
        let path = format!("/sys/class/block/{name}");
        root.exists(&format!("{path}/partition")).then_some(())?;
        let target = root.link_target(&path).into_value()?;
        let disk = target.rsplit('/').nth(1)?.to_owned();
        Some((name, disk))
    };
    let names = root.list("/sys/class/block").into_value().unwrap_or_default();
    names.into_iter().filter_map(pair).collect()
}

fn machine() -> Machine {
    let uname = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    Machine {
        nodename: text(uname.nodename()),
        sysname: text(uname.sysname()),
        release: text(uname.release()),
        machine: text(uname.machine()),
    }
}

/// A link in /dev, such as /dev/disk/by-id/…, by the kernel's name of its device.
fn kernel_name(word: &str) -> String {
    let target = word.starts_with("/dev/").then(|| fs::canonicalize(word).ok()).flatten();
    target.map_or_else(|| word.to_owned(), |path| path.to_string_lossy().into_owned())
}
