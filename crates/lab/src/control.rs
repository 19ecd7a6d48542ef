//! A lab's control socket: one request and one answer, each a line of JSON.
//!
//! ```text
//! caller ─▶ {"request":"stats"}           ─▶ server
//! caller ◀─ {"answer":"stats", …}         ◀─ server
//! caller ◀─ lines of CSV until it hangs up ◀─ server      (only after "record")
//! ```
//!
//! The socket is in the lab's state directory, which only root can enter.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use floodwall_device::DeviceStats;
use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::meter::Timings;

/// How long a server may take to answer. All answers are ready at once; a power cut copies at most
/// the device's cache.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub(crate) enum Request {
    /// Whether the server answers.
    Ping,
    /// Make answers follow the model.
    Begin,
    /// Answer everything at once from now on: the device is about to go.
    Hurry,
    Stats,
    PowerCut,
    PowerUp,
    /// Send the recording. From the oldest request in the ring or from now; until the caller hangs
    /// up or only what there is.
    Record {
        from_start: bool,
        follow: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(crate) enum Answer {
    Done,
    Stats(Box<LabStats>),
    PowerCut(PowerCut),
    Failed { said: String },
}

/// What a power cut took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerCut {
    /// Bytes of acknowledged and unacknowledged writes whose older contents came back.
    pub lost_bytes: u64,
    /// Requests that were in the device and failed.
    pub in_flight: u64,
}

/// Everything that a lab device counts, since it came up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabStats {
    /// The lab's name.
    pub name: String,
    /// The preset's name.
    pub preset: String,
    /// Bytes that the device has.
    pub size_bytes: u64,
    /// How long it has been up.
    pub uptime_s: f64,
    /// Whether it has power.
    pub power: bool,
    /// The model's counters and levels.
    pub device: DeviceStats,
    /// Where the contents are.
    pub store: StoreStats,
    /// Modelled service times, and the lab's lateness against them.
    pub timings: Timings,
    /// Requests recorded.
    pub recorded: u64,
    /// Requests that the recording no longer has because its ring is bounded.
    pub recorded_and_gone: u64,
}

/// Where a lab device's contents are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStats {
    /// Memory that contents and old contents take.
    pub memory_bytes: u64,
    /// The most that they may take.
    pub memory_limit_bytes: u64,
    /// Bytes in the spill file.
    pub spilled_bytes: u64,
    /// The part of `memory_bytes` and `spilled_bytes` that is kept for a power cut.
    pub undo_bytes: u64,
    /// Old pages given up for want of memory: these writes would survive a power cut.
    pub undo_dropped_pages: u64,
}

/// Asks the server of a lab.
///
/// # Errors
/// [`LabError::NoAnswer`] without an answer in time; [`LabError::Server`] with its message.
pub(crate) fn ask(name: &str, socket: &Path, request: &Request) -> Result<Answer, LabError> {
    converse(name, socket, request).map(|(answer, _)| answer)
}

/// Asks, and keeps the connection for what follows the answer.
pub(crate) fn converse(
    name: &str,
    socket: &Path,
    request: &Request,
) -> Result<(Answer, BufReader<UnixStream>), LabError> {
    let silent = || LabError::NoAnswer { name: name.into() };
    let mut stream = UnixStream::connect(socket).map_err(|_| silent())?;
    stream.set_read_timeout(Some(ANSWER_WITHIN)).map_err(|_| silent())?;
    stream.set_write_timeout(Some(ANSWER_WITHIN)).map_err(|_| silent())?;
    send(&mut stream, request).map_err(|_| silent())?;
    let mut stream = BufReader::new(stream);
    match receive(&mut stream).ok_or_else(silent)? {
        Answer::Failed { said } => Err(LabError::Server { name: name.into(), said }),
        answer => Ok((answer, stream)),
    }
}

/// Writes one line of JSON.
pub(crate) fn send<T: Serialize>(stream: &mut impl Write, what: &T) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Longest line that is read.
const LINE_BYTES: u64 = 4 << 20;

/// Reads one line of JSON; `None` without one that can be understood.
pub(crate) fn receive<T: for<'de> Deserialize<'de>>(stream: &mut impl BufRead) -> Option<T> {
    let mut line = String::new();
    stream.take(LINE_BYTES).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}
