//! Copies by pace itself.

use std::path::{Path, PathBuf};

use anyhow::Context;
use floodwall_host::SysRoot;
use floodwall_model::units::human_duration;
use floodwall_model::{Bytes, Rate};
use floodwall_pace::Pacer;
use floodwall_pace::copy::{self, CopyError, Input, Options, Progress, Request, Summary};
use indicatif::{ProgressBar, ProgressDrawTarget};

use super::args::{CatArgs, CpArgs, PaceArgs};
use super::guarded::Guarded;
use super::told::{self, Others, Told, why};
use crate::exit::{Exit, UsageError};
use crate::output::{self, notice};
use crate::signals;

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
    let plan = copy::plan(&request).map_err(usage)?;
    let pacer = pacer(args, plan.directory())?;
    let guarded = Guarded::of(&pacer);
    let mut shown = Shown::new(args, &pacer, &guarded);
    let done = copy::run(&plan, &pacer, &mut |progress| shown.at(&progress), &stop);
    shown.ended(args.quiet, done)
}

/// `pace cat`.
pub(super) fn cat(args: &PaceArgs, cat: &CatArgs) -> anyhow::Result<Exit> {
    let stop = signals::stop_flag()?;
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
    let mut shown = Shown::new(args, &pacer, &guarded);
    let done = copy::cat(
        &inputs,
        std::os::fd::AsFd::as_fd(&std::io::stdout()),
        &pacer,
        &mut |progress| shown.at(&progress),
        &stop,
    );
    shown.ended(args.quiet, done)
}

/// The pacer of the disk below a directory.
fn pacer(args: &PaceArgs, directory: &Path) -> anyhow::Result<Pacer> {
    Ok(Pacer::open(&SysRoot::live()?, directory, args.to, args.max)?)
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

fn summarised(summary: &Summary, pacer: &Pacer) -> String {
    let files = match summary.files {
        1 => "1 file".to_owned(),
        files => format!("{files} files"),
    };
    let rate = Rate(summary.bytes as f64 / summary.elapsed.as_secs_f64().max(1e-9));
    format!(
        "pace: {} in {files} copied and on the disk in {}, {rate}{}",
        Bytes(summary.bytes).decimal(),
        human_duration(summary.elapsed),
        told::yielded(pacer)
    )
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
    told: Option<Told<'a>>,
    pacer: &'a Pacer,
    guarded: &'a Guarded,
}

impl<'a> Shown<'a> {
    fn new(args: &PaceArgs, pacer: &'a Pacer, guarded: &'a Guarded) -> Self {
        let wanted = !args.quiet && !args.status && output::stderr_is_terminal();
        let bar = wanted.then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(4);
            let bar = ProgressBar::with_draw_target(None, target);
            bar.set_style(output::bar_style("{bar:16} {percent:>3} %  {wide_msg}"));
            bar
        });
        let told = args.status.then(|| Told::new(pacer, guarded));
        Self { bar, told, pacer, guarded }
    }

    fn at(&mut self, progress: &Progress<'_>) {
        if let Some(told) = &mut self.told {
            told.at(progress.bytes_done);
        }
        if let Some(bar) = &self.bar {
            bar.set_length(progress.bytes_total.unwrap_or(progress.bytes_done));
            bar.set_position(progress.bytes_done);
            let rate = progress.rate().map_or_else(String::new, |rate| format!(", {}", Rate(rate)));
            let left = progress
                .remaining()
                .map_or_else(String::new, |left| format!(", {} left", human_duration(left)));
            let others = Others::told(self.guarded);
            let why = why(&self.pacer.status(), self.pacer.disk(), &others);
            bar.set_message(format!("{}{rate}{left}; {why}", Bytes(progress.bytes_done).decimal()));
        }
    }

    /// The end of the copy: its summary, and warnings.
    fn ended(self, quiet: bool, done: Result<Summary, CopyError>) -> anyhow::Result<Exit> {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let summary = done?;
        if !quiet {
            notice(&summarised(&summary, self.pacer));
        }
        unkept(&summary);
        Ok(Exit::Done)
    }
}
