//! Small files, which get their names in groups.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use floodwall_host::SysRoot;
use floodwall_pace::copy::{CopyError, Options, PART_SUFFIX, Request, plan, run};
use floodwall_pace::{Goal, Pacer};
use floodwall_testing::process::done;
use floodwall_testing::{Trial, ensure, equal, said, tests};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;

use super::{DEEP, MIB, directory, names, noise, put};

/// The first argument of this binary as a process that may open few files.
pub(crate) const FEW_FILES: &str = "copy-with-few-files";

pub(super) fn tests() -> Vec<Trial> {
    tests![
        a_group_waits_seconds_at_most,
        an_interrupt_finishes_complete_files,
        few_open_files_are_enough,
    ]
}

/// A directory with 40 files of 50 kB, and then one of 8 MiB. It is in memory, where a sync takes
/// no time: a loaded disk would finish fewer files within a second.
fn small_and_large() -> TempDir {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    for n in 0..40 {
        put(&dir.path().join(format!("from/{n}")), &noise(50_000));
    }
    put(&dir.path().join("from/large"), &noise(8 * MIB));
    dir
}

/// Copies `from` at 2 MiB/s; `each` gets the copy's directory and may end the copy.
fn slowly(
    dir: &Path,
    options: Options,
    each: &mut dyn FnMut(&Path, &AtomicBool),
) -> Result<(), CopyError> {
    let (sources, to) = (vec![dir.join("from")], dir.join("to"));
    let plan = plan(&Request { sources, destination: to.clone(), options })?;
    let (root, rate) = (SysRoot::live().unwrap(), Goal::Rate(2.0 * MIB as f64));
    let (pacer, stop) = (Pacer::open(&root, dir, rate, None).unwrap(), AtomicBool::new(false));
    run(&plan, &pacer, &mut |_| each(&to, &stop), &stop).map(drop)
}

/// The numbers of finished and of unfinished files.
fn counted(to: &Path) -> (usize, usize) {
    let all = if to.exists() { names(to) } else { Vec::new() };
    let parts = all.iter().filter(|name| name.ends_with(PART_SUFFIX)).count();
    (all.len() - parts, parts)
}

fn a_group_waits_seconds_at_most() -> Result<(), String> {
    let dir = small_and_large();
    let (begin, mut unnamed) = (Instant::now(), None);
    let mut longest = Duration::ZERO;
    let ended = slowly(dir.path(), DEEP, &mut |to, _| match counted(to) {
        // The file that is being written is no pending one.
        (_, 0 | 1) => unnamed = None,
        _ => longest = longest.max(unnamed.get_or_insert_with(Instant::now).elapsed()),
    });
    ended.map_err(said("copy"))?;
    ensure(begin.elapsed() > Duration::from_secs(4), "the copy was too fast to tell")?;
    equal(counted(&dir.path().join("to")), (41, 0))?;
    ensure(longest < Duration::from_secs(4), format!("a file waited for {longest:?}"))
}

fn an_interrupt_finishes_complete_files() -> Result<(), String> {
    for (options, finished) in [
        (DEEP, 20..41),
        (Options { resume: true, ..DEEP }, 20..41),
        (Options { verify: true, ..DEEP }, 0..1),
    ] {
        let dir = small_and_large();
        let mut at = None;
        let ended = slowly(dir.path(), options, &mut |to, stop| {
            if counted(to).1 > 20 && !stop.swap(true, Ordering::Relaxed) {
                at = Some(Instant::now());
            }
        });
        equal(ended, Err(CopyError::Interrupted))?;
        let took = at.ok_or("no group was pending")?.elapsed();
        ensure(took < Duration::from_secs(3), format!("{took:?}"))?;
        let (named, parts) = counted(&dir.path().join("to"));
        ensure(finished.contains(&named), format!("{options:?}: {named} files, {parts} parts"))?;
        ensure(options.resume || parts == 0, format!("{options:?}: {parts} parts"))?;
        for name in names(&dir.path().join("to")) {
            let same = fs::read(dir.path().join("to").join(&name)).unwrap() == noise(50_000);
            ensure(same || name.ends_with(PART_SUFFIX), name)?;
        }
    }
    Ok(())
}

fn few_open_files_are_enough() -> Result<(), String> {
    let dir = directory(&[]);
    for n in 0..300 {
        put(&dir.path().join(format!("from/{}/{}/{n}", n / 30, n / 10)), b"x");
    }
    let path = dir.path().display().to_string();
    let this = std::env::current_exe().map_err(said("this binary"))?;
    done(Command::new(this).args([FEW_FILES, &path]))?;
    equal(names(&dir.path().join("to")), names(&dir.path().join("from")))
}

/// Copies `from` in a directory to `to`, with as few open files as a shell's `ulimit -n 20` allows.
pub(crate) fn process(dir: &Path) -> ExitCode {
    let limit = Rlimit { current: Some(20), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).unwrap();
    super::copy(&[&dir.join("from")], dir.join("to"), DEEP).unwrap();
    ExitCode::SUCCESS
}
