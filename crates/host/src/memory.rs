//! Dirty memory, its limits, and pressure: /proc/meminfo, vmstat, sys/vm, pressure/io, stat,
//! uptime.
//!
//! /proc/meminfo is parsed here, not by `procfs-core`, which refuses the whole file when any of
//! some thirty fields is missing (as in sandboxes) and overflows on absurd ones. All sizes are
//! bytes.

use floodwall_model::Reading;
use floodwall_model::status::{DirtyKnobs, LimitKnob};
use procfs_core::FromBufRead;

use crate::root::{SysRoot, not_understood};
use crate::text::number_after;

/// The six knobs of the dirty limits, by file name in /proc/sys/vm.
pub const DIRTY_KNOBS: [&str; 6] = [
    "dirty_background_bytes",
    "dirty_background_ratio",
    "dirty_bytes",
    "dirty_expire_centisecs",
    "dirty_ratio",
    "dirty_writeback_centisecs",
];

/// What /proc/meminfo says.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// `MemTotal`.
    pub total_bytes: Reading<u64>,
    /// `MemAvailable` (since Linux 3.14): what a new program can take without swapping.
    pub available_bytes: Reading<u64>,
    /// `Dirty`.
    pub dirty_bytes: Reading<u64>,
    /// `Writeback`.
    pub writeback_bytes: Reading<u64>,
}

/// Reads /proc/meminfo.
#[must_use]
pub fn read_memory(root: &SysRoot) -> Memory {
    let path = "/proc/meminfo";
    let text = root.read(path);
    let field = |name: &str| {
        text.as_ref().and_then(|text| match number_after(text, name) {
            Some(kib) => Reading::Value(kib.saturating_mul(1024)),
            None => Reading::Absent(format!("{path} has no {name}")),
        })
    };
    Memory {
        total_bytes: field("MemTotal"),
        available_bytes: field("MemAvailable"),
        dirty_bytes: field("Dirty"),
        writeback_bytes: field("Writeback"),
    }
}

/// The limits in force now: what the knobs come to with the memory that can be dirtied at this
/// moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Thresholds {
    /// `nr_dirty_threshold`: writers stop above it.
    pub hard_bytes: Reading<u64>,
    /// `nr_dirty_background_threshold`: the flusher starts above it.
    pub background_bytes: Reading<u64>,
}

/// Reads the thresholds from /proc/vmstat (since Linux 2.6.37).
#[must_use]
pub fn read_thresholds(root: &SysRoot) -> Thresholds {
    let path = "/proc/vmstat";
    let text = root.read(path);
    let pages = |name: &str| {
        text.as_ref().and_then(|text| match number_after(text, name) {
            Some(pages) => Reading::Value(pages.saturating_mul(root.page_bytes())),
            None => Reading::Absent(format!("{path} has no {name}")),
        })
    };
    Thresholds {
        hard_bytes: pages("nr_dirty_threshold"),
        background_bytes: pages("nr_dirty_background_threshold"),
    }
}

/// Reads a knob of /proc/sys/vm that holds one number.
#[must_use]
pub(crate) fn read_vm(root: &SysRoot, name: &str) -> Reading<u64> {
    root.parse(&format!("/proc/sys/vm/{name}"))
}

/// Which of the two knobs of a limit is in force: bytes if they are not zero, else the ratio
/// (mm/page-writeback.c `domain_dirty_limits`).
#[must_use]
pub(crate) fn read_limit_knob(root: &SysRoot, bytes: &str, ratio: &str) -> Reading<LimitKnob> {
    let percent = || read_vm(root, ratio).map(LimitKnob::RatioPercent);
    match read_vm(root, bytes) {
        Reading::Value(0) => percent(),
        Reading::Value(bytes) => Reading::Value(LimitKnob::Bytes(bytes)),
        // Before 2.6.29 there was only the ratio.
        Reading::Absent(_) => percent(),
        Reading::Unreadable(why) => Reading::Unreadable(why),
    }
}

/// Reads the knobs behind the limits as they are, the ones that are not in force included.
#[must_use]
pub(crate) fn read_dirty_knobs(root: &SysRoot) -> DirtyKnobs {
    // Negative times are legal to the kernel (`proc_dointvec` on an unsigned number).
    let signed = |name: &str| root.parse::<i64>(&format!("/proc/sys/vm/{name}"));
    DirtyKnobs {
        hard_bytes: read_vm(root, "dirty_bytes"),
        hard_ratio_percent: read_vm(root, "dirty_ratio"),
        background_bytes: read_vm(root, "dirty_background_bytes"),
        background_ratio_percent: read_vm(root, "dirty_background_ratio"),
        expire_centisecs: signed("dirty_expire_centisecs"),
        writeback_centisecs: signed("dirty_writeback_centisecs"),
    }
}

/// Pressure stall information for I/O.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IoPressure {
    /// `some avg10`: share of the last 10 s in which some task waited, in percent.
    pub some_avg10_percent: f64,
    /// `full avg10`: share of the last 10 s in which every task waited, in percent.
    pub full_avg10_percent: f64,
    /// `some total`, in microseconds since boot.
    pub some_us: u64,
    /// `full total`, in microseconds since boot.
    pub full_us: u64,
}

