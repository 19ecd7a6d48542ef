//! Copies by pace itself.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use floodwall_host::SysRoot;
use floodwall_model::units::human_duration;
use floodwall_model::{Bytes, Rate};
use floodwall_pace::Pacer;
use floodwall_pace::copy::{self, CopyError, Input, Options, Progress, Request, Summary};
use indicatif::{ProgressBar, ProgressDrawTarget};
use rustix::io::Errno;
use signal_hook::consts::SIGPIPE;
use signal_hook::low_level::emulate_default_handler;

use super::args::{CatArgs, CpArgs, PaceArgs};
use super::guarded::Guarded;
use super::lines::{Others, StatusLines, why, yielded};
use crate::exit::{Exit, UsageError};
use crate::output::{self, notice};
use crate::signals;

/// Failures of entries that get a line each, at most.
const FAILURES: u64 = 100;

/// `pace cp`.
pub(super) fn cp(args: &PaceArgs, cp: &CpArgs) -> anyhow::Result<Exit> {
    let (destination, sources) = cp.paths.split_last().context("no destination")?;
    let request = Request {
        sources: sources.to_vec(),
        destination: destination.clone(),
        options: Options {
            recursive: cp.recursive,
            archive: cp.archive,
            resume: cp.resume,
            verify: cp.verify,
        },
    };
    let stop = signals::stop_flag()?;
    signals::fail_large_writes()?;
    let plan = copy::plan(&request).map_err(usage)?;
    let pacer = pacer(args, plan.directory())?;
    let guarded = Guarded::of(&pacer);
    let mut shown = Shown::new(args, &pacer, &guarded, true);
    let done = copy::run(&plan, &pacer, &mut |progress| shown.at(&progress), &stop);
    shown.end(args.quiet, done)
}

/// `pace cat`.
pub(super) fn cat(args: &PaceArgs, cat: &CatArgs) -> anyhow::Result<Exit> {
    let stop = signals::stop_flag()?;
    signals::fail_large_writes()?;
    // The disk of stdout's file counts, not that of the current directory.
    let out = std::fs::canonicalize("/proc/self/fd/1").unwrap_or_else(|_| PathBuf::from("."));
    let pacer = pacer(args, &existing(&out))?;
    let inputs: Vec<Input> = match cat.files.as_slice() {
        [] => vec![Input::Stdin],
        files => files
            .iter()
            .map(|file| match file.to_str() {
                Some("-") => Input::Stdin,
                _ => Input::File(file.clone()),
            })
            .collect(),
    };
    let guarded = Guarded::of(&pacer);
    // A bar would stand between the data's lines.
    let has_bar = !std::io::stdout().is_terminal();
    let mut shown = Shown::new(args, &pacer, &guarded, has_bar);
    let done = copy::cat(
        &inputs,
        std::os::fd::AsFd::as_fd(&std::io::stdout()),
        &pacer,
        &mut |progress| shown.at(&progress),
        &stop,
    );
    if let Err(CopyError::Io { errno: Errno::PIPE, .. }) = done {
        shown.clear();
        // The reader has gone. As cat(1), which that signal ends; the standard library ignores it.
        emulate_default_handler(SIGPIPE)?;
    }
    shown.end(args.quiet, done)
}

/// The pacer of the disk below a directory.
fn pacer(args: &PaceArgs, directory: &Path) -> anyhow::Result<Arc<Pacer>> {
    Ok(Arc::new(Pacer::open(&SysRoot::live()?, directory, args.to, args.max)?))
}

/// The path itself if it is a directory, else the nearest directory above it that exists.
fn existing(path: &Path) -> PathBuf {
    let found = path.ancestors().find(|dir| dir.is_dir() && !dir.as_os_str().is_empty());
    found.map_or_else(|| PathBuf::from("."), Path::to_owned)
}

/// A request that can't be carried out counts as wrong usage, because nothing was done.
fn usage(error: CopyError) -> anyhow::Error {
    UsageError(error.to_string()).into()
}

/// `1 file`, `2 files`.
fn files(count: u64) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

/// The text of a summary, without the words about others.
fn summarised(summary: &Summary) -> String {
    let Summary { bytes, reflinked, skipped, verified, elapsed, .. } = *summary;
    let written = summary.files.saturating_sub(reflinked);
    let took = human_duration(elapsed);
    let mut parts = Vec::new();
    if written > 0 || reflinked + skipped == 0 {
        // Pipes, terminals and /dev/null are on no disk.
        let where_to = if summary.streamed == 0 { " and on the disk" } else { "" };
        let rate = Rate(bytes as f64 / elapsed.as_secs_f64().max(1e-9));
        let (bytes, files) = (Bytes(bytes).decimal(), files(written));
        parts.push(format!("{bytes} in {files} copied{where_to} in {took}, {rate}"));
    }
    if summary.resumed_bytes > 0 {
        parts.push(format!("{} were there already", Bytes(summary.resumed_bytes).decimal()));
    }
    if reflinked > 0 {
        let shares = if reflinked == 1 { "shares" } else { "share" };
        let bytes = Bytes(summary.reflinked_bytes).decimal();
        parts.push(format!("{} {shares} {bytes} of blocks with the source", files(reflinked)));
    }
    if skipped > 0 {
        let were = if skipped == 1 { "was" } else { "were" };
        parts.push(format!("{} {were} there already", files(skipped)));
    }
    if verified > 0 {
        parts.push(format!("{} verified", files(verified)));
    }
    let said = parts.join("; ");
    if written > 0 || reflinked + skipped == 0 { said } else { format!("{said}; in {took}") }
}

