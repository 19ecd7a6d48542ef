//! Interrupted copies, copies that go on, and copies that differ.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use floodwall_pace::copy::{CopyError, Options, PART_SUFFIX};
use floodwall_testing::{Trial, ensure, equal, said, tests};
use rustix::fs::{FlockOperation, flock};

use super::{DEEP, MIB, PLAIN, RESUME, copy, copy_with, directory, names, noise};

pub(super) fn tests() -> Vec<Trial> {
    tests![
        an_interrupted_copy_leaves_no_unfinished_file,
        an_interrupted_copy_goes_on,
        a_part_that_differs_is_begun_anew,
        a_part_older_than_the_source_is_begun_anew,
        a_part_longer_than_the_source_is_begun_anew,
        finished_files_are_not_copied_again,
        verification_finds_a_byte_that_differs,
        a_part_in_use_is_refused,
        the_part_of_another_copy_gets_no_name,
    ]
}

/// The name of `to` while it is copied.
fn part(name: &str) -> String {
    format!("{name}{PART_SUFFIX}")
}

fn an_interrupted_copy_leaves_no_unfinished_file() -> Result<(), String> {
    let dir = directory(&[("from/a", b"small"), ("from/b", &noise(5 * MIB)), ("old", b"old")]);
    let from = dir.path().join("from");
    for at in [0, MIB as u64, 4 * MIB as u64] {
        let to = directory(&[("b", b"old")]);
        let ended = copy_with(&[&from.join(".")], to.path(), DEEP, &mut |progress, stop| {
            stop.store(progress.bytes_done >= at, Ordering::Relaxed);
        });
        equal(ended, Err(CopyError::Interrupted))?;
        // The first file was complete.
        equal(names(to.path()), ["a", "b"].map(str::to_owned).to_vec())?;
        equal(fs::read_to_string(to.path().join("a")).unwrap(), "small".to_owned())?;
        equal(fs::read_to_string(to.path().join("b")).unwrap(), "old".to_owned())?;
    }
    Ok(())
}

fn an_interrupted_copy_goes_on() -> Result<(), String> {
    let dir = directory(&[("from", &noise(5 * MIB + 17))]);
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let ended = copy_with(&[&from], &to, RESUME, &mut |progress, stop| {
        stop.store(progress.bytes_done >= 3 * MIB as u64, Ordering::Relaxed);
    });
    equal(ended, Err(CopyError::Interrupted))?;
    equal(names(dir.path()), vec!["from".to_owned(), part("to")])?;
    // A power failure may have left less.
    let left = File::options().write(true).open(dir.path().join(part("to"))).unwrap();
    left.set_len(2 * MIB as u64 + 5).unwrap();
    drop(left);
    let options = Options { verify: true, ..RESUME };
    let summary = copy(&[&from], &to, options).map_err(said("copy"))?;
    equal(summary.resumed_bytes, 2 * MIB as u64)?;
    equal(summary.bytes, 3 * MIB as u64 + 17)?;
    equal(names(dir.path()), ["from", "to"].map(str::to_owned).to_vec())?;
    ensure(fs::read(&from).unwrap() == fs::read(&to).unwrap(), "they differ")
}

/// Copies a file of 3 MiB and 9 bytes, with a part file of this content there, and returns how many
/// bytes were taken from that.
fn with_part(content: &[u8], source_is_newer: bool) -> Result<u64, String> {
    let dir = directory(&[("from", &noise(3 * MIB + 9)), (&part("to"), content)]);
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    if source_is_newer {
        let file = File::options().write(true).open(&from).unwrap();
        let now = file.metadata().unwrap().modified().unwrap();
        file.set_modified(now + Duration::from_secs(1000)).unwrap();
    }
    let summary = copy(&[&from], &to, RESUME).map_err(said("copy"))?;
    ensure(fs::read(&from).unwrap() == fs::read(&to).unwrap(), "they differ")?;
    equal(names(dir.path()), ["from", "to"].map(str::to_owned).to_vec())?;
    Ok(summary.resumed_bytes)
}

