//! SIGINT, SIGTERM and SIGHUP (the terminal was closed) raise one flag: the working thread polls
//! it, cleans up and ends. A signal that was ignored at the start stays ignored: `nohup` ignores
//! SIGHUP, and a shell without job control ignores SIGINT for its background jobs.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use floodwall_pace::command::ignores;
use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

/// The signals that end a process.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Raised by the first of these signals. Later ones change nothing: cleaning up is not optional.
///
/// # Errors
/// If the handlers can't be installed.
pub(crate) fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in ENDING.into_iter().filter(|signal| !ignores(*signal)) {
        signal_hook::flag::register(signal, Arc::clone(&flag))
            .context("can't install signal handlers")?;
    }
    Ok(flag)
}

/// Makes a write beyond `ulimit -f` fail with EFBIG. By default SIGXFSZ ends the process, which
/// leaves an unfinished file behind.
///
/// # Errors
/// If the handler can't be installed.
pub(crate) fn fail_large_writes() -> anyhow::Result<()> {
    let came = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGXFSZ, came).context("can't install signal handlers")?;
    Ok(())
}

/// While the returned flag is raised, as it is at first, these signals end the process at once
/// again: there is nothing to clean up.
///
/// # Errors
/// If the handlers can't be installed.
pub(crate) fn end_at_once() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(true));
    for signal in ENDING.into_iter().filter(|signal| !ignores(*signal)) {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&flag))
            .context("can't install signal handlers")?;
    }
    Ok(flag)
}

/// Has SIGTERM sent to this process when the one that started it ends. Returns whether that one
/// still runs.
///
/// # Errors
/// If the kernel refuses.
pub(crate) fn end_with_parent() -> anyhow::Result<bool> {
    let parent = rustix::process::getppid();
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))
        .context("can't ask the kernel to end this process with its parent")?;
    // It may have ended before that.
    Ok(rustix::process::getppid() == parent)
}
