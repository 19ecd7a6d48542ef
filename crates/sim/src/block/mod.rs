//! The block layer: from a bio to a request to the device and back.
//!
//! ```text
//! bio ─▶ joins a request in the plug, or one that waits? ─ yes ─▶ that grows
//!        └ no ─▶ wbt gate ─▶ request slot ─▶ plug ─▶ elevator ─▶ device (at most `given`) ─▶ done
//! PREFLUSH, FUA ─▶ flush.rs ───────────────────────────▶ past the elevator ┘
//! done: slot and gate are free again
//! ```
//!
//! `submit` answers at once: taken, or wait (no slot, gate shut). A process that has to wait is
//! remembered here and named in [`BlockLayer::woken`] when it is worth trying again. Sources:
//! block/blk-mq.c `blk_mq_submit_bio`, block/blk-core.c `blk_add_rq_to_plug`, `__make_request`
//! (2.6.x).

mod bio;
mod change;
mod dispatch;
mod flush;
mod flush_queue;
mod gate;
mod io_max;
mod loop_driver;
mod pool;
mod queues;
mod state;
mod striped;
mod submit;

pub(crate) use bio::{Bio, Done, End, Times};
pub(crate) use io_max::IoMax;
pub(crate) use loop_driver::LoopDriver;
pub(crate) use pool::RequestPool;
pub(crate) use queues::Stripes;
pub(crate) use state::{BlockLayer, Change, Counters, QueueParams, Submitted};
pub(crate) use striped::Striped;
