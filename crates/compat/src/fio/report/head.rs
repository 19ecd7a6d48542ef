//! Lines before a run: its jobs, the version, the number of processes. `normal` alone has them.

use std::fmt::Write;

use super::super::number::{DIGITS, Unit, scaled};
use super::version::VERSION;

/// A job as it is announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// Its name.
    pub name: String,
    /// Its reporting group.
    pub group: u32,
    /// `read`, `write`, `randread`, `randwrite`, `rw`, `randrw`, `trim` and so on.
    pub mode: String,
    /// Smallest and largest block of reads, writes and trims: bytes.
    pub blocks: [(u64, u64); 3],
    /// `psync` and so on.
    pub engine: String,
    /// `iodepth`.
    pub depth: u32,
    /// `numjobs`.
    pub copies: u32,
    /// `thread`.
    pub is_thread: bool,
    /// `kb_base=1000`.
    pub is_decimal: bool,
}

/// The line of a job, and `...` for its copies.
#[must_use]
pub fn announcement(job: &Announced) -> String {
    let size = |bytes| scaled(bytes, DIGITS, Unit::Bytes(!job.is_decimal));
    let [read, write, trim] = job.blocks.map(|(from, to)| format!("{}-{}", size(from), size(to)));
    let copies = if job.copies > 1 { "...\n" } else { "" };
    format!(
        "{}: (g={}): rw={}, bs=(R) {read}, (W) {write}, (T) {trim}, ioengine={}, iodepth={}\n\
         {copies}",
        job.name, job.group, job.mode, job.engine, job.depth
    )
}

/// All lines before the jobs start.
#[must_use]
pub fn head(jobs: &[Announced]) -> String {
    let mut text: String = jobs.iter().map(announcement).collect();
    let count = |is_thread| {
        jobs.iter().filter(|job| job.is_thread == is_thread).map(|job| job.copies).sum::<u32>()
    };
    let plural = |n: u32, ending| if n == 1 { "" } else { ending };
    let (threads, processes) = (count(true), count(false));
    let _ = write!(text, "{VERSION}\nStarting ");
    if threads > 0 {
        let _ = write!(text, "{threads} thread{}", plural(threads, "s"));
    }
    if threads > 0 && processes > 0 {
        text += " and ";
    }
    if processes > 0 {
        let _ = write!(text, "{processes} process{}", plural(processes, "es"));
    }
    text + "\n"
}

/// Before a job makes its files.
#[must_use]
pub fn laying_out(name: &str, files: u32, bytes: u64) -> String {
    let (s, total) = if files == 1 { ("", "") } else { ("s", "total ") };
    format!("{name}: Laying out IO file{s} ({files} file{s} / {total}{}MiB)\n", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, bytes: u64, copies: u32, is_thread: bool) -> Announced {
        Announced {
            name: name.to_owned(),
            group: 0,
            mode: "randwrite".to_owned(),
            blocks: [(bytes, bytes); 3],
            engine: "libaio".to_owned(),
            depth: 1,
            copies,
            is_thread,
            is_decimal: false,
        }
    }

    /// The lines of fio 3.33 for two jobs.
    #[test]
    fn jobs_are_announced_as_recorded() {
        let line = "ioengine=libaio, iodepth=1\n";
        let expected = [
            "a: (g=0): rw=randwrite, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ",
            line,
            "...\n",
            "b: (g=0): rw=randwrite, bs=(R) 64.0KiB-64.0KiB, (W) 64.0KiB-64.0KiB, ",
            "(T) 64.0KiB-64.0KiB, ",
            line,
            "fio-3.33\nStarting 2 threads and 1 process\n",
        ];
        let jobs = [job("a", 4_096, 2, true), job("b", 65_536, 1, false)];
        assert_eq!(head(&jobs), expected.concat());
        assert_eq!(head(&jobs[1..]).lines().last(), Some("Starting 1 process"));
        assert_eq!(laying_out("n", 2, 4 << 20), "n: Laying out IO files (2 files / total 4MiB)\n");
        assert_eq!(laying_out("n", 1, 1 << 20), "n: Laying out IO file (1 file / 1MiB)\n");
    }
}
