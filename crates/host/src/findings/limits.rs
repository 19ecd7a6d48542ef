//! The machine's dirty limits: too large for a device, too small for the flusher, contradictory,
//! zero, miscounted.

use floodwall_model::Reading;
use floodwall_model::finding::Severity;
use floodwall_model::status::Device;

use super::facts::Facts;
use super::found::Found;
use super::kernel;
use super::remedy::size_and_apply;
use super::view::{
    BACKGROUND_DELAY_S, FLUSHER_CHUNK_BYTES, HARD_DELAY_S, LONG_DRAIN_S, VERY_LONG_DRAIN_S,
    background_limit, hard_limit, has_strict_limit, own_limit, rate, rate_source, size, speed,
    time, writable,
};

/// Pages by which one CPU's part of a global counter may differ from what has been added up
/// (include/linux/vmstat.h: at most 125).
const GLOBAL_DRIFT_PAGES: u64 = 125;
/// A limit of fewer times the counters' error is not kept.
const ERRORS: u64 = 4;

/// FW001: the hard limit takes longer than [`LONG_DRAIN_S`] to drain at the rate seen.
pub(super) fn long_drain(facts: Facts<'_>) -> Option<Found> {
    let hard = hard_limit(facts.status)?;
    let mut found = Found::nothing();
    let mut slow: Vec<&Device> = Vec::new();
    for device in facts.status.devices.iter().filter(|device| writable(device)) {
        let Some(rate) = rate(device) else { continue };
        let limit = own_limit(device, hard);
        let seconds = limit as f64 / rate;
        if seconds <= LONG_DRAIN_S {
            continue;
        }
        // The kernel's estimate may be of small writes.
        let is_critical = seconds > VERY_LONG_DRAIN_S && device.drain.from.is_seen();
        let severity = if is_critical { Severity::Critical } else { Severity::Warning };
        let evidence = format!(
            "{}: {} at {} ({}) take {}",
            device.name,
            size(limit),
            speed(rate),
            rate_source(device),
            time(seconds)
        );
        found.add(severity, &device.name, evidence);
        found.cost_s(seconds);
        found.cost_bytes(limit);
        slow.push(device);
    }
    found.remedied_by(size_and_apply(facts.status, &slow))
}

/// FW002: the hard limit is below, or not well above, what the flusher writes at once.
pub(super) fn below_chunk(facts: Facts<'_>) -> Option<Found> {
    let hard = hard_limit(facts.status).filter(|hard| *hard > 0)?;
    let is_writing =
        |device: &&Device| device.writeback_bytes.value().is_some_and(|bytes| *bytes > 0);
    let flushing = facts.status.devices.iter().filter(is_writing).count().max(1) as u64;
    let least = 2 * FLUSHER_CHUNK_BYTES * flushing;
    if hard >= least {
        return None;
    }
    let chunk = size(FLUSHER_CHUNK_BYTES);
    let (severity, evidence) = if hard < FLUSHER_CHUNK_BYTES {
        (
            Severity::Critical,
            format!("the hard limit is {}, less than one chunk of {chunk}", size(hard)),
        )
    } else {
        let evidence = format!(
            "the hard limit is {}, less than two chunks of {chunk} for each of {flushing} {} under \
             writeback now",
            size(hard),
            if flushing == 1 { "device" } else { "devices" }
        );
        (Severity::Warning, evidence)
    };
    let known: Vec<&Device> =
        facts.status.devices.iter().filter(|device| rate(device).is_some()).collect();
    let remedy = if known.is_empty() {
        "floodwall apply vm.dirty_bytes=64MiB vm.dirty_background_bytes=16MiB".to_owned()
    } else {
        size_and_apply(facts.status, &known)
    };
    let mut found = Found::here(severity, evidence, remedy);
    found.cost_bytes(hard);
    Some(found)
}

