//! The socket where a running guard can be asked: its language, the guard's side and the asker's.

pub(crate) mod client;
pub(crate) mod listener;
pub(crate) mod protocol;
pub(crate) mod serve;

pub use client::{ask, ask_to_yield, paces_itself};
pub use protocol::{Reply, Request, request};
