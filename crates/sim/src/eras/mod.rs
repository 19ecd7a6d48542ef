//! The kernels before today's: their elevators, throttling and queues, and what follows from a
//! kernel's version.
//!
//! ```text
//! --kernel 2.6.18 ─▶ kernel ─▶ parts ─▶ elevator, throttle: here, or today's
//!
//!          elevators                            throttle               writeback   queue
//! 2.6.18   noop deadline anticipatory cfq_18    v2_6_18                pdflush     slots by class
//! 2.6.32   noop deadline anticipatory cfq_32    v2_6_32                flushers    slots by class
//! 3.2      noop deadline cfq_32                 v3_2                   flushers    slots by class
//! 6.x      none mq-deadline kyber bfq           crate::throttle::v6    flushers    tags, wbt
//! ```
//!
//! - Throttle: a writer of 2.6.18 writes any pages while the machine is over its limit, one of
//!   2.6.32 writes pages of its own device, later ones only sleep.
//! - Writeback: pdflush leaves a congested queue alone. The flushers of 2.6.32 write when a writer
//!   asks them, later ones look for themselves.
//! - Queue: 2.6.18 keeps slots for reads and for writes, later kernels for synchronous and for
//!   other requests, 6.x has one pool of tags.
//!
//! Kernels between two rows behave like the earlier one, except where a file says otherwise. CFQ of
//! 3.2 is that of 2.6.32 with a quantum of 8.
//!
//! | file | the kernel's | kernels |
//! |---|---|---|
//! | `elevator/noop` | block/noop-iosched.c | 2.6.18 to 3.2 |
//! | `elevator/deadline` | block/deadline-iosched.c | 2.6.18 to 3.2 |
//! | `elevator/anticipatory` | block/as-iosched.c | 2.6.18, 2.6.32 |
//! | `elevator/cfq_18` | block/cfq-iosched.c | 2.6.18 |
//! | `elevator/cfq_32` | block/cfq-iosched.c | 2.6.32, 3.2 |
//! | `throttle/v2_6_18` | `balance_dirty_pages`, `background_writeout` | 2.6.18 |
//! | `throttle/v2_6_32` | `balance_dirty_pages`, `get_dirty_limits` | 2.6.32 |
//! | `throttle/v3_2` | `balance_dirty_pages`, `bdi_dirty_limit` | 3.2 |
//! | `throttle/proportions` | lib/proportions.c | 2.6.32, 3.2 |
//! | `limits` | `get_dirty_limits`, `determine_dirtyable_memory` | 2.6.18 to 3.2 |
//! | `batching` | `get_request`, `freed_request` | 2.6.18 to 3.2 |
//! | `md` | drivers/md/raid10.c, raid1.c | 2.6.32 |
//!
//! Two files know all kernels. `parts` says which elevators and filesystems a kernel has, and
//! builds its elevator and throttle. `kernel` answers what the shared stages ask of it. Besides
//! them, only tables of knobs name versions (the first that had each), and `options` its default.
//!
//! Stages that old and new kernels share stay in their folders: pools and sorted queues of
//! requests, think times, position control and pauses, the flusher's lists, journals.
//!
//! Three published tables rest on these kernels (docs/reproductions.md): the array of 2010 on
//! 2.6.32 (`cfq_32`, `v2_6_32`, `md`); RAID 1 of 2007 and the MySQL scans of 2009 on 2.6.18 (its
//! four elevators).

pub(crate) mod batching;
pub mod elevator;
pub mod kernel;
pub mod limits;
mod md;
pub mod parts;
pub mod throttle;
