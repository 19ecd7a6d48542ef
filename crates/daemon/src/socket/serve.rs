//! Clients of the guard: its socket's, and Prometheus over HTTP. No client can hold the guard up.
//!
//! ```text
//! connection ─▶ thread (16 at most; a request in 10 s or goodbye) ─ Ask ─▶ the guard's loop, once a tick
//!                                                               ◀─ Answer ┘
//! ```

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use crate::config::Listen;
use crate::error::{DaemonError, Doing};
use crate::place::Socket;
use crate::socket::protocol::{self, MAX_REQUEST, Reply, Request};

/// Connections at a time.
const MOST_CLIENTS: usize = 16;
/// How long one may take for a request, and for taking in an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the guard may take for an answer; it looks for questions four times a second.
pub(crate) const ANSWER: Duration = Duration::from_secs(5);
/// Bytes of an HTTP request's head; Prometheus' has 300.
const MAX_HEAD: usize = 8192;
/// They only copy text.
const STACK: usize = 256 << 10;
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

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

/// A stream whose reads and writes end.
trait Timed: Read + Write + Send + 'static {
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

/// Accepts for ever, a thread a connection; those that are too many get `full`.
fn accept<S: Timed>(
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
            let _ = thread::Builder::new().name("client".into()).stack_size(STACK).spawn(move || {
                let mut stream = stream;
                // Dropped before the stream: a client that sees the close can take the seat.
                let _seat = seat;
                serve(&mut stream);
            });
        }
    });
}

/// Serves the guard's own language. The socket's name lives as long as what is returned.
pub(crate) fn serve_socket(socket: &Socket, asks: Sender<Ask>) -> Result<(), DaemonError> {
    let listener = socket.listener.try_clone().doing(|| "can't copy the socket".into())?;
    let full = protocol::line(&Reply::Error(format!("{MOST_CLIENTS} others are asking; try again")))
        .doing(|| "can't write a reply".into())?;
    let us = rustix::process::geteuid();
    accept(
        move || listener.accept().map(|(stream, _)| stream),
        full,
        move |stream: &mut UnixStream| {
            // Who connects is who the kernel says he was then (unix(7), SO_PEERCRED).
            let peer = rustix::net::sockopt::socket_peercred(&*stream).ok();
            let may_command = peer.is_some_and(|peer| peer.uid.is_root() || peer.uid == us);
            let uid = peer.map(|peer| peer.uid.as_raw());
            converse(stream, |line| answer_line(line, may_command, uid, &asks));
        },
    );
    Ok(())
}

/// Requests and answers, until one side has had enough.
fn converse<S: Timed>(stream: &mut S, answer: impl Fn(&[u8]) -> Reply) {
    loop {
        let (reply, goes_on) = match read_until(stream, MAX_REQUEST, |bytes| bytes.contains(&b'\n')) {
            Ok(Some(bytes)) => {
                // One request at a time: what comes before the answer was sent is not waited for.
                let line = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
                (answer(line), true)
            }
            Ok(None) => return,
            Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                (Reply::Error(format!("a request has at most {MAX_REQUEST} bytes")), false)
            }
            Err(_) => return,
        };
        let Ok(line) = protocol::line(&reply) else { return };
        if stream.write_all(line.as_bytes()).is_err() || !goes_on {
            return;
        }
    }
}

