//! One file or directory a command.

pub(crate) mod bench;
pub(crate) mod check;
mod columns;
pub(crate) mod compare;
pub(crate) mod compat;
pub(crate) mod completions;
mod cut;
pub(crate) mod dump;
pub(crate) mod fix;
mod frames;
pub(crate) mod guard;
pub(crate) mod hwdb;
pub(crate) mod lab;
mod look;
pub(crate) mod man;
pub(crate) mod pace;
pub(crate) mod probe;
pub(crate) mod record;
mod recorded;
pub(crate) mod report;
pub(crate) mod settings;
pub(crate) mod sim;
pub(crate) mod sim_sweep;
mod span;
pub(crate) mod stalls;
pub(crate) mod status;
pub(crate) mod tune;
pub(crate) mod watch;
pub(crate) mod why;

use std::io::ErrorKind;

use floodwall_host::SysRoot;

use crate::exit::UsageError;

/// Refuses a directory that holds no machine: read as one, it would look like one where all is
/// well. One of proc and sys is enough, as a capture may be a part.
///
/// # Errors
/// [`UsageError`], with what to name instead.
fn check_captured(root: &SysRoot) -> Result<(), UsageError> {
    let holds = |name: &str| match root.path().join(name).read_dir() {
        Ok(mut entries) => entries.next().is_some(),
        // A directory that this user may not list counts as full.
        Err(e) => !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    };
    // A proc has a sys of its own, the sysctls; no /sys has a vm.
    if !root.is_live() && !holds("proc") && holds("sys/vm") {
        let what = "is a machine's proc alone; name the directory that holds it";
        return Err(UsageError(format!("'{}' {what}", root.path().display())));
    }
    if root.is_live() || holds("proc") || holds("sys") {
        return Ok(());
    }
    let what = "no proc or sys in it: not a captured tree; name a directory that holds them";
    Err(UsageError(format!("'{}' has {what}", root.path().display())))
}
