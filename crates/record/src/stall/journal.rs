//! A stall as a structured message of systemd's journal.
//!
//! ```text
//! Stall + its sentence ─▶ fields ─▶ one datagram ─▶ /run/systemd/journal/socket
//! ```
//!
//! systemd describes the form in "Native Journal Protocol". A field is a line `NAME=value`. Where
//! the value has a line end, it is the name, a line end, the value's length, the value, a line end.
//! The length has 64 bits, the lowest byte first. Names of processes are sent as they are;
//! journalctl does not print what a terminal obeys.
//!
//! `journalctl MESSAGE_ID=935d3b015d7a44d4b6db10ac82fc5e14` shows all stalls, `-o verbose` their
//! fields.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use floodwall_model::stall::Stall;

/// Where the journal listens.
pub const JOURNAL: &str = "/run/systemd/journal/socket";

/// The number of all messages about stalls (`MESSAGE_ID`), made once by chance.
pub const MESSAGE_ID: &str = "935d3b015d7a44d4b6db10ac82fc5e14";

/// A warning: nothing is broken, but something waits.
const PRIORITY: &str = "4";

/// Sends a stall that ended, with its sentence; whether there is a journal.
///
/// # Errors
/// If the journal is there and takes no message. It is not waited for: its disk may be the one that
/// stalls.
pub fn send(socket: &Path, stall: &Stall, sentence: &str) -> io::Result<bool> {
    let datagram = UnixDatagram::unbound()?;
    datagram.set_nonblocking(true)?;
    match datagram.send_to(&message(stall, sentence), socket) {
        Ok(_) => Ok(true),
        // Nothing listens, or no socket is there.
        Err(e)
            if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
        {
            Ok(false)
        }
        Err(e) => Err(e),
    }
}

fn message(stall: &Stall, sentence: &str) -> Vec<u8> {
    let mut message = Vec::new();
    for (name, value) in fields(stall, sentence) {
        message.extend_from_slice(name.as_bytes());
        if value.contains('\n') {
            message.push(b'\n');
            message.extend_from_slice(&(value.len() as u64).to_le_bytes());
        } else {
            message.push(b'=');
        }
        message.extend_from_slice(value.as_bytes());
        message.push(b'\n');
    }
    message
}

