//! Clients that connect, to the socket or for metrics. None can hold the guard up.
//!
//! ```text
//! connection ─▶ thread (16 at most; a request in 10 s or goodbye) ─ Ask ─▶ the guard's loop,
//!                                                               ◀─ Answer ┘ once a tick
//! ```

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Connections at a time.
pub(crate) const MOST_CLIENTS: usize = 16;
/// How long one may take for a request, and for taking in an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// They only copy text.
const STACK: usize = 256 << 10;

/// A stream whose reads and writes end.
pub(crate) trait Timed: Read + Write + Send + 'static {
    fn read_within(&self, time: Duration) -> io::Result<()>;
    fn write_within(&self, time: Duration) -> io::Result<()>;
}

impl Timed for UnixStream {
    fn read_within(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }
    fn write_within(&self, time: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(time))
    }
}

impl Timed for TcpStream {
    fn read_within(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }
    fn write_within(&self, time: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(time))
    }
}

/// A place among the clients, given back when it is dropped.
struct Seat(Arc<AtomicUsize>);

impl Seat {
    fn take(taken: &Arc<AtomicUsize>) -> Option<Self> {
        let seat = Self(Arc::clone(taken));
        (taken.fetch_add(1, Ordering::Relaxed) < MOST_CLIENTS).then_some(seat)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Accepts for ever, with a thread for each connection. Connections beyond the limit get `full`.
pub(crate) fn accept<S: Timed>(
    mut next: impl FnMut() -> io::Result<S> + Send + 'static,
    full: String,
    serve: impl Fn(&mut S) + Clone + Send + 'static,
) {
    let taken = Arc::new(AtomicUsize::new(0));
    let _ = thread::Builder::new().name("accept".into()).stack_size(STACK).spawn(move || {
        loop {
            let Ok(mut stream) = next() else {
                // Out of files, most likely; some will be closed.
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            if stream.write_within(PATIENCE).is_err() {
                continue;
            }
            let Some(seat) = Seat::take(&taken) else {
                let _ = stream.write_all(full.as_bytes());
                continue;
            };
            let serve = serve.clone();
            let _ =
                thread::Builder::new().name("client".into()).stack_size(STACK).spawn(move || {
                    let mut stream = stream;
                    // Dropped before the stream: a client that sees the close can take the seat.
                    let _seat = seat;
                    serve(&mut stream);
                });
        }
    });
}

/// Reads until something is there, within the time that one may take; `None` at the end. Too much
/// is [`io::ErrorKind::InvalidData`].
pub(crate) fn read_until<S: Timed>(
    stream: &mut S,
    most: usize,
    is_there: impl Fn(&[u8]) -> bool,
) -> io::Result<Option<Vec<u8>>> {
    let end = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    let mut part = [0; 1024];
    while !is_there(&bytes) {
        if bytes.len() >= most {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.read_within(left)?;
        match stream.read(&mut part) {
            Ok(0) => return Ok(None),
            Ok(n) => bytes.extend_from_slice(&part[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(Some(bytes))
}
