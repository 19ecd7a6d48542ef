//! The host's side: the kernel as a child process, and the terminal between user and guest.
//!
//! ```text
//! threads: reader  serial line ─▶ stdout and stderr; the rest ─▶ run (watches the clock)
//!          input   stdin, one piece whenever the guest has taken the last ─▶ outbox
//!          outbox  frames, as the guest reads them ─▶ serial line
//! ```

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::error::GuestError;
use crate::guest::{CommandIo, Guest};
use crate::kernel::Kernel;
use crate::outbox::{Outbox, Room};
use crate::process::{self, POLL, Process};
use crate::wire::{self, End, Frame, Order, Streams};

/// How long the command may take to end after a signal. `lab run` takes at most 20 s: 10 for its
/// command, 10 for the device.
const END: Duration = Duration::from_secs(30);
/// How long a kernel may take to power off.
const POWER_OFF: Duration = Duration::from_secs(5);
/// How long the last frames of a kernel that has ended are waited for.
const LAST_WORDS: Duration = Duration::from_secs(2);

impl Guest {
    /// Boots the kernel, runs the order in it, and ends the kernel. Gives the status of the order's
    /// command. `note` hears of things that the guest lacks.
    ///
    /// # Errors
    /// [`GuestError`]. If `stop` is raised the command gets SIGTERM, and its status is returned
    /// once it has ended.
    pub fn run(
        &self,
        order: &Order,
        stop: &AtomicBool,
        note: &mut dyn FnMut(&str),
    ) -> Result<ExitStatus, GuestError> {
        if self.kernel.is_emulated() {
            note("without KVM the processor is emulated: times are not those of a real machine");
        }
        let mut process = Process::start(self, order, note)?;
        let talk = Talk::begin(&mut process, order, self);
        let mut talk = talk.map_err(|error| GuestError::Io { what: "reach the guest", error })?;
        let status = talk.run(stop, note);
        if status.is_ok() {
            process.patience = POWER_OFF;
        }
        status
    }

    /// Uses KVM for an image's guests if it works: the caller may use it, and a kernel starts soon.
    ///
    /// # Errors
    /// QEMU can't be started.
    pub fn use_kvm_if_it_works(&mut self) -> Result<(), GuestError> {
        if matches!(self.kernel, Kernel::Image { .. }) && process::may_use_kvm() {
            self.kernel.emulate(false);
            let works = Process::boots(self)?;
            self.kernel.emulate(!works);
        }
        Ok(())
    }
}

/// What the reading thread tells.
enum Heard {
    /// The guest is ready for the order.
    Ready,
    /// The guest has said something that the reading thread has seen to.
    Alive,
    /// Something missing in the guest.
    Note(String),
    /// The command can have the next input.
    Taken,
    /// The command's output has no reader any more.
    Unread,
    /// The command's end.
    Ended(End),
    /// Nothing more will come.
    Gone,
}

/// Reads the serial line and writes the command's output, in a separate thread that ends with the
/// line. Where its reader is slow the line fills, and the command waits.
struct Reader {
    line: UnixStream,
    room: Arc<Room>,
    /// Whether output is being written: the guest can't be heard meanwhile.
    writes: Arc<AtomicBool>,
    io: CommandIo,
    tell: Sender<Heard>,
}

impl Reader {
    fn run(mut self) {
        let ready = wire::wait_for_magic(&mut self.line);
        let _ = self.tell.send(ready.map_or(Heard::Gone, |_| Heard::Ready));
        loop {
            let heard = Frame::read(&mut self.line).map_or(Heard::Gone, |frame| self.take(frame));
            let is_last = matches!(heard, Heard::Gone | Heard::Ended(_));
            if self.tell.send(heard).is_err() || is_last {
                return self.room.close();
            }
        }
    }

    fn take(&self, frame: Frame) -> Heard {
        match frame {
            Frame::Stdout(bytes) => match &self.io {
                CommandIo::Inherit => self.write(io::stdout(), &bytes),
                CommandIo::Log(file) => self.write(&**file, &bytes),
            },
            Frame::Stderr(bytes) => match &self.io {
                CommandIo::Inherit => self.write(io::stderr(), &bytes),
                CommandIo::Log(file) => self.write(&**file, &bytes),
            },
            Frame::Note(text) => Heard::Note(text),
            Frame::Taken => Heard::Taken,
            Frame::Read(length) => {
                self.room.give_back(length as usize);
                Heard::Alive
            }
            Frame::Ended(end) => Heard::Ended(end),
            // Beats, and what only a host says.
            Frame::Beat | Frame::Order(..) | Frame::Stdin(_) | Frame::Signal(_) => Heard::Alive,
        }
    }

    fn write(&self, mut to: impl Write, bytes: &[u8]) -> Heard {
        self.writes.store(true, Ordering::Relaxed);
        let written = to.write_all(bytes).and_then(|()| to.flush());
        self.writes.store(false, Ordering::Relaxed);
        if written.is_ok() { Heard::Alive } else { Heard::Unread }
    }
}

