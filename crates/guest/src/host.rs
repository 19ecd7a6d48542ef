//! The host's side: the kernel as a child process, and the terminal between user and guest.
//!
//! ```text
//! threads: reader  serial line ─▶ stdout and stderr; the rest ─▶ run (watches the clock)
//!          input   stdin, one piece whenever the guest has taken the last ─▶ outbox
//!          outbox  frames, as the guest reads them ─▶ serial line
//!          console last lines of the kernel's console, for when it dies
//! ```

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use floodwall_model::Bytes;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use crate::error::GuestError;
use crate::find::Uml;
use crate::launch;
use crate::outbox::{Outbox, Room};
use crate::wire::{self, End, Frame, Order, Streams};

/// How long a guest may take until its first process answers. User-mode Linux takes one second; a busy host more.
const BOOT: Duration = Duration::from_secs(60);
/// How long the command may take to end after a signal. `lab run` takes at most 20 s: 10 for its command, 10 for
/// the device.
const END: Duration = Duration::from_secs(30);
/// How long a kernel may take to power off.
const POWER_OFF: Duration = Duration::from_secs(5);
/// How long the last frames of a kernel that has ended are waited for.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How long a kernel's keeper may take to end it.
const KEEPER: Duration = Duration::from_secs(5);
/// How often the stop flag is looked at.
const POLL: Duration = Duration::from_millis(20);
/// What is kept of the console, in bytes.
const CONSOLE: usize = 8 << 10;
/// Lines of the console in an error.
const CONSOLE_LINES: usize = 12;

/// A kernel that can be started, and the program that is its first process.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The kernel.
    pub uml: Uml,
    /// A program that calls [`crate::init::serve`] if its arguments are `init_args`, and [`crate::launch()`] with the
    /// role and the command that follow `launch_args`.
    pub program: PathBuf,
    /// Arguments with which the program is the guest's first process.
    pub init_args: Vec<String>,
    /// Arguments with which the program becomes another one.
    pub launch_args: Vec<String>,
    /// The guest's RAM.
    pub ram: Bytes,
    /// A directory on a tmpfs without noexec: the guest's RAM is a nameless file in it.
    pub memory_dir: PathBuf,
    /// The longest silence of a guest that is not ended. Its first process says something every second.
    pub silence: Duration,
    /// Where the command's input and output are.
    pub io: CommandIo,
}

/// Where the input of a guest's command comes from, and where its output goes.
#[derive(Clone, Debug)]
pub enum CommandIo {
    /// This process's standard streams.
    Inherit,
    /// No input; stdout and stderr go to a file.
    Log(Arc<File>),
}

/// How a guest's command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The command's status.
    pub status: ExitStatus,
}

impl Guest {
    /// Boots the kernel, runs the order in it, and ends the kernel. `note` hears of things that the guest lacks.
    ///
    /// # Errors
    /// [`GuestError`]. If `stop` is raised the command gets SIGTERM, and its status is returned once it has ended.
    pub fn run(
        &self,
        order: &Order,
        stop: &AtomicBool,
        note: &mut dyn FnMut(&str),
    ) -> Result<Ended, GuestError> {
        let mut kernel = Kernel::start(self, &order.writable)?;
        let talk = Talk::begin(&mut kernel, order, self);
        let mut talk = talk.map_err(|error| GuestError::Io { what: "reach the guest", error })?;
        let status = talk.run(stop, note);
        if status.is_ok() {
            kernel.patience = POWER_OFF;
        }
        status.map(|status| Ended { status })
    }
}

/// What the reading thread tells.
enum Heard {
    /// The guest is ready for the order.
    Ready,
    /// The guest has said something that the reading thread has seen to.
    Alive,
    /// What is missing in the guest.
    Note(String),
    /// The command can have the next input.
    Taken,
    /// Nobody reads the command's output any more.
    Unread,
    /// The command's end.
    Ended(End),
    /// Nothing more will come.
    Gone,
}

