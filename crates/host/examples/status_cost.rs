//! What reading a status costs without the window, on a made-up machine: `status_cost [DISKS] [PROCESSES]` (64 disks and 2,000 processes).
//!
//! Prints the median of some rounds, as CPU time of this process (user and system): what the work costs, whoever else uses the machine. Build it with `--release`; the kernel generates /proc and /sys on the fly, so a real machine of that size
//! costs somewhat more than these plain files.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;

use floodwall_host::SysRoot;
use floodwall_host::status::{Observation, status};
use rustix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 15;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let disks: u32 = args.next().map_or(Ok(64), |n| n.parse())?;
    let processes: u32 = args.next().map_or(Ok(2000), |n| n.parse())?;
    let dir = tempfile::tempdir()?;
    machine(dir.path(), disks, processes)?;
    let root = SysRoot::new(dir.path())?;
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = cpu_ms();
        let before = Observation::read(&root);
        let after = Observation::read(&root);
        let status = status(&root, &before, &after, 1.0, true);
        times.push((cpu_ms() - start, status.devices.len(), status.writers.readable_processes));
    }
    times.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let (time, rows, read) = times[ROUNDS / 2];
    writeln!(
        std::io::stdout(),
        "{rows} devices, {read} processes: {time:.1} ms of CPU (median of {ROUNDS}; two observations and one status)"
    )?;
    Ok(())
}

fn cpu_ms() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 / 1e6
}

#[expect(clippy::disallowed_methods, reason = "makes its own temporary tree")]
fn machine(dir: &Path, disks: u32, processes: u32) -> std::io::Result<()> {
    let put = |path: String, text: &str| {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap_or(dir))?;
        fs::File::create(path)?.write_all(text.as_bytes())
    };
    let link = |path: String, target: String| {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap_or(dir))?;
        symlink(target, path)
    };
    let mut mounts = "1 1 0:2 / / rw - tmpfs tmpfs rw\n".to_owned();
    let mut counters = String::new();
    for n in 0..disks {
        let (id, name) = (format!("8:{}", n * 16), format!("disk{n}"));
        let device = format!("sys/devices/pci/{name}");
        link(format!("sys/dev/block/{id}"), format!("../../devices/pci/{name}"))?;
        link(format!("sys/class/bdi/{id}"), format!("../../devices/bdi/{id}"))?;
        put(format!("{device}/dev"), &id)?;
        put(format!("{device}/size"), "1953525168\n")?;
        put(format!("{device}/uevent"), &format!("DEVNAME={name}\n"))?;
        put(format!("{device}/device/model"), "Model of a disk\n")?;
        for (file, text) in [
            ("scheduler", "none [mq-deadline] kyber bfq\n"),
            ("nr_requests", "256\n"),
            ("wbt_lat_usec", "75000\n"),
            ("write_cache", "write back\n"),
            ("fua", "0\n"),
            ("rotational", "1\n"),
            ("max_sectors_kb", "1280\n"),
            ("nomerges", "0\n"),
            ("rq_affinity", "1\n"),
        ] {
            put(format!("{device}/queue/{file}"), text)?;
        }
        for file in
            ["max_ratio", "max_ratio_fine", "min_ratio", "min_ratio_fine", "strict_limit", "read_ahead_kb"]
        {
            put(format!("sys/devices/bdi/{id}/{file}"), "1\n")?;
        }
        put(
            format!("sys/kernel/debug/bdi/{id}/stats"),
            "BdiWriteback: 9000 kB\nBdiReclaimable: 90000 kB\nBdiDirtyThresh: 5000 kB\nBdiWritten: 77 kB\nBdiWriteBandwidth: 99 kBps\n",
        )?;
        mounts.push_str(&format!("{} 1 {id} / /mnt/{n} rw,noatime - xfs /dev/{name} rw,attr2\n", n + 10));
        counters.push_str(&format!("8 {} {name} 1 2 3 4 5 6 7 8 9 10 11 0 0 0 0 5 6\n", n * 16));
    }
    put("proc/self/mountinfo".to_owned(), &mounts)?;
    put("proc/diskstats".to_owned(), &counters)?;
    put("proc/meminfo".to_owned(), "MemTotal: 100 kB\nDirty: 1 kB\nWriteback: 1 kB\n")?;
    put("proc/vmstat".to_owned(), "nr_dirty_threshold 100\nnr_dirty_background_threshold 50\n")?;
    for pid in 1..=processes {
        put(format!("proc/{pid}/comm"), "name\n")?;
        put(
            format!("proc/{pid}/io"),
            &format!(
                "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: {pid}\ncancelled_write_bytes: 0\n"
            ),
        )?;
    }
    Ok(())
}
