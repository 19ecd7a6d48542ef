//! Devices' shares of the hard limit: unbounded, without effect, zero, or in the hands of a faulty
//! kernel.

use floodwall_model::Reading;
use floodwall_model::finding::Severity;
use floodwall_model::status::{Device, Status};

use super::facts::Facts;
use super::found::Found;
use super::kernel;
use super::remedy::{apply, is_estimate, own_share, size_and_apply};
use super::view::{
    HARD_DELAY_S, LONG_DRAIN_S, background_limit, hard_limit, has_strict_limit, own_limit, prefix,
    rate, rate_source, size, speed, time, writable,
};

/// Devices whose rates differ less share a limit well enough: the kernel divides it by how much
/// each writes back.
const MUCH_SLOWER: f64 = 4.0;

/// FW013: a slow device may fill the limit that a fast one needs.
pub(super) fn shared_with_fast(facts: Facts<'_>) -> Option<Found> {
    let hard = hard_limit(facts.status)?;
    let known: Vec<(&Device, f64)> = facts
        .status
        .devices
        .iter()
        .filter(|d| writable(d))
        .filter_map(|d| Some((d, rate(d)?)))
        .collect();
    let (fastest, top) = known.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let mut found = Found::nothing();
    let (mut settings, mut unbounded): (Vec<String>, Vec<&Device>) = (Vec::new(), Vec::new());
    let mut slow: Vec<&Device> = Vec::new();
    for (device, rate) in known {
        let limit = own_limit(device, hard);
        let seconds = limit as f64 / rate;
        // Its own limit is in force, or it could not hold any process up for long.
        if top / rate < MUCH_SLOWER || limit < hard || seconds <= LONG_DRAIN_S {
            continue;
        }
        let mut evidence = format!(
            "{} drains {} ({}), {} {}; alone it may fill the {} that both share: {}",
            device.name,
            speed(rate),
            rate_source(device),
            fastest.name,
            speed(top),
            size(limit),
            time(seconds)
        );
        if let Some(held) = holds_up_others(facts.status, device, hard) {
            evidence.push_str(&format!(
                "; it holds {} now, so writers to all disks are slowed down",
                size(held)
            ));
        }
        found.add(Severity::Warning, &device.name, evidence);
        found.cost_s(seconds);
        found.cost_bytes(limit);
        slow.push(device);
        match own_share(facts.status, device, hard, (rate * HARD_DELAY_S) as u64) {
            Some(setting) => settings.push(setting),
            None => unbounded.push(device),
        }
    }
    let is_removable = settings.len() == slow.len() && slow.iter().any(|device| device.removable);
    let remedy = if slow.iter().any(|device| is_estimate(device)) {
        // Beside the fast one, so that each gets a share.
        slow.push(fastest);
        size_and_apply(facts.status, &slow)
    } else if settings.is_empty() {
        size_and_apply(facts.status, &unbounded)
    } else {
        apply(&settings)
    };
    // The next one that is plugged in gets a limit as well.
    let and_others = if is_removable { " && floodwall persist --removable" } else { "" };
    found.remedied_by(format!("{remedy}{and_others}"))
}

/// The dirty bytes of a device that slows down the writers of all disks. It holds most of the dirty
/// data, and the machine is beyond half-way from the background limit to the hard one.
fn holds_up_others(status: &Status, device: &Device, hard: u64) -> Option<u64> {
    let sum = |one: &Reading<u64>, other: &Reading<u64>| Some(one.value()? + other.value()?);
    let held = sum(&device.dirty_bytes, &device.writeback_bytes)?;
    let all = sum(&status.machine.dirty_bytes, &status.machine.writeback_bytes)?;
    let freerun = hard.midpoint(background_limit(status)?);
    (all >= freerun && held > all / 2).then_some(held)
}

/// FW014: a share that does not hold, because it is not strict.
pub(super) fn share_not_strict(facts: Facts<'_>) -> Option<Found> {
    let hard = hard_limit(facts.status)?;
    let freerun = hard.midpoint(background_limit(facts.status)?);
    let mut found = Found::nothing();
    let mut settings = Vec::new();
    for device in &facts.status.devices {
        let Some(percent) =
            device.limits.max_ratio_percent.value().filter(|p| **p > 0.0 && **p < 100.0)
        else {
            continue;
        };
        let (severity, why) = match &device.limits.strict_limit {
            Reading::Value(true) => continue,
            Reading::Value(false) => (Severity::Warning, "strict_limit=0"),
            Reading::Absent(_) => (Severity::Note, "this kernel has no strict_limit"),
            Reading::Unreadable(_) => continue,
        };
        let share = (hard as f64 * percent / 100.0) as u64;
        let evidence = format!(
            "{}: max_ratio is {percent} % ({}), but {why}: it may hold {} before anybody is slowed \
             down",
            device.name,
            size(share),
            size(freerun)
        );
        found.add(severity, &device.name, evidence);
        found.cost_bytes(freerun);
        // A share that this kernel can't keep, or that is too small for the flusher, is better
        // none.
        let none = || format!("{}.bdi.max_ratio=100", prefix(device));
        settings.push(own_share(facts.status, device, hard, share).unwrap_or_else(none));
    }
    found.remedied_by(apply(&settings))
}

