//! The guards that steer this machine, for the page of `floodwall status`.
//!
//! ```text
//! journal ─▶ holds of this boot whose process lives ─▶ their sockets ─▶ a guard's status ─▶ a line
//! ```

use std::path::Path;

use floodwall_daemon::document::Status;
use floodwall_daemon::socket::{self, Reply, Request};
use floodwall_host::SysRoot;
use floodwall_knobs::KernelFiles;
use floodwall_knobs::journal::{Begin, DiskStore, JournalError, boot_id, is_alive, open};
use floodwall_model::message::first_of;
use floodwall_report::repeat::quoted;

use crate::commands::settings::JOURNAL;

/// Devices that a line names.
const NAMED: usize = 4;

/// A line for each guard that steers; nothing if the journal may not be read.
pub(super) fn lines(root: &SysRoot) -> Vec<String> {
    if !root.is_live() {
        return Vec::new();
    }
    let holds = KernelFiles::new(root).ok().and_then(|files| holds(&files).ok());
    holds.unwrap_or_default().iter().map(|begin| told(begin, asked(begin).as_ref())).collect()
}

/// The holds of living processes.
fn holds(files: &KernelFiles) -> Result<Vec<Begin>, JournalError> {
    let Some(store) = DiskStore::open_to_read(&Path::new("/").join(JOURNAL))? else {
        return Ok(Vec::new());
    };
    let mut all = Vec::new();
    for transaction in open(&store, &boot_id(files))? {
        if transaction.begin.steers && is_alive(files, &store, &transaction.begin)? {
            all.push(transaction.begin);
        }
    }
    Ok(all)
}

/// What the guard of a hold says of itself; `None` if it does not answer.
fn asked(begin: &Begin) -> Option<Status> {
    match socket::ask(Some(begin.socket.as_deref()?), Request::Status) {
        Ok(Reply::Status(status)) => Some(*status),
        _ => None,
    }
}

/// `guard: process 4711 steers sda (mode protect), socket '/run/…'; 'floodwall guard status' …`.
fn told(begin: &Begin, status: Option<&Status>) -> String {
    let does = match status {
        Some(status) => {
            let names: Vec<String> = status.devices.iter().map(|d| d.name.clone()).collect();
            let steers = if names.is_empty() {
                "steers no device".to_owned()
            } else {
                format!("steers {}", first_of(&names, NAMED))
            };
            let paused = if status.paused.is_some() { ", paused" } else { "" };
            format!("process {} {steers} (mode {}{paused})", status.parent_pid, status.mode)
        }
        None => format!("process {} steers and does not answer", begin.pid),
    };
    let ask = match &begin.socket {
        None => String::new(),
        Some(socket) => {
            let socket = quoted(&socket.display().to_string());
            format!(", socket {socket}; floodwall guard status --socket {socket} says what it does")
        }
    };
    format!("guard: {does}{ask}")
}

#[cfg(test)]
mod tests {
    use floodwall_daemon::document::{Device, Paused};

    use super::*;

    #[test]
    fn a_guard_is_told_with_its_devices_and_the_command_that_asks_it() {
        let begin: Begin = serde_json::from_str(
            r#"{"format": "floodwall-journal/1", "id": 1, "boot_id": "a", "pid": 41,
                "pid_start_ticks": 7, "socket": "/run/floodwall/guard.sock", "uid": 0,
                "command": "floodwall guard", "at_unix_s": 1, "why": "", "steers": true,
                "entries": []}"#,
        )
        .unwrap();
        let device = |name: &str| Device { name: name.into(), ..Device::default() };
        let status = Status {
            parent_pid: 40,
            mode: "protect".into(),
            devices: vec![device("sda"), device("sdb")],
            ..Status::default()
        };
        insta::assert_snapshot!(told(&begin, Some(&status)), @"guard: process 40 steers sda, sdb \
            (mode protect), socket /run/floodwall/guard.sock; floodwall guard status --socket \
            /run/floodwall/guard.sock says what it does");
        let paused = Status { paused: Some(Paused::default()), ..status };
        assert!(told(&begin, Some(&paused)).contains("(mode protect, paused)"));
        insta::assert_snapshot!(told(&Begin { socket: None, ..begin }, None), @"guard: process 41 \
            steers and does not answer");
    }
}
