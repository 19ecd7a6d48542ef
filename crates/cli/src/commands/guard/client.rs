//! `floodwall guard status`, `history`, `pause`, `resume`: clients of a running guard.

use std::time::Duration;

use floodwall_daemon::DaemonError;
use floodwall_daemon::socket::{self, Reply, Request};
use floodwall_model::units::human_duration;

use super::args::Reach;
use super::{left, text};
use crate::exit::Exit;
use crate::{output, terminal};

fn ask(reach: &Reach, request: Request) -> anyhow::Result<Reply> {
    socket::ask(reach.socket.as_deref(), request).map_err(|error| match error {
        DaemonError::NoGuard { .. } => match left::told(None) {
            Some(left) => DaemonError::Failed(format!("{error}; {left}")).into(),
            None => error.into(),
        },
        _ => error.into(),
    })
}

fn unexpected() -> anyhow::Error {
    anyhow::anyhow!("the guard answered something else; use the floodwall that it was started from")
}

pub(super) fn status(reach: &Reach, json: bool) -> anyhow::Result<Exit> {
    let Reply::Status(status) = ask(reach, Request::Status)? else { return Err(unexpected()) };
    if json {
        output::json(&(serde_json::to_string_pretty(&status)? + "\n"))?;
    } else {
        output::result(&text::status(&status, reach, terminal::width()))?;
    }
    Ok(Exit::Done)
}

pub(super) fn history(reach: &Reach, last: Option<u32>, json: bool) -> anyhow::Result<Exit> {
    let Reply::History(entries) = ask(reach, Request::History { last: last.map(|n| n as usize) })?
    else {
        return Err(unexpected());
    };
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
    let Reply::Paused(paused) = ask(reach, Request::Pause { seconds })? else {
        return Err(unexpected());
    };
    let end = match time {
        Some(time) => format!("it resumes by itself in {}", human_duration(time)),
        None => format!("{} ends it", reach.command("resume")),
    };
    output::result(&text::paused(&paused.held, &end, reach))?;
    Ok(Exit::Done)
}

pub(super) fn resume(reach: &Reach) -> anyhow::Result<Exit> {
    let Reply::Resumed { was_paused } = ask(reach, Request::Resume)? else {
        return Err(unexpected());
    };
    output::result(if was_paused { "resumed\n" } else { "it was not paused\n" })?;
    Ok(Exit::Done)
}