/// Reads /proc/pressure/io (since Linux 4.20; may be off: `psi=1` on the kernel's command line
/// turns it on).
#[must_use]
pub fn read_io_pressure(root: &SysRoot) -> Reading<IoPressure> {
    let path = "/proc/pressure/io";
    let text = match root.read(path) {
        // The file is there but PSI is off (kernel/sched/psi.c `psi_open`).
        Reading::Absent(why) if root.exists("/proc/pressure") => {
            return Reading::Absent(format!("{why} (booted with psi=0?)"));
        }
        other => other,
    };
    text.and_then(|text| match procfs_core::IoPressure::from_buf_read(text.as_bytes()) {
        Ok(pressure) if pressure.some.avg10.is_finite() && pressure.full.avg10.is_finite() => {
            Reading::Value(IoPressure {
                some_avg10_percent: two_decimals(pressure.some.avg10),
                full_avg10_percent: two_decimals(pressure.full.avg10),
                some_us: pressure.some.total,
                full_us: pressure.full.total,
            })
        }
        _ => not_understood(path, &text),
    })
}

/// The kernel prints two decimals; a plain conversion of the `f32` would show more digits than it
/// has.
fn two_decimals(value: f32) -> f64 {
    (f64::from(value) * 100.0).round() / 100.0
}

/// CPU time taken by the hypervisor since boot, summed over all CPUs, in milliseconds (/proc/stat
/// `cpu`, 8th value). One tick is 10 ms: `USER_HZ` is 100 on every architecture but Alpha and
/// IA-64.
#[must_use]
pub(crate) fn read_steal_ms(root: &SysRoot) -> Reading<u64> {
    let path = "/proc/stat";
    root.read(path).and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("cpu ")).unwrap_or_default();
        match line.split_whitespace().nth(8).map(str::parse::<u64>) {
            Some(Ok(ticks)) => Reading::Value(ticks.saturating_mul(10)),
            Some(Err(_)) => not_understood(path, line),
            None => Reading::Absent(format!("{path} has no steal time")),
        }
    })
}

/// CPUs online (`cpuN` lines of /proc/stat).
#[must_use]
pub fn read_cpus(root: &SysRoot) -> Reading<u64> {
    let path = "/proc/stat";
    root.read(path).and_then(|text| {
        let cpus = text
            .lines()
            .filter(|line| {
                line.strip_prefix("cpu")
                    .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            })
            .count() as u64;
        if cpus == 0 {
            Reading::Absent(format!("{path} lists no CPU"))
        } else {
            Reading::Value(cpus)
        }
    })
}

/// Time since boot in seconds.
#[must_use]
pub(crate) fn read_uptime_s(root: &SysRoot) -> Reading<f64> {
    let path = "/proc/uptime";
    root.read(path).and_then(|text| match text.split_whitespace().next().map(str::parse::<f64>) {
        Some(Ok(seconds)) if seconds.is_finite() && seconds >= 0.0 => Reading::Value(seconds),
        _ => not_understood(path, &text),
    })
}

/// Kernel release.
#[must_use]
pub fn read_kernel(root: &SysRoot) -> Reading<String> {
    root.read_line("/proc/sys/kernel/osrelease")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::testing::tree;

    #[test]
    fn sizes_become_bytes() {
        let (_dir, root) = tree(&[
            ("proc/meminfo", "MemTotal:  1000 kB\nDirty:  4 kB\nWritebackTmp: 7 kB\n"),
            ("proc/vmstat", "nr_dirty_threshold 10\n"),
        ]);
        let memory = read_memory(&root);
        assert_eq!(memory.total_bytes, Reading::Value(1_024_000));
        assert_eq!(memory.dirty_bytes, Reading::Value(4096));
        assert_eq!(
            memory.writeback_bytes,
            Reading::Absent("/proc/meminfo has no Writeback".into())
        );
        let thresholds = read_thresholds(&root.with_page_bytes(65_536));
        assert_eq!(thresholds.hard_bytes, Reading::Value(655_360));
        assert!(matches!(thresholds.background_bytes, Reading::Absent(_)));
    }

    #[test]
    fn the_byte_limit_wins_unless_it_is_zero() {
        let knob = |files: &[(&str, &str)]| {
            let (_dir, root) = tree(files);
            read_limit_knob(&root, "dirty_bytes", "dirty_ratio")
        };
        let ratio = ("proc/sys/vm/dirty_ratio", "20\n");
        assert_eq!(
            knob(&[ratio, ("proc/sys/vm/dirty_bytes", "0\n")]),
            Reading::Value(LimitKnob::RatioPercent(20))
        );
        assert_eq!(
            knob(&[ratio, ("proc/sys/vm/dirty_bytes", "15000000\n")]),
            Reading::Value(LimitKnob::Bytes(15_000_000))
        );
        assert_eq!(knob(&[ratio]), Reading::Value(LimitKnob::RatioPercent(20)));
        assert!(knob(&[ratio, ("proc/sys/vm/dirty_bytes", "x")]).is_unreadable());
    }

    #[test]
    fn pressure_as_the_kernel_prints_it() {
        let text = "some avg10=4.57 avg60=0.91 avg300=0.00 total=681245\n\
            full avg10=2.10 avg60=0.12 avg300=0.00 total=391926\n";
        let (_dir, root) = tree(&[("proc/pressure/io", text)]);
        let expected = IoPressure {
            some_avg10_percent: 4.57,
            full_avg10_percent: 2.1,
            some_us: 681_245,
            full_us: 391_926,
        };
        assert_eq!(read_io_pressure(&root), Reading::Value(expected));
        let (_dir, root) =
            tree(&[("proc/pressure/io", "some avg10=inf avg60=0 avg300=0 total=1\n")]);
        assert!(read_io_pressure(&root).is_unreadable());
    }

    #[test]
    fn steal_time_and_cpus() {
        let (_dir, root) = tree(&[(
            "proc/stat",
            "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu1 0\nintr 5\n",
        )]);
        assert_eq!(read_steal_ms(&root), Reading::Value(80));
        assert_eq!(read_cpus(&root), Reading::Value(2));
    }
}
