//! The journal: each change with old and new values, user, time and reason. It is complete before
//! the first kernel write.
//!
//! ```text
//! /var/lib/floodwall/journal/
//!   lock            flock'ed by whoever changes something; a dead holder does not keep it
//!   steering        flock'ed by the process that steers, for as long as it lives
//!   000007.jsonl    one transaction: JSON lines, each with a checksum
//!   000008.new      being written; never read
//!   000006.jsonl.bad  not understood: kept aside, never replayed
//! ```
//!
//! One transaction, record by record:
//!
//! ```text
//! begin {who, when, why, entries: knob, target, old, new}     fsynced, renamed into place,
//!                                                             directory fsynced
//! intent {entry, to}  →  kernel write  →  done {readings}     for every write
//! commit {readings}                                           it stands
//! undo  →  intent, done …  →  closed {how}
//! ```
//!
//! A *hold* is a transaction of a process that steers: it lives on and writes its knobs again and
//! again ([`crate::apply::hold`]).
//!
//! ```text
//! begin {…, steers}                       as above, without entries
//! save {cells}                            fsynced, before the first write of each
//! intent …  →  kernel write  →  done …    as often as it likes, in any order;
//!                                         also back to what was saved
//! yield {entry}                           another owner's from here on
//! undo  →  …  →  closed                   as above
//! ```
//!
//! The newest [`CLOSED_KEPT`] closed journals are kept, for `floodwall log`; older ones are removed
//! when a session begins. An open one is never removed.
//!
//! Only `begin` is fsynced: what comes after matters within the same boot alone, and a killed
//! process's writes stay in the page cache. A value found later is *ours* if the journal's last
//! reading, or a write that was under way, explains it.

mod begin;
mod disk;
mod log;
pub mod owner;
mod prune;
mod record;
mod store;
mod trace;
mod transaction;

pub(crate) use begin::{begin, next_id, write_whole};
pub use disk::DiskStore;
pub use log::{Logged, boot_id, cut_short, kept_aside, log, open, phase};
pub use owner::{is_alive, is_at_it};
pub use prune::CLOSED_KEPT;
pub(crate) use prune::prune;
pub(crate) use record::checksum;
pub use record::{Begin, Closing, Reading, Record, SavedAt, SavedEntry};
pub use store::{JournalError, Mark, Store};
pub use transaction::{Now, Phase, Transaction};
