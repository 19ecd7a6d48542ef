//! The backlog now, and the time that data may wait before the flusher looks at them.

use floodwall_model::Reading;
use floodwall_model::finding::Severity;
use floodwall_model::status::{Device, DrainSource};

use super::facts::Facts;
use super::found::Found;
use super::remedy::size_and_apply;
use super::view::{VERY_LONG_DRAIN_S, background_limit, rate, rate_source, size, speed, time};

/// A longer time to drain is not normal for a program that waits for an fsync.
const LONG_BACKLOG_S: f64 = 10.0;
/// Data that may stay in memory alone for longer than this survives no ordinary power cut; the
/// kernel's own times come to 35 s.
const LONG_AGE_S: f64 = 120.0;

/// FW007: the flusher does not look for old dirty data.
pub(super) fn no_periodic_writeback(facts: Facts<'_>) -> Option<Found> {
    let interval = *facts.status.machine.dirty_knobs.writeback_centisecs.value()?;
    let background = background_limit(facts.status);
    let stays = background.map_or_else(String::new, |bytes| {
        format!("; up to {} may stay in memory for ever", size(bytes))
    });
    let evidence = match interval {
        0 => format!("vm.dirty_writeback_centisecs=0: old data is not looked for{stays}"),
        ..0 => {
            format!(
                "vm.dirty_writeback_centisecs={interval}: the kernel takes it for a huge \
                 number{stays}"
            )
        }
        _ => return None,
    };
    let mut found = Found::here(
        Severity::Warning,
        evidence,
        "floodwall apply vm.dirty_writeback_centisecs=500",
    );
    if let Some(bytes) = background {
        found.cost_bytes(bytes);
    }
    Some(found)
}

/// FW008: data may stay in memory for minutes before it is written.
pub(super) fn long_age(facts: Facts<'_>) -> Option<Found> {
    let knobs = &facts.status.machine.dirty_knobs;
    let (expire, interval) =
        (*knobs.expire_centisecs.value()?, *knobs.writeback_centisecs.value()?);
    let seconds = (expire.saturating_add(interval)) as f64 / 100.0;
    if expire < 0 || interval <= 0 || seconds <= LONG_AGE_S {
        return None;
    }
    let evidence = format!(
        "vm.dirty_expire_centisecs={expire} and vm.dirty_writeback_centisecs={interval}: data \
         waits up to {} for the flusher",
        time(seconds)
    );
    let remedy = "floodwall apply vm.dirty_expire_centisecs=3000 vm.dirty_writeback_centisecs=500";
    let mut found = Found::here(Severity::Note, evidence, remedy);
    found.cost_s(seconds);
    Some(found)
}

/// FW012: the backlog takes long to drain, or does not drain at all.
pub(super) fn backlog(facts: Facts<'_>) -> Option<Found> {
    let mut found = Found::nothing();
    let (mut slow, mut stuck): (Vec<&Device>, Vec<&Device>) = (Vec::new(), Vec::new());
    for device in &facts.status.devices {
        let waiting =
            || Some(device.dirty_bytes.value()?.saturating_add(*device.writeback_bytes.value()?));
        let is_stuck = device.drain.from == DrainSource::Seen
            && device.drain.rate_bytes_per_s == Reading::Value(0.0);
        if is_stuck {
            let Some(bytes) = waiting() else { continue };
            let evidence = format!(
                "{}: {} wait and nothing was written in {}",
                device.name,
                size(bytes),
                time(facts.status.window_s)
            );
            found.add(Severity::Critical, &device.name, evidence);
            found.cost_bytes(bytes);
            stuck.push(device);
            continue;
        }
        let (Some(seconds), Some(rate), Some(bytes)) =
            (device.drain.now_s.value().copied(), rate(device), waiting())
        else {
            continue;
        };
        if seconds < LONG_BACKLOG_S {
            continue;
        }
        let severity =
            if seconds > VERY_LONG_DRAIN_S { Severity::Critical } else { Severity::Warning };
        let evidence = format!(
            "{}: {} wait at {} ({}): {}",
            device.name,
            size(bytes),
            speed(rate),
            rate_source(device),
            time(seconds)
        );
        found.add(severity, &device.name, evidence);
        found.cost_s(seconds);
        found.cost_bytes(bytes);
        slow.push(device);
    }
    // A device that does not write at all is not a matter of limits.
    let remedy = if stuck.is_empty() {
        size_and_apply(facts.status, &slow)
    } else {
        "dmesg --level=err,warn | tail -n 50".to_owned()
    };
    found.remedied_by(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::testing::{Machine, found};

    #[test]
    fn fw007_takes_zero_and_less_for_never() {
        let evidence = |centisecs: i64| {
            let mut machine = Machine::healthy();
            machine.status.machine.dirty_knobs.writeback_centisecs = Reading::Value(centisecs);
            found(&machine, "FW007").map(|found| found.evidence[0].clone())
        };
        insta::assert_snapshot!(evidence(0).unwrap(), @"vm.dirty_writeback_centisecs=0: old data \
            is not looked for; up to 32 MiB may stay in memory for ever");
        insta::assert_snapshot!(evidence(-1).unwrap(), @"vm.dirty_writeback_centisecs=-1: the \
            kernel takes it for a huge number; up to 32 MiB may stay in memory for ever");
        assert_eq!(evidence(1), None);
    }

    #[test]
    fn fw008_adds_age_and_interval() {
        let mut machine = Machine::healthy();
        machine.status.machine.dirty_knobs.expire_centisecs = Reading::Value(60_000);
        let one = found(&machine, "FW008").unwrap();
        assert_eq!(one.cost_s, Some(605.0));
        machine.status.machine.dirty_knobs.writeback_centisecs = Reading::Value(0);
        assert_eq!(found(&machine, "FW008"), None);
        machine.status.machine.dirty_knobs.writeback_centisecs = Reading::Value(500);
        machine.status.machine.dirty_knobs.expire_centisecs = Reading::Value(11_500);
        assert_eq!(found(&machine, "FW008"), None);
    }

    #[test]
    fn fw012_tells_slow_from_stuck() {
        let mut machine = Machine::healthy();
        machine.backlog(4 << 30);
        let one = found(&machine, "FW012").unwrap();
        insta::assert_snapshot!(one.evidence[0], @"sda: 4 GiB wait at 200 MB/s (seen during the \
            window): 21.5 s");
        assert_eq!(one.severity, Severity::Warning);
        machine.status.devices[0].drain.rate_bytes_per_s = Reading::Value(0.0);
        let one = found(&machine, "FW012").unwrap();
        insta::assert_snapshot!(one.evidence[0], @"sda: 4 GiB wait and \
            nothing was written in 1.00 s");
        assert_eq!((one.severity, one.cost_s), (Severity::Critical, None));
        insta::assert_snapshot!(one.remedy, @"dmesg --level=err,warn | tail -n 50");
        machine = Machine::healthy();
        machine.backlog(1 << 30);
        assert_eq!(found(&machine, "FW012"), None);
    }
}
