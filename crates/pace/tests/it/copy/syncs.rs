//! Syncs while others wait for the disk.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use floodwall_pace::copy::{Request, plan, run};
use floodwall_testing::disk::Disk;
use floodwall_testing::{LOOP, ROOT, Trial, ensure, equal, lacks, said, tests};
use rustix::fs::{major, minor};

use super::{DEEP, MIB, directory, names, noise, pacer, put};

/// Data of another program, in bytes.
const OTHERS: u64 = 64 * MIB as u64;

pub(super) fn tests() -> Vec<Trial> {
    tests![|| lacks(&[ROOT, LOOP, "mkfs.ext4"]) => while_others_wait_only_the_copy_is_synced]
}

/// Bytes that the disk of a directory has taken so far (`/sys/dev/block/ID/stat`).
fn written(directory: &Path) -> u64 {
    let device = directory.metadata().unwrap().dev();
    let path = format!("/sys/dev/block/{}:{}/stat", major(device), minor(device));
    let stat = std::fs::read_to_string(path).unwrap();
    stat.split_whitespace().nth(6).unwrap().parse::<u64>().unwrap() * 512
}

/// Copies `from` while another program has dirty data. A guard reports that others wait, once so
/// many files were copied. Returns the bytes that the disk took.
fn copied(from: &Path, others_wait_after: u64) -> Result<u64, String> {
    let disk = Disk::new("ext4", 512)?;
    let to = disk.path().join("to");
    let (sources, destination) = (vec![from.to_owned()], to.clone());
    let plan = plan(&Request { sources, destination, options: DEEP }).map_err(said("plan"))?;
    let pacer = pacer(disk.path());
    let (reported, stop) = (pacer.others_reported(), AtomicBool::new(false));
    let mut others = File::create(disk.path().join("others")).map_err(said("create"))?;
    others.write_all(&noise(OTHERS as usize)).map_err(said("write"))?;
    let before = written(disk.path());
    let report = |files| {
        if files >= others_wait_after && !reported.swap(true, Ordering::Relaxed) {
            // The pacer's next step is due.
            sleep(Duration::from_millis(20));
        }
    };
    report(0);
    let done = run(&plan, &pacer, &mut |progress| report(progress.files_done), &stop);
    done.map_err(said("copy"))?;
    let took = written(disk.path()) - before;
    equal(names(&to), names(from))?;
    drop(others);
    Ok(took)
}

fn while_others_wait_only_the_copy_is_synced() -> Result<(), String> {
    let many = directory(&[]);
    for n in 0..150 {
        put(&many.path().join(format!("folders/{n}/file")), b"x");
        put(&many.path().join(format!("files/{n}")), b"x");
    }
    for (name, others_wait_after) in [("folders", 0), ("files", 120)] {
        let took = copied(&many.path().join(name), others_wait_after)?;
        ensure(took < OTHERS / 2, format!("{name}: the disk took {took} bytes"))?;
    }
    Ok(())
}