/// One conversation with a guest.
struct Talk<'a> {
    process: &'a mut Process,
    order: &'a Order,
    /// How long it may take until the guest's first process answers.
    boot: Duration,
    /// How long that process may be silent then.
    silence: Duration,
    io: CommandIo,
    outbox: Outbox,
    heard: Receiver<Heard>,
    writes: Arc<AtomicBool>,
    /// Tells the input thread that the guest has taken the last piece.
    input: Option<Sender<()>>,
    /// When the command was asked to end.
    asked: Option<Instant>,
}

impl<'a> Talk<'a> {
    fn begin(process: &'a mut Process, order: &'a Order, guest: &Guest) -> io::Result<Self> {
        let (outbox, room) = Outbox::open(process.line.try_clone()?);
        let (tell, heard) = mpsc::channel();
        let writes = Arc::new(AtomicBool::new(false));
        let reader = Reader {
            line: process.line.try_clone()?,
            room,
            writes: Arc::clone(&writes),
            io: guest.io.clone(),
            tell,
        };
        thread::spawn(move || reader.run());
        Ok(Self {
            process,
            order,
            boot: guest.kernel.boot_limit(),
            silence: guest.silence,
            io: guest.io.clone(),
            outbox,
            heard,
            writes,
            input: None,
            asked: None,
        })
    }

    fn run(
        &mut self,
        stop: &AtomicBool,
        note: &mut dyn FnMut(&str),
    ) -> Result<ExitStatus, GuestError> {
        let mut last = Instant::now();
        let mut ready = false;
        loop {
            match self.heard.recv_timeout(POLL) {
                Ok(Heard::Ready) => {
                    ready = true;
                    self.give_order();
                }
                Ok(Heard::Alive) => {}
                Ok(Heard::Note(text)) => note(&text),
                Ok(Heard::Taken) => {
                    if let Some(input) = &self.input {
                        // It has ended once stdin has.
                        let _ = input.send(());
                    }
                }
                // `| head`, a terminal that is gone: as after SIGPIPE, the command is asked to end.
                Ok(Heard::Unread) => self.ask(),
                Ok(Heard::Ended(End::Status(raw))) => return Ok(ExitStatus::from_raw(raw)),
                Ok(Heard::Ended(End::Failed(why))) => return Err(GuestError::Inside(why)),
                Ok(Heard::Gone) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.process.died("ended before its command"));
                }
                Err(RecvTimeoutError::Timeout) => {
                    // Its last output may still be on its way.
                    if self.process.has_ended() && last.elapsed() > LAST_WORDS {
                        return Err(self.process.died("ended before its command"));
                    }
                    let limit = if ready { self.silence } else { self.boot };
                    if self.writes.load(Ordering::Relaxed) {
                        last = Instant::now();
                    } else if last.elapsed() > limit {
                        return Err(self.process.died("went silent and was ended"));
                    }
                    self.heed(stop, ready)?;
                    continue;
                }
            }
            last = Instant::now();
            self.heed(stop, ready)?;
        }
    }

    /// Sends the order, and input from then on.
    fn give_order(&mut self) {
        // A kernel that dies later has other last words than those of its boot.
        self.process.forget_console();
        let streams = match &self.io {
            CommandIo::Inherit => streams(),
            CommandIo::Log(_) => Streams::default(),
        };
        self.outbox.send(Frame::Order(Box::new(self.order.clone()), streams));
        let (taken, next) = mpsc::channel();
        let outbox = self.outbox.clone();
        match &self.io {
            // Not joined: it may be inside a read of a terminal without input.
            CommandIo::Inherit => drop(thread::spawn(move || feed(&next, &outbox, io::stdin()))),
            CommandIo::Log(_) => drop(thread::spawn(move || feed(&next, &outbox, io::empty()))),
        }
        self.input = Some(taken);
    }

    /// Passes a signal on, and loses patience.
    fn heed(&mut self, stop: &AtomicBool, ready: bool) -> Result<(), GuestError> {
        match self.asked {
            None if stop.load(Ordering::Relaxed) => {
                if !ready {
                    return Err(GuestError::Interrupted);
                }
                self.ask();
                Ok(())
            }
            Some(since) if since.elapsed() > END => Err(GuestError::Interrupted),
            _ => Ok(()),
        }
    }

    /// Asks the command to end, once.
    fn ask(&mut self) {
        if self.asked.is_none() {
            self.asked = Some(Instant::now());
            // If the guest is gone the reader tells how it ended.
            self.outbox.send(Frame::Signal(Signal::TERM.as_raw()));
        }
    }
}

/// The streams of this process.
fn streams() -> Streams {
    use rustix::stdio::{stderr, stdin, stdout};
    let terminals = [stdin(), stdout(), stderr()].map(rustix::termios::isatty);
    let window = [stdout(), stderr(), stdin()]
        .into_iter()
        .find_map(|fd| rustix::termios::tcgetwinsize(fd).ok());
    Streams { terminals, window: window.map(|size| (size.ws_row, size.ws_col)) }
}

/// Sends input piece by piece, each once the guest has taken the one before.
fn feed(taken: &Receiver<()>, outbox: &Outbox, mut input: impl Read) {
    let mut piece = vec![0; 4096];
    while taken.recv().is_ok() {
        // A terminal in the background or one that is gone: the command finds the end of its input.
        let length = input.read(&mut piece).unwrap_or(0);
        if !outbox.send(Frame::Stdin(piece[..length].to_vec())) || length == 0 {
            return;
        }
    }
}
