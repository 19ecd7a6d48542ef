//! A control group of the command's own (cgroup v2), where this process may make one.
//!
//! ```text
//! scope     systemd's user manager ─▶ this process in a scope of its own, where it may divide none
//! place     PARENT/floodwall.PID… ─┬─ pace      this process and the guardian, unless PARENT is
//!                                  │            the hierarchy's root
//!                                  └─ command   the command: cgroup.freeze, memory.high, io.max
//! limits    a thread: the pacer's state, memory.stat ─▶ memory.high, io.max
//! undo      all limits lifted; the guardian does the same if this process is killed
//! ```
//!
//! Processes that outlive the command stay in the group. It runs and has no limit then. The next
//! process of floodwall that makes groups here removes it once it is empty, and systemd removes it
//! with its scope.

pub(super) mod files;
pub(super) mod limits;
mod place;
mod scope;

pub(super) use place::Group;
