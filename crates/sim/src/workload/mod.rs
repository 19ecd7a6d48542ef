//! Workloads: victims and floods as processes of the machine.
//!
//! ```text
//! Load: a victim or flood of the scenario ── its Tasks: one a thread or stream
//!
//! task:  Next ─▶ Copy (CPU) ─▶ dirty ─▶ over a limit? ─▶ Balance: sleep, write out,
//!                                          │             or wait for congestion ─▶ …
//!                                          └▶ victims: Sync ─▶ done, counted ─▶ Next
//! ```
//!
//! A write of one block and a run of many are the same to the machine. A flood dirties as many
//! pages at once as the throttle allows before its next look, so the cost of `dd bs=1k` does not
//! depend on `bs`.

mod choose;
mod flood;
mod meter;
mod pace;
mod read;
mod read_ahead;
mod step;
mod task;
mod victim;

pub(crate) use choose::{Chooser, Way, seeded};
pub(crate) use pace::{Limit, Tickets};
pub(crate) use task::{FloodKind, FloodProgram, Load, Program, State, Task, VictimProgram};
