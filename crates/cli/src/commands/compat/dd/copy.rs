//! The loop of blocks.
//!
//! ```text
//! bs=       read a block ─▶ write it, however long
//! else      read a block ─▶ fill blocks of the output ─▶ write them; the last one may be short
//! count=    blocks are counted as they are read, short ones too
//! ```

use floodwall_compat::dd::{Options, amount};
use rustix::io::{self, Errno};
use signal_hook::consts::SIGPIPE;

use super::failed::{Failed, reason};
use super::files::{Input, Output, offset};
use super::running::Running;

/// Alignment of buffers: the largest that direct I/O asks for on common devices.
const ALIGN: usize = 4096;

/// A copy.
pub(super) struct Copy<'a> {
    options: &'a Options,
    input: Input,
    output: Output,
    running: &'a Running,
    /// A block of the input.
    block: Buffer,
    /// A block of the output that is being filled.
    pending: Option<Buffer>,
    /// Bytes that wait in it.
    filled: usize,
    /// A read before this one was short. The next one says so, once.
    short: Option<usize>,
    warns_of_short: bool,
    /// The output was opened for direct I/O, and a block was short.
    is_direct_off: bool,
    is_whole: bool,
}

/// The outcome of a read.
enum Read {
    Bytes(usize),
    End,
    Error(Errno),
}

impl<'a> Copy<'a> {
    /// # Errors
    /// Blocks that memory does not hold.
    pub(super) fn new(
        options: &'a Options,
        input: Input,
        output: Output,
        running: &'a Running,
    ) -> Result<Self, Failed> {
        let block = Buffer::new(options.ibs, "input")?;
        let pending = match options.as_read {
            true => None,
            false => Some(Buffer::new(options.obs, "output")?),
        };
        let is_counted = options.count.is_some_and(|(blocks, _)| blocks > 0);
        let is_direct = options.iflag.direct || options.oflag.direct;
        let warns_of_short = options.as_read
            && !options.iflag.fullblock
            && running.warns()
            && (is_counted || options.skip.0 > 0 || is_direct);
        Ok(Self {
            options,
            input,
            output,
            running,
            block,
            pending,
            filled: 0,
            short: None,
            warns_of_short,
            is_direct_off: false,
            is_whole: true,
        })
    }

    /// Copies all; whether nothing was lost. The output is synced after an error too.
    ///
    /// # Errors
    /// The failure that ended it before.
    pub(super) fn run(mut self) -> Result<bool, Failed> {
        self.skip()?;
        self.output.seek(self.options)?;
        let copied = self.blocks().and_then(|()| self.rest());
        if let Err(message) = copied {
            self.running.say(&message);
            self.is_whole = false;
        }
        self.sync();
        Ok(self.is_whole)
    }

    /// Passes over the input's beginning: by its position, or by reading.
    fn skip(&mut self) -> Result<(), Failed> {
        let (blocks, bytes) = self.options.skip;
        if (blocks, bytes) == (0, 0) {
            return Ok(());
        }
        let wanted = offset((blocks, bytes), self.options.ibs);
        let is_reached = match self.input.skip(wanted)? {
            Some(is_within) => is_within,
            None => Some(self.skip_by_reading(blocks, bytes)?) == wanted,
        };
        if !is_reached && self.running.warns() {
            let name = self.input.plain();
            self.running.say(&format!("{name}: cannot skip to specified offset"));
        }
        Ok(())
    }

    /// Returns the bytes that were read.
    fn skip_by_reading(&mut self, blocks: u64, bytes: u64) -> Result<u64, Failed> {
        let mut total = 0;
        let last = usize::try_from(bytes).unwrap_or_default();
        for at in 0..=blocks {
            let size = if at < blocks { self.block.len } else { last };
            match self.read(size) {
                Read::Bytes(n) => total += n as u64,
                Read::End => break,
                Read::Error(e) => return Err(Failed::counted(self.unread(e))),
            }
        }
        Ok(total)
    }

    fn unread(&self, errno: Errno) -> String {
        format!("error reading {}: {}", self.input.quoted(), reason(errno))
    }

