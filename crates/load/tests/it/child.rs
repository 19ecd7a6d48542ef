//! Runs of a load in a separate process, whose `/proc/PID/io` is then the kernel's count of the
//! load's work.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use floodwall_testing::{Trial, tests};

use crate::support::*;

/// First argument of this binary when it is such a process.
pub(crate) const CHILD: &str = "load-child";

pub(crate) fn tests() -> Vec<Trial> {
    let cache_told = tests![lacks_told_cache =>
        an_evicting_victim_reads_from_the_device_what_others_left_in_the_cache,
    ];
    let anywhere = tests![the_kernel_counts_the_same_writes, the_kernel_counts_the_same_reads];
    [cache_told, anywhere].into_iter().flatten().collect()
}

/// Starts this test binary again, to run one load below `dir`.
pub(crate) fn spawn(what: &str, dir: &Path, spec: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg(CHILD)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let text = format!("{what}\n{}\n{spec}", dir.display());
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child
}

/// `rchar wchar syscr syscw read_bytes` of this process.
fn own_io() -> [u64; 5] {
    let text = std::fs::read_to_string("/proc/self/io").unwrap();
    let mut values = text.lines().map(|line| line.split_once(": ").unwrap().1.parse().unwrap());
    std::array::from_fn(|_| values.next().unwrap())
}

/// Brings a file into the page cache in single pages: those of read-ahead hang together, and can't
/// be dropped by ones.
fn read_by_pages(path: &Path) {
    let file = File::open(path).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
    let pages = file.metadata().unwrap().len() / 4096;
    for page in 0..pages {
        rustix::io::pread(&file, &mut [0; 4096], page * 4096).unwrap();
    }
}

/// What such a process does: standard input has what, where and with which load.
pub(crate) fn in_a_process_of_its_own() {
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input).unwrap();
    let mut lines = input.splitn(3, '\n');
    let (what, dir, spec) =
        (lines.next().unwrap(), Path::new(lines.next().unwrap()), lines.next().unwrap());
    match what {
        "command" => {
            let flood = floodwall_model::scenario::command_flood(spec).unwrap();
            let stop = std::sync::atomic::AtomicBool::new(false);
            let flood = prepare_flood(dir, &flood, 1, &mut |_| {}, &stop).unwrap();
            let _running = flood.start(1, proc_root()).unwrap();
            std::thread::sleep(PATIENCE);
        }
        "flood apart" => crate::apart::order(dir, spec),
        "limits" => crate::checks::under_limits(dir),
        "victim" | "warm victim" | "flood" => {
            let (victims, floods);
            let before;
            let running = if what.ends_with("victim") {
                victims = victim(dir, spec);
                if what.starts_with("warm") {
                    victims.paths().iter().for_each(|path| read_by_pages(path));
                }
                before = own_io();
                victims.start(1, proc_root()).unwrap()
            } else {
                floods = flood(dir, spec);
                before = own_io();
                floods.start(1, proc_root()).unwrap()
            };
            let (total, finished) = run_until(running, |t| t.ops >= 500);
            let after = own_io();
            let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
            let process_us = cpu.tv_sec as u64 * 1_000_000 + cpu.tv_nsec as u64 / 1000;
            let cpu_us = finished.cpu_us.unwrap();
            assert!(
                (1..=process_us).contains(&cpu_us),
                "{cpu_us} µs of the process's {process_us}"
            );
            let io: Vec<u64> = after.iter().zip(before).map(|(a, b)| a - b).collect();
            let mut out = File::create_new(dir.join("result")).unwrap();
            write!(
                out,
                "{} {} {} {} {} {} {}",
                total.ops, total.bytes, io[0], io[1], io[2], io[3], io[4]
            )
            .unwrap();
        }
        other => panic!("{other}"),
    }
}

/// Runs a load in a child and returns `[ops, bytes, rchar, wchar, syscr, syscw, read_bytes]`.
fn measured(what: &str, spec: &str) -> [u64; 7] {
    let dir = tempfile::tempdir().unwrap();
    let status = spawn(what, dir.path(), spec).wait().unwrap();
    assert!(status.success(), "{spec}");
    let text = text(&dir.path().join("result"));
    let mut values = text.split(' ').map(|v| v.parse().unwrap());
    std::array::from_fn(|_| values.next().unwrap())
}

/// What the kernel counts for reading `/proc/self/io` once between the two readings, at the most.
const OWN_READ: u64 = 4096;

fn the_kernel_counts_the_same_writes() {
    for (what, spec) in [
        ("victim", "commit,threads=2,block=8KiB,size=1MiB,sync=fdatasync"),
        ("victim", "commit,threads=2,block=4KiB,size=1MiB,sync=o_dsync"),
        ("victim", "wal,block=1000B,size=1MiB"),
        ("flood", "seq,streams=2,block=64KiB,size=1MiB"),
        ("flood", "random,block=16KiB,size=1MiB"),
        ("flood", "files,block=4KiB,file_size=10KiB,size=1MiB"),
        ("flood", "copy,block=32KiB,size=1MiB"),
    ] {
        let [ops, bytes, rchar, wchar, syscr, syscw, _] = measured(what, spec);
        assert_eq!((ops, bytes), (syscw, wchar), "{spec}");
        if spec.starts_with("copy") {
            assert!(
                (bytes..bytes + OWN_READ).contains(&rchar),
                "{spec}: reads as much as it writes, {rchar}"
            );
        } else {
            assert!(rchar < OWN_READ && syscr < 10, "{spec}: reads nothing, {rchar}");
        }
    }
}

fn the_kernel_counts_the_same_reads() {
    for spec in [
        "read,threads=2,block=4KiB,size=1MiB,access=evict",
        "scan,threads=3,files=2,block=16KiB,size=1MiB,access=cached",
    ] {
        let [ops, bytes, rchar, wchar, syscr, syscw, _] = measured("victim", spec);
        assert!(
            (bytes..bytes + OWN_READ).contains(&rchar),
            "{spec}: {bytes} B, the kernel says {rchar}"
        );
        assert!(
            (ops..ops + 10).contains(&syscr),
            "{spec}: {ops} operations, the kernel says {syscr}"
        );
        assert_eq!((wchar, syscw), (0, 0), "{spec}");
    }
}

fn an_evicting_victim_reads_from_the_device_what_others_left_in_the_cache() {
    let spec = "mixed,read_percent=100,block=4KiB,size=16MiB";
    let [_, bytes, .., read_bytes] = measured("warm victim", &format!("{spec},access=evict"));
    assert!(read_bytes >= bytes, "{bytes} B read, {read_bytes} B of them from the device");
    let [_, bytes, .., read_bytes] = measured("warm victim", &format!("{spec},access=cached"));
    assert!(read_bytes < bytes / 10, "{bytes} B read, {read_bytes} B of them from the device");
}