/// Reads until something is there, within the time that one may take; `None` at the end. Too much
/// is [`io::ErrorKind::InvalidData`].
fn read_until<S: Timed>(
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

fn answer_line(line: &[u8], may_command: bool, uid: Option<u32>, asks: &Sender<Ask>) -> Reply {
    let request = match protocol::request(line) {
        Ok(request) => request,
        Err(why) => return Reply::Error(why),
    };
    if request.commands() && !may_command {
        let who = uid.map_or_else(|| "somebody unknown".to_owned(), |uid| format!("user {uid}"));
        return Reply::Error(format!("{who} may ask, but not tell the guard what to do; run this as root"));
    }
    match ask(Question::Request(request), asks) {
        Some(Answer::Reply(reply)) => reply,
        _ => Reply::Error("the guard does not answer in time; try again".into()),
    }
}

fn ask(what: Question, asks: &Sender<Ask>) -> Option<Answer> {
    let (answer, answered) = mpsc::sync_channel(1);
    asks.send(Ask { what, answer }).ok()?;
    answered.recv_timeout(ANSWER).ok()
}

/// Serves metrics. What is returned keeps a socket's name.
///
/// # Errors
/// If the port or path can't be had.
pub(crate) fn serve_metrics(listen: &Listen, asks: Sender<Ask>) -> Result<Option<Socket>, DaemonError> {
    let full = http("503 Service Unavailable", "text/plain", "too many are asking; try again\n");
    match listen {
        Listen::Tcp(address) => {
            let fail = || format!("can't serve metrics on {address}; name another port with metrics");
            let listener = TcpListener::bind(address).doing(fail)?;
            accept(
                move || listener.accept().map(|(stream, _)| stream),
                full,
                move |stream| answer_http(stream, &asks),
            );
            Ok(None)
        }
        Listen::Unix(path) => {
            let socket = Socket::bind(path)?;
            let listener = socket.listener.try_clone().doing(|| "can't copy the socket".into())?;
            accept(
                move || listener.accept().map(|(stream, _)| stream),
                full,
                move |stream| answer_http(stream, &asks),
            );
            Ok(Some(socket))
        }
    }
}

fn answer_http<S: Timed>(stream: &mut S, asks: &Sender<Ask>) {
    let is_head =
        |bytes: &[u8]| bytes.windows(4).any(|w| w == b"\r\n\r\n") || bytes.windows(2).any(|w| w == b"\n\n");
    let answer = match read_until(stream, MAX_HEAD, is_head) {
        Ok(Some(head)) => respond(&head, || match ask(Question::Metrics, asks) {
            Some(Answer::Text(text)) => Some(text),
            _ => None,
        }),
        Err(e) if e.kind() == io::ErrorKind::InvalidData => {
            http("431 Request Header Fields Too Large", "text/plain", "too long\n")
        }
        _ => return,
    };
    let _ = stream.write_all(answer.as_bytes());
}

/// The answer to an HTTP request (RFC 9112), of which only the first line matters.
fn respond(head: &[u8], metrics: impl FnOnce() -> Option<String>) -> String {
    let line = head.split(|b| *b == b'\r' || *b == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version)) = (words.next(), words.next(), words.next()) else {
        return http("400 Bad Request", "text/plain", "no HTTP\n");
    };
    if !version.starts_with("HTTP/1.") {
        return http("400 Bad Request", "text/plain", "no HTTP/1\n");
    }
    let path = target.split('?').next().unwrap_or_default();
    match (method, path) {
        ("GET" | "HEAD", "/metrics") => {
            let Some(text) = metrics() else {
                return http("503 Service Unavailable", "text/plain", "the guard does not answer in time\n");
            };
            let whole = http("200 OK", OPENMETRICS, &text);
            if method == "HEAD" { whole[..whole.len() - text.len()].to_owned() } else { whole }
        }
        ("GET" | "HEAD", _) => http("404 Not Found", "text/plain", "metrics are at /metrics\n"),
        _ => http("405 Method Not Allowed", "text/plain", "only GET\n"),
    }
}

