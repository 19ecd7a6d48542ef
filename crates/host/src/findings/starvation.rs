//! mq-deadline serves a sequential flood and passes commits over until they have waited
//! `write_expire`, unless something else keeps the flood out of the elevator.

use floodwall_model::Reading;
use floodwall_model::finding::Severity;

use super::facts::Facts;
use super::found::Found;
use super::queue::{WBT_FLASH_US, WBT_ROTATING_US, is_throttled};
use super::remedy::apply;
use super::view::{disks, hard_limit, own_limit, size, time, writable};

/// Being passed over for less than this is no worse than a full queue may be (FW018).
const LONG_EXPIRE_MS: u64 = 1000;
/// The remedy's `write_expire`: as long as a read is passed over (block/mq-deadline.c
/// `read_expire`).
const SHORT_EXPIRE_MS: u64 = 500;

/// FW044: a commit may be passed over for [`LONG_EXPIRE_MS`] or longer, and there may be flood
/// enough to do so.
pub(super) fn passed_over(facts: Facts<'_>) -> Option<Found> {
    let hard = hard_limit(facts.status)?;
    let mut found = Found::nothing();
    let mut settings = Vec::new();
    for disk in disks(facts.status).into_iter().filter(|disk| writable(disk.owner)) {
        let is_deadline = matches!(disk.scheduler(), Some("mq-deadline" | "deadline"));
        if !is_deadline || is_throttled(&disk) || disk.queue.wbt_lat_us.is_unreadable() {
            continue;
        }
        let (Some(expire_ms), Some(requests), Some(kib)) = (
            disk.queue.write_expire_ms.value(),
            disk.queue.nr_requests.value(),
            disk.queue.max_sectors_kib.value(),
        ) else {
            continue;
        };
        let limit = own_limit(disk.owner, hard);
        let queue = requests.saturating_mul(*kib).saturating_mul(1024);
        // A flood that fits into the queue at once leaves the elevator nothing to go on with.
        if *expire_ms < LONG_EXPIRE_MS || limit <= queue {
            continue;
        }
        let seconds = *expire_ms as f64 / 1e3;
        let evidence = format!(
            "{}: mq-deadline, write_expire={expire_ms}, no wbt; of the {} that may be dirty the \
             queue admits {}, and a commit may be passed over for {}",
            disk.name,
            size(limit),
            size(queue),
            time(seconds)
        );
        found.add(Severity::Warning, disk.name, evidence);
        found.cost_s(seconds);
        settings.push(match (&disk.queue.wbt_lat_us, disk.seeks()) {
            (Reading::Value(_), true) => format!("{}.wbt_lat_usec={WBT_ROTATING_US}", disk.name),
            (Reading::Value(_), false) => format!("{}.wbt_lat_usec={WBT_FLASH_US}", disk.name),
            // Without an elevator a disk that seeks would have its reads wait in turn (FW022).
            (_, true) => format!("{}.iosched.write_expire={SHORT_EXPIRE_MS}", disk.name),
            (_, false) => format!("{}.scheduler=none", disk.name),
        });
    }
    found.remedied_by(apply(&settings))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::testing::{Machine, found};

    /// A disk without writeback throttling.
    fn unthrottled() -> Machine {
        let mut machine = Machine::healthy();
        machine.status.devices[0].queue.wbt_lat_us = Reading::Value(0);
        machine
    }

    #[test]
    fn fw044_is_how_long_a_commit_may_be_passed_over() {
        let machine = unthrottled();
        let one = found(&machine, "FW044").unwrap();
        insta::assert_snapshot!(one.evidence[0], @"sda: mq-deadline, write_expire=5000, no wbt; of \
            the 192 MiB that may be dirty the queue admits 80 MiB, and a commit may be passed over \
            for 5.00 s");
        assert_eq!((one.severity, one.cost_s), (Severity::Warning, Some(5.0)));
    }

    #[test]
    fn fw044_advises_what_the_disk_has() {
        let mut machine = unthrottled();
        let remedy = |machine: &Machine| found(machine, "FW044").unwrap().remedy;
        assert_eq!(remedy(&machine), "floodwall apply sda.wbt_lat_usec=2000");
        machine.status.devices[0].queue.rotational = Reading::Value(true);
        assert_eq!(remedy(&machine), "floodwall apply sda.wbt_lat_usec=75000");
        machine.status.devices[0].queue.wbt_lat_us = Reading::Absent("not in this kernel".into());
        assert_eq!(remedy(&machine), "floodwall apply sda.iosched.write_expire=500");
        machine.status.devices[0].queue.rotational = Reading::Value(false);
        assert_eq!(remedy(&machine), "floodwall apply sda.scheduler=none");
    }

    #[test]
    fn fw044_is_silent_where_nothing_is_passed_over_for_long() {
        type Spoil = fn(&mut Machine);
        let cases: [(&str, Spoil); 6] = [
            ("writeback throttling", |m| {
                m.status.devices[0].queue.wbt_lat_us = Reading::Value(2000)
            }),
            ("nobody knows of throttling", |m| {
                m.status.devices[0].queue.wbt_lat_us = Reading::Unreadable("denied".into());
            }),
            ("another elevator", |m| {
                m.status.devices[0].queue.scheduler = Reading::Value("bfq".into())
            }),
            ("a short expiry", |m| m.status.devices[0].queue.write_expire_ms = Reading::Value(500)),
            ("an expiry that was not read", |m| {
                m.status.devices[0].queue.write_expire_ms = Reading::Absent("no such file".into());
            }),
            ("everything fits into the queue", |m| m.limits(64 << 20, 16 << 20)),
        ];
        for (what, spoil) in cases {
            let mut machine = unthrottled();
            spoil(&mut machine);
            assert_eq!(found(&machine, "FW044"), None, "{what}");
        }
        // As does a share that holds.
        let mut machine = unthrottled();
        machine.status.devices[0].limits.strict_limit = Reading::Value(true);
        machine.status.devices[0].limits.max_ratio_percent = Reading::Value(40.0);
        assert_eq!(found(&machine, "FW044"), None);
    }
}
