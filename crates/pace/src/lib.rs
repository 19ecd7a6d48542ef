//! Paces the writes of one command, so that other users of the same disk hardly notice.
//!
//! ```text
//! copy      files copied here ───────────┐ ranges just dirtied
//! command   any command: its files, ─────┤
//!           stopped while too much is    ▼
//!           dirty                 writeback: pieces, started early, each waited for
//!                                        │ rate and window
//!                                 pacer: the disk's counters, a clock, the next piece's turn
//!                                        ▼
//!                                 law: alone, listening or yielding ─▶ rate, piece, window (pure)
//! ```
//!
//! Needs no privilege. Units: bytes and seconds.

pub mod command;
pub mod copy;
mod descriptors;
mod disk;
pub mod law;
mod pacer;
mod turn;
mod writeback;

pub use law::{Goal, State};
pub use pacer::{Pacer, Status, Window};
pub use writeback::Writeback;
