//! Data from or to files that can't seek, such as pipes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, SeekFrom, fcntl_getfl, fstat, open, seek, stat, tell};
use rustix::io::{Errno, read, write};

use super::behind::Behind;
use super::error::CopyError;
use super::folder::kind;
use super::source::Source;
use super::work::Work;

/// The longest wait for a pipe between two looks at the caller's stop flag.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Time between two attempts to open a FIFO that has no reader.
const OPENED_AGAIN: Duration = Duration::from_millis(20);
/// Bytes that a ready pipe takes without blocking (PIPE_BUF).
const PIPE_BYTES: usize = 4096;

/// The output of a stream.
pub(super) struct Output<'a> {
    file: &'a Arc<OwnedFd>,
    path: &'a Path,
    /// Whether its data goes to a disk. A pipe, a terminal or /dev/null is only written to.
    pub(super) is_paced: bool,
}

impl<'a> Output<'a> {
    pub(super) fn new(file: &'a Arc<OwnedFd>, path: &'a Path) -> Result<Self, CopyError> {
        let stat = fstat(file).map_err(CopyError::io("look at", path))?;
        let is_paced = matches!(kind(&stat), FileType::RegularFile | FileType::BlockDevice);
        Ok(Self { file, path, is_paced })
    }
}

/// The origin of a stream.
pub(super) enum Origin<'a> {
    /// A file, from its beginning.
    File(&'a mut Source),
    /// A file that can't seek.
    Stream(BorrowedFd<'a>, &'a Path),
}

impl Origin<'_> {
    fn path(&self) -> &Path {
        match self {
            Self::File(source) => source.path(),
            Self::Stream(_, path) => path,
        }
    }

    /// Runs `read`, which reads `bytes` at most. The pacer is told of those of a file on its disk.
    fn reading<T>(
        &mut self,
        work: &mut Work<'_>,
        output: &Output<'_>,
        bytes: u64,
        read: impl FnOnce(&mut Self, &mut Work<'_>) -> T,
    ) -> T {
        let file = match self {
            Self::File(source) => Arc::clone(source.file()),
            Self::Stream(..) => return read(self, work),
        };
        work.reading(&file, output.file, bytes, |work| read(self, work))
    }

    /// Announces the range that is read next.
    fn ask(&mut self, at: u64, len: u64) {
        if let Self::File(source) = self {
            source.ask(at, len);
        }
    }

    /// Reads the next bytes; 0 at the end, `None` if there are none yet.
    fn next(&mut self, buffer: &mut [u8], at: u64) -> Result<Option<usize>, CopyError> {
        match self {
            Self::File(source) => {
                let len = usize::try_from(Source::chunk(at)).unwrap_or(0).min(buffer.len());
                source.read_at(&mut buffer[..len], at).map(Some)
            }
            Self::Stream(file, path) => {
                let ready = is_ready(*file, PollFlags::IN)
                    .and_then(|ready| if ready { read(*file, buffer).map(Some) } else { Ok(None) });
                or_later(ready).map_err(CopyError::source("read", *path))
            }
        }
    }
}

/// Copies a stream to its end, and returns its length.
pub(super) fn pump(
    work: &mut Work<'_>,
    mut from: Origin<'_>,
    output: &Output<'_>,
) -> Result<u64, CopyError> {
    let mut paced = if output.is_paced { Some(Paced::new(output)?) } else { None };
    let (mut at, mut batch_end) = (0, 0);
    loop {
        work.check()?;
        if at >= batch_end {
            if let Some(paced) = &mut paced {
                paced.push(work, output)?;
            }
            batch_end = work.batch_end(at);
            let batch = batch_end - at;
            from.reading(work, output, batch, |from, _| from.ask(at, batch));
        }
        let read = from
            .reading(work, output, Source::chunk(at), |from, work| from.next(&mut work.buffer, at));
        let len = match read? {
            None => continue,
            Some(0) => break,
            Some(len) => len,
        };
        let mut written = 0;
        while written < len {
            work.check()?;
            let more = write_some(output, &work.buffer[written..len], work.write_len())?;
            written += more;
            work.summary.bytes += more as u64;
            work.moved(more as u64, from.path());
        }
        at += len as u64;
        if let Some(paced) = &mut paced {
            paced.end = position(output)?;
        }
    }
    if let Some(paced) = &mut paced {
        paced.push(work, output)?;
    }
    Ok(at)
}