/// Reads the serial line, in a thread of its own that ends with the line, and writes the command's output. Where its
/// reader is slow the line fills, and the command waits.
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
    kernel: &'a mut Kernel,
    order: &'a Order,
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
    fn begin(kernel: &'a mut Kernel, order: &'a Order, guest: &Guest) -> io::Result<Self> {
        let (outbox, room) = Outbox::open(kernel.line.try_clone()?);
        let (tell, heard) = mpsc::channel();
        let writes = Arc::new(AtomicBool::new(false));
        let reader = Reader {
            line: kernel.line.try_clone()?,
            room,
            writes: Arc::clone(&writes),
            io: guest.io.clone(),
            tell,
        };
        thread::spawn(move || reader.run());
        Ok(Self {
            kernel,
            order,
            silence: guest.silence,
            io: guest.io.clone(),
            outbox,
            heard,
            writes,
            input: None,
            asked: None,
        })
    }

    fn run(&mut self, stop: &AtomicBool, note: &mut dyn FnMut(&str)) -> Result<ExitStatus, GuestError> {
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
                    return Err(self.kernel.died("ended before its command"));
                }
                Err(RecvTimeoutError::Timeout) => {
                    // What it said last may still be on its way.
                    if self.kernel.has_ended() && last.elapsed() > LAST_WORDS {
                        return Err(self.kernel.died("ended before its command"));
                    }
                    let limit = if ready { self.silence } else { BOOT };
                    if self.writes.load(Ordering::Relaxed) {
                        last = Instant::now();
                    } else if last.elapsed() > limit {
                        return Err(self.kernel.died("went silent and was ended"));
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
        self.kernel.console.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let streams = match &self.io {
            CommandIo::Inherit => streams(),
            CommandIo::Log(_) => Streams::default(),
        };
        self.outbox.send(Frame::Order(Box::new(self.order.clone()), streams));
        let (taken, next) = mpsc::channel();
        let outbox = self.outbox.clone();
        match &self.io {
            // Not joined: it may be inside a read of a terminal that nobody types into.
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
    let window =
        [stdout(), stderr(), stdin()].into_iter().find_map(|fd| rustix::termios::tcgetwinsize(fd).ok());
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

/// The kernel's processes on the host. They end when it is dropped.
struct Kernel {
    /// Its keeper: [`crate::launch()`].
    child: Child,
    line: UnixStream,
    console: Arc<Mutex<Vec<u8>>>,
    /// How long it may take to power off by itself.
    patience: Duration,
}

impl Kernel {
    fn start(guest: &Guest, writable: &[PathBuf]) -> Result<Self, GuestError> {
        let failed = |error| GuestError::Start { program: guest.uml.kernel.clone(), error };
        let (line, theirs) = UnixStream::pair().map_err(failed)?;
        let (console, to_console) = io::pipe().map_err(failed)?;
        let to_console_too = to_console.try_clone().map_err(failed)?;
        let mut command = Command::new(&guest.program);
        command
            .args(&guest.launch_args)
            .arg(launch::KERNEL)
            .arg(&guest.memory_dir)
            .args(writable)
            .arg(launch::BEFORE_KERNEL)
            .arg(&guest.uml.kernel)
            .arg(format!("mem={}K", guest.ram.0 / 1024))
            // No directory for its control socket: a kernel that is killed would leave it behind.
            .arg("uml_dir=/dev/null")
            // Its first serial line is our end of the socket; its console goes beside it.
            .args(["ssl0=fd:0", "ssl=null", "con=null", "con0=null,fd:1"])
            .args(["rootfstype=hostfs", "rootflags=/", "ro", "quiet", "panic=-1"])
            .arg(format!("init={}", guest.program.display()))
            .arg("--")
            .args(&guest.init_args)
            .env_clear()
            .env("TMPDIR", &guest.memory_dir)
            .stdin(OwnedFd::from(theirs))
            .stdout(to_console)
            .stderr(to_console_too)
            // A Ctrl-C of the terminal is ours to pass on. The keeper leaves this group for the kernel's.
            .process_group(0);
        let child = command.spawn().map_err(failed)?;
        // The parent's copies of the pipe would keep its reader waiting.
        drop(command);
        let kept = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&kept);
        thread::spawn(move || keep_the_last(console, &keep));
        Ok(Self { child, line, console: kept, patience: Duration::ZERO })
    }

    /// How the guest died, with the last of its console.
    fn died(&mut self, how: &'static str) -> GuestError {
        // What it printed last may still be on its way.
        thread::sleep(Duration::from_millis(100));
        let console = self.console.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&console);
        let mut lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        // The registers and the call trace below a panic tell a user nothing.
        if let Some(panic) = lines.iter().position(|line| line.contains("Kernel panic")) {
            lines.truncate(panic + 1);
        }
        let last = lines[lines.len().saturating_sub(CONSOLE_LINES)..].iter();
        let shown: Vec<String> = last
            .map(|line| format!("  {}", floodwall_model::printable::printable(line.trim_end())))
            .collect();
        let console = if shown.is_empty() { "  (none)".to_owned() } else { shown.join("\n") };
        GuestError::Died { how, console }
    }

    /// Whether the keeper, and with it the kernel, has ended.
    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let Some(keeper) = Pid::from_raw(self.child.id() as i32) else { return true };
        !matches!(rustix::process::waitid(WaitId::Pid(keeper), options), Ok(None))
    }
}

impl Drop for Kernel {
    /// Waits for the kernel to end by itself, then ends it. Only here, once: after the keeper is
    /// reaped, its number may be another process's.
    fn drop(&mut self) {
        let deadline = Instant::now() + self.patience;
        while !self.has_ended() && Instant::now() < deadline {
            thread::sleep(POLL);
        }
        // The keeper ends the kernel with all of its processes.
        let _ = self.line.shutdown(Shutdown::Both);
        let deadline = Instant::now() + KEEPER;
        while !self.has_ended() && Instant::now() < deadline {
            thread::sleep(POLL);
        }
        // A keeper that does not act, one that is stopped for example. It is not reaped before: its number is its own.
        if let Some(keeper) = Pid::from_raw(self.child.id() as i32)
            && let Ok(group) = rustix::process::getpgid(Some(keeper))
        {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// Keeps the last bytes of the console.
fn keep_the_last(mut console: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut piece = [0; 1024];
    while let Ok(length @ 1..) = console.read(&mut piece) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&piece[..length]);
        let surplus = kept.len().saturating_sub(CONSOLE);
        kept.drain(..surplus);
    }
}
