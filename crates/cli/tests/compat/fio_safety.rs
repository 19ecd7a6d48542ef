//! What `floodwall compat fio` does to files that are there: nothing that it was not asked for.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::{Command, Output};

use floodwall_testing::process::{everything, output, text};
use floodwall_testing::{ensure, equal, said};

const FLOODWALL: &str = env!("CARGO_BIN_EXE_floodwall");
/// The length of a file that is there.
const MIB: usize = 1 << 20;

fn fio(directory: &Path, line: &str) -> Result<Output, String> {
    let words = line.split(' ');
    output(Command::new(FLOODWALL).args(["compat", "fio"]).args(words).current_dir(directory))
}

/// Jobs that read a file that is there leave each of its bytes.
pub(crate) fn reads() -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(said("a directory"))?;
    let kept = directory.path().join("keep");
    let bytes: Vec<u8> = (0..MIB).map(|at| (at / 7) as u8).collect();
    for (line, status) in [
        ("--offset=512k --size=100%", 0),
        ("--offset=60% --size=50%", 0),
        ("--offset=512k --filesize=1m", 0),
        ("--offset=256k", 0),
        ("--numjobs=2 --offset_increment=512k --size=100%", 0),
        // A longer file would be made anew.
        ("--size=2m --readonly", 1),
        ("--offset=2m", 2),
        ("--size=1m --offset_increment=9000p --numjobs=4", 2),
    ] {
        fs::write(&kept, &bytes).map_err(said("keep"))?;
        let words = format!("--name=a --rw=read --filename=keep {line}");
        let run = fio(directory.path(), &words)?;
        equal(run.status.code(), Some(status)).map_err(|e| format!("{e}: {}", everything(&run)))?;
        let is_whole = fs::read(&kept).is_ok_and(|now| now == bytes);
        ensure(is_whole, || format!("{line}: {}", everything(&run)))?;
    }
    Ok(())
}

/// What can't be done by a later job is said before the first one has made a file.
pub(crate) fn order() -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(said("a directory"))?;
    let line = "--name=a --rw=write --size=1m --name=b --rw=write --size=1m --directory=nowhere";
    let run = fio(directory.path(), line)?;
    let is_so = run.status.code() == Some(2) && text(&run.stderr).contains("'nowhere'");
    ensure(is_so, || everything(&run))?;
    let made = fs::read_dir(directory.path()).map_err(said("a directory"))?.count();
    ensure(made == 0, || format!("{made} files"))
}

/// `unlink=1` removes files, also after a job that failed, once for all jobs; devices stay.
pub(crate) fn removal() -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(said("a directory"))?;
    for (line, status) in [
        ("--name=a --rw=write --size=1m --unlink=1", 0),
        ("--name=a --rw=write --size=1m --filename=x --numjobs=2 --unlink=1", 0),
        ("--name=a --rw=write --size=1m --filename=y:/dev/full --unlink=1", 1),
        ("--name=a --rw=write --size=1m --unlink=1 --name=b --rw=read --filename=missing", 2),
    ] {
        let run = fio(directory.path(), line)?;
        equal(run.status.code(), Some(status)).map_err(|e| format!("{e}: {}", everything(&run)))?;
        let left: Vec<_> = fs::read_dir(directory.path()).map_err(said("it"))?.flatten().collect();
        ensure(left.is_empty(), || format!("{line}: {left:?}"))?;
    }
    let is_there = fs::metadata("/dev/full").is_ok_and(|node| node.file_type().is_char_device());
    ensure(is_there, || "/dev/full is gone".to_owned())
}

/// The end of a job with `exitall` ends its group and no other.
pub(crate) fn groups() -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(said("a directory"))?;
    let line = "--output-format=json --rw=write --size=64k --name=a --exitall --name=b --new_group \
                --number_ios=160 --rate_iops=100 --bs=4k --size=1m";
    let run = fio(directory.path(), line)?;
    let report: serde_json::Value =
        serde_json::from_slice(&run.stdout).map_err(|e| format!("{e}: {}", everything(&run)))?;
    equal(report["jobs"][1]["write"]["total_ios"].as_u64(), Some(160))
}
