//! The start of a command and everything around it.

use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Instant;

use rustix::io::Errno;

use super::group::Io;
use super::load::{CommandLoad, Role};
use super::run::{CommandRun, Group, Shared};
use crate::error::LoadError;
use crate::running::Running;

/// Starts a command and everything around it.
pub(crate) fn start(
    load: &CommandLoad,
    proc_root: &Path,
    cgroup: Option<Arc<File>>,
) -> Result<Running, LoadError> {
    let own_io = proc_root.join("self/io");
    fs::read_to_string(&own_io).map_err(|e| LoadError::NoAccounting {
        command: load.command.clone(),
        path: own_io,
        errno: Errno::from_io_error(&e).unwrap_or(Errno::IO),
    })?;
    let shared = Arc::new(Shared {
        load: load.clone(),
        cgroup,
        proc_root: proc_root.to_owned(),
        stop: AtomicBool::new(false),
        asked: OnceLock::new(),
        failure: OnceLock::new(),
        group: Mutex::new(Group::default()),
        runs: AtomicU64::new(0),
        supervisor: OnceLock::new(),
    });
    let (started, first_start) = sync_channel(1);
    let supervisor = {
        let shared = Arc::clone(&shared);
        let role = if load.role == Role::Victim { "victim" } else { "flood" };
        thread::Builder::new()
            .name(format!("fw-{role}-cmd"))
            .spawn(move || shared.supervise(&started))
            .map_err(|e| LoadError::Thread {
                errno: Errno::from_io_error(&e).unwrap_or(Errno::AGAIN),
            })?
    };
    let mut run = CommandRun {
        shared,
        supervisor: Some(supervisor),
        begin: Instant::now(),
        sampled: Io::default(),
    };
    match first_start.recv() {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(error),
        Err(_) => return Err(LoadError::Panicked),
    }
    run.begin = Instant::now();
    Ok(Running::of_command(run))
}
