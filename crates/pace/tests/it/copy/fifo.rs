//! FIFOs that are read and written.

use std::fs;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use floodwall_pace::copy::{CopyError, Input, Options, Request, cat, plan, run};
use floodwall_testing::{Trial, ensure, equal, said, tests};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::{MIB, PLAIN, copy, directory, noise, pacer};

pub(super) fn tests() -> Vec<Trial> {
    tests![
        a_fifo_is_read_and_written,
        the_wait_for_a_fifos_other_end_can_be_ended,
        a_file_without_a_path_is_read,
    ]
}

/// A directory with a file and a FIFO.
fn with_fifo() -> Result<(TempDir, PathBuf), String> {
    let dir = directory(&[("a", b"content")]);
    let fifo = dir.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).map_err(said("a FIFO"))?;
    Ok((dir, fifo))
}

fn a_fifo_is_read_and_written() -> Result<(), String> {
    let (dir, fifo) = with_fifo()?;
    let (a, to) = (dir.path().join("a"), dir.path().join("to"));
    let late = Duration::from_millis(50);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            thread::sleep(late);
            fs::write(&fifo, "written")
        });
        copy(&[&fifo], &to, PLAIN).map_err(said("copy"))?;
        writer.join().unwrap().map_err(said("write"))
    })?;
    equal(fs::read_to_string(&to).unwrap(), "written".to_owned())?;
    let read = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            thread::sleep(late);
            fs::read_to_string(&fifo)
        });
        copy(&[&a], &fifo, PLAIN).map_err(said("copy"))?;
        reader.join().unwrap().map_err(said("read"))
    })?;
    equal(read, "content".to_owned())
}

fn the_wait_for_a_fifos_other_end_can_be_ended() -> Result<(), String> {
    let (dir, fifo) = with_fifo()?;
    let (a, to) = (dir.path().join("a"), dir.path().join("to"));
    let pacer = pacer(dir.path());
    for (from, to) in [(&fifo, &to), (&a, &fifo)] {
        let (sources, destination) = (vec![from.clone()], to.clone());
        let plan = plan(&Request { sources, destination, options: PLAIN }).map_err(said("plan"))?;
        is_ended(|stop| run(&plan, &pacer, &mut |_| {}, stop).map(drop))?;
    }
    let output = fs::File::create(&to).map_err(said("output"))?;
    let inputs = [Input::File(fifo)];
    is_ended(|stop| cat(&inputs, output.as_fd(), &pacer, &mut |_| {}, stop).map(drop))
}

/// Raises the stop flag of a copy that waits.
fn is_ended(copy: impl FnOnce(&AtomicBool) -> Result<(), CopyError>) -> Result<(), String> {
    let stop = AtomicBool::new(false);
    let ended = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(100));
            stop.store(true, Ordering::Relaxed);
        });
        copy(&stop)
    });
    equal(ended, Err(CopyError::Interrupted))
}

/// As a shell's `<(…)`: a symlink of /proc/PID/fd.
fn a_file_without_a_path_is_read() -> Result<(), String> {
    let dir = directory(&[("deleted", &noise(2 * MIB))]);
    let (mut to, deleted) = (dir.path().join("to"), dir.path().join("deleted"));
    let behind = |file: &dyn AsRawFd| PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let (reader, mut writer) = std::io::pipe().map_err(said("a pipe"))?;
    writer.write_all(b"written").map_err(said("write"))?;
    drop(writer);
    copy(&[&behind(&reader)], &to, PLAIN).map_err(said("copy"))?;
    equal(fs::read_to_string(&to).unwrap(), "written".to_owned())?;
    let open = fs::File::open(&deleted).map_err(said("a file"))?;
    fs::remove_file(&deleted).map_err(said("remove"))?;
    to.set_file_name("whole");
    let summary = copy(&[&behind(&open)], &to, Options { verify: true, ..PLAIN });
    equal(summary.map_err(said("copy"))?.verified, 1)?;
    ensure(fs::read(&to).unwrap() == noise(2 * MIB), "they differ")
}