fn a_part_that_differs_is_begun_anew() -> Result<(), String> {
    let mut content = noise(3 * MIB + 9);
    equal(with_part(&content, false)?, 3 * MIB as u64)?;
    equal(with_part(&content[..2 * MIB], false)?, 2 * MIB as u64)?;
    content[MIB + 1] ^= 1;
    equal(with_part(&content, false)?, 0)?;
    equal(with_part(&content[..MIB], false)?, MIB as u64)?;
    equal(with_part(&content[..MIB - 1], false)?, 0)
}

fn a_part_older_than_the_source_is_begun_anew() -> Result<(), String> {
    equal(with_part(&noise(2 * MIB), true)?, 0)
}

fn a_part_longer_than_the_source_is_begun_anew() -> Result<(), String> {
    equal(with_part(&noise(5 * MIB), false)?, 0)
}

fn finished_files_are_not_copied_again() -> Result<(), String> {
    let dir = directory(&[("from/a", &noise(2 * MIB)), ("from/b", b"one"), ("from/c", b"x")]);
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let options = Options { recursive: true, ..RESUME };
    copy(&[&from], &to, options).map_err(said("copy"))?;
    let before = to.join("a").metadata().unwrap().ino();
    // Other content of the same size, and an older copy.
    super::put(&to.join("b"), b"two");
    let early = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    File::options().write(true).open(to.join("c")).unwrap().set_modified(early).unwrap();
    let options = Options { verify: true, ..options };
    let again = copy(&[&from.join(".")], &to, options).map_err(said("copy again"))?;
    equal((again.skipped, again.files, again.verified), (1, 2, 3))?;
    equal(to.join("a").metadata().unwrap().ino(), before)?;
    equal(fs::read_to_string(to.join("b")).unwrap(), "one".to_owned())
}

fn verification_finds_a_byte_that_differs() -> Result<(), String> {
    for size in [3000, 3 * MIB] {
        let dir = directory(&[("from", &noise(size))]);
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let at = size as u64 - 1000;
        let options = Options { verify: true, ..RESUME };
        let ended = copy_with(&[&from], &to, options, &mut |progress, _| {
            // The file is written, and not compared yet.
            if progress.bytes_done == size as u64 {
                let part = dir.path().join(part("to"));
                let file = File::options().write(true).open(part).unwrap();
                file.write_all_at(b"\x00\xff", at).unwrap();
            }
        });
        let Err(CopyError::Differs { offset, .. }) = ended else {
            return Err(format!("{ended:?}"));
        };
        ensure(offset == at || offset == at + 1, format!("differs at {offset}"))?;
        // It must not be continued.
        equal(names(dir.path()), vec!["from".to_owned()])?;
    }
    let summary = {
        let dir = directory(&[("from", &noise(3 * MIB))]);
        let options = Options { verify: true, ..PLAIN };
        copy(&[&dir.path().join("from")], dir.path().join("to"), options).map_err(said("copy"))?
    };
    equal(summary.verified, 1)
}

fn a_part_in_use_is_refused() -> Result<(), String> {
    let dir = directory(&[("from", b"x"), (&part("to"), b"y")]);
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let other = File::open(dir.path().join(part("to"))).unwrap();
    flock(&other, FlockOperation::LockExclusive).map_err(said("lock"))?;
    for options in [PLAIN, RESUME] {
        let path = dir.path().join(part("to"));
        equal(copy(&[&from], &to, options), Err(CopyError::Busy { path }))?;
    }
    drop(other);
    copy(&[&from], &to, PLAIN).map_err(said("copy"))?;
    equal(names(dir.path()), ["from", "to"].map(str::to_owned).to_vec())
}

/// Somebody removes the part file of a copy that runs, and another copy makes one.
fn the_part_of_another_copy_gets_no_name() -> Result<(), String> {
    let other = b"half of another copy".as_slice();
    for size in [5 * MIB, 65 * MIB] {
        let dir = directory(&[("from", &noise(size)), ("to", b"old")]);
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let path = dir.path().join(part("to"));
        let mut is_replaced = false;
        let ended = copy_with(&[&from], &to, PLAIN, &mut |_, _| {
            if !is_replaced {
                fs::remove_file(&path).unwrap();
                fs::write(&path, other).unwrap();
                is_replaced = true;
            }
        });
        equal(ended, Err(CopyError::Busy { path: path.clone() }))?;
        equal(fs::read(&to).unwrap().as_slice(), b"old".as_slice())?;
        equal(fs::read(&path).unwrap().as_slice(), other)?;
    }
    Ok(())
}
