//! Where the kernel describes its tracepoints: tracefs. Only `format` files are read; nothing in it
//! is written, so that other tracers are not disturbed.

use std::io;
use std::os::fd::OwnedFd;

use floodwall_host::root::detached;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::error::ProbeError;

/// Where it is usually mounted, the newer place first.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// No format file comes near this.
const MAX_FORMAT_BYTES: usize = 1 << 20;

/// A tracefs, mounted somewhere or nowhere.
#[derive(Debug)]
pub(crate) struct Tracefs(OwnedFd);

impl Tracefs {
    /// Finds a mounted one, or makes a private one: a mount that is attached to no directory.
    ///
    /// # Errors
    /// [`ProbeError::Tracefs`].
    pub(crate) fn open() -> Result<Self, ProbeError> {
        let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        for place in PLACES {
            match rustix::fs::open(format!("{place}/events"), directory, Mode::empty()) {
                Ok(events) => return Ok(Self(events)),
                Err(Errno::ACCESS | Errno::PERM) => {
                    return Err(ProbeError::Tracefs {
                        place,
                        source: Errno::ACCESS.into(),
                        remedy: "run as root",
                    });
                }
                Err(_) => {}
            }
        }
        let mount = detached("tracefs");
        mount
            .and_then(|mount| rustix::fs::openat(&mount, "events", directory, Mode::empty()))
            .map(Self)
            .map_err(|e| ProbeError::Tracefs {
                place: PLACES[0],
                source: e.into(),
                remedy: match e {
                    Errno::NODEV => "this kernel is built without tracing (CONFIG_FTRACE)",
                    _ => {
                        "tracefs is not mounted here, and this process may not mount it (a \
                         container?): run as root on the host"
                    }
                },
            })
    }

    /// The format file of `group/name`. `None` if this kernel has no such tracepoint.
    pub(crate) fn format(&self, path: &str) -> io::Result<Option<String>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.0, format!("{path}/format"), flags, Mode::empty())
        {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let mut text = Vec::with_capacity(4096);
        while rustix::io::read(&file, rustix::buffer::spare_capacity(&mut text))? > 0 {
            if text.len() > MAX_FORMAT_BYTES {
                return Err(Errno::FBIG.into());
            }
            text.reserve(4096);
        }
        Ok(Some(String::from_utf8_lossy(&text).into_owned()))
    }
}
