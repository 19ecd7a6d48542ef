//! `floodwall why`: who waits for a disk now, because of what, and what can be done.
//!
//! ```text
//! argument ─▶ target ─▶ About ───────────────┐
//! probe ∥ two observations ─▶ look ─▶ Look ──┴▶ host::diagnose ─▶ report::why ─▶ stdout
//!                                                                 (text | JSON)
//! ```
//!
//! Nothing is changed. Without root /proc tells less, and the answer says so.

pub(super) mod target;

use floodwall_host::SysRoot;
use floodwall_host::findings::diagnose;
use floodwall_model::diagnosis::Verdict;
use floodwall_report::why::{json, text};

use crate::commands::look;
use crate::exit::Exit;
use crate::{output, terminal};

/// Say who waits for a disk now, because of what, and what can be done
///
/// One look, of less than three seconds. The answer is a paragraph: the process that waits, its
/// wait, the process that floods the disk, and how long the disk takes for what is waiting.
/// Commands that help follow, each with its price. If nothing is wrong it says so, and what a flood
/// could do. Nothing is changed. Without root the answer has only what /proc tells. It is also what
/// floodwall without a command does.
#[derive(clap::Args, Debug, Default)]
#[command(after_help = "Examples:
  floodwall why                        # the whole machine
  floodwall why sda                    # one disk; /dev/sda1 and 8:0 name it too
  floodwall why /var/lib/postgresql    # the disk below a directory
  floodwall why 4711                   # a process, by its number
  floodwall why postgresql             # processes of this name or unit

Exit status: 0 nothing waits long; 1 a process waits long now; 2 wrong usage; 4 it can't be told, \
because a privilege or kernel feature is missing.")]
pub(crate) struct WhyArgs {
    /// Only this: a device (sda, /dev/sda1, 8:0), a mount point or a path on it, a process number,
    /// or the name of a process or unit
    #[arg(value_name = "DEVICE|MOUNT|PID|NAME")]
    about: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// An argument that names nothing, counters that can't be read, stdout that can't be written.
pub(crate) fn run(args: &WhyArgs) -> anyhow::Result<Exit> {
    let root = SysRoot::live()?;
    let about = target::about(&root, args.about.as_deref())?;
    // The probe is closed after the answer, because the kernel takes half a second for that.
    let (status, seen, _probe) = look::look(&root)?;
    let diagnosis = diagnose(seen.as_look(&status), &about);
    if args.json {
        output::json(&(json(&diagnosis)? + "\n"))?;
    } else {
        output::screen(&text(&diagnosis, terminal::style()))?;
    }
    Ok(match diagnosis.verdict {
        Verdict::Quiet | Verdict::Flooding => Exit::Done,
        Verdict::Stalling => Exit::Failed,
        Verdict::Unknown => Exit::Missing,
    })
}
