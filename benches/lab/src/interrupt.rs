//! SIGINT, SIGTERM and SIGHUP: what runs is asked to end, nothing new is begun, and devices and settings are put back on the way out.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static RAISED: OnceLock<Arc<AtomicBool>> = OnceLock::new();
const POLL: Duration = Duration::from_millis(50);

/// From now on these signals only raise a flag.
pub(crate) fn install() -> anyhow::Result<()> {
    let flag = RAISED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(flag)).context("can't install signal handlers")?;
    }
    Ok(())
}

fn raised() -> bool {
    RAISED.get().is_some_and(|flag| flag.load(Relaxed))
}

/// An error if a signal has come.
pub(crate) fn check() -> anyhow::Result<()> {
    if raised() {
        bail!("interrupted: what was measured whole is kept, run it again to go on");
    }
    Ok(())
}

/// Sleeps, or fails at once when a signal comes.
pub(crate) fn sleep(duration: Duration) -> anyhow::Result<()> {
    let end = Instant::now() + duration;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        check()?;
        std::thread::sleep(left.min(POLL));
    }
    check()
}

/// Until `ended`: when a signal comes, process `pid` is asked to end. A terminal's Ctrl-C has reached it already; asking twice does no harm.
pub(crate) fn pass_on(pid: u32, ended: &AtomicBool) {
    while !ended.load(Relaxed) {
        if raised() {
            if let Err(error) = Command::new("kill").arg(pid.to_string()).status() {
                eprintln!("process {pid} could not be asked to end: {error}");
            }
            return;
        }
        std::thread::sleep(POLL);
    }
}