    /// The blocks up to the end or `count=`.
    fn blocks(&mut self) -> Result<(), String> {
        let (mut blocks, mut lines) = (0, 0);
        let ibs = self.block.len;
        // Of the last block, if it was short: what lies behind it may be what can't be read.
        let mut before = 0;
        loop {
            self.running.progress(&mut lines);
            let size = match self.options.count {
                Some((whole, _)) if blocks < whole => ibs,
                Some((whole, bytes)) if blocks == whole && bytes > 0 => {
                    usize::try_from(bytes).unwrap_or(ibs)
                }
                Some(_) => return Ok(()),
                None => ibs,
            };
            let mut length = match self.read(size) {
                Read::Bytes(length) => length,
                Read::End => return Ok(()),
                Read::Error(e) if !self.options.conv.noerror => return Err(self.unread(e)),
                Read::Error(e) => {
                    let read = std::mem::take(&mut before);
                    self.pass_over(e, read);
                    // A short block has been filled already.
                    if !self.options.conv.sync || read > 0 {
                        continue;
                    }
                    0
                }
            };
            blocks += 1;
            before = if length < ibs { length } else { 0 };
            let count = if length < ibs { &self.running.partial_in } else { &self.running.full_in };
            Running::add(count, 1);
            if length < ibs && self.options.conv.sync {
                self.block.bytes_mut()[length..].fill(0);
                length = ibs;
            }
            self.put(length)?;
        }
    }

    /// Says what could not be read, and goes to the next block of a file with a position. `read`
    /// bytes of this one were read.
    fn pass_over(&mut self, errno: Errno, read: usize) {
        if self.running.warns() {
            self.running.say(&self.unread(errno));
        }
        self.running.print();
        if self.input.is_seekable {
            let next = (self.block.len - read) as u64;
            if let Err(failed) = self.input.skip(Some(next)) {
                self.running.say(&failed.message);
                self.is_whole = false;
            }
        }
    }

    /// Writes a block that was read, or fills the output's with it.
    fn put(&mut self, length: usize) -> Result<(), String> {
        if self.pending.is_none() {
            let (written, error) = self.write(length, false);
            if let Some(error) = error {
                return Err(format!("error writing {}: {error}", self.output.quoted()));
            }
            let is_full = written == self.block.len;
            let count = if is_full { &self.running.full_out } else { &self.running.partial_out };
            Running::add(count, 1);
            return Ok(());
        }
        let mut from = 0;
        while let Some(pending) = &mut self.pending
            && from < length
        {
            let more = (length - from).min(pending.len - self.filled);
            let bytes = &self.block.bytes()[from..from + more];
            pending.bytes_mut()[self.filled..self.filled + more].copy_from_slice(bytes);
            (self.filled, from) = (self.filled + more, from + more);
            if self.filled == pending.len {
                let (written, error) = self.write(self.filled, true);
                self.filled = 0;
                if let Some(error) = error {
                    Running::add(&self.running.partial_out, u64::from(written > 0));
                    return Err(format!("writing to {}: {error}", self.output.quoted()));
                }
                Running::add(&self.running.full_out, 1);
            }
        }
        Ok(())
    }

    /// The last block of the output, which is not full.
    fn rest(&mut self) -> Result<(), String> {
        let length = std::mem::take(&mut self.filled);
        if length == 0 {
            return Ok(());
        }
        let (written, error) = self.write(length, true);
        Running::add(&self.running.partial_out, u64::from(written > 0));
        error
            .map_or(Ok(()), |error| Err(format!("error writing {}: {error}", self.output.quoted())))
    }

    fn read(&mut self, size: usize) -> Read {
        let mut total = 0;
        loop {
            let into = &mut self.block.bytes_mut()[total..size];
            let length = match io::read(&self.input, into) {
                Err(Errno::INTR) => continue,
                // Direct I/O: the end of the file came with a short block, and its offset is odd.
                Err(Errno::INVAL) if self.options.iflag.direct && self.short.is_some() => 0,
                Err(e) => return Read::Error(e),
                Ok(length) => length,
            };
            if length > 0 {
                self.warn_of_short();
            }
            self.short = (length > 0 && length < size - total).then_some(length);
            total += length;
            match total {
                0 => return Read::End,
                _ if length == 0 || total == size || !self.options.iflag.fullblock => {
                    return Read::Bytes(total);
                }
                _ => {}
            }
        }
    }