/// Warnings about attributes that could not be kept.
fn unkept(summary: &Summary) {
    for (what, unkept) in &summary.unkept {
        let more = match unkept.entries {
            1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        notice(&format!(
            "warning: can't keep {what} of '{}'{more}: {}",
            unkept.first.display(),
            unkept.errno
        ));
    }
}

/// The display of a copy: lines with `--status`, else a bar on a terminal.
struct Shown<'a> {
    bar: Option<ProgressBar>,
    lines: Option<StatusLines<'a>>,
    pacer: &'a Pacer,
    guarded: &'a Guarded,
    /// Entries that could not be copied.
    failed: u64,
}

impl<'a> Shown<'a> {
    fn new(args: &PaceArgs, pacer: &'a Pacer, guarded: &'a Guarded, has_bar: bool) -> Self {
        let wanted = has_bar && !args.quiet && !args.status && output::stderr_is_terminal();
        let bar = wanted.then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(4);
            let bar = ProgressBar::with_draw_target(None, target);
            bar.set_style(output::bar_style("{bar:16} {percent:>3} %  {wide_msg}"));
            bar
        });
        let lines = args.status.then(|| StatusLines::new(pacer, guarded));
        Self { bar, lines, pacer, guarded, failed: 0 }
    }

    fn at(&mut self, progress: &Progress<'_>) {
        if let Some(failure) = progress.failure {
            self.failed += 1;
            if self.failed <= FAILURES {
                let line = format!("floodwall: {}", output::message(&failure.clone().into()));
                match &self.bar {
                    Some(bar) => bar.suspend(|| notice(&line)),
                    None => notice(&line),
                }
            }
        }
        if let Some(lines) = &mut self.lines {
            lines.at(progress.bytes_done);
        }
        if let Some(bar) = &self.bar {
            bar.set_length(progress.bytes_total.unwrap_or(progress.bytes_done));
            bar.set_position(progress.bytes_done);
            let rate = progress.rate().map_or_else(String::new, |rate| format!(", {}", Rate(rate)));
            let left = progress
                .remaining()
                .map_or_else(String::new, |left| format!(", {} left", human_duration(left)));
            let others = Others::by_guard(self.guarded);
            let why = why(&self.pacer.status(), self.pacer.disk(), &others);
            bar.set_message(format!("{}{rate}{left}; {why}", Bytes(progress.bytes_done).decimal()));
        }
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// The end of the copy: its summary, and warnings.
    fn end(self, quiet: bool, done: Result<Summary, CopyError>) -> anyhow::Result<Exit> {
        self.clear();
        if self.failed > FAILURES {
            notice(&format!("floodwall: and {} more", self.failed - FAILURES));
        }
        let (summary, failed) = match done {
            Ok(summary) => (summary, None),
            Err(CopyError::Partly { ref summary, .. }) => ((**summary).clone(), done.err()),
            Err(error) => return Err(error.into()),
        };
        if !quiet {
            notice(&format!("pace: {}{}", summarised(&summary), yielded(self.pacer)));
        }
        unkept(&summary);
        failed.map_or(Ok(Exit::Done), |error| Err(error.into()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_summary_says_what_was_copied_and_what_was_there() {
        let elapsed = Duration::from_secs(2);
        let none = Summary { elapsed, ..Summary::default() };
        let copied = Summary { bytes: 6_000_000, files: 2, ..none.clone() };
        for (summary, said) in [
            (copied.clone(), "6.00 MB in 2 files copied and on the disk in 2.00 s, 3.00 MB/s"),
            (none.clone(), "0 B in 0 files copied and on the disk in 2.00 s, 0 B/s"),
            (
                Summary { streamed: 2, ..copied.clone() },
                "6.00 MB in 2 files copied in 2.00 s, 3.00 MB/s",
            ),
            (
                Summary { files: 6, reflinked: 6, reflinked_bytes: 72_000_000, ..none.clone() },
                "6 files share 72.0 MB of blocks with the source; in 2.00 s",
            ),
            (
                Summary { skipped: 1, verified: 1, ..none.clone() },
                "1 file was there already; 1 file verified; in 2.00 s",
            ),
            (
                Summary { resumed_bytes: 1_000_000, skipped: 3, reflinked: 1, ..copied },
                "6.00 MB in 1 file copied and on the disk in 2.00 s, 3.00 MB/s; 1.00 MB were there \
                 already; 1 file shares 0 B of blocks with the source; 3 files were there already",
            ),
        ] {
            assert_eq!(summarised(&summary), said);
        }
    }
}
