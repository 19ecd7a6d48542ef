//! `floodwall guard status`, `history`, `pause`, `resume`: somebody asks a running guard.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use floodwall_model::units::human_duration;

use super::args::Reach;
use super::config::{DIRECTORY, FILE, Settings, default_socket, simulated_socket};
use super::place::{self, Lock};
use super::protocol::{Reply, Request};
use super::{RunArgs, serve, text};
use crate::exit::Exit;
use crate::output;

/// Where the guard is: where the user says, where its configuration says, where it usually is; if
/// nothing is there, where this user's simulated one is.
fn socket(reach: &Reach) -> PathBuf {
    if let Some(path) = &reach.socket {
        return path.clone();
    }
    let usual = if Path::new(FILE).exists() {
        // A configuration that can't be read is the guard's to complain about.
        Settings::read(&RunArgs::default()).map_or_else(|_| default_socket(), |settings| settings.socket)
    } else {
        default_socket()
    };
    let simulated = simulated_socket();
    if !usual.exists() && simulated.exists() { simulated } else { usual }
}

fn ask(reach: &Reach, request: Request) -> anyhow::Result<Reply> {
    let path = socket(reach);
    let name = path.display();
    let stream = match UnixStream::connect(&path) {
        Ok(stream) => stream,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            let own =
                reach.socket.as_deref().map(|socket| place::lock_path(DIRECTORY.as_ref(), Some(socket)));
            let locks = [Some(place::lock_path(DIRECTORY.as_ref(), None)), own];
            match locks.into_iter().flatten().find_map(|lock| Lock::holder(&lock)) {
                Some(pid) => bail!(
                    "the guard (process {pid}) does not listen at '{name}'; it may be starting, or have another socket: name that with --socket"
                ),
                None => {
                    bail!("no guard runs here (nobody listens at '{name}'); start one with floodwall guard")
                }
            }
        }
        Err(e) if e.kind() == ErrorKind::PermissionDenied => {
            bail!("may not ask the guard at '{name}'; run this as root or in the socket's group")
        }
        Err(e) => return Err(e).with_context(|| format!("can't ask the guard at '{name}'")),
    };
    match serve::request(&stream, request) {
        Ok(Reply::Error(why)) => bail!("the guard says: {why}"),
        Ok(reply) => Ok(reply),
        Err(e) => Err(e).with_context(|| {
            format!("the guard at '{name}' gave no answer; one that hangs is started again within seconds, ask again")
        }),
    }
}

fn unexpected() -> anyhow::Error {
    anyhow::anyhow!("the guard answered something else; use the floodwall that it was started from")
}

pub(super) fn status(reach: &Reach, json: bool) -> anyhow::Result<Exit> {
    let Reply::Status(status) = ask(reach, Request::Status)? else { return Err(unexpected()) };
    if json {
        output::json(&(serde_json::to_string_pretty(&status)? + "\n"))?;
    } else {
        output::result(&text::status(&status))?;
    }
    Ok(Exit::Done)
}

pub(super) fn history(reach: &Reach, last: Option<usize>, json: bool) -> anyhow::Result<Exit> {
    let Reply::History(entries) = ask(reach, Request::History { last })? else { return Err(unexpected()) };
    for entry in &entries {
        if json {
            output::json(&(serde_json::to_string(entry)? + "\n"))?;
        } else {
            output::result(&text::entry(entry))?;
        }
    }
    if entries.is_empty() && !json {
        output::result("nothing has happened yet\n")?;
    }
    Ok(Exit::Done)
}

pub(super) fn pause(reach: &Reach, time: Option<Duration>) -> anyhow::Result<Exit> {
    let seconds = time.map(|time| time.as_secs_f64());
    let Reply::Paused(paused) = ask(reach, Request::Pause { seconds })? else { return Err(unexpected()) };
    let end = match time {
        Some(time) => format!("it resumes by itself in {}", human_duration(time)),
        None => "floodwall guard resume ends it".into(),
    };
    output::result(&text::paused(&paused.held, &end))?;
    Ok(Exit::Done)
}

pub(super) fn resume(reach: &Reach) -> anyhow::Result<Exit> {
    let Reply::Resumed { was_paused } = ask(reach, Request::Resume)? else { return Err(unexpected()) };
    output::result(if was_paused { "resumed\n" } else { "it was not paused\n" })?;
    Ok(Exit::Done)
}
