//! What host and guest tell each other over the serial line.
//!
//! ```text
//! guest: MAGIC, once the line is raw        host: everything before it is the boot's noise
//! frame: kind (1 byte) · length (4 bytes, little-endian) · that many bytes
//! ```

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What the guest sends first. The host sends nothing before it has seen it: the line would echo
/// it.
pub(crate) const MAGIC: &[u8] = b"\nfloodwall-guest-1\n";

/// The longest frame, in bytes. Output is cut into shorter ones.
const LONGEST: usize = 1 << 20;

/// What a guest is to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The program, an absolute path on the host.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Where it starts: an absolute path on the host.
    pub dir: PathBuf,
    /// Modules to load before its root is put together, by name; their dependencies are loaded as
    /// well. User-mode Linux has to have them; of an image, one that is absent is noted.
    pub modules: Vec<String>,
    /// Where modules are: the directory with `kernel/` in it; absent for a kernel that has
    /// everything built in.
    pub modules_dir: Option<PathBuf>,
    /// Directories that are empty in the guest, whatever the host has there. /run and /dev/shm
    /// always are.
    pub fresh: Vec<PathBuf>,
    /// Directories of the host that the guest may write to, at the same path.
    pub writable: Vec<PathBuf>,
}

/// The caller's standard streams, as the guest's command is to find them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Streams {
    /// Which of stdin, stdout and stderr are a terminal.
    pub(crate) terminals: [bool; 3],
    /// Rows and columns of the terminal.
    pub(crate) window: Option<(u16, u16)>,
}

/// How the guest's command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    /// As `wait(2)` tells it.
    Status(i32),
    /// It could not be started, or the guest could not be made ready: why.
    Failed(String),
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// Host: what to run.
    Order(Box<Order>, Streams),
    /// Host: input of the command; empty at its end.
    Stdin(Vec<u8>),
    /// Host: send the command a signal.
    Signal(i32),
    /// Guest: output of the command.
    Stdout(Vec<u8>),
    /// Guest: what the command wrote to stderr.
    Stderr(Vec<u8>),
    /// Guest: the command can have the next input.
    Taken,
    /// Guest: so many bytes of the host's have been read off the line.
    Read(u32),
    /// Guest: it is alive.
    Beat,
    /// Guest: something missing there, a line for the user.
    Note(String),
    /// Guest: the last frame.
    Ended(End),
}

impl Frame {
    /// Writes the frame in one call.
    pub(crate) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let (kind, body) = match self {
            Self::Order(order, streams) => (b'o', serde_json::to_vec(&(order, streams))?),
            Self::Stdin(bytes) => (b'i', bytes.clone()),
            Self::Signal(signal) => (b's', signal.to_le_bytes().to_vec()),
            Self::Stdout(bytes) => (b'1', bytes.clone()),
            Self::Stderr(bytes) => (b'2', bytes.clone()),
            Self::Taken => (b't', Vec::new()),
            Self::Read(length) => (b'r', length.to_le_bytes().to_vec()),
            Self::Beat => (b'b', Vec::new()),
            Self::Note(text) => (b'n', text.clone().into_bytes()),
            Self::Ended(end) => (b'e', serde_json::to_vec(end)?),
        };
        let length =
            u32::try_from(body.len()).map_err(|_| invalid("a frame of more than 4 GiB"))?;
        let mut frame = Vec::with_capacity(5 + body.len());
        frame.push(kind);
        frame.extend(length.to_le_bytes());
        frame.extend(body);
        to.write_all(&frame)?;
        to.flush()
    }

    /// Reads the next frame.
    ///
    /// # Errors
    /// `UnexpectedEof` once the other side is gone; `InvalidData` for bytes that are not a frame.
    pub(crate) fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut head = [0; 5];
        from.read_exact(&mut head)?;
        let [kind, length @ ..] = head;
        let length = u32::from_le_bytes(length) as usize;
        if length > LONGEST {
            return Err(invalid("a frame that is too long"));
        }
        let mut body = vec![0; length];
        from.read_exact(&mut body)?;
        Ok(match kind {
            b'o' => {
                let (order, streams) = serde_json::from_slice(&body)?;
                Self::Order(order, streams)
            }
            b'i' => Self::Stdin(body),
            b's' => {
                let signal = body.try_into().map_err(|_| invalid("a signal that is no number"))?;
                Self::Signal(i32::from_le_bytes(signal))
            }
            b'1' => Self::Stdout(body),
            b'2' => Self::Stderr(body),
            b't' => Self::Taken,
            b'r' => {
                let length = body.try_into().map_err(|_| invalid("a length that is no number"))?;
                Self::Read(u32::from_le_bytes(length))
            }
            b'b' => Self::Beat,
            b'n' => Self::Note(String::from_utf8_lossy(&body).into_owned()),
            b'e' => Self::Ended(serde_json::from_slice(&body)?),
            _ => return Err(invalid("a frame of no known kind")),
        })
    }
}

/// Reads past [`MAGIC`]; returns the bytes before it.
///
/// # Errors
/// `UnexpectedEof` if the guest ended before it was ready.
pub(crate) fn wait_for_magic(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(MAGIC) {
        from.read_exact(&mut byte)?;
        seen.extend(byte);
    }
    seen.truncate(seen.len() - MAGIC.len());
    Ok(seen)
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the serial line carried {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let order = Order {
            program: "/usr/bin/true".into(),
            args: vec![
                OsString::from("-x"),
                std::os::unix::ffi::OsStringExt::from_vec(vec![0xff, b'a']),
            ],
            modules: vec!["loop".into()],
            ..Order::default()
        };
        let streams = Streams { terminals: [true, false, true], window: Some((24, 80)) };
        let frames = [
            Frame::Order(Box::new(order), streams),
            Frame::Stdin(Vec::new()),
            Frame::Stdin(b"\x00\xffq\n".to_vec()),
            Frame::Signal(15),
            Frame::Stdout(vec![7; 70_000]),
            Frame::Stderr(b"no".to_vec()),
            Frame::Taken,
            Frame::Read(2048),
            Frame::Beat,
            Frame::Note("no module 'bfq'".into()),
            Frame::Ended(End::Status(256)),
            Frame::Ended(End::Failed("no such file".into())),
        ];
        let mut line = b"Core dump limits :\n\tsoft - NONE\n\n".to_vec();
        line.extend(MAGIC);
        for frame in &frames {
            frame.write(&mut line).unwrap();
        }
        let mut from = line.as_slice();
        assert_eq!(wait_for_magic(&mut from).unwrap(), b"Core dump limits :\n\tsoft - NONE\n\n");
        for frame in &frames {
            assert_eq!(&Frame::read(&mut from).unwrap(), frame);
        }
        assert_eq!(Frame::read(&mut from).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        let kind = |bytes: &[u8]| Frame::read(&mut &*bytes).unwrap_err().kind();
        assert_eq!(kind(b"x\0\0\0\0"), io::ErrorKind::InvalidData, "no such kind");
        assert_eq!(kind(b"1\xff\xff\xff\xff"), io::ErrorKind::InvalidData, "longer than any frame");
        assert_eq!(kind(b"s\x02\0\0\0ab"), io::ErrorKind::InvalidData, "half a number");
        assert_eq!(kind(b"1\x04\0\0\0ab"), io::ErrorKind::UnexpectedEof, "cut");
    }
}
