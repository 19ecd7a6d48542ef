//! Single values of the configuration: the valid ones, and the errors for others. Flags and the
//! file's keys are read alike.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use floodwall_guard::Mode;
use floodwall_guard::config::LEAST_GOAL;
use floodwall_model::units::{human_duration, parse_duration};
use serde::{Deserialize, Serialize};
use toml::Value;

/// Where a guard answers.
pub(super) const SOCKET: &str = "/run/floodwall/guard.sock";
/// A longer goal for one operation makes no sense: every device is faster without a guard.
const MOST_GOAL: Duration = Duration::from_secs(60);
/// Where a guard usually serves metrics.
const METRICS_PORT: u16 = 9750;
/// Decisions that are kept.
pub(super) const HISTORY: usize = 1000;
const MOST_HISTORY: usize = 100_000;
/// Bytes that a Unix socket's path may have (`sun_path`, unix(7), without the final zero).
const LONGEST_SOCKET: usize = 107;

/// Where metrics are served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Listen {
    /// A port on loopback.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

/// Whether a recorder runs beside the guard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Record {
    /// None.
    #[default]
    Off,
    /// It writes where `floodwall record` does by itself.
    Usual,
    /// It writes in this directory.
    In(PathBuf),
}

pub(super) fn record(value: &Value) -> Result<Record, String> {
    match value {
        Value::Boolean(false) => Ok(Record::Off),
        Value::Boolean(true) => Ok(Record::Usual),
        Value::String(path) if path.starts_with('/') => Ok(Record::In(path.into())),
        _ => Err(format!(
            "record = {value} is neither yes, no nor a directory; write record = true, or record = \
             \"/srv/recordings\""
        )),
    }
}

impl Listen {
    /// Reads `127.0.0.1:9750`, `[::1]:9750`, `unix:/path` or `/path`. The port, which the program
    /// usually serves, is only for messages.
    ///
    /// # Errors
    /// An address that is none or not on loopback, and a correction.
    pub fn parse(text: &str, port: u16) -> Result<Self, String> {
        if let Some(path) =
            text.strip_prefix("unix:").or_else(|| text.starts_with('/').then_some(text))
        {
            return socket_path(path).map(Self::Unix).map_err(|why| format!("metrics: {why}"));
        }
        let address: SocketAddr = text.parse().map_err(|_| {
            format!(
                "metrics = {text} is no address; write 127.0.0.1:{port}, [::1]:{port} or \
                unix:/run/floodwall/metrics.sock"
            )
        })?;
        if !address.ip().is_loopback() {
            return Err(format!(
                "metrics = {text} could be reached from elsewhere, and nobody is asked who he is; \
                 write 127.0.0.1:{} and put a proxy before it",
                address.port()
            ));
        }
        Ok(Self::Tcp(address))
    }
}

pub(super) fn text<'a>(value: &'a Value, key: &str, example: &str) -> Result<&'a str, String> {
    value.as_str().ok_or_else(|| format!("{key} = {value} is no text; write {key} = \"{example}\""))
}

pub(super) fn flag(value: &Value, key: &str) -> Result<bool, String> {
    let wrong = || format!("{key} = {value} is neither yes nor no; write {key} = true or false");
    value.as_bool().ok_or_else(wrong)
}

pub(super) fn names(value: &Value, key: &str) -> Result<Vec<String>, String> {
    let names = value
        .as_array()
        .and_then(|all| all.iter().map(|v| v.as_str().map(str::to_owned)).collect());
    let names: Vec<String> = names.ok_or_else(|| {
        format!("{key} = {value} is no list of devices; write {key} = [\"sda\", \"nvme0n1\"]")
    })?;
    check_names(&names, key)?;
    Ok(names)
}

pub(super) fn check_names(names: &[String], key: &str) -> Result<(), String> {
    match names
        .iter()
        .find(|n| n.is_empty() || n.chars().any(|c| c.is_whitespace() || c.is_control()))
    {
        Some(wrong) => Err(format!(
            "{key}: '{wrong}' is no device; name one as in lsblk, such as sda, or by its number, \
             such as 8:0"
        )),
        None => Ok(()),
    }
}

pub(super) fn goal(text: &str) -> Result<Duration, String> {
    let goal = parse_duration(text).map_err(|e| format!("p99: {e}"))?;
    if goal < LEAST_GOAL {
        let least = human_duration(LEAST_GOAL);
        return Err(format!(
            "p99 = {text} is less than queue lengths can steer; write {least} or more, or leave it \
             out"
        ));
    }
    if goal > MOST_GOAL {
        let most = human_duration(MOST_GOAL);
        return Err(format!("p99 = {text} protects nobody; write {most} or less, or leave it out"));
    }
    Ok(goal)
}

pub(super) fn mode(text: &str) -> Result<Mode, String> {
    text.parse()
}

pub(super) fn source(text: &str) -> Result<Option<String>, String> {
    match text {
        "auto" => Ok(None),
        "bpf" | "perf" => Ok(Some(text.to_owned())),
        "proc" => {
            Err("source = proc can't see who waits, so there is nothing to steer by; write auto"
                .to_owned())
        }
        _ => Err(format!("source = {text} is none; write auto, bpf or perf")),
    }
}

pub(super) fn listen(text: &str) -> Result<Listen, String> {
    Listen::parse(text, METRICS_PORT)
}

pub(super) fn socket_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if !path.is_absolute() || path.file_name().is_none() {
        return Err(format!(
            "'{text}' is no socket's path; write an absolute one, such as {SOCKET}"
        ));
    }
    if text.len() > LONGEST_SOCKET {
        return Err(format!(
            "'{text}' is too long for a socket; a path may have {LONGEST_SOCKET} bytes"
        ));
    }
    Ok(path)
}

pub(super) fn history(number: i64) -> Result<usize, String> {
    usize::try_from(number)
        .ok()
        .filter(|n| (1..=MOST_HISTORY).contains(n))
        .ok_or_else(|| format!("history = {number} is out of range; write 1 to {MOST_HISTORY}"))
}
