//! The cost of counting dirtied pages in the kernel:
//! `cargo run --release -p floodwall-probe --example dirtied -- DIR [BLOCK [ROUNDS]]`.
//!
//! One thread writes a file below DIR into the page cache, in blocks of so many bytes: in turn with
//! the probe, and with the sparing one, which leaves the count out. The file is truncated before it
//! is written out, so the page cache alone is measured. Time is the thread's own: other programs
//! don't count. DIR is best on a loop device over tmpfs.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a program for people who measure"
)]

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use floodwall_probe::{Probe, SourceKind};
use rustix::time::{ClockId, clock_gettime};

/// Bytes of the file: less than what makes the kernel write dirty pages out.
const FILE: u64 = 32 << 20;
/// Times that the file is written in a phase.
const TIMES: usize = 12;
const PAGE: u64 = 4096;

/// The fastest of several writings of the file, in nanoseconds a page.
fn phase(file: &File, block: &[u8]) -> f64 {
    let cpu = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let write = |_| {
        let begin = cpu();
        for at in (0..FILE).step_by(block.len()) {
            file.write_all_at(block, at).unwrap();
        }
        let took = cpu() - begin;
        file.set_len(0).unwrap();
        took.as_nanos() as f64 / (FILE / PAGE) as f64
    };
    (0..TIMES).map(write).fold(f64::MAX, f64::min)
}

/// The median, and two standard errors of it.
fn median(mut of: Vec<f64>) -> (f64, f64) {
    of.sort_by(f64::total_cmp);
    let quarter = of.len() / 4;
    let middle_half = of[of.len() - 1 - quarter] - of[quarter];
    // Of a normal distribution: 2 × 1.253 × σ / √n, and σ is the middle half over 1.349.
    (of[of.len() / 2], 1.858 * middle_half / (of.len() as f64).sqrt())
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let directory = Path::new(arguments.first().map_or(".", String::as_str));
    let number = |at: usize, or: usize| arguments.get(at).map_or(or, |n| n.parse().unwrap());
    let (block, rounds) = (vec![7; number(1, 4096)], number(2, 50));
    let path = directory.join("probe-dirtied");
    let file = OpenOptions::new().create(true).truncate(true).write(true).open(&path).unwrap();
    phase(&file, &block);
    let (mut without, mut more) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let mut ns = [0.0; 2];
        for on in [round % 2 == 0, round % 2 != 0] {
            let open = if on { Probe::open } else { Probe::open_sparing };
            let probe = open(Some(SourceKind::Bpf)).unwrap();
            ns[usize::from(on)] = phase(&file, &block);
            drop(probe);
        }
        without.push(ns[0]);
        more.push(ns[1] - ns[0]);
    }
    let ((without, _), (more, error)) = (median(without), median(more));
    println!(
        "{without:.0} ns a page without the count, {more:.0} ± {error:.0} more with it \
         (2 standard errors): {:.1} %",
        100.0 * more / without
    );
    drop(file);
    std::fs::remove_file(&path).unwrap();
}
