//! `floodwall compat dd`: a copy as GNU dd makes it, and its lines on stderr.
//!
//! ```text
//! words ─▶ compat::dd::Options ─▶ device (mounted? held?) ─▶ files (open, cut, skip, seek)
//!       ─▶ copy (blocks) ─▶ fsync, fdatasync ─▶ running: lines, also on SIGUSR1 and SIGINT
//! ```
//!
//! Messages are the original's, so they begin with the tool's name and not with Floodwall's.

mod copy;
mod device;
mod files;
mod running;

use std::ffi::OsString;
use std::io::{self, Write};

use floodwall_compat::dd::Options;
use rustix::io::Errno;

use self::copy::Copy;
use self::files::{Input, Output};
use crate::exit::Exit;

/// The copy can't go on: what to say besides, and whether the lines of counts follow.
struct Failed {
    message: String,
    with_counts: bool,
}

impl Failed {
    /// Before anything is counted.
    const fn early(message: String) -> Self {
        Self { message, with_counts: false }
    }

    /// With the lines of counts.
    const fn counted(message: String) -> Self {
        Self { message, with_counts: true }
    }
}

/// Runs the copy. The exit status is dd's: 1 for whatever goes wrong.
///
/// # Errors
/// If signals can't be handled.
pub(super) fn run(words: &[OsString], may_destroy: bool) -> anyhow::Result<Exit> {
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
        device::check(options.output.as_deref())?;
    }
    Ok((input, Output::open(options)?))
}

/// The kernel's words for an error, as the original prints them.
fn reason(errno: Errno) -> String {
    let text = io::Error::from(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Writes to stderr at once; a closed one is ignored.
fn say(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
