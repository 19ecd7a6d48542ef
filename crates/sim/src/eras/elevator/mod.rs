//! The elevators of the single-queue block layer, which went in 5.0.
//!
//! What they share with today's elevators (the pool of requests, sorted queues, think times) is in
//! [`crate::elevator`].

mod anticipatory;
mod cfq_18;
mod cfq_32;
mod deadline;
mod noop;

pub use anticipatory::{Anticipatory, AnticipatoryTunables};
pub use cfq_18::{Cfq18, Cfq18Tunables};
pub use cfq_32::{Cfq32, Cfq32Tunables};
pub use deadline::{Deadline, DeadlineTunables};
pub use noop::Noop;