/// Writes as much as the output takes now, and little at once to a pipe, so that it doesn't block.
fn write_some(output: &Output<'_>, data: &[u8], most: usize) -> Result<usize, CopyError> {
    let most = if output.is_paced { most } else { PIPE_BYTES }.min(data.len());
    let written = is_ready(output.file.as_fd(), PollFlags::OUT).and_then(|ready| {
        if ready { write(output.file, &data[..most]).map(Some) } else { Ok(None) }
    });
    let written = or_later(written).map_err(CopyError::io("write", output.path))?;
    Ok(written.unwrap_or(0))
}

/// Waits for a moment until a file can be read or written.
fn is_ready(file: BorrowedFd<'_>, events: PollFlags) -> Result<bool, Errno> {
    let mut fds = [PollFd::from_borrowed_fd(file, events)];
    Ok(poll(&mut fds, Some(&LOOK))? > 0)
}

/// Makes `None` of answers that ask to try again.
fn or_later(result: Result<Option<usize>, Errno>) -> Result<Option<usize>, Errno> {
    match result {
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        other => other,
    }
}

/// Opens a file to be read. That doesn't wait for the writer of a FIFO: the first read does, and
/// looks at the caller's stop flag.
pub(super) fn open_input(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    let is_fifo = stat(path).is_ok_and(|found| kind(&found).is_fifo());
    let flags = if is_fifo { flags | OFlags::NONBLOCK } else { flags };
    open(path, flags, Mode::empty())
}

/// Opens a FIFO or a device to be written. Waits for the reader of a FIFO, unless the caller's stop
/// flag is raised.
pub(super) fn open_output(work: &Work<'_>, path: &Path) -> Result<OwnedFd, CopyError> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    loop {
        work.check()?;
        let is_fifo = stat(path).is_ok_and(|found| kind(&found).is_fifo());
        let flags = if is_fifo { flags | OFlags::NONBLOCK } else { flags };
        match open(path, flags, Mode::empty()) {
            Err(Errno::NXIO) if is_fifo => thread::sleep(OPENED_AGAIN),
            opened => return opened.map_err(CopyError::io("open", path)),
        }
    }
}

/// The data that was written to a disk.
struct Paced {
    /// The offset up to which it was pushed.
    pushed: u64,
    end: u64,
    behind: Behind,
}

impl Paced {
    fn new(output: &Output<'_>) -> Result<Self, CopyError> {
        let flags = fcntl_getfl(output.file).map_err(CopyError::io("look at", output.path))?;
        // A write that appends goes to the end, whatever the position is.
        if flags.contains(OFlags::APPEND) {
            seek(output.file, SeekFrom::End(0))
                .map_err(CopyError::io("find the end of", output.path))?;
        }
        let at = position(output)?;
        Ok(Self { pushed: at, end: at, behind: Behind::new(at) })
    }

    fn push(&mut self, work: &mut Work<'_>, output: &Output<'_>) -> Result<(), CopyError> {
        let len = self.end.saturating_sub(self.pushed);
        if len == 0 {
            return Ok(());
        }
        work.push(output.file, output.path, self.pushed, len)?;
        self.pushed = self.end;
        self.behind.pushed(output.file.as_fd(), self.end, len, work.under_way());
        Ok(())
    }
}

fn position(output: &Output<'_>) -> Result<u64, CopyError> {
    tell(output.file).map_err(CopyError::io("find the end of", output.path))
}
