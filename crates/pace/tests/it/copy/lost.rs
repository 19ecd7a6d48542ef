//! Data that the disk refuses.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use floodwall_pace::copy::{CopyError, Options, PART_SUFFIX};
use floodwall_testing::disk::{Loop, Mount};
use floodwall_testing::process::run;
use floodwall_testing::{LOOP, ROOT, Trial, ensure, equal, lacks, said, tests};
use rustix::fs::{Advice, fadvise, syncfs};
use tempfile::TempDir;

use super::{DEEP, MIB, RESUME, copy, directory, names, noise, put};

pub(super) fn tests() -> Vec<Trial> {
    tests![
        || lacks(&[ROOT, LOOP, "mkfs.ext4"]) =>
        lost_data_gets_no_name,
        a_part_with_lost_data_is_begun_anew,
    ]
}

/// A disk whose sparse file is on a filesystem that is nearly full. The parts are dropped in this
/// order.
struct Full {
    disk: Mount,
    _device: Loop,
    small: Mount,
    dir: TempDir,
}

impl Full {
    /// With sources beside it.
    fn beside(files: &[(&str, &[u8])]) -> Result<Self, String> {
        let dir = directory(files);
        let at = dir.path().join("small");
        let small = Mount::new(&["-t", "tmpfs", "-o", "size=16m", "none"], &at)?;
        let image = small.path().join("image");
        File::create(&image).and_then(|file| file.set_len(256 << 20)).map_err(said("an image"))?;
        run("mkfs.ext4", &["-q", "-F", "-O", "^has_journal", &image.to_string_lossy()])?;
        let device = Loop::over(&image, 256)?;
        let disk = Mount::new(&[device.node()], &dir.path().join("disk"))?;
        let full = Self { disk, _device: device, small, dir };
        // The metadata has its place before the filesystem below is full.
        let early = full.disk.path().join("early");
        put(&early, b"x");
        let opened = File::open(full.disk.path()).map_err(said("the disk"))?;
        syncfs(opened).map_err(said("sync"))?;
        fs::remove_file(&early).map_err(said("remove"))?;
        let mut filler = File::create(full.filler()).map_err(said("the filler"))?;
        let mut len = 0;
        while let Ok(more) = filler.write(&[1; 4096]) {
            len += more as u64;
        }
        filler.set_len(len - MIB as u64).map_err(said("the filler"))?;
        Ok(full)
    }

    fn filler(&self) -> PathBuf {
        self.small.path().join("filler")
    }
}

fn lost_data_gets_no_name() -> Result<(), String> {
    // The second name makes the copy finish the first file, and end there.
    let last = format!("from/b{PART_SUFFIX}");
    let full = Full::beside(&[("from/a", &noise(2 * MIB)), (&last, b"x")])?;
    let (from, to) = (full.dir.path().join("from/."), full.disk.path());
    for resume in [false, true] {
        let ended = copy(&[&from], to, Options { resume, ..DEEP });
        ensure(matches!(ended, Err(CopyError::Lost { .. })), format!("{ended:?}"))?;
        equal(names(to), vec!["lost+found".to_owned()])?;
    }
    Ok(())
}

fn a_part_with_lost_data_is_begun_anew() -> Result<(), String> {
    let content = noise(2 * MIB);
    let full = Full::beside(&[("from", &content)])?;
    let (from, to) = (full.dir.path().join("from"), full.disk.path().join("to"));
    let mut part = File::create(full.disk.path().join(format!("to{PART_SUFFIX}"))).unwrap();
    part.write_all(&content).map_err(said("write"))?;
    ensure(part.sync_all().is_err(), "nothing was lost")?;
    drop(part);
    fs::remove_file(full.filler()).map_err(said("remove"))?;
    let summary = copy(&[&from], &to, RESUME).map_err(said("copy"))?;
    equal(summary.resumed_bytes, 0)?;
    let copied = File::open(&to).map_err(said("the copy"))?;
    fadvise(&copied, 0, None, Advice::DontNeed).map_err(said("drop"))?;
    ensure(fs::read(&to).unwrap() == content, "they differ")
}