/// FW003: the background limit is not below the hard limit, so the kernel uses half of that.
pub(super) fn halved(facts: Facts<'_>) -> Option<Found> {
    let machine = &facts.status.machine;
    let knobs = &machine.dirty_knobs;
    let set = |knob: &Reading<u64>| knob.value().copied().filter(|value| *value > 0);
    let hard = hard_limit(facts.status).filter(|hard| *hard > 0)?;
    let (hard_bytes, hard_ratio) = (set(&knobs.hard_bytes), set(&knobs.hard_ratio_percent));
    let (bytes, ratio) = (set(&knobs.background_bytes), set(&knobs.background_ratio_percent));
    let (severity, evidence) = match (hard_bytes, bytes) {
        (Some(hard), Some(bytes)) if bytes >= hard => (
            Severity::Warning,
            format!("vm.dirty_background_bytes={bytes} is not below vm.dirty_bytes={hard}"),
        ),
        (None, None) if ratio? >= hard_ratio? => (
            Severity::Warning,
            format!(
                "vm.dirty_background_ratio={} is not below vm.dirty_ratio={}",
                ratio?, hard_ratio?
            ),
        ),
        (None, Some(bytes)) if bytes >= hard => (
            Severity::Warning,
            format!(
                "vm.dirty_background_bytes={bytes} is not below the {} that vm.dirty_ratio={} \
                 comes to",
                size(hard),
                hard_ratio?
            ),
        ),
        (Some(bytes), None) => {
            // How much memory the ratio is of is not known in byte mode; that exactly half of the
            // hard limit is in force is.
            let percent = ratio?;
            let in_force = *machine.background_limit_bytes.value()?;
            let half = hard / machine.page_bytes / 2 * machine.page_bytes;
            let of_ram = u128::from(*machine.ram_bytes.value()?) * u128::from(percent) / 100;
            if in_force != half || of_ram < u128::from(hard) {
                return None;
            }
            (
                Severity::Note,
                format!(
                    "vm.dirty_background_ratio={percent} comes to more than \
                     vm.dirty_bytes={bytes}; {} is in force",
                    size(half)
                ),
            )
        }
        _ => return None,
    };
    // A sixth, as the published delays have it.
    let sixth = ((hard as f64 * BACKGROUND_DELAY_S / HARD_DELAY_S) as u64)
        .max(FLUSHER_CHUNK_BYTES)
        .min(hard / 2)
        >> 20;
    let remedy = format!("floodwall apply vm.dirty_background_bytes={}MiB", sixth.max(1));
    Some(Found::here(severity, evidence, remedy))
}

/// FW004: a hard limit of zero stops every writer.
pub(super) fn zero(facts: Facts<'_>) -> Option<Found> {
    let evidence = zero_limit(facts)?;
    Some(Found::here(Severity::Critical, evidence, "floodwall apply vm.dirty_ratio=20"))
}

/// Why the hard limit is zero, if it is.
fn zero_limit(facts: Facts<'_>) -> Option<String> {
    let machine = &facts.status.machine;
    let is_zero = |reading: &Reading<u64>| *reading == Reading::Value(0);
    if is_zero(&machine.dirty_knobs.hard_ratio_percent) && is_zero(&machine.dirty_knobs.hard_bytes)
    {
        return Some("vm.dirty_ratio=0 and vm.dirty_bytes=0: nothing may be dirty".to_owned());
    }
    is_zero(&machine.hard_limit_bytes)
        .then(|| "nr_dirty_threshold of /proc/vmstat is 0: nothing may be dirty".to_owned())
}

/// FW005: kernels from 6.2 to 6.12 divide by the hard limit, even by zero, when a device's share is
/// written in bytes.
pub(super) fn divides_by_zero(facts: Facts<'_>) -> Option<Found> {
    let why = zero_limit(facts)?;
    let release = kernel::between(&facts.status.machine, (6, 2), (6, 12))?;
    facts.status.devices.iter().find(|device| has_strict_limit(device))?;
    let evidence = format!(
        "{why}; on {release} writing max_bytes or min_bytes of any device then divides by zero, \
         unless the distribution has repaired it"
    );
    Some(Found::here(Severity::Critical, evidence, "floodwall apply vm.dirty_ratio=20"))
}

