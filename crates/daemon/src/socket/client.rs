//! The asker's side: finds a running guard's socket, sends a request, takes the reply.

use std::error::Error;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use floodwall_model::DeviceId;
use floodwall_plant::KnobName;

use super::protocol::{self, Reply, Request};
use crate::config::{DIRECTORY, FILE, Flags, Settings, default_socket, simulated_socket};
use crate::document::Beside;
use crate::error::{DaemonError, Doing};
use crate::lock::{self, Lock};
use crate::question::ANSWER;

/// How long a queue may take to run dry before a command that asks for its knobs gives up.
const YIELD: Duration = Duration::from_secs(20);
/// Between two questions whether knobs are back.
const AGAIN: Duration = Duration::from_millis(100);

/// The guard's socket. The first of these counts: the user's word, the guard's lock (for root), the
/// configuration, the usual place. If nothing is there, it is that of this user's simulated guard.
fn socket(named: Option<&Path>) -> PathBuf {
    let running = || Lock::socket(&lock::path(DIRECTORY.as_ref(), None));
    if let Some(path) = named.map(Path::to_owned).or_else(running) {
        return path;
    }
    let usual = if Path::new(FILE).exists() {
        // A configuration that can't be read is the guard's to complain about.
        Settings::read(&Flags::default())
            .map_or_else(|_| default_socket(), |settings| settings.socket)
    } else {
        default_socket()
    };
    let simulated = simulated_socket();
    if !usual.exists() && is_own(&simulated) { simulated } else { usual }
}

/// Whether a socket is this user's: any user may make one in the directory for temporary files, and
/// answer there.
fn is_own(socket: &Path) -> bool {
    let owner = std::fs::symlink_metadata(socket).map(|socket| socket.uid());
    owner.is_ok_and(|owner| owner == rustix::process::geteuid().as_raw())
}

/// Asks the running guard, at the socket that is named or where it usually is.
///
/// # Errors
/// No guard, one that may not be asked or gives no answer, or what it objects to.
pub fn ask(named: Option<&Path>, request: Request) -> Result<Reply, DaemonError> {
    let path = socket(named);
    let stream = connect(&path, named)?;
    match exchange(&stream, request, ANSWER * 2) {
        Ok(Reply::Error(why)) => Err(DaemonError::Failed(format!("the guard says: {why}"))),
        Ok(reply) => Ok(reply),
        Err(source) => Err(DaemonError::NoAnswer { socket: path, source }),
    }
}

/// Tells a running guard that this process floods a device and paces itself. `None` if there is no
/// guard that may be asked, steers the device, knows the request and answers within `patience`.
#[must_use]
pub fn paces_itself(device: DeviceId, patience: Duration) -> Option<Beside> {
    let stream = UnixStream::connect(socket(None)).ok()?;
    let request = Request::Paced { device: device.to_string(), pid: 0 };
    match exchange(&stream, request, patience) {
        Ok(Reply::Beside(beside)) => Some(beside),
        _ => None,
    }
}

/// Asks the process at a socket to put knobs back and to leave them alone, until all are back.
/// `labels`: the same knobs as people write them.
///
/// # Errors
/// No answer, the process's objection, or knobs that are not back in time.
pub fn ask_to_yield(
    socket: &Path,
    knobs: &[KnobName],
    labels: &[String],
) -> Result<(), DaemonError> {
    let end = Instant::now() + YIELD;
    loop {
        let waiting = match ask(Some(socket), Request::Yield { knobs: knobs.to_vec() })? {
            Reply::Yielded { waiting, .. } if waiting.is_empty() => return Ok(()),
            Reply::Yielded { waiting, .. } => waiting,
            _ => {
                return Err(DaemonError::Failed(
                    "the guard gave another answer than was asked for; use the floodwall that it \
                     was started from"
                        .into(),
                ));
            }
        };
        if Instant::now() >= end {
            return Err(DaemonError::Failed(not_back(&waiting, knobs, labels)));
        }
        std::thread::sleep(AGAIN);
    }
}

