//! The guard's side of its socket: takes requests, checks the sender, sends replies.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;

use super::protocol::{self, MAX_REQUEST, Reply, Request};
use crate::connection::{MOST_CLIENTS, Timed, accept, read_until};
use crate::error::{DaemonError, Doing};
use crate::question::{Answer, Ask, Question, ask};
use crate::socket::listener::Socket;

/// Serves the guard's protocol in separate threads.
pub(crate) fn serve(socket: &Socket, asks: Sender<Ask>) -> Result<(), DaemonError> {
    let listener = socket.listener.try_clone().doing(|| "can't copy the socket".into())?;
    let full =
        protocol::line(&Reply::Error(format!("{MOST_CLIENTS} others are asking; try again")))
            .doing(|| "can't write a reply".into())?;
    let us = rustix::process::geteuid();
    accept(
        move || listener.accept().map(|(stream, _)| stream),
        full,
        move |stream: &mut UnixStream| {
            // The kernel names who has connected (unix(7), SO_PEERCRED).
            let peer = rustix::net::sockopt::socket_peercred(&*stream).ok();
            let peer = Peer {
                may_command: peer.is_some_and(|peer| peer.uid.is_root() || peer.uid == us),
                uid: peer.map(|peer| peer.uid.as_raw()),
                pid: peer.map(|peer| peer.pid.as_raw_nonzero().get().cast_unsigned()),
            };
            converse(stream, |line| answer_line(line, &peer, &asks));
        },
    );
    Ok(())
}

/// Requests and answers, until one side has had enough.
fn converse<S: Timed>(stream: &mut S, answer: impl Fn(&[u8]) -> Reply) {
    loop {
        let (reply, goes_on) = match read_until(stream, MAX_REQUEST, |bytes| bytes.contains(&b'\n'))
        {
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

/// The process at the other end of a connection.
struct Peer {
    may_command: bool,
    uid: Option<u32>,
    pid: Option<u32>,
}

fn answer_line(line: &[u8], peer: &Peer, asks: &Sender<Ask>) -> Reply {
    let mut request = match protocol::request(line) {
        Ok(request) => request,
        Err(why) => return Reply::Error(why),
    };
    if let Request::Paced { pid, .. } = &mut request {
        let Some(of_peer) = peer.pid else {
            return Reply::Error("the kernel does not tell which process has connected".into());
        };
        *pid = of_peer;
    }
    if request.commands() && !peer.may_command {
        let who =
            peer.uid.map_or_else(|| "somebody unknown".to_owned(), |uid| format!("user {uid}"));
        return Reply::Error(format!(
            "{who} may ask for status and history, but not give the guard orders (pause, resume, \
             yield); run this as root"
        ));
    }
    match ask(Question::Request(request), asks) {
        Some(Answer::Reply(reply)) => reply,
        _ => Reply::Error("the guard does not answer in time; try again".into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::super::client::exchange;
    use super::*;
    use crate::document::Beside;
    use crate::question::ANSWER;

    /// A guard that knows nothing, on a socket.
    fn guard(dir: &std::path::Path) -> Socket {
        let socket = Socket::bind(&dir.join("guard.sock")).unwrap();
        let (asks, asked) = mpsc::channel::<Ask>();
        serve(&socket, asks).unwrap();
        thread::spawn(move || {
            for ask in asked {
                let answer = match ask.what {
                    Question::Request(Request::Resume) => {
                        Answer::Reply(Reply::Resumed { was_paused: true })
                    }
                    Question::Request(_) => Answer::Reply(Reply::Status(Box::default())),
                    Question::Metrics => Answer::Text(String::new()),
                };
                let _ = ask.answer.try_send(answer);
            }
        });
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
        assert!(
            said(&stream, b"{\"version\":1,\"do\":\"resume\"}\n").contains("\"was_paused\":true")
        );
    }

    #[test]
    fn a_request_without_end_is_refused_and_others_are_served_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let _socket = guard(dir.path());
        let path = dir.path().join("guard.sock");
        let mut endless = UnixStream::connect(&path).unwrap();
        assert!(said(&endless, &vec![b'x'; MAX_REQUEST]).contains("at most 131072 bytes"));
        // A closed connection holds no seat.
        assert_eq!(endless.read(&mut [0]).unwrap(), 0);
        // Those that say nothing hold their own seats only.
        let silent: Vec<_> =
            (0..MOST_CLIENTS - 1).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let stream = UnixStream::connect(&path).unwrap();
        assert!(matches!(exchange(&stream, Request::Status, ANSWER).unwrap(), Reply::Status(_)));
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
        let peer = |uid| Peer { may_command: uid == 0, uid: Some(uid), pid: Some(7) };
        let answer = |line: &[u8], uid| answer_line(line, &peer(uid), &asks);
        let resume = b"{\"version\":1,\"do\":\"resume\"}";
        assert_eq!(answer(resume, 0), Reply::Resumed { was_paused: false });
        let Reply::Error(said) = answer(resume, 1000) else { panic!() };
        assert!(said.starts_with("user 1000 may ask"), "{said}");
        let knobs = b"{\"version\":1,\"do\":\"yield\",\"knobs\":[]}";
        assert!(matches!(answer(knobs, 1000), Reply::Error(_)));
        let status = b"{\"version\":1,\"do\":\"status\"}";
        assert!(!matches!(answer(status, 1000), Reply::Error(_)));
        let paced = b"{\"version\":1,\"do\":\"paced\",\"device\":\"8:0\"}";
        assert!(!matches!(answer(paced, 1000), Reply::Error(_)));
        let unknown = Peer { may_command: false, uid: None, pid: None };
        assert!(matches!(answer_line(paced, &unknown, &asks), Reply::Error(_)));
    }

    #[test]
    fn a_process_speaks_for_itself_alone() {
        let dir = tempfile::tempdir().unwrap();
        let socket = Socket::bind(&dir.path().join("guard.sock")).unwrap();
        let (asks, asked) = mpsc::channel::<Ask>();
        serve(&socket, asks).unwrap();
        let guard = thread::spawn(move || {
            let ask = asked.recv().unwrap();
            ask.answer.try_send(Answer::Reply(Reply::Beside(Beside::default()))).unwrap();
            ask.what
        });
        let stream = UnixStream::connect(dir.path().join("guard.sock")).unwrap();
        said(&stream, b"{\"version\":1,\"do\":\"paced\",\"device\":\"8:0\",\"pid\":1}\n");
        let Question::Request(Request::Paced { device, pid }) = guard.join().unwrap() else {
            panic!()
        };
        assert_eq!((device.as_str(), pid), ("8:0", std::process::id()));
    }
}
