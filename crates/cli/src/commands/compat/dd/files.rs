//! The two files: opened, cut and positioned.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use floodwall_compat::dd::{Flags, Options, quote};
use rustix::fs::{self, FileType, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use super::failed::{Failed, reason};

/// Of a new file, less the umask.
const MODE: u32 = 0o666;

/// Where the data comes from.
pub(super) struct Input {
    file: Option<OwnedFd>,
    name: OsString,
    /// It has a position that can be set.
    pub(super) is_seekable: bool,
}

/// Where it goes.
pub(super) struct Output {
    file: Option<OwnedFd>,
    name: OsString,
}

impl Input {
    /// # Errors
    /// With the name.
    pub(super) fn open(options: &Options) -> Result<Self, Failed> {
        let flags = open_flags(&options.iflag);
        let file = match &options.input {
            Some(name) => Some(open(name, OFlags::RDONLY | flags).map_err(|e| unopened(name, e))?),
            None => None,
        };
        let name = options.input.clone().unwrap_or_else(|| "standard input".into());
        let mut input = Self { file, name, is_seekable: false };
        if input.file.is_none() {
            add_flags(input.as_fd(), flags, &input.name)?;
        }
        input.is_seekable = fs::seek(&input, SeekFrom::Current(0)).is_ok();
        Ok(input)
    }

    /// The name in quotes.
    pub(super) fn quoted(&self) -> String {
        quote::file(self.name.as_bytes())
    }

    /// The name, in quotes if it needs them.
    pub(super) fn plain(&self) -> String {
        quote::file_if_needed(self.name.as_bytes())
    }

    /// Sets the position behind blocks and bytes; whether that is within the file. `None` if it has
    /// no position.
    ///
    /// # Errors
    /// A position that the kernel refuses.
    pub(super) fn skip(&self, offset: Option<u64>) -> Result<Option<bool>, Failed> {
        if !self.is_seekable {
            return Ok(None);
        }
        let position = forward(self.as_fd(), offset);
        let position = position.map_err(|e| {
            Failed::counted(format!("{}: cannot skip: {}", self.plain(), reason(e)))
        })?;
        let length = fs::fstat(self).ok().filter(|stat| is_file(stat.st_mode));
        Ok(Some(length.is_none_or(|stat| stat.st_size.cast_unsigned() >= position)))
    }
}

impl Output {
    /// Opens it and cuts it where the output begins.
    ///
    /// # Errors
    /// With the name.
    pub(super) fn open(options: &Options) -> Result<Self, Failed> {
        let (conv, seek) = (options.conv, offset(options.seek, options.obs));
        let mut flags = open_flags(&options.oflag);
        let name = options.output.clone().unwrap_or_else(|| "standard output".into());
        if options.output.is_none() {
            let output = Self { file: None, name };
            add_flags(output.as_fd(), flags, &output.name)?;
            return Ok(output);
        }
        if seek.is_none() && !conv.notrunc {
            let (blocks, size) = (options.seek.0, options.obs);
            return Err(Failed::early(format!(
                "offset too large: cannot truncate to a length of seek={blocks} \
                 ({size}-byte) blocks"
            )));
        }
        flags.set(OFlags::CREATE, !conv.nocreat);
        flags.set(OFlags::EXCL, conv.excl);
        flags.set(OFlags::TRUNC, !conv.notrunc && seek == Some(0));
        // A file that is positioned may have to be read.
        let both = (seek != Some(0)).then(|| open(&name, OFlags::RDWR | flags).ok()).flatten();
        let file = match both {
            Some(file) => file,
            None => open(&name, OFlags::WRONLY | flags).map_err(|e| unopened(&name, e))?,
        };
        let output = Self { file: Some(file), name };
        match seek {
            Some(length) if length > 0 && !conv.notrunc => output.cut(length)?,
            _ => {}
        }
        Ok(output)
    }

    fn cut(&self, length: u64) -> Result<(), Failed> {
        let Err(e) = fs::ftruncate(self, length) else { return Ok(()) };
        // Devices and pipes have no length.
        if fs::fstat(self).is_ok_and(|stat| is_file(stat.st_mode)) {
            let name = self.quoted();
            return Err(Failed::early(format!(
                "failed to truncate to {length} bytes in output file {name}: {}",
                reason(e)
            )));
        }
        Ok(())
    }

    /// The name in quotes.
    pub(super) fn quoted(&self) -> String {
        quote::file(self.name.as_bytes())
    }

    /// Sets the position where the output begins.
    ///
    /// # Errors
    /// If it has none, or not that one.
    pub(super) fn seek(&self, options: &Options) -> Result<(), Failed> {
        let offset = offset(options.seek, options.obs);
        if offset == Some(0) {
            return Ok(());
        }
        let plain = quote::file_if_needed(self.name.as_bytes());
        forward(self.as_fd(), offset)
            .map_err(|e| Failed::counted(format!("{plain}: cannot seek: {}", reason(e))))?;
        Ok(())
    }

    /// Has the page cache written to from here on: a short block does not fit direct I/O.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn turn_off_direct(&self) -> Result<(), Errno> {
        let flags = fs::fcntl_getfl(self)?;
        fs::fcntl_setfl(self, flags - OFlags::DIRECT)
    }
}

