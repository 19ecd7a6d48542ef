//! A process that serves a block device to this machine, writes through the page cache to do so,
//! and may be stopped by a dirty limit.

use floodwall_model::finding::Severity;

use super::facts::Facts;
use super::found::Found;
use super::remedy::apply;
use super::view::{background_limit, hard_limit, size};
use crate::servers::{self, Exposure, fuse_limits, gap};

/// FW045: critical where the limits in force can hang a server, a note where lower ones could.
pub(super) fn may_hang(facts: Facts<'_>) -> Option<Found> {
    let status = facts.status;
    let exposure = Exposure::of(&status.servers, fuse_limits)?;
    let (hard, background) = (hard_limit(status)?, background_limit(status)?);
    let can_hang = exposure.can_hang(hard, background);
    // Filesystems whose own limits are strict are safe under any limit that a machine is run with.
    if !can_hang && exposure.queue_bytes == 0 {
        return None;
    }
    let severity = if can_hang { Severity::Critical } else { Severity::Note };
    let waiting = match &exposure.boundless {
        Some(why) => format!("nothing bounds what can wait for it ({why})"),
        None => format!("up to {} can wait for it", size(exposure.waiting_bytes(hard) as u64)),
    };
    let between = size(gap(hard, background));
    let mut found = Found::nothing();
    for server in status.servers.iter().filter(|server| server.may_hang()) {
        let evidence =
            format!("{}; {waiting}, {between} are between the limits", servers::describe(server));
        // The filesystem below a loop device says less than the loop device.
        let by_queue = server.serves.iter().find(|served| served.queue_bytes.value().is_some());
        if let Some(served) = by_queue.or(server.serves.first()) {
            found.add(severity, &served.name, evidence);
        }
    }
    found.remedied_by(match exposure.least_hard_bytes() {
        Some(least) if can_hang => apply(&[
            format!("vm.dirty_bytes={}MiB", least >> 20),
            format!("vm.dirty_background_bytes={}MiB", (least >> 20) / 4),
        ]),
        Some(least) => format!("keep vm.dirty_bytes at {} or more", size(least)),
        None => "let the server set PR_SET_IO_FLUSHER, or write with O_DIRECT".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use floodwall_model::Reading;
    use floodwall_model::status::{Served, Server};

    use super::*;
    use crate::findings::testing::{Machine, found};

    fn served(name: &str, queue_bytes: Reading<u64>) -> Served {
        Served {
            name: name.to_owned(),
            queue_bytes,
            fuse_bdi: Reading::Absent(String::new()),
            strict_limit: Reading::Value(true),
            max_ratio_percent: Reading::Value(1.0),
        }
    }

    /// A machine with a server that may hang: of `nbd0`, with so much in its queue, or of a
    /// filesystem.
    fn machine(queue_bytes: Option<u64>) -> Machine {
        let mut machine = Machine::healthy();
        let serves = match queue_bytes {
            Some(bytes) => served("nbd0", Reading::Value(bytes)),
            None => served("/mnt/photos", Reading::Absent(String::new())),
        };
        machine.status.servers = vec![Server {
            pid: Reading::Value(4711),
            name: "nbd\u{1b}-server".into(),
            serves: vec![serves],
            io_flusher: Reading::Value(false),
            buffered: Reading::Value("/srv/disk.img".into()),
        }];
        machine
    }

    #[test]
    fn fw045_names_the_server_and_the_limits_that_it_needs() {
        let one = found(&machine(Some(160 << 20)), "FW045").unwrap();
        assert_eq!(
            (one.severity, one.subjects.as_slice()),
            (Severity::Critical, ["nbd0".to_owned()].as_slice())
        );
        insta::assert_snapshot!(one.evidence[0], @"\
            nbd0: served by pid 4711 (nbd\\u{1b}-server), which has /srv/disk.img open for \
            buffered writes without PR_SET_IO_FLUSHER; up to 188 MiB can wait for it, 160 MiB are \
            between the limits");
        assert_eq!(
            one.remedy,
            "floodwall apply vm.dirty_bytes=263MiB vm.dirty_background_bytes=65MiB"
        );
    }

    #[test]
    fn fw045_is_a_note_where_only_lower_limits_could_hang_it() {
        let mut machine = machine(Some(16 << 20));
        let one = found(&machine, "FW045").unwrap();
        assert_eq!(
            (one.severity, one.remedy.as_str()),
            (Severity::Note, "keep vm.dirty_bytes at 33 MiB or more")
        );
        machine.limits(16 << 20, 4 << 20);
        assert_eq!(found(&machine, "FW045").unwrap().severity, Severity::Critical);
    }

    #[test]
    fn fw045_has_nothing_to_say_of_servers_that_no_limit_stops() {
        assert!(found(&machine(None), "FW045").is_none(), "a FUSE filesystem is strict");
        let mut safe = machine(Some(160 << 20));
        safe.status.servers[0].io_flusher = Reading::Value(true);
        assert!(found(&safe, "FW045").is_none());
        let mut safe = machine(Some(160 << 20));
        safe.status.servers[0].buffered = Reading::Absent("none".into());
        assert!(found(&safe, "FW045").is_none());
    }
}