/// FW015: a share of nothing: `max_bytes` below a millionth of the limit is rounded to it.
pub(super) fn zero_share(facts: Facts<'_>) -> Option<Found> {
    let mut found = Found::nothing();
    let mut settings = Vec::new();
    for device in &facts.status.devices {
        if device.limits.max_ratio_percent != Reading::Value(0.0) {
            continue;
        }
        let strict = device.limits.strict_limit == Reading::Value(true);
        let (severity, what) = if strict {
            (Severity::Critical, "and strict_limit=1: every writer to it is stopped")
        } else {
            (
                Severity::Warning,
                "without strict_limit: it is slowed down as soon as the machine nears its limit",
            )
        };
        found.add(severity, &device.name, format!("{}: max_ratio is 0 {what}", device.name));
        settings.push(format!("{}.bdi.max_ratio=100", prefix(device)));
    }
    found.remedied_by(apply(&settings))
}

/// FW016: on kernels from 6.2 to 6.12 a strict device that was idle has a share of almost nothing
/// at first.
pub(super) fn strict_after_idleness(facts: Facts<'_>) -> Option<Found> {
    let release = kernel::between(&facts.status.machine, (6, 2), (6, 12))?;
    let can_keep_a_share = kernel::between(&facts.status.machine, (6, 2), (6, 7)).is_none();
    let mut found = Found::nothing();
    let mut settings = Vec::new();
    for device in &facts.status.devices {
        let limits = &device.limits;
        let is_strict = limits.strict_limit == Reading::Value(true);
        // A share of zero is zero at any time: FW015.
        let is_zero = limits.max_ratio_percent == Reading::Value(0.0);
        if !is_strict || is_zero || limits.min_ratio_percent != Reading::Value(0.0) {
            continue;
        }
        let evidence = format!(
            "{}: strict_limit=1 and min_ratio=0 on {release}, which gives a device that was idle a \
             share near zero, unless the distribution has repaired it",
            device.name
        );
        found.add(Severity::Warning, &device.name, evidence);
        let prefix = prefix(device);
        settings.push(match can_keep_a_share {
            true => format!("{prefix}.bdi.min_ratio=1"),
            false => format!("{prefix}.bdi.strict_limit=0"),
        });
    }
    found.remedied_by(apply(&settings))
}

/// FW017: kernels from 6.2 to 6.7 scale shares twice.
pub(super) fn scaled_twice(facts: Facts<'_>) -> Option<Found> {
    let release = kernel::between(&facts.status.machine, (6, 2), (6, 7))?;
    let mut found = Found::nothing();
    let mut settings = Vec::new();
    for device in facts.status.devices.iter().filter(|device| has_strict_limit(device)) {
        let (Some(low), Some(high)) =
            (device.limits.min_ratio_percent.value(), device.limits.max_ratio_percent.value())
        else {
            continue;
        };
        if *low == 0.0 && *high == 100.0 {
            continue;
        }
        let evidence = format!(
            "{}: min_ratio {low} %, max_ratio {high} % on {release}, which multiplies min_ratio by \
             10,000 twice and weighs max_ratio wrongly, unless the distribution has repaired it",
            device.name
        );
        found.add(Severity::Warning, &device.name, evidence);
        settings.push(format!("{0}.bdi.min_ratio=0 {0}.bdi.max_ratio=100", prefix(device)));
    }
    found.remedied_by(apply(&settings))
}

#[cfg(test)]
mod tests {
    use floodwall_model::status::DrainSource;

    use super::*;
    use crate::findings::testing::{Machine, disk, found};

