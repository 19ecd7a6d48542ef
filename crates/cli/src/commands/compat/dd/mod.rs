//! `floodwall compat dd`: a copy as GNU dd makes it, and its lines on stderr.
//!
//! ```text
//! words ─▶ compat::dd::Options ─▶ device (mounted? held?) ─▶ files (open, cut, skip, seek)
//!       ─▶ copy (blocks) ─▶ fsync, fdatasync ─▶ running: lines, also on SIGUSR1 and SIGINT
//! ```
//!
//! Messages are the original's, so they begin with the tool's name and not with Floodwall's.

mod copy;
mod failed;
mod files;
mod running;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use floodwall_compat::dd::{Options, quote};

use self::copy::Copy;
use self::failed::{Failed, say};
use self::files::{Input, Output};
use super::device;
use super::meter::Meter;
use crate::exit::Exit;

/// Where stdout can be opened once more.
const STDOUT: &str = "/proc/self/fd/1";

/// Runs the copy. The exit status is dd's: 1 for whatever goes wrong.
///
/// # Errors
/// If signals can't be handled.
pub(super) fn run(words: &[OsString], may_destroy: bool, meter: Meter<'_>) -> anyhow::Result<Exit> {
    let options = match Options::parse(words) {
        Ok(options) => options,
        Err(e) => {
            say(&format!("dd: {e}\n"));
            return Ok(Exit::Failed);
        }
    };
    for warning in &options.warnings {
        say(&format!("dd: {warning}\n"));
    }
    let running = running::start(options.status)?;
    let _followed = meter.follow({
        let running = Arc::clone(&running);
        move || running.counters()
    })?;
    let done = opened(&options, may_destroy).and_then(|(input, output)| {
        running.begin();
        Copy::new(&options, input, output, &running)?.run()
    });
    Ok(match done {
        Ok(is_whole) => {
            running.print();
            if is_whole { Exit::Done } else { Exit::Failed }
        }
        Err(failed) => {
            running.say(&failed.message);
            if failed.with_counts {
                running.print();
            }
            Exit::Failed
        }
    })
}

fn opened(options: &Options, may_destroy: bool) -> Result<(Input, Output), Failed> {
    // Before the output is opened, which may cut it.
    let input = Input::open(options)?;
    if !may_destroy {
        check(options.output.as_deref())?;
    }
    Ok((input, Output::open(options)?))
}

/// Checks the output, if it is a block device.
fn check(output: Option<&OsStr>) -> Result<(), Failed> {
    let Some(who) = device::user_of(output.unwrap_or(OsStr::new(STDOUT))) else { return Ok(()) };
    let name = quote::file(output.unwrap_or(OsStr::new("standard output")).as_bytes());
    Err(Failed::early(format!(
        "{name} is in use: {who}; free it, or write 'floodwall compat --destructive dd …'"
    )))
}
