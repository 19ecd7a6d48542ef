//! The flood: `cp` of a large file, again when it is done, until it is dropped.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail};
use published::process;

use super::trial::Disk;

/// Longer than any device of the lab writes in a measurement of half a minute and its lead; zeros,
/// which take no memory on a lab device. The source has no blocks at all and is on no disk: reading
/// it costs what reading a cached file costs.
const BYTES: u64 = 24 << 30;
const SOURCE: &str = "/dev/shm";

/// A copy that runs.
pub(super) struct Copy {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// A file without a name, which cp finds among this process's descriptors.
    _source: File,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    pid: AtomicU32,
    /// Bytes of copies that are done.
    done: AtomicU64,
    failure: Mutex<Option<String>>,
}

impl Copy {
    pub(super) fn start(disk: &Disk) -> anyhow::Result<Self> {
        let source =
            tempfile::tempfile_in(SOURCE).with_context(|| format!("can't make a file in {SOURCE}"))?;
        source.set_len(BYTES).context("can't make the source of the copy")?;
        let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), source.as_raw_fd()));
        let shared = Arc::new(Shared::default());
        let mut copy = Self { shared: Arc::clone(&shared), thread: None, _source: source };
        let (target, group) = (disk.dir.join("copy"), disk.flood.clone());
        copy.thread = Some(std::thread::spawn(move || {
            while !shared.stop.load(Relaxed) {
                if let Err(error) = once(&shared, &path, &target, group.as_deref()) {
                    let mut failure =
                        shared.failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    *failure = Some(format!("{error:#}"));
                    return;
                }
            }
        }));
        Ok(copy)
    }

    /// Bytes that it wrote into the page cache so far.
    pub(super) fn bytes(&self) -> anyhow::Result<u64> {
        if let Some(why) = &*self.shared.failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner) {
            bail!("the copy failed: {why}");
        }
        let done = self.shared.done.load(Relaxed);
        Ok(done + process::bytes_written(self.shared.pid.load(Relaxed)))
    }
}

/// One copy from begin to end, or until it is to stop.
fn once(shared: &Shared, source: &Path, target: &Path, group: Option<&Path>) -> anyhow::Result<()> {
    let mut command = match group {
        None => process::tied("KILL", "cp"),
        Some(group) => {
            let mut command = process::tied("KILL", "sh");
            command.args(["-c", "echo $$ >\"$1\" && shift && exec \"$@\"", "sh"]);
            command.arg(group.join("cgroup.procs")).arg("cp");
            command
        }
    };
    command.args(["--sparse=never", "--reflink=never"]).arg(source).arg(target);
    let mut child = command.spawn().context("can't start cp")?;
    shared.pid.store(child.id(), Relaxed);
    loop {
        if shared.stop.load(Relaxed) {
            process::end(&mut child, "TERM", Duration::from_secs(60))?;
            return Ok(());
        }
        if let Some(status) = child.try_wait().context("can't wait for cp")? {
            if !status.success() {
                bail!("cp ended with {status}");
            }
            shared.pid.store(0, Relaxed);
            shared.done.fetch_add(BYTES, Relaxed);
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            eprintln!("the copy's thread panicked");
        }
    }
}
