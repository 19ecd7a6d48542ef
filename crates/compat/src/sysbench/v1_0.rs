//! The texts of 1.0.20.

use std::fmt::Write;
use std::time::Duration;

use super::figures::{Figures, MIB};
use super::kinds::Mode;
use super::options::Options;
use super::{percentile, size};

pub(super) const STARTED: &str = "Initializing worker threads...\n\nThreads started!\n\n";

/// The warning of `--test`.
pub(super) const TEST: &str = "WARNING: the --test option is deprecated. You can pass a script \
    name or path on the command line without any options.";

pub(super) fn head(options: &Options, version: &str) -> String {
    let mut text = String::new();
    for (old, new) in &options.deprecated {
        let _ = writeln!(text, "WARNING: --{old} is deprecated, use --{new} instead");
    }
    let _ = writeln!(text, "sysbench 1.0.20 (using {version})\n");
    text
}

pub(super) fn making(options: &Options) -> String {
    format!(
        "{} files, {}Kb each, {}Mb total\nCreating files for the test...\n{}",
        options.files,
        options.file_len() / 1024,
        options.file_len() * u64::from(options.files) / (1 << 20),
        open_flags(options)
    )
}

pub(super) fn written(bytes: u64, took: Duration) -> String {
    if bytes == 0 {
        return "No bytes written.\n".to_owned();
    }
    let seconds = took.as_secs_f64();
    let rate = bytes as f64 / MIB / seconds.max(f64::MIN_POSITIVE);
    format!("{bytes} bytes written in {seconds:.2} seconds ({rate:.2} MiB/sec).\n")
}

fn open_flags(options: &Options) -> String {
    let flags = options.flags;
    let names = [(flags.sync, "sync "), (flags.dsync, "dsync "), (flags.direct, "directio")];
    let names: String = names.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name).collect();
    format!("Extra file open flags: {}\n", if names.is_empty() { "(none)" } else { &names })
}

/// The options as both dialects' banners have them, from the periodic sync on.
pub(super) fn syncs_and_mode(options: &Options) -> String {
    let mut text = String::new();
    if options.fsync_freq > 0 {
        let every = options.fsync_freq;
        let _ = writeln!(text, "Periodic FSYNC enabled, calling fsync() each {every} requests.");
    }
    if options.fsync_end {
        text += "Calling fsync() at the end of test, Enabled.\n";
    }
    if options.fsync_all {
        text += "Calling fsync() after each write operation.\n";
    }
    let mode = match options.mode {
        None => return text,
        Some(Mode::SeqWr) => "sequential write (creation)",
        Some(Mode::SeqReWr) => "sequential rewrite",
        Some(Mode::SeqRd) => "sequential read",
        Some(Mode::RndRd) => "random read",
        Some(Mode::RndWr) => "random write",
        Some(Mode::RndRw) => "random r/w",
    };
    let _ = writeln!(text, "Using synchronous I/O mode\nDoing {mode} test");
    text
}

pub(super) fn setup(options: &Options) -> String {
    let threads = options.threads;
    let mut text =
        format!("Running the test with following options:\nNumber of threads: {threads}\n");
    if options.rate > 0 {
        let _ = writeln!(text, "Target transaction rate: {}/sec", options.rate);
    }
    if options.interval_s > 0 {
        let _ =
            writeln!(text, "Report intermediate results every {} second(s)", options.interval_s);
    }
    let seed = options.seed.map_or_else(|| "current time".to_owned(), |n| format!("seed ({n})."));
    let _ = write!(text, "Initializing random number generator from {seed}\n\n\n");
    text += &open_flags(options);
    let all = options.file_len() * u64::from(options.files);
    let each = size::binary(options.file_len());
    let _ = writeln!(text, "{} files, {each} each", options.files);
    let _ = writeln!(text, "{} total file size", size::binary(all));
    let _ = writeln!(text, "Block size {}", size::binary(options.block));
    if options.merged > 0 {
        let merged = size::binary(options.block * u64::from(options.merged));
        let _ = writeln!(text, "Merging requests up to {merged} for sequential IO.");
    }
    if options.mode.is_some_and(Mode::is_random) {
        let _ = writeln!(text, "Number of IO requests: {}", options.events);
        let ratio = options.rw_ratio;
        let _ = writeln!(text, "Read/Write ratio for combined random IO test: {ratio:.2}");
    }
    text + &syncs_and_mode(options)
}

pub(super) fn interval(options: &Options, at: Duration, figures: &Figures) -> String {
    let counts = &figures.counts;
    format!(
        "[ {:.0}s ] reads: {:.2} MiB/s writes: {:.2} MiB/s fsyncs: {:.2}/s latency (ms,{}%): {:.3}
",
        at.as_secs_f64(),
        figures.mib_rate(counts.read_bytes),
        figures.mib_rate(counts.written_bytes),
        figures.rate(counts.syncs),
        options.percentile,
        percentile::stepped_ms(&figures.latencies, options.percentile)
    )
}

pub(super) fn end(options: &Options, figures: &Figures) -> String {
    let counts = &figures.counts;
    let latencies = &figures.latencies;
    let mut text = String::new();
    if options.histogram {
        text += "Latency histogram (values are in milliseconds)\n";
        text += &percentile::histogram(latencies);
        text += " \n";
    }
    let _ = write!(
        text,
        "
File operations:
    reads/s:                      {:.2}
    writes/s:                     {:.2}
    fsyncs/s:                     {:.2}

Throughput:
    read, MiB/s:                  {:.2}
    written, MiB/s:               {:.2}

General statistics:
    total time:                          {:.4}s
    total number of events:              {}

Latency (ms):
         min:                            {:12.2}
         avg:                            {:12.2}
         max:                            {:12.2}
",
        figures.rate(counts.reads),
        figures.rate(counts.writes),
        figures.rate(counts.syncs),
        figures.mib_rate(counts.read_bytes),
        figures.mib_rate(counts.written_bytes),
        figures.seconds(),
        figures.events(),
        figures.min_ns as f64 / 1e6,
        figures.average_ms(),
        latencies.max_ns() as f64 / 1e6,
    );
    if options.percentile > 0 {
        let value = percentile::stepped_ms(latencies, options.percentile);
        // Without an event the tool has none either.
        let value = if latencies.is_empty() { 0.0 } else { value };
        let _ =
            writeln!(text, "        {:3}th percentile:        {value:20.2}", options.percentile);
    } else {
        text += "         percentile stats:               disabled\n";
    }
    let _ = writeln!(
        text,
        "         sum:                            {:12.2}\n",
        latencies.sum_ns() as f64 / 1e6
    );
    text + &fairness(figures)
}

/// Both dialects end with it.
pub(super) fn fairness(figures: &Figures) -> String {
    let [(events, events_spread), (seconds, seconds_spread)] = figures.fairness();
    format!(
        "Threads fairness:
    events (avg/stddev):           {events:.4}/{events_spread:.2}
    execution time (avg/stddev):   {seconds:.4}/{seconds_spread:.2}

"
    )
}
