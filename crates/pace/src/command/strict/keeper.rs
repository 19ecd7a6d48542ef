//! The keeper: a process that continues all calls while the pacing process can't.
//!
//! ```text
//! stdin: a socket to the pacing process
//!   ◀─ the listener and the memory of the slots     ─▶ a byte: it is ready
//!   ◀─ SERVE: the pacing process is suspended       ◀─ REST: it goes on
//!   ◀─ end of the stream: it has ended; all calls are continued from now on
//! ```
//!
//! It ends with the last process below the filter.

use std::ffi::OsStr;
use std::io::{IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::error::StrictError;
use super::kernel::{Notification, close_inherited, go_on, receive};
use super::slots::ids;

const BEGIN: u8 = b'b';
const SERVE: u8 = b's';
const REST: u8 = b'r';
/// The longest wait for the start of the keeper.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time between two looks at the slots while the pacing process is suspended.
const AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The keeper, as the pacing process sees it. Dropping this makes it continue all calls.
#[derive(Debug)]
pub(super) struct Keeper {
    socket: UnixStream,
}

impl Keeper {
    /// Starts this program again, with one word that leads to [`keep`].
    pub(super) fn spawn(word: &OsStr) -> Result<Self, StrictError> {
        let pair = UnixStream::pair().and_then(|(ours, its)| {
            Command::new("/proc/self/exe")
                .arg(word)
                .current_dir("/")
                .stdin(OwnedFd::from(its))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                // A terminal's signals, or a kill of this process's group, don't reach it.
                .process_group(0)
                .spawn()?;
            ours.set_read_timeout(Some(PATIENCE))?;
            Ok(ours)
        });
        pair.map(|socket| Self { socket }).map_err(StrictError::Keeper)
    }

    /// Gives it the listener and the slots, and waits until it has them.
    pub(super) fn guard(
        &self,
        listener: &OwnedFd,
        slots: BorrowedFd<'_>,
    ) -> Result<(), StrictError> {
        let descriptors = [listener.as_fd(), slots];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        // Unlike write(2) this call is not notified.
        sendmsg(&self.socket, &[IoSlice::new(&[BEGIN])], &mut ancillary, SendFlags::NOSIGNAL)
            .map_err(|errno| StrictError::Keeper(errno.into()))?;
        (&self.socket).read_exact(&mut [0]).map_err(StrictError::Keeper)
    }

    /// Makes it continue calls, or leave them alone.
    pub(super) fn serve(&self, serves: bool) {
        let word = if serves { SERVE } else { REST };
        let _ = rustix::net::send(&self.socket, &[word], SendFlags::NOSIGNAL);
    }
}

/// Serves as the keeper of the process at the other end of `socket`, which is stdin. Returns when
/// the command's last process has ended.
///
/// The process has to be made for this alone: its other descriptors are closed.
///
/// # Errors
/// Of the socket, before anything is guarded.
pub fn keep(socket: BorrowedFd<'_>) -> std::io::Result<()> {
    // They are the command's. Somebody may wait for their end, or for a lock.
    close_inherited();
    // It outlives signals that end a whole session: the command may do so as well.
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let Some((listener, slots)) = take(socket)? else { return Ok(()) };
    rustix::net::send(socket, b".", SendFlags::NOSIGNAL)?;
    let (mut serves, mut has_ended) = (false, false);
    loop {
        if serves {
            for id in ids(slots.as_fd()) {
                // Those that were answered already are not found any more.
                let _ = go_on(listener.as_fd(), id);
            }
        }
        let calls = if serves { PollFlags::IN } else { PollFlags::empty() };
        let mut polled = [PollFd::new(&listener, calls), PollFd::new(&socket, PollFlags::IN)];
        // poll(2) reports the stream's end each time.
        let polled = if has_ended { &mut polled[..1] } else { &mut polled[..] };
        let again = (serves && !has_ended).then_some(&AGAIN);
        if !matches!(poll(polled, again), Ok(_) | Err(Errno::INTR)) {
            return Ok(());
        }
        let came = polled[0].revents();
        let word = polled.get(1).is_some_and(|socket| !socket.revents().is_empty());
        if came.contains(PollFlags::IN) {
            let mut call = Notification::NONE;
            if receive(listener.as_fd(), &mut call).is_ok() {
                let _ = go_on(listener.as_fd(), call.call.id);
            }
        } else if came.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Ok(());
        }
        if word {
            let mut byte = [0];
            match rustix::io::read(socket, &mut byte) {
                Ok(0) => (serves, has_ended) = (true, true),
                Ok(_) => serves = byte == [SERVE],
                Err(Errno::INTR) => {}
                Err(_) => (serves, has_ended) = (true, true),
            }
        }
    }
}

/// The listener and the slots; none if the pacing process has ended before.
fn take(socket: BorrowedFd<'_>) -> std::io::Result<Option<(OwnedFd, OwnedFd)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let received = loop {
        let into = &mut [IoSliceMut::new(&mut byte)];
        match recvmsg(socket, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            received => break received?,
        }
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    let mut descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let mut descriptors = descriptors.by_ref().flatten();
    Ok(descriptors.next().zip(descriptors.next()))
}