    #[test]
    fn fw013_needs_a_fast_device_beside_a_slow_one() {
        let mut machine = Machine::healthy();
        machine.limits(4 << 30, 1 << 30);
        assert_eq!(found(&machine, "FW013"), None);
        let mut stick = disk("sdb");
        stick.drain.rate_bytes_per_s = Reading::Value(8e6);
        machine.status.devices.push(stick);
        let one = found(&machine, "FW013").unwrap();
        insta::assert_snapshot!(one.evidence[0], @"sdb drains 8.00 MB/s (seen during the window), \
            sda 200 MB/s; alone it may fill the 4 GiB that both share: 8 min 57 s");
        insta::assert_snapshot!(one.remedy, @"floodwall apply sdb.bdi.max_bytes=12MiB \
            sdb.bdi.strict_limit=1");
        machine.status.devices[1].removable = true;
        assert!(found(&machine, "FW013").unwrap().remedy.ends_with("persist --removable"));
        // Three of four GiB are dirty, and it holds most of them.
        machine.status.machine.dirty_bytes = Reading::Value(2 << 30);
        machine.status.machine.writeback_bytes = Reading::Value(1 << 30);
        machine.status.devices[1].dirty_bytes = Reading::Value(2 << 30);
        let one = found(&machine, "FW013").unwrap();
        let held = "; it holds 2 GiB now, so writers to all disks are slowed down";
        assert!(one.evidence[0].ends_with(held), "{one:?}");
        machine.status.machine.writeback_bytes = Reading::Value(0);
        assert!(!found(&machine, "FW013").unwrap().evidence[0].contains("slowed down"));
        machine.status.devices[1].removable = false;
        machine.status.devices[1].limits.strict_limit = Reading::Absent("old".into());
        insta::assert_snapshot!(found(&machine, "FW013").unwrap().remedy, @"floodwall size --rate \
            sdb=8.00MB/s --toml > limits.toml && floodwall apply limits.toml");
        machine.status.devices[1].limits.strict_limit = Reading::Value(false);
        machine.status.devices[1].drain.from = DrainSource::KernelEstimate;
        insta::assert_snapshot!(found(&machine, "FW013").unwrap().remedy, @"floodwall size \
            --device sdb --rate sda=200MB/s --toml > limits.toml && floodwall apply limits.toml");
        machine.status.devices[1].limits.strict_limit = Reading::Value(true);
        machine.status.devices[1].limits.max_ratio_percent = Reading::Value(0.3);
        assert_eq!(found(&machine, "FW013"), None);
    }

    #[test]
    fn fw014_and_fw015_are_about_shares_as_they_are() {
        let mut machine = Machine::healthy();
        machine.status.devices[0].limits.max_ratio_percent = Reading::Value(5.0);
        let one = found(&machine, "FW014").unwrap();
        insta::assert_snapshot!(one.evidence[0], @"sda: max_ratio is 5 % (9.60 MiB), but \
            strict_limit=0: it may hold 112 MiB before anybody is slowed down");
        assert_eq!((one.severity, found(&machine, "FW015")), (Severity::Warning, None));
        assert_eq!(one.remedy, "floodwall apply sda.bdi.max_bytes=10MiB sda.bdi.strict_limit=1");
        machine.status.devices[0].limits.strict_limit = Reading::Absent("old".into());
        assert_eq!(found(&machine, "FW014").unwrap().severity, Severity::Note);
        machine.status.devices[0].limits.strict_limit = Reading::Value(true);
        assert_eq!(found(&machine, "FW014"), None);
        machine.status.devices[0].limits.max_ratio_percent = Reading::Value(0.0);
        assert_eq!(found(&machine, "FW015").unwrap().severity, Severity::Critical);
        machine.status.devices[0].limits.strict_limit = Reading::Value(false);
        assert_eq!(found(&machine, "FW015").unwrap().severity, Severity::Warning);
    }

    #[test]
    fn fw016_and_fw017_belong_to_a_range_of_kernels() {
        let mut machine = Machine::healthy();
        machine.status.devices[0].limits.strict_limit = Reading::Value(true);
        machine.status.devices[0].limits.max_ratio_percent = Reading::Value(5.0);
        let ids = |machine: &Machine| {
            ["FW016", "FW017"].map(|id| found(machine, id).map(|found| found.remedy))
        };
        machine.kernel("6.5.0-18-generic");
        assert_eq!(
            ids(&machine),
            [
                Some("floodwall apply sda.bdi.strict_limit=0".into()),
                Some("floodwall apply sda.bdi.min_ratio=0 sda.bdi.max_ratio=100".into())
            ]
        );
        machine.kernel("6.8.0-40-generic");
        assert_eq!(ids(&machine), [Some("floodwall apply sda.bdi.min_ratio=1".into()), None]);
        machine.kernel("6.13.0");
        assert_eq!(ids(&machine), [None, None]);
        // Kernels before 6.2 have neither the files nor the faults.
        machine.kernel("6.1.0-18-amd64");
        assert_eq!(ids(&machine), [None, None]);
    }
}