fn http(status: &str, kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::super::client::exchange;
    use super::*;

    /// A guard that knows nothing, on a socket.
    fn guard(dir: &std::path::Path) -> Socket {
        let socket = Socket::bind(&dir.join("guard.sock")).unwrap();
        let (asks, asked) = mpsc::channel::<Ask>();
        serve_socket(&socket, asks.clone()).unwrap();
        thread::spawn(move || {
            for ask in asked {
                let answer = match ask.what {
                    Question::Request(Request::Resume) => Answer::Reply(Reply::Resumed { was_paused: true }),
                    Question::Request(_) => Answer::Reply(Reply::Status(Box::default())),
                    Question::Metrics => Answer::Text("# EOF\n".into()),
                };
                let _ = ask.answer.try_send(answer);
            }
        });
        let metrics = serve_metrics(&Listen::Unix(dir.join("metrics.sock")), asks).unwrap();
        std::mem::forget(metrics);
        socket
    }

    fn said(stream: &UnixStream, bytes: &[u8]) -> String {
        (&mut &*stream).write_all(bytes).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line
    }

    #[test]
    fn what_is_not_understood_is_answered_and_the_next_request_too() {
        let dir = tempfile::tempdir().unwrap();
        let _socket = guard(dir.path());
        let stream = UnixStream::connect(dir.path().join("guard.sock")).unwrap();
        assert!(said(&stream, b"hello\n").contains("\"error\":\"no JSON"));
        assert!(said(&stream, b"\n").contains("\"error\""));
        // In two parts, the second later.
        (&stream).write_all(b"{\"version\":1,").unwrap();
        thread::sleep(Duration::from_millis(20));
        assert!(said(&stream, b"\"do\":\"status\"}\n").contains("\"status\":{"));
        assert!(said(&stream, b"{\"version\":1,\"do\":\"resume\"}\n").contains("\"was_paused\":true"));
    }

    #[test]
    fn a_request_without_end_is_refused_and_others_are_served_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let _socket = guard(dir.path());
        let path = dir.path().join("guard.sock");
        let mut endless = UnixStream::connect(&path).unwrap();
        assert!(said(&endless, &vec![b'x'; MAX_REQUEST]).contains("at most 4096 bytes"));
        // A closed connection holds no seat.
        assert_eq!(endless.read(&mut [0]).unwrap(), 0);
        // Those that say nothing hold their own seats only.
        let silent: Vec<_> = (0..MOST_CLIENTS - 1).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let stream = UnixStream::connect(&path).unwrap();
        assert!(matches!(exchange(&stream, Request::Status).unwrap(), Reply::Status(_)));
        let surplus = UnixStream::connect(&path).unwrap();
        let mut line = String::new();
        BufReader::new(&surplus).read_line(&mut line).unwrap();
        assert!(line.contains("16 others are asking"), "{line}");
        drop((silent, stream, surplus));
    }

    #[test]
    fn who_is_not_root_nor_the_guards_user_may_ask_only() {
        let (asks, asked) = mpsc::channel::<Ask>();
        thread::spawn(move || {
            for ask in asked {
                let _ = ask.answer.try_send(Answer::Reply(Reply::Resumed { was_paused: false }));
            }
        });
        let resume = b"{\"version\":1,\"do\":\"resume\"}";
        assert_eq!(answer_line(resume, true, Some(0), &asks), Reply::Resumed { was_paused: false });
        let Reply::Error(said) = answer_line(resume, false, Some(1000), &asks) else { panic!() };
        assert!(said.starts_with("user 1000 may ask"), "{said}");
        let status = b"{\"version\":1,\"do\":\"status\"}";
        assert!(!matches!(answer_line(status, false, Some(1000), &asks), Reply::Error(_)));
    }

    #[test]
    fn metrics_are_served_over_http_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let _socket = guard(dir.path());
        let mut stream = UnixStream::connect(dir.path().join("metrics.sock")).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"),
            "{answer}"
        );
        assert!(answer.ends_with("Content-Length: 6\r\nConnection: close\r\n\r\n# EOF\n"), "{answer}");
        let text = || Some("# EOF\n".to_owned());
        for (head, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("GET /metrics HTTP/2\r\n\r\n", "400"),
            ("nonsense\r\n\r\n", "400"),
            ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", "200"),
        ] {
            assert!(respond(head.as_bytes(), text).starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        }
        assert!(respond(b"HEAD /metrics HTTP/1.1\r\n\r\n", text).ends_with("\r\n\r\n"));
        assert!(respond(b"GET /metrics HTTP/1.1\r\n\r\n", || None).starts_with("HTTP/1.1 503 "));
    }

    #[test]
    fn a_port_that_is_taken_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let said = serve_metrics(&Listen::Tcp(address), mpsc::channel().0).err().unwrap().to_string();
        assert_eq!(said, format!("can't serve metrics on {address}; name another port with metrics"));
    }
}
