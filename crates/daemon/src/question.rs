//! Clients' questions to the guard's loop, which answers them once a tick.

use std::sync::mpsc::{self, Sender, SyncSender};
use std::time::Duration;

use crate::socket::protocol::{Reply, Request};

/// How long the guard may take for an answer; it looks for questions four times a second.
pub(crate) const ANSWER: Duration = Duration::from_secs(5);

/// A question to the guard's loop.
pub(crate) struct Ask {
    pub(crate) what: Question,
    pub(crate) answer: SyncSender<Answer>,
}

pub(crate) enum Question {
    Request(Request),
    Metrics,
}

pub(crate) enum Answer {
    Reply(Reply),
    Text(String),
}

/// Asks it; `None` if it does not answer in time.
pub(crate) fn ask(what: Question, asks: &Sender<Ask>) -> Option<Answer> {
    let (answer, answered) = mpsc::sync_channel(1);
    asks.send(Ask { what, answer }).ok()?;
    answered.recv_timeout(ANSWER).ok()
}
