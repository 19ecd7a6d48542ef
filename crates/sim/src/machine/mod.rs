//! The machine: all stages and the loop that lets time pass.
//!
//! ```text
//! loop:  processes that can go on ─▶ step each, until none can
//!        the next moment: a timer, or the block layer ─▶ what is done wakes processes
//! ```
//!
//! A process is a workload's thread, the flusher or the journal's thread. Each is a small state
//! machine. The method [`Machine::step`] lets it go on until it has to wait: for time, I/O, a
//! request slot or the wbt gate. Nothing recurses: a woken process goes into a queue, in order.

mod groups;
mod pages;
mod process;
mod run;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use process::Role;
pub(crate) use state::{Machine, MachineParams, Md, memory_of};