/// FW006: a background limit below one chunk keeps the flusher running for every few pages.
pub(super) fn small_background(facts: Facts<'_>) -> Option<Found> {
    let hard = hard_limit(facts.status)?;
    let background = background_limit(facts.status)?;
    // A hard limit as small as that is the fault itself.
    if background >= FLUSHER_CHUNK_BYTES || hard < 2 * FLUSHER_CHUNK_BYTES {
        return None;
    }
    let knobs = &facts.status.machine.dirty_knobs;
    let from = match (knobs.background_bytes.value(), knobs.background_ratio_percent.value()) {
        (Some(bytes), _) if *bytes > 0 => format!("vm.dirty_background_bytes={bytes}"),
        (_, Some(ratio)) => format!("vm.dirty_background_ratio={ratio}"),
        _ => "the background limit".to_owned(),
    };
    let evidence = format!(
        "{from} comes to {}, less than one chunk of {} of the flusher",
        size(background),
        size(FLUSHER_CHUNK_BYTES)
    );
    let sixth =
        ((hard as f64 * BACKGROUND_DELAY_S / HARD_DELAY_S) as u64).max(FLUSHER_CHUNK_BYTES) >> 20;
    let mut found = Found::here(
        Severity::Warning,
        evidence,
        format!("floodwall apply vm.dirty_background_bytes={sixth}MiB"),
    );
    found.cost_bytes(background);
    Some(found)
}

/// FW009: with many CPUs the kernel's counters are off by much of a small limit.
pub(super) fn counter_error(facts: Facts<'_>) -> Option<Found> {
    let machine = &facts.status.machine;
    let hard = hard_limit(facts.status).filter(|hard| *hard > 0)?;
    // A backing device's counter: 8 x (1 + log2 n) pages for each possible CPU
    // (include/linux/backing-dev.h WB_STAT_BATCH).
    let of_device = machine
        .possible_cpus
        .value()
        .map(|n| n.saturating_mul(8 * (1 + u64::from(n.max(&1).ilog2()))));
    let of_machine = machine.cpus.value().map(|n| n.saturating_mul(GLOBAL_DRIFT_PAGES));
    let error = of_device.max(of_machine)?.saturating_mul(machine.page_bytes);
    let kept = error.saturating_mul(ERRORS);
    if hard >= kept {
        return None;
    }
    let cpus = |reading: &Reading<u64>| reading.value().map_or("?".to_owned(), u64::to_string);
    let evidence = format!(
        "the hard limit is {}; with {} CPUs online and {} possible, counters of dirty pages are \
         off by up to {}",
        size(hard),
        cpus(&machine.cpus),
        cpus(&machine.possible_cpus),
        size(error)
    );
    let (wanted, background) = (kept.div_ceil(1 << 20), (kept / 6).div_ceil(1 << 20));
    let remedy = format!(
        "floodwall apply vm.dirty_bytes={wanted}MiB vm.dirty_background_bytes={background}MiB"
    );
    let mut found = Found::here(Severity::Warning, evidence, remedy);
    found.cost_bytes(error);
    Some(found)
}

/// FW010: what was read of the limits is raised by a quarter and a 32nd, because a real-time task
/// read it.
pub(super) fn real_time_reader(facts: Facts<'_>) -> Option<Found> {
    let machine = &facts.status.machine;
    if machine.reader_is_real_time != Reading::Value(true) {
        return None;
    }
    let shown = *machine.hard_limit_bytes.value()?;
    let plain = shown / 41 * 32;
    let evidence = format!(
        "this process runs under a real-time policy: the {} shown as hard limit are about {} for \
         everybody else",
        size(shown),
        size(plain)
    );
    let mut found = Found::here(Severity::Note, evidence, "chrt --other 0 floodwall status");
    found.cost_bytes(shown - plain);
    Some(found)
}

