//! I/O priorities of threads, held against ionice(1).

use std::process::Command;
use std::sync::mpsc;

use floodwall_testing::disk::Mount;
use floodwall_testing::process::{done, run};
use floodwall_testing::{equal, lacks, said};

use crate::Body;
use crate::changes::{apply, rollback};
use crate::disk::Disk;

pub(crate) const TESTS: &[(&str, Body)] = &[
    ("all_threads_of_a_process_are_set_and_put_back", threads),
    ("a_thread_that_somebody_else_has_set_is_left_alone", foreign),
    ("a_process_that_has_ended_needs_nothing", ended),
    ("the_journals_thread_goes_with_its_filesystem", journal),
];

/// The missing requirements of the tests.
pub(crate) fn missing() -> Option<String> {
    lacks(&["ionice", "mkfs.ext4", "mount"])
}

/// Threads of this process; they end with this.
pub(crate) struct Threads {
    ask: Vec<mpsc::Sender<()>>,
    pub(crate) tids: Vec<u32>,
}

impl Threads {
    pub(crate) fn start(count: usize) -> Self {
        let mut threads = Self { ask: Vec::new(), tids: Vec::new() };
        for _ in 0..count {
            let (ask, wait) = mpsc::channel::<()>();
            let (tell, told) = mpsc::channel();
            std::thread::spawn(move || {
                let _ = tell.send(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs());
                let _ = wait.recv();
            });
            threads.tids.push(told.recv().unwrap());
            threads.ask.push(ask);
        }
        threads
    }
}

/// What ionice(1) says of a thread: `none: prio 0`, `best-effort: prio 0`, `idle`.
fn shown(tid: u32) -> Result<String, String> {
    run("ionice", &["-p", &tid.to_string()])
}

pub(crate) fn ionice(arguments: &[&str]) -> Result<(), String> {
    run("ionice", arguments).map(drop)
}

/// Of many threads in one call.
pub(crate) fn all_shown(tids: &[u32]) -> Result<Vec<String>, String> {
    let text = done(Command::new("ionice").arg("-p").args(tids.iter().map(u32::to_string)))?;
    let shown: Vec<String> = text.lines().map(|line| line.trim().to_owned()).collect();
    // It says nothing of a thread that is gone.
    equal(shown.len(), tids.len())?;
    Ok(shown)
}

fn threads() -> Result<(), String> {
    let disk = Disk::new()?;
    let threads = Threads::start(3);
    ionice(&["-c3", "-p", &threads.tids[1].to_string()])?;
    let before = all_shown(&threads.tids)?;
    equal(before[1].as_str(), "idle")?;
    let change = format!("pid:{}.ioprio=be/0", std::process::id());
    apply(&disk, &[&change])?.map_err(|e| e.to_string())?;
    equal(all_shown(&threads.tids)?, vec!["best-effort: prio 0".to_owned(); 3])?;
    // A new thread inherits it.
    let new = Threads::start(1);
    equal(shown(new.tids[0])?, "best-effort: prio 0".to_owned())?;
    let undone = rollback(&disk)?;
    equal(undone.iter().all(|undone| undone.is_complete() && undone.closed), true)?;
    equal(all_shown(&threads.tids)?, before)?;
    equal(shown(new.tids[0])?, shown(std::process::id())?)?;
    equal(shown(new.tids[0])?.starts_with("none"), true)
}

fn foreign() -> Result<(), String> {
    let disk = Disk::new()?;
    let threads = Threads::start(3);
    let change = format!("pid:{}.ioprio=be/0", std::process::id());
    apply(&disk, &[&change])?.map_err(|e| e.to_string())?;
    ionice(&["-c2", "-n6", "-p", &threads.tids[2].to_string()])?;
    rollback(&disk)?;
    let after = all_shown(&threads.tids)?;
    equal((after[0].starts_with("none"), after[2].as_str()), (true, "best-effort: prio 6"))
}

fn ended() -> Result<(), String> {
    let disk = Disk::new()?;
    let mut child = Command::new("sleep").arg("60").spawn().map_err(|e| e.to_string())?;
    apply(&disk, &[&format!("pid:{}.ioprio=be/2", child.id())])?.map_err(|e| e.to_string())?;
    equal(shown(child.id())?, "best-effort: prio 2".to_owned())?;
    let _ = child.kill();
    let _ = child.wait();
    let told: String = rollback(&disk)?.iter().map(ToString::to_string).collect();
    equal(told.contains("has ended"), true)
}

fn journal() -> Result<(), String> {
    let disk = Disk::new()?;
    run("mkfs.ext4", &["-q", disk.node()])?;
    let directory = tempfile::tempdir().map_err(said("a directory"))?;
    let _mounted = Mount::new(&[disk.node()], directory.path())?;
    let task = std::fs::read_to_string(format!("/sys/fs/ext4/{}/journal_task", disk.device.name))
        .map_err(said("journal_task"))?;
    let task: u32 = task.trim().parse().map_err(|_| format!("'{task}' is no thread"))?;
    // fs/ext4/super.c DEFAULT_JOURNAL_IOPRIO.
    equal(shown(task)?, "best-effort: prio 3".to_owned())?;
    apply(&disk, &["journal.ioprio=be/0"])?.map_err(|e| e.to_string())?;
    equal(shown(task)?, "best-effort: prio 0".to_owned())?;
    rollback(&disk)?;
    equal(shown(task)?, "best-effort: prio 3".to_owned())
}
