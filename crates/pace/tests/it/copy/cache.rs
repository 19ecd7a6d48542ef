//! The page cache after a copy.

use std::fs::File;
use std::path::Path;

use floodwall_testing::disk::Disk;
use floodwall_testing::process::run;
use floodwall_testing::{LOOP, ROOT, Trial, ensure, equal, lacks, said, tests};
use rustix::fs::{Advice, fadvise};

use super::{MIB, PLAIN, copy, noise, put};

pub(super) fn tests() -> Vec<Trial> {
    tests![|| lacks(&[ROOT, LOOP, "mkfs.ext4", "fincore"]) =>
        only_the_copys_own_pages_are_dropped
    ]
}

/// Bytes of a file in the page cache.
fn cached(path: &Path) -> Result<u64, String> {
    let said_so =
        run("fincore", &["--bytes", "--noheadings", "--output", "RES", path.to_str().unwrap()])?;
    said_so.trim().parse().map_err(said("fincore"))
}

fn only_the_copys_own_pages_are_dropped() -> Result<(), String> {
    let disk = Disk::new("ext4", 256)?;
    let size = 40 * MIB as u64;
    for was_cached in [false, true] {
        let (from, to) = (disk.path().join("from"), disk.path().join("to"));
        put(&from, &noise(size as usize));
        let file = File::open(&from).unwrap();
        file.sync_all().map_err(said("sync"))?;
        if !was_cached {
            fadvise(&file, 0, None, Advice::DontNeed).map_err(said("fadvise"))?;
            equal(cached(&from)?, 0)?;
        }
        copy(&[&from], &to, PLAIN).map_err(said("copy"))?;
        let left = (cached(&from)?, cached(&to)?);
        let wanted = if was_cached { size } else { 0 };
        // Pages that another part of the kernel holds for a moment stay.
        let near = |found: u64, wanted: u64| found.abs_diff(wanted) <= MIB as u64;
        ensure(near(left.0, wanted) && near(left.1, 0), format!("{left:?}, not {wanted}"))?;
    }
    Ok(())
}