/// Fields that are not known are absent.
fn fields(stall: &Stall, sentence: &str) -> Vec<(&'static str, String)> {
    let victim = stall.victims.first();
    let flood = stall.floods.first();
    let fields = [
        ("MESSAGE", Some(sentence.to_owned())),
        ("MESSAGE_ID", Some(MESSAGE_ID.to_owned())),
        ("PRIORITY", Some(PRIORITY.to_owned())),
        ("SYSLOG_IDENTIFIER", Some("floodwall".to_owned())),
        ("FLOODWALL_DISK", Some(stall.disk.clone())),
        ("FLOODWALL_BEGAN_UNIX_MS", Some(stall.began_unix_ms.to_string())),
        ("FLOODWALL_STALL_SECONDS", Some(seconds(stall.lasted_ms()))),
        ("FLOODWALL_VICTIM", victim.map(|victim| victim.name.clone())),
        ("FLOODWALL_VICTIM_PID", victim.map(|victim| victim.pid.to_string())),
        ("FLOODWALL_VICTIM_WORKLOAD", victim.and_then(|victim| victim.workload.label())),
        ("FLOODWALL_CALL", victim.and_then(|victim| victim.call.clone())),
        ("FLOODWALL_SLOWEST_SECONDS", Some(seconds(stall.slowest_us() / 1000))),
        ("FLOODWALL_FLOOD", flood.map(|flood| flood.name.clone())),
        ("FLOODWALL_FLOOD_PID", flood.map(|flood| flood.pid.to_string())),
        ("FLOODWALL_FLOOD_WORKLOAD", flood.and_then(|flood| flood.workload.label())),
        ("FLOODWALL_DIRTIED_BYTES", flood.map(|flood| flood.dirtied_bytes.to_string())),
        ("FLOODWALL_BACKLOG_BYTES", stall.backlog_bytes.map(|bytes| bytes.to_string())),
        ("FLOODWALL_DRAIN_SECONDS", stall.drain_ms.map(seconds)),
        ("FLOODWALL_GUARD", stall.guard.clone()),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use floodwall_model::stall::{Flood, Victim};
    use floodwall_model::workload::Workload;

    use super::*;

    fn stall() -> Stall {
        let unit = Some("postgresql.service".to_owned());
        Stall {
            began_unix_ms: 1_000_250,
            ended_unix_ms: 1_041_300,
            disk: "sda".into(),
            victims: vec![Victim {
                pid: 812,
                name: "postgres\nMESSAGE=forged".into(),
                workload: Workload { unit, ..Workload::default() },
                slowest_us: 3_200_999,
                ..Victim::default()
            }],
            floods: vec![Flood { pid: 4711, name: "cp".into(), ..Flood::default() }],
            ..Stall::default()
        }
    }

    /// As the documentation of the protocol says to read it.
    fn read(mut message: &[u8]) -> BTreeMap<String, String> {
        let mut fields = BTreeMap::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        while !message.is_empty() {
            let end = message.iter().position(|byte| *byte == b'\n').unwrap();
            let (line, rest) = (text(&message[..end]), &message[end + 1..]);
            message = match line.split_once('=') {
                Some((name, value)) => {
                    fields.insert(name.to_owned(), value.to_owned());
                    rest
                }
                None => {
                    let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
                    fields.insert(line, text(&rest[8..8 + length]));
                    assert_eq!(rest[8 + length], b'\n');
                    &rest[9 + length..]
                }
            };
        }
        fields
    }

    #[test]
    fn a_message_arrives_with_its_fields() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let journal = UnixDatagram::bind(&path).unwrap();
        assert!(send(&path, &stall(), "postgres waited").unwrap());
        let mut bytes = vec![0; 65_536];
        let length = journal.recv(&mut bytes).unwrap();
        let fields = read(&bytes[..length]);
        for (name, value) in [
            ("MESSAGE", "postgres waited"),
            ("PRIORITY", "4"),
            ("MESSAGE_ID", MESSAGE_ID),
            ("FLOODWALL_DISK", "sda"),
            ("FLOODWALL_STALL_SECONDS", "41.050"),
            ("FLOODWALL_SLOWEST_SECONDS", "3.200"),
            ("FLOODWALL_VICTIM", "postgres\nMESSAGE=forged"),
            ("FLOODWALL_VICTIM_PID", "812"),
            ("FLOODWALL_VICTIM_WORKLOAD", "postgresql.service"),
            ("FLOODWALL_FLOOD", "cp"),
            ("FLOODWALL_DIRTIED_BYTES", "0"),
        ] {
            assert_eq!(fields.get(name).map(String::as_str), Some(value), "{name}");
        }
        for absent in ["FLOODWALL_CALL", "FLOODWALL_BACKLOG_BYTES", "FLOODWALL_FLOOD_WORKLOAD"] {
            assert!(!fields.contains_key(absent), "{absent}");
        }
    }

    #[test]
    fn without_a_journal_nothing_is_sent_and_nothing_fails() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        assert!(!send(&path, &stall(), "").unwrap());
        drop(UnixDatagram::bind(&path).unwrap());
        assert!(!send(&path, &stall(), "").unwrap(), "its socket is left behind");
    }

    #[test]
    fn a_journal_that_takes_nothing_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let _journal = UnixDatagram::bind(&path).unwrap();
        let sent = (0..100_000).find_map(|_| send(&path, &stall(), "").err());
        assert_eq!(sent.unwrap().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn names_of_fields_are_those_that_the_journal_takes() {
        for (name, _) in fields(&stall(), "") {
            let is_taken = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            assert!(name.chars().all(is_taken) && name.len() <= 64, "{name}");
            assert!(name.starts_with(|c: char| c.is_ascii_uppercase()), "{name}");
        }
    }
}
