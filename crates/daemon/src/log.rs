//! The guard's log: one line an event on stderr, with its time, or with its priority alone where
//! systemd's journal reads it.
//!
//! A separate thread writes, because a terminal stopped with Ctrl-S or a journal that does not read
//! must not stop the guard. Lines that find no room are counted.
//!
//! The crate `tracing` would need 93 lines of code here instead of 78, and 16 crates more
//! (tracing-subscriber, tracing-appender). It has no level for a notice. A level is fixed where an
//! event is written; most lines here get theirs at run time. tracing-appender counts the lines that
//! it drops. It does not say where they are missing.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::thread;
use std::time::{Duration, SystemTime};

use floodwall_model::calendar::moment;
use floodwall_model::printable::printable;

/// Lines that wait for a reader.
const WAITING: usize = 1024;
/// How long the last lines may take at the end.
const PATIENCE: Duration = Duration::from_secs(1);

/// How much a line matters; the numbers are syslog's (sd-daemon(3)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    Error = 3,
    Warning = 4,
    Notice = 5,
    Info = 6,
}

enum Message {
    Line(String),
    /// Answered when all lines before it are written.
    Flush(SyncSender<()>),
}

/// See the [module](self).
#[derive(Clone)]
pub(crate) struct Log {
    sender: SyncSender<Message>,
    lost: Arc<AtomicU64>,
    journal: bool,
}

impl Log {
    /// To stderr.
    pub(crate) fn open() -> Self {
        let (sender, receiver) = mpsc::sync_channel(WAITING);
        thread::spawn(move || {
            for message in receiver {
                match message {
                    // A closed stderr is ignored.
                    Message::Line(line) => drop(io::stderr().lock().write_all(line.as_bytes())),
                    Message::Flush(done) => drop(done.try_send(())),
                }
            }
        });
        Self { sender, lost: Arc::default(), journal: is_journal() }
    }

    /// Writes a line, some time soon.
    pub(crate) fn say(&self, priority: Priority, text: &str) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let told = self
                .line(Priority::Warning, &format!("{lost} lines were lost here: nobody read them"));
            if self.sender.try_send(Message::Line(told)).is_err() {
                self.lost.fetch_add(lost, Ordering::Relaxed);
            }
        }
        if self.sender.try_send(Message::Line(self.line(priority, text))).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all is written, but not for a reader that is gone.
    pub(crate) fn flush(&self) {
        let (done, written) = mpsc::sync_channel(1);
        if self.sender.try_send(Message::Flush(done)).is_ok() {
            let _ = written.recv_timeout(PATIENCE);
        }
    }

    fn line(&self, priority: Priority, text: &str) -> String {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        format(priority, text, (!self.journal).then_some(now))
    }
}

/// A text in one line. `since_epoch`: for a reader that does not know the time by himself.
fn format(priority: Priority, text: &str, since_epoch: Option<Duration>) -> String {
    let text = text.replace('\n', " ");
    let text = printable(&text);
    match since_epoch {
        Some(now) => format!("{} floodwall guard: {text}\n", moment(now.as_secs())),
        None => format!("<{}>{text}\n", priority as u8),
    }
}

/// Whether stderr is systemd's journal: JOURNAL_STREAM names its device and inode
/// (systemd.exec(5)).
fn is_journal() -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else { return false };
    let Ok(stat) = rustix::fs::fstat(io::stderr().as_fd()) else { return false };
    named == format!("{}:{}", stat.st_dev, stat.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_time_or_its_priority() {
        let at = Some(Duration::from_secs(1_000_000_000));
        assert_eq!(
            format(Priority::Notice, "sda: free → watch", at),
            "2001-09-09 01:46:40 UTC floodwall guard: sda: free → watch\n"
        );
        assert_eq!(format(Priority::Warning, "two\nlines", None), "<4>two lines\n");
        assert_eq!(
            format(Priority::Warning, "\x1b[2Jcp\u{9b}1m\u{202e}ü\r", None),
            "<4>\\u{1b}[2Jcp\\u{9b}1m\\u{202e}ü\\u{d}\n"
        );
    }
}
