//! The texts of 0.4.12.

use std::fmt::Write;

use super::figures::Figures;
use super::kinds::Mode;
use super::options::Options;
use super::{percentile, size, v1_0};

pub(super) const HEAD: &str = "sysbench 0.4.12:  multi-threaded system evaluation benchmark\n\n";
pub(super) const STARTED: &str = "Threads started!\n";
/// O_DSYNC, O_DIRECT and O_SYNC as x86 numbers them: the banner has their sum.
const DSYNC: u32 = 0o10000;
const DIRECT: u32 = 0o40000;
const SYNC: u32 = 0o4_010_000;

pub(super) fn making(options: &Options) -> String {
    format!(
        "{} files, {}Kb each, {}Mb total\nCreating files for the test...\n",
        options.files,
        options.file_len() / 1024,
        options.file_len() * u64::from(options.files) / (1 << 20),
    )
}

pub(super) fn setup(options: &Options) -> String {
    let threads = options.threads;
    let mut text =
        format!("Running the test with following options:\nNumber of threads: {threads}\n");
    match options.seed {
        None => text += "Initializing random number generator from timer.\n\n",
        Some(0) => {}
        Some(seed) => {
            let _ = writeln!(text, "Initializing random number generator from seed ({seed}).\n");
        }
    }
    let flags = options.flags;
    let flags = [(flags.sync, SYNC), (flags.dsync, DSYNC), (flags.direct, DIRECT)];
    let flags = flags.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag);
    let all = (options.file_len() * u64::from(options.files)) as f64;
    let each = size::short(options.file_len() as f64);
    let _ =
        writeln!(text, "\nExtra file open flags: {flags}\n{} files, {each} each", options.files);
    let _ = writeln!(text, "{} total file size", size::short(all));
    let _ = writeln!(text, "Block size {}", size::short(options.block as f64));
    if options.merged > 0 {
        let merged = size::short((options.block * u64::from(options.merged)) as f64);
        let _ = writeln!(text, "Merging requests up to {merged} for sequential IO.");
    }
    if options.mode.is_some_and(Mode::is_random) {
        let _ = writeln!(text, "Number of random requests for random IO: {}", options.events);
        let ratio = options.rw_ratio;
        let _ = writeln!(text, "Read/Write ratio for combined random IO test: {ratio:.2}");
    }
    text + &v1_0::syncs_and_mode(options)
}

pub(super) fn end(options: &Options, figures: &Figures, out_of_time: bool) -> String {
    let counts = &figures.counts;
    let mut text = String::new();
    if out_of_time {
        text += "Time limit exceeded, exiting...\n";
        if options.threads > 1 {
            let _ = writeln!(text, "(last message repeated {} times)", options.threads - 1);
        }
    }
    let (reads, writes, syncs) = (counts.reads, counts.writes, counts.syncs);
    let all = counts.read_bytes + counts.written_bytes;
    let rate = figures.rate(all);
    let _ = write!(
        text,
        "Done.

Operations performed:  {reads} Read, {writes} Write, {syncs} Other = {} Total
Read {}  Written {}  Total transferred {}  ({}/sec)
{:8.2} Requests/sec executed

Test execution summary:
    total time:                          {:.4}s
    total number of events:              {}
    total time taken by event execution: {:.4}
    per-request statistics:
         min:                            {:10.2}ms
         avg:                            {:10.2}ms
         max:                            {:10.2}ms
",
        reads + writes + syncs,
        size::short(counts.read_bytes as f64),
        size::short(counts.written_bytes as f64),
        size::short(all as f64),
        size::short(rate),
        figures.rate(reads + writes),
        figures.seconds(),
        figures.events(),
        figures.latencies.sum_ns() as f64 / 1e9,
        figures.min_ns as f64 / 1e6,
        figures.average_ms(),
        figures.latencies.max_ns() as f64 / 1e6,
    );
    if options.percentile > 0 {
        let (percent, value) =
            (options.percentile, percentile::fine_ms(&figures.latencies, options.percentile));
        let _ = writeln!(text, "         approx. {percent:3} percentile:         {value:10.2}ms");
    }
    text + "\n" + &v1_0::fairness(figures)
}
