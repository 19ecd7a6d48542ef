//! Notifications to systemd (sd_notify(3)); nothing is sent unless it asks.

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// See the [module](self).
pub(crate) struct Notifier {
    /// Half of the time within which systemd wants to hear something.
    ping: Option<Duration>,
    last_ping: Option<Instant>,
    stopping: bool,
}

impl Notifier {
    pub(crate) fn open() -> Self {
        Self {
            ping: sd_notify::watchdog_enabled().map(|time| time / 2),
            last_ping: None,
            stopping: false,
        }
    }

    fn tell(states: &[NotifyState<'_>]) {
        // systemd did not ask for it, or does not listen any more.
        let _ = sd_notify::notify(states);
    }

    pub(crate) fn ready(&self) {
        Self::tell(&[NotifyState::Ready]);
    }

    pub(crate) fn reloading(&self) {
        let now = NotifyState::monotonic_usec_now();
        match now {
            Ok(now) => Self::tell(&[NotifyState::Reloading, now]),
            Err(_) => Self::tell(&[NotifyState::Reloading]),
        }
    }

    pub(crate) fn status(&self, text: &str) {
        Self::tell(&[NotifyState::Status(text)]);
    }

    /// Once.
    pub(crate) fn stopping(&mut self) {
        if !std::mem::replace(&mut self.stopping, true) {
            Self::tell(&[NotifyState::Stopping]);
        }
    }

    /// Sign of life, as often as it is wanted. Called at least every two seconds.
    pub(crate) fn alive(&mut self) {
        let Some(ping) = self.ping else { return };
        if self.last_ping.is_none_or(|last| last.elapsed() >= ping / 2) {
            self.last_ping = Some(Instant::now());
            Self::tell(&[NotifyState::Watchdog]);
        }
    }
}
