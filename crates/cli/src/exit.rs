//! Exit statuses: what scripts may rely on.

use std::io::{self, ErrorKind};
use std::process::ExitCode;

use floodwall_bench::BenchError;
use floodwall_bench::scratch::ScratchError;
use floodwall_bench::space::SpaceError;
use floodwall_daemon::DaemonError;
use floodwall_guest::GuestError;
use floodwall_knobs::journal::JournalError;
use floodwall_knobs::persist::PersistError;
use floodwall_knobs::{ApplyError, PlanError};
use floodwall_lab::LabError;
use floodwall_load::{LoadError, UserError};
use floodwall_model::scenario::ScenarioError;
use floodwall_probe::ProbeError;
use floodwall_record::RecordError;
use rustix::io::Errno;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done,
    /// Failed, or stopped by a signal.
    Failed,
    /// Wrong usage: nothing was done.
    Usage,
    /// Measured, and the figures do not settle the question.
    Inconclusive,
    /// A privilege, a kernel feature or a program is missing.
    Missing,
    /// That of a command that was run for the user.
    Of(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Inconclusive => 3,
            Exit::Missing => 4,
            Exit::Of(status) => status,
        })
    }
}

/// The user asked for something that can't be: exit status 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// The machine lacks a requirement: exit status 4.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct MissingError(pub(crate) String);

impl Exit {
    /// The status that an error stands for.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        if error.is::<MissingError>() {
            return Self::Missing;
        }
        if let Some(lab) = error.downcast_ref::<LabError>() {
            return match lab {
                e if e.is_missing_requirement() => Self::Missing,
                e if e.is_wrong_use() => Self::Usage,
                _ => Self::Failed,
            };
        }
        if let Some(guest) = error.downcast_ref::<GuestError>() {
            return match guest {
                e if e.is_missing_requirement() => Self::Missing,
                e if e.is_wrong_use() => Self::Usage,
                _ => Self::Failed,
            };
        }
        if error.downcast_ref().is_some_and(ProbeError::is_missing_requirement) {
            return Self::Missing;
        }
        if let Some(daemon) = error.downcast_ref::<DaemonError>() {
            return match daemon {
                e if e.is_missing_requirement() => Self::Missing,
                e if e.is_wrong_use() => Self::Usage,
                _ => Self::Failed,
            };
        }
        if let Some(exit) = of_settings(error) {
            return exit;
        }
        if let Some(RecordError::Io { source, .. }) = error.downcast_ref() {
            return match source.kind() {
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Self::Missing,
                _ => Self::Failed,
            };
        }
        if is_denied(error) {
            return Self::Missing;
        }
        match error.downcast_ref::<BenchError>() {
            Some(BenchError::Load(
                LoadError::NoUring { .. }
                | LoadError::NoAccounting { .. }
                | LoadError::NoDontCache { .. }
                | LoadError::Io { errno: Errno::ACCESS | Errno::PERM, .. },
            )) => {
                return Self::Missing;
            }
            Some(
                BenchError::Locate(_)
                | BenchError::ReadOnly { .. }
                | BenchError::NoWriteback { .. }
                | BenchError::Timing { .. }
                | BenchError::Load(
                    LoadError::Misaligned { .. }
                    | LoadError::NoDirect { .. }
                    | LoadError::TooSmall { .. },
                ),
            ) => return Self::Usage,
            _ => {}
        }
        match error.downcast_ref::<UserError>() {
            Some(UserError::NotRoot(_)) => return Self::Missing,
            Some(UserError::Unknown(_)) => return Self::Usage,
            _ => {}
        }
        let wrong_usage = error.is::<UsageError>()
            || error.is::<ScenarioError>()
            || error.is::<SpaceError>()
            || matches!(error.downcast_ref(), Some(ScratchError::List { .. }));
        if wrong_usage { Self::Usage } else { Self::Failed }
    }
}

