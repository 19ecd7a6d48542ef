//! SIGINT, SIGTERM and SIGHUP: what runs is asked to end, nothing new is begun, and devices and
//! settings are put back on the way out.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static RAISED: OnceLock<Arc<AtomicBool>> = OnceLock::new();
const POLL: Duration = Duration::from_millis(50);

/// From now on these signals only raise a flag, which is returned.
///
/// # Errors
/// Handlers that can't be installed.
pub fn install() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = RAISED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(flag))
            .context("can't install signal handlers")?;
    }
    Ok(Arc::clone(flag))
}

fn raised() -> bool {
    RAISED.get().is_some_and(|flag| flag.load(Relaxed))
}

/// An error if a signal has come.
///
/// # Errors
/// A signal has come.
pub fn check() -> anyhow::Result<()> {
    if raised() {
        bail!("interrupted: what was measured whole is kept, run it again to go on");
    }
    Ok(())
}

/// Sleeps, or fails at once when a signal comes.
///
/// # Errors
/// A signal has come.
pub fn sleep(duration: Duration) -> anyhow::Result<()> {
    let end = Instant::now() + duration;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        check()?;
        std::thread::sleep(left.min(POLL));
    }
    check()
}

/// Runs a command to its end and takes what it writes where that is piped; when a signal comes, it
/// is asked to end and waited for.
///
/// # Errors
/// A command that can't be run, or a signal that came before its end.
pub fn output(command: &mut Command) -> anyhow::Result<Output> {
    check()?;
    let name = command.get_program().to_string_lossy().into_owned();
    let child = command.spawn().with_context(|| format!("can't run '{name}'"))?;
    let (pid, ended) = (child.id(), AtomicBool::new(false));
    let output = std::thread::scope(|scope| {
        scope.spawn(|| pass_on(pid, &ended));
        let output = child.wait_with_output();
        ended.store(true, Relaxed);
        output
    })
    .with_context(|| format!("can't wait for '{name}'"))?;
    check()?;
    Ok(output)
}

/// Until `ended`: when a signal comes, process `pid` is asked to end. A terminal's Ctrl-C has
/// reached it already; asking twice does no harm.
fn pass_on(pid: u32, ended: &AtomicBool) {
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
