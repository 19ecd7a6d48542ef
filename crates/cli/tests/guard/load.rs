//! A victim that commits and a flood that writes, each a separate process: the guard tells them
//! apart by that.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::num::NonZeroU64;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::{Advice, fadvise};
use rustix::process::{Signal, set_parent_process_death_signal};

/// The first argument of a load.
pub(crate) const COMMAND: &str = "guard-load";
/// What a victim commits at once.
const BLOCK: usize = 16 << 10;
/// Bytes that a flood writes before it begins anew. They are zeros, which take no memory of a lab.
const FLOOD: u64 = 1 << 30;
/// Bytes that a flood writes between two requests for writeback.
const PIECE: NonZeroU64 = NonZeroU64::new(8 << 20).unwrap();

/// Runs as a load until it is killed, or the test's process ends.
pub(crate) fn run(what: &str, directory: &Path) {
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let file = directory.join(what);
    match what {
        "victim" => victim(&file, Duration::ZERO),
        "seldom" => victim(&file, Duration::from_secs(1)),
        _ => flood(&file),
    }
}

/// `pause`: between two commits.
fn victim(path: &Path, pause: Duration) {
    let block = vec![0; BLOCK];
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(path).unwrap();
    loop {
        file.seek(SeekFrom::Start(0)).unwrap();
        for _ in 0..64 {
            file.write_all(&block).unwrap();
            file.sync_data().unwrap();
            std::thread::sleep(pause);
        }
    }
}

fn flood(path: &Path) {
    let block = vec![0; 1 << 20];
    loop {
        let mut file = File::create(path).unwrap();
        for piece in 0..FLOOD / PIECE.get() {
            for _ in 0..PIECE.get() >> 20 {
                file.write_all(&block).unwrap();
            }
            // Writing it back begins at once, however much RAM there is to keep it in (mm/fadvise.c
            // `generic_fadvise`): the device always has work.
            fadvise(&file, piece * PIECE.get(), Some(PIECE), Advice::DontNeed).unwrap();
        }
        drop(file);
        fs::remove_file(path).unwrap();
    }
}

/// A load that runs; killed when it is dropped.
pub(crate) struct Load(Child);

impl Load {
    pub(crate) fn start(what: &str, directory: &Path) -> Result<Self, String> {
        let us = std::env::current_exe().map_err(|e| e.to_string())?;
        Self::start_as(&us, what, directory)
    }

    /// The same by another name: that of a link to this binary.
    pub(crate) fn start_as(program: &Path, what: &str, directory: &Path) -> Result<Self, String> {
        Command::new(program)
            .arg(COMMAND)
            .arg(what)
            .arg(directory)
            .stdin(Stdio::null())
            .spawn()
            .map(Self)
            .map_err(|e| format!("{what}: {e}"))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