impl AsFd for Input {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_ref().map_or_else(|| rustix::stdio::stdin(), AsFd::as_fd)
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_ref().map_or_else(|| rustix::stdio::stdout(), AsFd::as_fd)
    }
}

/// Blocks and bytes in bytes; `None` beyond what a file offset can be.
pub(super) fn offset((blocks, bytes): (u64, u64), block: u64) -> Option<u64> {
    let offset = blocks.checked_mul(block)?.checked_add(bytes)?;
    (offset <= i64::MAX.cast_unsigned()).then_some(offset)
}

/// Moves the position; returns the new one.
fn forward(file: BorrowedFd<'_>, offset: Option<u64>) -> Result<u64, Errno> {
    let offset = offset.and_then(|offset| i64::try_from(offset).ok()).ok_or(Errno::OVERFLOW)?;
    fs::seek(file, SeekFrom::Current(offset))
}

fn open(name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    loop {
        match fs::open(name, flags | OFlags::CLOEXEC, Mode::from_raw_mode(MODE)) {
            // A signal came while it waited for a pipe's other end.
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

fn unopened(name: &OsStr, errno: Errno) -> Failed {
    let name = quote::file(name.as_bytes());
    Failed::early(format!("failed to open {name}: {}", reason(errno)))
}

/// Gives an open file its flags, as far as fcntl(2) changes them.
fn add_flags(file: BorrowedFd<'_>, flags: OFlags, name: &OsStr) -> Result<(), Failed> {
    if flags.is_empty() {
        return Ok(());
    }
    let set = fs::fcntl_getfl(file).and_then(|old| fs::fcntl_setfl(file, old | flags));
    let name = quote::file(name.as_bytes());
    set.map_err(|e| Failed::early(format!("setting flags for {name}: {}", reason(e))))
}

fn open_flags(flags: &Flags) -> OFlags {
    [
        (flags.append, OFlags::APPEND),
        (flags.direct, OFlags::DIRECT),
        (flags.directory, OFlags::DIRECTORY),
        (flags.dsync, OFlags::DSYNC),
        (flags.sync, OFlags::SYNC),
        (flags.nonblock, OFlags::NONBLOCK),
        (flags.noatime, OFlags::NOATIME),
        (flags.noctty, OFlags::NOCTTY),
        (flags.nofollow, OFlags::NOFOLLOW),
    ]
    .into_iter()
    .filter(|(is_set, _)| *is_set)
    .fold(OFlags::empty(), |all, (_, flag)| all | flag)
}

fn is_file(mode: u32) -> bool {
    matches!(FileType::from_raw_mode(mode), FileType::RegularFile | FileType::Directory)
}