/// FW011: more is counted as dirty than there is memory.
pub(super) fn impossible_counters(facts: Facts<'_>) -> Option<Found> {
    let machine = &facts.status.machine;
    let ram = *machine.ram_bytes.value()?;
    let counters = [("Dirty", &machine.dirty_bytes), ("Writeback", &machine.writeback_bytes)];
    let (name, bytes) = counters.into_iter().find_map(|(name, reading)| {
        Some((name, *reading.value().filter(|bytes| **bytes > ram)?))
    })?;
    let evidence = format!(
        "/proc/meminfo says {name} {} with {} of RAM: the counter has run below zero",
        size(bytes),
        size(ram)
    );
    Some(Found::here(Severity::Critical, evidence, "systemctl reboot"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::testing::{Machine, disk, found};

    #[test]
    fn fw001_is_measured_against_the_rate_seen() {
        let mut machine = Machine::healthy();
        assert_eq!(found(&machine, "FW001"), None);
        machine.limits(4 << 30, 1 << 30);
        let one = found(&machine, "FW001").unwrap();
        insta::assert_snapshot!(one.evidence[0], @"sda: 4 GiB at 200 MB/s (seen during the window) \
            take 21.5 s");
        assert_eq!((one.severity, one.cost_bytes), (Severity::Warning, Some(4 << 30)));
        insta::assert_snapshot!(one.remedy, @"floodwall size --rate sda=200MB/s --toml > \
            limits.toml && floodwall apply limits.toml");
        machine.limits(16 << 30, 1 << 30);
        assert_eq!(found(&machine, "FW001").unwrap().severity, Severity::Critical);
        // A strict share is the device's limit.
        machine.status.devices[0].limits.strict_limit = Reading::Value(true);
        machine.status.devices[0].limits.max_ratio_percent = Reading::Value(1.0);
        assert_eq!(found(&machine, "FW001"), None);
        // Without a rate nothing is known, and what can't be written never fills.
        let mut machine = Machine::healthy();
        machine.limits(16 << 30, 1 << 30);
        machine.status.devices[0].drain.rate_bytes_per_s = Reading::Absent("idle".into());
        assert_eq!(found(&machine, "FW001"), None);
        let mut machine = Machine::healthy();
        machine.limits(16 << 30, 1 << 30);
        machine.status.devices[0].mounts[0].read_only = true;
        assert_eq!(found(&machine, "FW001"), None);
    }

    #[test]
    fn fw002_counts_chunks_and_flushing_devices() {
        let mut machine = Machine::healthy();
        machine.limits(4_000_000, 1_000_000);
        let one = found(&machine, "FW002").unwrap();
        assert_eq!(one.severity, Severity::Critical);
        insta::assert_snapshot!(one.evidence[0], @"the hard limit is 4 MB, \
            less than one chunk of 4 MiB");
        machine.limits(15_000_000, 4_000_000);
        assert_eq!(found(&machine, "FW002"), None);
        let mut other = disk("sdb");
        other.writeback_bytes = Reading::Value(1 << 20);
        machine.status.devices[0].writeback_bytes = Reading::Value(1 << 20);
        machine.status.devices.push(other);
        let one = found(&machine, "FW002").unwrap();
        assert_eq!(one.severity, Severity::Warning);
        insta::assert_snapshot!(one.evidence[0], @"the hard limit is 15 MB, less than two chunks \
            of 4 MiB for each of 2 devices under writeback now");
    }

    #[test]
    fn fw003_knows_every_pair_of_names() {
        let evidence = |hard: (u64, u64), background: (u64, u64), in_force: (u64, u64)| {
            let mut machine = Machine::healthy();
            machine.limits(in_force.0, in_force.1);
            let knobs = &mut machine.status.machine.dirty_knobs;
            (knobs.hard_bytes, knobs.hard_ratio_percent) =
                (Reading::Value(hard.0), Reading::Value(hard.1));
            (knobs.background_bytes, knobs.background_ratio_percent) =
                (Reading::Value(background.0), Reading::Value(background.1));
            found(&machine, "FW003").map(|found| found.evidence[0].clone())
        };
        let gib = 1 << 30;
        let (mib100, mib200) = (100 << 20, 200 << 20);
        insta::assert_snapshot!(evidence((mib100, 0), (mib200, 0), (mib100, 50 << 20)).unwrap(), @"\
            vm.dirty_background_bytes=209715200 is not below vm.dirty_bytes=104857600");
        insta::assert_snapshot!(evidence((0, 5), (0, 10), (gib, gib / 2)).unwrap(), @"\
            vm.dirty_background_ratio=10 is not below vm.dirty_ratio=5");
        insta::assert_snapshot!(evidence((0, 20), (2 * gib, 0), (gib, gib / 2)).unwrap(), @"\
            vm.dirty_background_bytes=2147483648 is not below the 1 GiB that vm.dirty_ratio=20 \
            comes to");
        let bytes = 15_003_648;
        insta::assert_snapshot!(evidence((bytes, 0), (0, 10), (bytes, 7_499_776)).unwrap(), @"\
            vm.dirty_background_ratio=10 comes to more than vm.dirty_bytes=15003648; 7324 KiB is \
            in force");
        assert_eq!(evidence((0, 20), (0, 10), (gib, gib / 2)), None);
        assert_eq!(evidence((100 << 20, 0), (20 << 20, 0), (100 << 20, 20 << 20)), None);
        assert_eq!(evidence((4 * gib, 0), (0, 1), (4 * gib, gib / 8)), None);
    }

    #[test]
    fn fw004_and_fw005_are_about_a_limit_of_zero() {
        let mut machine = Machine::healthy();
        machine.knobs(0, 0);
        assert_eq!(found(&machine, "FW004").unwrap().severity, Severity::Critical);
        assert_eq!(found(&machine, "FW005"), None);
        machine.kernel("6.5.0-18-generic");
        assert!(
            found(&machine, "FW005").unwrap().evidence[0]
                .contains("on 6.5.0-18-generic writing max_bytes")
        );
        machine.status.devices[0].limits.strict_limit = Reading::Absent("old".into());
        assert_eq!(found(&machine, "FW005"), None);
        let mut machine = Machine::healthy();
        machine.status.machine.dirty_knobs.hard_bytes = Reading::Unreadable("no".into());
        assert_eq!(found(&machine, "FW004"), None);
    }

    #[test]
    fn fw006_leaves_a_small_hard_limit_to_fw002() {
        let mut machine = Machine::healthy();
        machine.limits(192 << 20, 4096);
        machine.status.machine.dirty_knobs.background_bytes = Reading::Value(5);
        insta::assert_snapshot!(found(&machine, "FW006").unwrap().evidence[0], @"\
            vm.dirty_background_bytes=5 comes to 4 KiB, less than one chunk of 4 MiB of the \
            flusher");
        insta::assert_snapshot!(found(&machine, "FW006").unwrap().remedy, @"floodwall apply \
            vm.dirty_background_bytes=32MiB");
        machine.limits(4 << 20, 1 << 20);
        assert_eq!(found(&machine, "FW006"), None);
    }

    #[test]
    fn fw009_counts_online_and_possible_cpus() {
        let mut machine = Machine::healthy();
        machine.limits(15_000_000, 4 << 20);
        machine.status.machine.cpus = Reading::Value(64);
        machine.status.machine.possible_cpus = Reading::Value(64);
        // 64 x 125 pages of 4 KiB are more than 8 x 64 x 7.
        let one = found(&machine, "FW009").unwrap();
        assert_eq!(one.cost_bytes, Some(64 * 125 * 4096));
        insta::assert_snapshot!(one.remedy, @"floodwall apply vm.dirty_bytes=125MiB \
            vm.dirty_background_bytes=21MiB");
        machine.limits(125 << 20, 21 << 20);
        assert_eq!(found(&machine, "FW009"), None);
    }

    #[test]
    fn fw010_and_fw011_doubt_the_numbers() {
        let mut machine = Machine::healthy();
        machine.status.machine.reader_is_real_time = Reading::Value(true);
        machine.limits(41 << 20, 20 << 20);
        assert_eq!(found(&machine, "FW010").unwrap().cost_bytes, Some(9 << 20));
        assert_eq!(found(&machine, "FW011"), None);
        machine.status.machine.dirty_bytes = Reading::Value(u64::MAX - 8191);
        assert!(
            found(&machine, "FW011").unwrap().evidence[0].starts_with("/proc/meminfo says Dirty")
        );
    }
}