/// Whether a benchmark or its scratch directory lacks a permission.
fn is_denied(error: &anyhow::Error) -> bool {
    let is_so = |e: &io::Error| {
        matches!(e.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
    };
    (error.is::<BenchError>() || error.is::<ScratchError>())
        && error.chain().any(|cause| cause.downcast_ref().is_some_and(is_so))
}

/// The status of an error of a change of settings, if it is one.
fn of_settings(error: &anyhow::Error) -> Option<Exit> {
    let plan = |plan: &PlanError| match plan {
        PlanError::NotThere { .. } | PlanError::Unreadable { .. } => Exit::Missing,
        _ => Exit::Usage,
    };
    let journal = |journal: &JournalError| match journal {
        e if e.lacks_privilege() => Exit::Missing,
        JournalError::NotAbsolute(_) => Exit::Usage,
        _ => Exit::Failed,
    };
    match error.downcast_ref::<PersistError>() {
        Some(e) if e.lacks_requirement() => return Some(Exit::Missing),
        Some(e) if e.is_wrong_use() => return Some(Exit::Usage),
        Some(_) => return Some(Exit::Failed),
        None => {}
    }
    match error.downcast_ref() {
        Some(ApplyError::Plan(e)) => return Some(plan(e)),
        Some(ApplyError::Journal(e)) => return Some(journal(e)),
        Some(e) if e.lacks_privilege() => return Some(Exit::Missing),
        Some(_) => return Some(Exit::Failed),
        None => {}
    }
    error.downcast_ref().map(plan).or_else(|| error.downcast_ref().map(journal))
}

#[cfg(test)]
mod tests {
    use floodwall_host::locate::LocateError;

    use super::*;

    #[test]
    fn what_is_missing_what_is_wrong_and_what_failed_are_told_apart() {
        let of = |error: anyhow::Error| Exit::of(&error);
        assert_eq!(of(LabError::NoRoot.into()), Exit::Missing);
        let no_uring = LoadError::NoUring { errno: Errno::NOSYS };
        assert_eq!(of(BenchError::from(no_uring).into()), Exit::Missing);
        assert_eq!(of(UsageError(String::new()).into()), Exit::Usage);
        let not_there = PlanError::NotThere { label: String::new(), why: String::new(), needs: "" };
        assert_eq!(of(not_there.clone().into()), Exit::Missing);
        assert_eq!(of(ApplyError::from(not_there).into()), Exit::Missing);
        let refused = PlanError::Refused { label: String::new(), why: String::new() };
        assert_eq!(of(refused.into()), Exit::Usage);
        let denied = JournalError::Io {
            what: "open",
            path: "/".into(),
            source: ErrorKind::PermissionDenied.into(),
        };
        assert_eq!(of(ApplyError::from(denied).into()), Exit::Missing);
        assert_eq!(of(JournalError::ReadOnly.into()), Exit::Failed);
        let kept = |source| PersistError::Io { what: "write", path: "/".into(), source };
        assert_eq!(of(kept(ErrorKind::ReadOnlyFilesystem.into()).into()), Exit::Missing);
        assert_eq!(of(kept(ErrorKind::StorageFull.into()).into()), Exit::Failed);
        assert_eq!(of(PersistError::NoUdev.into()), Exit::Missing);
        assert_eq!(of(PersistError::Held.into()), Exit::Failed);
        assert_eq!(of(PersistError::NoDirectory("/etc".into()).into()), Exit::Usage);
        assert_eq!(of(ProbeError::NoTracepoints.into()), Exit::Missing);
        let recorded = |kind: ErrorKind| RecordError::Io {
            what: "open",
            path: "/".into(),
            source: kind.into(),
        };
        assert_eq!(of(recorded(ErrorKind::PermissionDenied).into()), Exit::Missing);
        assert_eq!(of(recorded(ErrorKind::ReadOnlyFilesystem).into()), Exit::Missing);
        assert_eq!(of(recorded(ErrorKind::StorageFull).into()), Exit::Failed);
        let poll = ProbeError::Poll(ErrorKind::Other.into());
        assert_eq!(of(poll.into()), Exit::Failed);
        assert_eq!(of(UserError::Unknown(String::new()).into()), Exit::Usage);
        assert_eq!(of(UserError::NotRoot(String::new()).into()), Exit::Missing);
        assert_eq!(of(BenchError::Interrupted.into()), Exit::Failed);
        let scratch = |kind: ErrorKind| ScratchError::Make { dir: "/".into(), source: kind.into() };
        for (kind, status) in [
            (ErrorKind::PermissionDenied, Exit::Missing),
            (ErrorKind::ReadOnlyFilesystem, Exit::Missing),
            (ErrorKind::StorageFull, Exit::Failed),
        ] {
            assert_eq!(of(BenchError::from(scratch(kind)).into()), status);
            assert_eq!(of(scratch(kind).into()), status);
        }
        let list = |kind: ErrorKind| ScratchError::List { dir: "/".into(), source: kind.into() };
        assert_eq!(of(list(ErrorKind::PermissionDenied).into()), Exit::Missing);
        assert_eq!(of(list(ErrorKind::NotFound).into()), Exit::Usage);
        let locate = |kind: ErrorKind| {
            let error = LocateError::Directory { path: "/".into(), source: kind.into() };
            of(BenchError::from(error).into())
        };
        assert_eq!(locate(ErrorKind::PermissionDenied), Exit::Missing);
        assert_eq!(locate(ErrorKind::NotFound), Exit::Usage);
        let write = |errno| LoadError::Io { operation: "write", path: "/".into(), errno };
        assert_eq!(of(BenchError::from(write(Errno::ACCESS)).into()), Exit::Missing);
        assert_eq!(of(BenchError::from(write(Errno::NOSPC)).into()), Exit::Failed);
        let priority =
            |kind: ErrorKind| BenchError::Priority { priority: "rt:0".into(), source: kind.into() };
        assert_eq!(of(priority(ErrorKind::PermissionDenied).into()), Exit::Missing);
        assert_eq!(of(priority(ErrorKind::Other).into()), Exit::Failed);
        assert_eq!(of(DaemonError::Missing(String::new()).into()), Exit::Missing);
        assert_eq!(of(DaemonError::Usage(String::new()).into()), Exit::Usage);
        assert_eq!(of(DaemonError::Failed(String::new()).into()), Exit::Failed);
        assert_eq!(of(anyhow::anyhow!("anything else")), Exit::Failed);
    }
}
