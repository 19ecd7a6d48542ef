//! Metrics over HTTP/1, for Prometheus: of a guard, and of a recorder.

use std::io;
use std::net::TcpListener;

use crate::config::Listen;
use crate::connection::{Timed, accept, read_until};
use crate::error::{DaemonError, Doing};
use crate::socket::listener::Socket;

/// Bytes of an HTTP request's head; Prometheus' has 300.
const MAX_HEAD: usize = 8192;
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Metrics that are served until the process ends. A Unix socket's name goes when this is dropped.
pub struct Served(#[expect(dead_code, reason = "kept for its drop")] Option<Socket>);

/// Serves an exposition in OpenMetrics' text format at `/metrics`. `metrics` makes it for each
/// request, in a thread of the request's own; `None` has the client told to ask again.
///
/// # Errors
/// If the port or path can't be had.
pub fn serve(
    listen: &Listen,
    metrics: impl Fn() -> Option<String> + Clone + Send + 'static,
) -> Result<Served, DaemonError> {
    let full = http("503 Service Unavailable", "text/plain", "too many are asking; try again\n");
    match listen {
        Listen::Tcp(address) => {
            let fail =
                || format!("can't serve metrics on {address}; name another port with metrics");
            let listener = TcpListener::bind(address).doing(fail)?;
            accept(
                move || listener.accept().map(|(stream, _)| stream),
                full,
                move |stream| answer_http(stream, &metrics),
            );
            Ok(Served(None))
        }
        Listen::Unix(path) => {
            let socket = Socket::bind(path)?;
            let listener = socket.listener.try_clone().doing(|| "can't copy the socket".into())?;
            accept(
                move || listener.accept().map(|(stream, _)| stream),
                full,
                move |stream| answer_http(stream, &metrics),
            );
            Ok(Served(Some(socket)))
        }
    }
}

fn answer_http<S: Timed>(stream: &mut S, metrics: impl Fn() -> Option<String>) {
    let is_head = |bytes: &[u8]| {
        bytes.windows(4).any(|w| w == b"\r\n\r\n") || bytes.windows(2).any(|w| w == b"\n\n")
    };
    let answer = match read_until(stream, MAX_HEAD, is_head) {
        Ok(Some(head)) => respond(&head, metrics),
        Err(e) if e.kind() == io::ErrorKind::InvalidData => {
            http("431 Request Header Fields Too Large", "text/plain", "too long\n")
        }
        _ => return,
    };
    let _ = stream.write_all(answer.as_bytes());
}

/// The answer to an HTTP request (RFC 9112). Only the request's first line matters.
fn respond(head: &[u8], metrics: impl FnOnce() -> Option<String>) -> String {
    let line = head.split(|b| *b == b'\r' || *b == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version)) = (words.next(), words.next(), words.next())
    else {
        return http("400 Bad Request", "text/plain", "no HTTP\n");
    };
    if !version.starts_with("HTTP/1.") {
        return http("400 Bad Request", "text/plain", "no HTTP/1\n");
    }
    let path = target.split('?').next().unwrap_or_default();
    match (method, path) {
        ("GET" | "HEAD", "/metrics") => {
            let Some(text) = metrics() else {
                let why = "no answer in time; try again\n";
                return http("503 Service Unavailable", "text/plain", why);
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
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\
         \r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn metrics_are_served_over_http_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let listen = Listen::Unix(dir.path().join("metrics.sock"));
        let _served = serve(&listen, || Some("# EOF\n".to_owned())).unwrap();
        let mut stream = UnixStream::connect(dir.path().join("metrics.sock")).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"),
            "{answer}"
        );
        assert!(
            answer.ends_with("Content-Length: 6\r\nConnection: close\r\n\r\n# EOF\n"),
            "{answer}"
        );
        let text = || Some("# EOF\n".to_owned());
        for (head, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("GET /metrics HTTP/2\r\n\r\n", "400"),
            ("nonsense\r\n\r\n", "400"),
            ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", "200"),
        ] {
            assert!(
                respond(head.as_bytes(), text).starts_with(&format!("HTTP/1.1 {status} ")),
                "{head}"
            );
        }
        assert!(respond(b"HEAD /metrics HTTP/1.1\r\n\r\n", text).ends_with("\r\n\r\n"));
        assert!(respond(b"GET /metrics HTTP/1.1\r\n\r\n", || None).starts_with("HTTP/1.1 503 "));
    }

    #[test]
    fn a_port_that_is_taken_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let said = serve(&Listen::Tcp(address), || None).err().unwrap().to_string();
        assert_eq!(
            said,
            format!("can't serve metrics on {address}; name another port with metrics")
        );
    }
}