/// Knobs that are not back in time, by the names that people know.
fn not_back(waiting: &[KnobName], knobs: &[KnobName], labels: &[String]) -> String {
    let label = |name: &KnobName| {
        let at = knobs.iter().position(|knob| knob == name);
        at.and_then(|at| labels.get(at)).cloned().unwrap_or_else(|| name.to_string())
    };
    let waiting: Vec<String> = waiting.iter().map(label).collect();
    format!(
        "the guard has not put back {} in {} s, because the disk's queue does not run dry while a \
         flood fills it; run it again once the flood has ended",
        waiting.join(", "),
        YIELD.as_secs()
    )
}

fn connect(path: &Path, named: Option<&Path>) -> Result<UnixStream, DaemonError> {
    let name = path.display();
    let why = match UnixStream::connect(path) {
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            let own = named.map(|socket| lock::path(DIRECTORY.as_ref(), Some(socket)));
            let locks = [Some(lock::path(DIRECTORY.as_ref(), None)), own];
            match locks.into_iter().flatten().find_map(|lock| Lock::holder(&lock)) {
                Some(pid) => {
                    format!(
                        "the guard (process {pid}) does not listen at '{name}'; {}",
                        why_not(named)
                    )
                }
                None => return Err(DaemonError::NoGuard { socket: path.to_owned() }),
            }
        }
        Err(e) if e.kind() == ErrorKind::PermissionDenied => {
            format!("may not ask the guard at '{name}'; run this as root or in the socket's group")
        }
        other => return other.doing(|| format!("can't ask the guard at '{name}'")),
    };
    Err(DaemonError::Failed(why))
}

/// Why a guard that runs may not listen: its worker does, and its parent does not. Another
/// socket is a reason only if the user has named none.
fn why_not(named: Option<&Path>) -> String {
    let starts = "it may be starting, or starting its worker again (everything is put back then): \
                  try again in a few seconds";
    match named {
        Some(_) => starts.to_owned(),
        None => format!("{starts}; if it has another socket, name that with --socket"),
    }
}

/// One request and its reply.
///
/// # Errors
/// The guard can't be reached, or its answer is not valid; the text says why.
pub(super) fn exchange(
    stream: &UnixStream,
    request: Request,
    patience: Duration,
) -> Result<Reply, Box<dyn Error + Send + Sync>> {
    let patience = Some(patience);
    stream.set_read_timeout(patience).and_then(|()| stream.set_write_timeout(patience))?;
    (&mut &*stream).write_all(protocol::line(&request)?.as_bytes())?;
    let mut line = Vec::new();
    BufReader::new(stream).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err("it closed the connection without an answer".into());
    }
    Ok(protocol::reply(&line)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulated_guard_is_asked_only_at_a_socket_of_this_user() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("x.sock");
        assert!(!is_own(&socket));
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(is_own(&socket));
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&socket, Some(65534), None).unwrap();
            assert!(!is_own(&socket));
        }
    }

    #[test]
    fn knobs_that_are_not_back_have_the_names_that_people_know() {
        let knob = |device: &str| KnobName { device: Some(device.into()), knob: "x".into() };
        let said = not_back(&[knob("8:0"), knob("8:16")], &[knob("8:0")], &["sda.x".into()]);
        assert!(said.starts_with("the guard has not put back sda.x, 8:16 x in 20 s"), "{said}");
    }

    #[test]
    fn another_socket_is_a_reason_only_where_none_was_named() {
        let starts = "it may be starting, or starting its worker again (everything is put back \
                      then): try again in a few seconds";
        assert_eq!(why_not(Some(Path::new("/run/x.sock"))), starts);
        assert!(why_not(None).starts_with(starts) && why_not(None).ends_with("--socket"));
    }
}
