//! Dirtied page cache, counted in the kernel by process and disk: against the sizes of files and
//! the kernel's own account of a process.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use floodwall_model::DeviceId;
use floodwall_probe::{OTHERS, ProcessUse, Snapshot, SourceKind};
use floodwall_testing::disk::Disk;
use floodwall_testing::process::{done, run};
use floodwall_testing::{ensure, said};

use crate::checks::{Test, disk, look, open, uses};
use crate::worker::Worker;

pub(crate) const TESTS: &[Test] = &[
    ("twenty programs that live for a moment are told with their bytes and their disk", moments),
    ("a writer that ends within the window is told with its bytes and its disk", ended),
    ("what a shell's children copied is theirs, on the disk of the copies", copies),
    ("writes through a mapping are told like others", mapped),
    ("processes' bytes are those of /proc/PID/io, whatever a folio's size", sums),
    ("direct writes come on top, and nothing counts twice", direct),
    ("a loop device's worker dirties the disk below", below),
    ("five thousand writers in one window are counted to the byte", many),
];

const MIB: u64 = 1 << 20;
/// Pages of a filesystem's own that a process may dirty beside a file's.
const METADATA: u64 = 2 * 4096;
/// Filesystems with large folios; ext4 since Linux 6.16.
const FILESYSTEMS: [&str; 2] = ["ext4", "xfs"];

/// Dirtied bytes by device of the processes that are meant.
fn dirtied(
    all: &[Snapshot],
    is_meant: impl Fn(&ProcessUse) -> bool,
) -> BTreeMap<Option<DeviceId>, u64> {
    let mut by_device = BTreeMap::new();
    for process in all.iter().flat_map(|s| &s.processes).filter(|p| is_meant(p)) {
        let bytes = process.dirtied_bytes.unwrap_or(0);
        if bytes > 0 {
            *by_device.entry(process.device).or_default() += bytes;
        }
    }
    by_device
}

/// All of it on one disk, and at most this much more.
fn only_on(
    disk: DeviceId,
    bytes: u64,
    more: u64,
    told: &BTreeMap<Option<DeviceId>, u64>,
) -> Result<(), String> {
    let here = told.get(&Some(disk)).copied().unwrap_or(0);
    ensure(told.len() == 1 && (bytes..=bytes + more).contains(&here), || {
        format!("{told:?} instead of {bytes} bytes on {disk}")
    })
}

/// A name for a program, in a directory of its own.
fn link(program: &str, name: &str, directory: &tempfile::TempDir) -> Result<String, String> {
    let at = directory.path().join(name);
    let original = run("sh", &["-c", &format!("command -v {program}")])?;
    std::os::unix::fs::symlink(original.trim(), &at).map_err(said("a link"))?;
    Ok(at.to_string_lossy().into_owned())
}

fn moments(source: SourceKind) -> Result<(), String> {
    let programs = tempfile::tempdir().map_err(said("a directory"))?;
    for kind in FILESYSTEMS {
        let disk = Disk::new(kind, 512)?;
        let mut probe = open(source)?;
        let mut all = Vec::new();
        let size = |n: u64| ((n + 1) * 36) << 10;
        for n in 0..20 {
            let dd = link("dd", &format!("{kind}-{n}"), &programs)?;
            let file = disk.file(&format!("f{n}"));
            done(
                Command::new(dd)
                    .args(["if=/dev/zero", "count=1", "conv=fsync", "status=none"])
                    .args([format!("of={file}"), format!("bs={}", size(n))]),
            )?;
            // Five to a window.
            if n % 5 == 4 {
                all.push(look(&mut probe)?);
            }
        }
        for n in 0..20 {
            let name = format!("{kind}-{n}");
            let told = dirtied(&all, |p| p.name == name);
            only_on(disk.id, size(n), METADATA, &told).map_err(|e| format!("{name}: {e}"))?;
        }
    }
    Ok(())
}

fn ended(source: SourceKind) -> Result<(), String> {
    let disk = disk()?;
    let mut probe = open(source)?;
    let mut worker = Worker::start("dirty", &[&disk.file("a"), "16", "4096"])?;
    let pid = worker.pid();
    let own: u64 = worker.line()?.parse().map_err(said("its figure"))?;
    worker.go();
    worker.wait()?;
    let all = [look(&mut probe)?];
    only_on(disk.id, own, 0, &dirtied(&all, |p| p.pid == pid))?;
    let names: Vec<_> = uses(&all, pid).map(|p| p.name.clone()).collect();
    ensure(names.iter().all(|name| name.starts_with("kernel")), || format!("{names:?}"))
}

fn copies(source: SourceKind) -> Result<(), String> {
    let (disk, programs) = (disk()?, tempfile::tempdir().map_err(said("a directory"))?);
    let (cp, sh) = (link("cp", "copies-cp", &programs)?, link("sh", "copies-sh", &programs)?);
    let original = programs.path().join("original");
    std::fs::write(&original, vec![7; 8 << 20]).map_err(said("a file"))?;
    let mut probe = open(source)?;
    let script = format!(
        "for n in 1 2 3 4 5; do '{cp}' '{}' '{}'$n; done; :",
        original.display(),
        disk.file("f")
    );
    done(Command::new(sh).args(["-c", &script]))?;
    let all = [look(&mut probe)?];
    only_on(disk.id, 40 * MIB, 5 * METADATA, &dirtied(&all, |p| p.name == "copies-cp"))?;
    let shells = dirtied(&all, |p| p.name == "copies-sh");
    ensure(shells.values().sum::<u64>() <= METADATA, || format!("the shell: {shells:?}"))
}