    /// `count` and `skip` count short blocks as whole ones, which is seldom meant.
    fn warn_of_short(&mut self) {
        if let Some(length) = self.short.filter(|_| self.warns_of_short) {
            let s = if length == 1 { "" } else { "s" };
            let help = "suggest iflag=fullblock";
            self.running.say(&format!("warning: partial read ({length} byte{s}); {help}"));
            self.warns_of_short = false;
        }
    }

    /// Writes the beginning of a buffer; returns how much of it, and why not all.
    fn write(&mut self, length: usize, is_pending: bool) -> (usize, Option<String>) {
        if length < self.obs() && self.options.oflag.direct && !self.is_direct_off {
            self.is_direct_off = true;
            if let Err(e) = self.output.turn_off_direct()
                && self.running.warns()
            {
                let name = self.output.quoted();
                self.running.say(&format!("failed to turn off O_DIRECT: {name}: {}", reason(e)));
            }
        }
        let buffer = if is_pending { self.pending.as_ref() } else { None };
        let bytes = &buffer.unwrap_or(&self.block).bytes()[..length];
        let mut total = 0;
        let mut error = None;
        while total < length && error.is_none() {
            match io::write(&self.output, &bytes[total..]) {
                Err(Errno::INTR) => {}
                Ok(0) => error = Some(reason(Errno::NOSPC)),
                Ok(written) => total += written,
                Err(e) => error = Some(stopped(e)),
            }
        }
        Running::add(&self.running.bytes, total as u64);
        (total, error)
    }

    fn obs(&self) -> usize {
        self.pending.as_ref().unwrap_or(&self.block).len
    }

    /// A short block past direct I/O is synced as well: it was to be on the device.
    fn sync(&mut self) {
        let conv = self.options.conv;
        let (mut data, mut all) = (conv.fdatasync, conv.fsync || self.is_direct_off);
        while data || all {
            let (call, done) = if data {
                ("fdatasync", rustix::fs::fdatasync(&self.output))
            } else {
                ("fsync", rustix::fs::fsync(&self.output))
            };
            match done {
                Err(Errno::INTR) => continue,
                // The other one may be possible.
                Err(Errno::INVAL | Errno::NOSYS) if data => all = true,
                Err(e) => {
                    let name = self.output.quoted();
                    self.running.say(&format!("{call} failed for {name}: {}", reason(e)));
                    self.is_whole = false;
                }
                Ok(()) => {}
            }
            if data { data = false } else { all = false }
        }
    }
}

/// Why a write failed. A closed pipe ends the process as it ends any program that a shell starts:
/// the runtime ignores that signal.
fn stopped(errno: Errno) -> String {
    if errno == Errno::PIPE {
        let _ = signal_hook::low_level::emulate_default_handler(SIGPIPE);
    }
    reason(errno)
}

/// Bytes in memory that begin at a multiple of [`ALIGN`].
struct Buffer {
    raw: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    fn new(size: u64, what: &str) -> Result<Self, Failed> {
        let exhausted =
            || Failed::early(format!("memory exhausted by {what} buffer of size {}", amount(size)));
        let len = usize::try_from(size).map_err(|_| exhausted())?;
        let total = len.checked_add(ALIGN).ok_or_else(exhausted)?;
        // The allocation below would end the process, and resizing this one touches each page.
        Vec::<u8>::new().try_reserve_exact(total).map_err(|_| exhausted())?;
        let raw = vec![0; total];
        let start = raw.as_ptr().align_offset(ALIGN).min(ALIGN);
        Ok(Self { raw, start, len })
    }

    fn bytes(&self) -> &[u8] {
        &self.raw[self.start..self.start + self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.raw[self.start..self.start + self.len]
    }
}
