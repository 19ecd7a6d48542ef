//! Files that processes have open.

use floodwall_model::DeviceId;

use crate::event::Call;

/// The kind of an open file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenFile {
    /// The device that its data goes to; `None` if not known.
    pub(crate) device: Option<DeviceId>,
    /// `O_SYNC` or `O_DSYNC`.
    pub(crate) sync: bool,
    /// `O_DIRECT`.
    pub(crate) direct: bool,
}

impl OpenFile {
    /// What a write to it is; `None` for one that only reaches the page cache.
    pub(crate) fn write_call(self) -> Option<Call> {
        match self {
            Self { sync: true, .. } => Some(Call::SyncWrite),
            Self { direct: true, .. } => Some(Call::DirectWrite),
            _ => None,
        }
    }
}

/// Looks up what a process has open.
pub(crate) trait Files {
    /// The file behind a descriptor; `None` if it is closed by now or may not be looked at.
    fn file(&mut self, pid: u32, fd: i32) -> Option<OpenFile>;

    /// A process did something for the first time in this window: a caller that wants its name
    /// should ask while it lives.
    fn seen(&mut self, _pid: u32) {}
}