fn mapped(source: SourceKind) -> Result<(), String> {
    for kind in FILESYSTEMS {
        let disk = Disk::new(kind, 512)?;
        let mut probe = open(source)?;
        let mut worker = Worker::start("map", &[&disk.file("a"), "16"])?;
        let pid = worker.pid();
        let own: u64 = worker.line()?.parse().map_err(said("its figure"))?;
        worker.go();
        worker.wait()?;
        let told = dirtied(&[look(&mut probe)?], |p| p.pid == pid);
        only_on(disk.id, own, 0, &told).map_err(|e| format!("{kind}: {e}"))?;
        ensure(own >= 16 * MIB, || format!("{kind}: {own} bytes by /proc/PID/io"))?;
    }
    Ok(())
}

fn sums(source: SourceKind) -> Result<(), String> {
    for (kind, block) in FILESYSTEMS.into_iter().flat_map(|kind| [(kind, 4096), (kind, MIB)]) {
        let disk = Disk::new(kind, 512)?;
        let mut probe = open(source)?;
        // Of the first four /proc tells as well, the last four end before it is asked.
        for stays in [true, false] {
            let mut workers = Vec::new();
            for n in 0..4 {
                let file = disk.file(&format!("{stays}-{n}"));
                workers.push(Worker::start("dirty", &[&file, "24", &block.to_string()])?);
            }
            let (mut all, mut own) = (Vec::new(), 0);
            for worker in &mut workers {
                if stays {
                    all.push(look(&mut probe)?);
                }
                own += worker.line()?.parse::<u64>().map_err(said("its figure"))?;
                if !stays {
                    worker.go();
                    worker.wait()?;
                }
            }
            all.push(look(&mut probe)?);
            let pids: Vec<u32> = workers.iter().map(Worker::pid).collect();
            let told = dirtied(&all, |p| pids.contains(&p.pid));
            let least = own.max(96 * MIB);
            only_on(disk.id, least - own / 100, own / 50, &told)
                .map_err(|e| format!("{kind}, {block} bytes a write, stays {stays}: {e}"))?;
        }
    }
    Ok(())
}

/// Writes through the page cache and past it, in turn, over many windows.
fn direct(source: SourceKind) -> Result<(), String> {
    let disk = disk()?;
    let mut probe = open(source)?;
    let mut worker = Worker::start("both", &[&disk.file("a"), &disk.file("b"), "1500"])?;
    let pid = worker.pid();
    let mut all = Vec::new();
    for _ in 0..30 {
        probe.wait(Duration::from_millis(40), &crate::checks::GO_ON).map_err(said("a wait"))?;
        all.push(look(&mut probe)?);
    }
    let line = worker.line()?;
    all.push(look(&mut probe)?);
    let own: u64 = line.parse().map_err(said("its figure"))?;
    only_on(disk.id, own, 0, &dirtied(&all, |p| p.pid == pid))?;
    let flooded = |p: &ProcessUse| p.flooded_bytes.unwrap_or(0) <= p.dirtied_bytes.unwrap_or(0);
    ensure(all.iter().flat_map(|s| &s.processes).all(flooded), || {
        "more flooded than dirtied".into()
    })
}

fn below(source: SourceKind) -> Result<(), String> {
    let outer = disk()?;
    let inner = Disk::new_in(outer.path(), "ext4", 64)?;
    run("sync", &["-f", &outer.file("")])?;
    let mut probe = open(source)?;
    let mut worker = Worker::start("dirty", &[&inner.file("a"), "8", "4096"])?;
    let pid = worker.pid();
    worker.line()?;
    run("sync", &["-f", &inner.file("a")])?;
    let all = [look(&mut probe)?];
    only_on(inner.id, 8 * MIB, METADATA, &dirtied(&all, |p| p.pid == pid))?;
    let workers = dirtied(&all, |p| p.name.starts_with("kworker/") && p.device == Some(outer.id));
    only_on(outer.id, 8 * MIB, MIB, &workers)
}

fn many(source: SourceKind) -> Result<(), String> {
    const WRITERS: u64 = 5000;
    let disk = disk()?;
    let mut probe = open(source)?;
    let mut worker = Worker::start("pages", &[&disk.file("f"), &WRITERS.to_string()])?;
    worker.line()?;
    let snapshot = look(&mut probe)?;
    let others = snapshot.processes.iter().filter(|p| p.pid == OTHERS && p.device == Some(disk.id));
    let others: u64 = others.filter_map(|p| p.dirtied_bytes).sum();
    let (folded, rows) = (snapshot.folded_operations, snapshot.processes.len());
    let all = [snapshot];
    let sum = dirtied(&all, |p| p.device == Some(disk.id)).values().sum::<u64>();
    let wanted = WRITERS * 4096;
    // The journal's thread writes directories and inodes.
    ensure((wanted..=wanted + 4 * MIB).contains(&sum) && others > 0 && folded > 0, || {
        format!("{sum} bytes of {wanted}, {others} by others; {folded} folded, {rows} rows")
    })
}
