//! Files one after the other.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use floodwall_pace::copy::{CopyError, Input, Summary, cat};
use floodwall_testing::{Trial, ensure, equal, said, tests};

use super::{MIB, directory, noise, pacer};

pub(super) fn tests() -> Vec<Trial> {
    tests![
        files_follow_each_other,
        what_appends_goes_to_the_end,
        a_pipe_gets_everything,
        a_full_pipe_does_not_hold_up_the_end,
        a_file_is_not_read_while_it_is_written,
    ]
}

fn into(dir: &Path, names: &[&str], output: File) -> Result<Summary, CopyError> {
    let inputs: Vec<Input> = names.iter().map(|name| Input::File(dir.join(name))).collect();
    let stop = AtomicBool::new(false);
    cat(&inputs, output.as_fd(), &pacer(dir), &mut |_| {}, &stop)
}

fn files_follow_each_other() -> Result<(), String> {
    let dir = directory(&[("a", &noise(3 * MIB + 11)), ("b", b"x"), ("c", &noise(MIB))]);
    let output = File::create(dir.path().join("to")).unwrap();
    let names = ["a", "b", "c", "/proc/version"];
    let summary = into(dir.path(), &names, output).map_err(said("cat"))?;
    let wanted: Vec<u8> =
        names.iter().flat_map(|name| fs::read(dir.path().join(name)).unwrap()).collect();
    equal((summary.files, summary.bytes), (4, wanted.len() as u64))?;
    ensure(fs::read(dir.path().join("to")).unwrap() == wanted, "they differ")
}

fn what_appends_goes_to_the_end() -> Result<(), String> {
    let dir = directory(&[("a", &noise(2 * MIB)), ("to", &noise(MIB + 5))]);
    let output = File::options().append(true).open(dir.path().join("to")).unwrap();
    into(dir.path(), &["a"], output).map_err(said("cat"))?;
    let wanted = [noise(MIB + 5), noise(2 * MIB)].concat();
    ensure(fs::read(dir.path().join("to")).unwrap() == wanted, "they differ")
}

fn a_pipe_gets_everything() -> Result<(), String> {
    let dir = directory(&[("a", &noise(MIB + 3))]);
    let (mut reader, writer) = std::io::pipe().map_err(said("a pipe"))?;
    let read = thread::spawn(move || {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).map(|_| all)
    });
    let output = std::os::fd::OwnedFd::from(writer).into();
    into(dir.path(), &["a"], output).map_err(said("cat"))?;
    let all = read.join().unwrap().map_err(said("the pipe"))?;
    ensure(all == noise(MIB + 3), "they differ")
}

fn a_full_pipe_does_not_hold_up_the_end() -> Result<(), String> {
    let dir = directory(&[("a", &noise(MIB))]);
    // The pipe has no reader.
    let (_reader, writer) = std::io::pipe().map_err(said("a pipe"))?;
    let stop = AtomicBool::new(false);
    let inputs = [Input::File(dir.path().join("a"))];
    let pacer = pacer(dir.path());
    let ended = thread::scope(|scope| {
        let copy = scope.spawn(|| cat(&inputs, writer.as_fd(), &pacer, &mut |_| {}, &stop));
        thread::sleep(std::time::Duration::from_millis(100));
        stop.store(true, Ordering::Relaxed);
        copy.join().unwrap()
    });
    equal(ended, Err(CopyError::Interrupted))
}

fn a_file_is_not_read_while_it_is_written() -> Result<(), String> {
    let dir = directory(&[("a", b"x")]);
    let path = dir.path().join("a");
    let output = File::options().append(true).open(&path).unwrap();
    let wanted = CopyError::Same { source_path: path, destination: "standard output".into() };
    equal(into(dir.path(), &["a"], output), Err(wanted))
}
