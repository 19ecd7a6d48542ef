//! Random pairs of a load and a disk. Each load has a name of its own, so that its processes are
//! found again whatever their numbers are.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use floodwall_testing::said;
use serde_json::Value;

/// Seconds that a load runs.
const SECONDS: u64 = 4;

/// What a load does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Writes through the page cache, at 4 MiB/s.
    Writer,
    /// Commits, 40 a second.
    Committer,
    /// Three threads of one process that commit.
    Threads,
    /// Reads past the page cache, 100 a second.
    Reader,
    /// A committer in a namespace of processes of its own, as in a container.
    Container,
    /// A shell's children, one after the other, each for a moment.
    Children,
    /// One process that lives for a moment.
    Moment,
}

impl Kind {
    pub(crate) const ALL: [Self; 7] = [
        Self::Writer,
        Self::Committer,
        Self::Threads,
        Self::Reader,
        Self::Container,
        Self::Children,
        Self::Moment,
    ];
}

/// What a load did, by its own report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Truth {
    /// Bytes written through the page cache.
    pub(crate) dirtied: u64,
    /// Commits.
    pub(crate) commits: u64,
    /// Reads.
    pub(crate) reads: u64,
}

/// A running load.
pub(crate) struct Load {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The disk's place in the test's list.
    pub(crate) disk: usize,
    process: Child,
}

/// Bytes that one of the shell's children writes and commits.
const CHILD_BYTES: u64 = 512 << 10;
/// Children of a shell.
const CHILDREN: u64 = 20;
/// Bytes that a process writes in its moment.
const MOMENT_BYTES: u64 = 8 << 20;

impl Load {
    /// Starts a load on a disk's filesystem. `programs` gets a link by its name.
    pub(crate) fn start(
        name: String,
        kind: Kind,
        disk: usize,
        at: &Path,
        programs: &Path,
    ) -> Result<Self, String> {
        let directory = at.join(&name);
        std::fs::create_dir_all(&directory).map_err(said("a directory"))?;
        let program = programs.join(&name);
        let is_dd = matches!(kind, Kind::Children | Kind::Moment);
        let original = if is_dd { "/usr/bin/dd" } else { "/usr/bin/fio" };
        symlink(original, &program).map_err(said("a link"))?;
        let mut command =
            match kind {
                Kind::Children => {
                    let mut shell = Command::new("sh");
                    let dd = program.display();
                    shell.args(["-c", &format!(
                    "for n in $(seq {CHILDREN}); do {dd} if=/dev/zero of=f$n bs={CHILD_BYTES} \
                     count=1 conv=fsync status=none; sleep 0.15; done"
                )]);
                    shell
                }
                Kind::Moment => {
                    let mut dd = Command::new(&program);
                    let bytes = MOMENT_BYTES;
                    dd.args(["if=/dev/zero", "of=f", &format!("bs={bytes}"), "count=1"])
                        .args(["conv=fsync", "status=none"]);
                    dd
                }
                Kind::Container => {
                    let mut unshare = Command::new("unshare");
                    unshare.args(["--pid", "--fork", "--mount-proc"]).arg(&program);
                    unshare
                }
                _ => Command::new(&program),
            };
        if !is_dd {
            command.args(fio(kind));
        }
        let process = command
            .current_dir(&directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(said("a load"))?;
        Ok(Self { name, kind, disk, process })
    }

    /// Waits for its end, and returns its report.
    pub(crate) fn end(self) -> Result<(String, Kind, usize, Truth), String> {
        let Self { name, kind, disk, process } = self;
        let output = process.wait_with_output().map_err(said("a load"))?;
        if !output.status.success() {
            return Err(format!("{name} ({kind:?}) ended with {}", output.status));
        }
        let truth = match kind {
            Kind::Children => {
                Truth { dirtied: CHILDREN * CHILD_BYTES, commits: CHILDREN, reads: 0 }
            }
            Kind::Moment => Truth { dirtied: MOMENT_BYTES, commits: 1, reads: 0 },
            _ => reported(&output.stdout)?,
        };
        Ok((name, kind, disk, truth))
    }
}

/// Options of fio. It makes no file before it starts, and asks no disk for its figures.
fn fio(kind: Kind) -> Vec<String> {
    let its: &[&str] = match kind {
        Kind::Writer => &["--rw=write", "--bs=64k", "--size=1g", "--rate=4m"],
        Kind::Reader => {
            &["--rw=randread", "--bs=4k", "--size=16m", "--direct=1", "--rate_iops=100"]
        }
        Kind::Threads => &[
            "--rw=write",
            "--bs=4k",
            "--size=16m",
            "--fdatasync=1",
            "--rate_iops=15",
            "--thread",
            "--numjobs=3",
        ],
        _ => &["--rw=write", "--bs=4k", "--size=16m", "--fsync=1", "--rate_iops=40"],
    };
    let all = [
        "--name=load",
        "--directory=.",
        "--ioengine=psync",
        "--fallocate=none",
        "--time_based",
        "--group_reporting",
        "--output-format=json",
        "--disk_util=0",
    ];
    let runtime = format!("--runtime={SECONDS}");
    all.iter().chain(its).map(|&word| word.to_owned()).chain([runtime]).collect()
}

/// fio's own figures.
fn reported(stdout: &[u8]) -> Result<Truth, String> {
    let text = String::from_utf8_lossy(stdout);
    let from = text.find('{').ok_or_else(|| format!("no JSON: {text}"))?;
    let report: Value = serde_json::from_str(&text[from..]).map_err(said("fio's report"))?;
    let job = &report["jobs"][0];
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    Ok(Truth {
        dirtied: number(&job["write"]["io_bytes"]),
        // fio 3.33 leaves `total_ios` at 0.
        commits: number(&job["sync"]["lat_ns"]["N"]),
        reads: number(&job["read"]["total_ios"]),
    })
}
