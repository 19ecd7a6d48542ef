//! A program of its own length in the victims' place.
//!
//! ```text
//! phase: floods warm up ─▶ Tool::start ─▶ each second Tool::sample ─▶ Tool::has_ended
//!                                                                      └▶ the phase ends with it
//! ```

use std::fmt;
use std::io;
use std::time::Duration;

use floodwall_load::Delta;
use floodwall_model::PhaseKind;

/// A phase with a tool has no length of its own.
pub(crate) const ENDLESS: Duration = Duration::from_secs(u32::MAX as u64);
/// How long its end may go unnoticed.
pub(crate) const LOOK: Duration = Duration::from_millis(10);

/// A program that a phase runs from begin to end.
pub trait Tool: fmt::Debug {
    /// Its name for people.
    fn name(&self) -> &str;

    /// Starts it, for a phase of this kind.
    ///
    /// # Errors
    /// Why not.
    fn start(&mut self, kind: PhaseKind) -> io::Result<()>;

    /// Its work since the last call.
    fn sample(&mut self) -> Delta;

    /// Whether it has ended by itself; `Some(Err(_))` says why it failed.
    fn has_ended(&mut self) -> Option<Result<(), String>>;

    /// Ends it, if it has not ended yet, and waits for that.
    fn stop(&mut self);
}
