//! The host's side: the kernel as a child process, and the terminal between user and guest.
//!
//! ```text
//! threads: reader  serial line ─▶ frames ─▶ run (writes stdout and stderr, watches the clock)
//!          input   stdin, one piece whenever the guest has taken the last ─▶ serial line
//!          console last lines of the kernel's console, for when it dies
//! ```

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use floodwall_model::Bytes;
use rustix::process::{Pid, Signal};

use crate::error::GuestError;
use crate::find::Uml;
use crate::launch;
use crate::wire::{self, End, Frame, Order, Streams};

/// How long a guest may take until its first process answers. User-mode Linux takes one second; a busy host more.
const BOOT: Duration = Duration::from_secs(60);
/// Longest silence of a guest whose first process says something every second ([`crate::init`]).
const SILENCE: Duration = Duration::from_secs(60);
/// How long the command may take to end after a signal. `lab run` takes at most 20 s: 10 for its command, 10 for
/// the device.
const END: Duration = Duration::from_secs(30);
/// How long a kernel may take to power off.
const POWER_OFF: Duration = Duration::from_secs(5);
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
}

/// How a guest's command ended, and what the guest said is missing in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The command's status.
    pub status: ExitStatus,
}

impl Guest {
    /// Boots the kernel, runs the order in it with this process's standard streams, and ends the kernel. `note` is
    /// told what is missing in the guest.
    ///
    /// # Errors
    /// [`GuestError`]. If `stop` is raised the command gets SIGTERM, and its status is returned once it has ended.
    pub fn run(
        &self,
        order: &Order,
        stop: &AtomicBool,
        note: &mut dyn FnMut(&str),
    ) -> Result<Ended, GuestError> {
        // The kernel's own directory for its control socket goes with it.
        let dir = tempfile::Builder::new().prefix("floodwall-guest-").tempdir_in(&self.memory_dir);
        let dir = dir.map_err(|error| GuestError::Io { what: "make a directory for the guest", error })?;
        let mut kernel = Kernel::start(self, dir.path())?;
        let line =
            kernel.line.try_clone().map_err(|error| GuestError::Io { what: "start the guest", error })?;
        let frames = read_frames(line);
        let mut talk = Talk { kernel: &mut kernel, frames, order, input: None, asked: None };
        let status = talk.run(stop, note);
        // Its own power-off is not waited for if the talk failed.
        kernel.end(if status.is_ok() { POWER_OFF } else { Duration::ZERO });
        status.map(|status| Ended { status })
    }
}

/// What the reading thread tells.
enum Heard {
    /// The guest is ready for the order.
    Ready,
    /// A frame.
    Frame(Frame),
    /// Nothing more will come.
    Gone,
}

/// Reads the serial line in a thread of its own, which ends with the line.
fn read_frames(mut line: UnixStream) -> Receiver<Heard> {
    let (tell, frames) = mpsc::channel();
    thread::spawn(move || {
        let ready = wire::wait_for_magic(&mut line);
        let _ = tell.send(ready.map_or(Heard::Gone, |_| Heard::Ready));
        loop {
            let heard = Frame::read(&mut line).map_or(Heard::Gone, Heard::Frame);
            let is_last = matches!(heard, Heard::Gone);
            if tell.send(heard).is_err() || is_last {
                return;
            }
        }
    });
    frames
}

/// One conversation with a guest.
struct Talk<'a> {
    kernel: &'a mut Kernel,
    frames: Receiver<Heard>,
    order: &'a Order,
    /// Tells the input thread that the guest has taken the last piece.
    input: Option<Sender<()>>,
    /// When the command was asked to end.
    asked: Option<Instant>,
}

impl Talk<'_> {
    fn run(&mut self, stop: &AtomicBool, note: &mut dyn FnMut(&str)) -> Result<ExitStatus, GuestError> {
        let mut heard = Instant::now();
        let mut ready = false;
        loop {
            let limit = if ready { SILENCE } else { BOOT };
            match self.frames.recv_timeout(POLL) {
                Ok(Heard::Ready) => {
                    ready = true;
                    self.begin()?;
                }
                Ok(Heard::Frame(frame)) => {
                    if let Some(end) = self.take(frame, note) {
                        return end;
                    }
                }
                Ok(Heard::Gone) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.kernel.died("ended before its command"));
                }
                Err(RecvTimeoutError::Timeout) => {
                    if heard.elapsed() > limit {
                        return Err(self.kernel.died("went silent and was ended"));
                    }
                    self.heed(stop, ready)?;
                    continue;
                }
            }
            heard = Instant::now();
            self.heed(stop, ready)?;
        }
    }

    /// Sends the order.
    fn begin(&mut self) -> Result<(), GuestError> {
        let streams = streams();
        self.say(&Frame::Order(Box::new(self.order.clone()), streams))?;
        let (taken, next) = mpsc::channel();
        let line = self.kernel.line.try_clone();
        let line = line.map_err(|error| GuestError::Io { what: "reach the guest", error })?;
        // Not joined: it may be inside a read of a terminal that nobody types into.
        thread::spawn(move || feed(&next, line));
        self.input = Some(taken);
        Ok(())
    }

    /// Does what a frame asks for; the command's end if it is the last.
    fn take(&mut self, frame: Frame, note: &mut dyn FnMut(&str)) -> Option<Result<ExitStatus, GuestError>> {
        let written = match frame {
            Frame::Stdout(bytes) => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(&bytes).and_then(|()| stdout.flush())
            }
            Frame::Stderr(bytes) => io::stderr().lock().write_all(&bytes),
            Frame::Note(text) => {
                note(&text);
                Ok(())
            }
            Frame::Taken => {
                if let Some(input) = &self.input {
                    // It has ended once stdin has.
                    let _ = input.send(());
                }
                Ok(())
            }
            Frame::Ended(End::Status(raw)) => return Some(Ok(ExitStatus::from_raw(raw))),
            Frame::Ended(End::Failed(why)) => return Some(Err(GuestError::Inside(why))),
            // Beats, and what only a host says.
            Frame::Beat | Frame::Order(..) | Frame::Stdin(_) | Frame::Signal(_) => Ok(()),
        };
        // Nobody reads any more (`| head`, a terminal that is gone): as SIGPIPE, the command is asked to end.
        if written.is_err() && self.asked.is_none() {
            self.asked = Some(Instant::now());
            let _ = self.say(&Frame::Signal(Signal::TERM.as_raw()));
        }
        None
    }

    /// Passes a signal on, and loses patience.
    fn heed(&mut self, stop: &AtomicBool, ready: bool) -> Result<(), GuestError> {
        match self.asked {
            None if stop.load(Ordering::Relaxed) => {
                if !ready {
                    return Err(GuestError::Interrupted);
                }
                self.asked = Some(Instant::now());
                self.say(&Frame::Signal(Signal::TERM.as_raw()))
            }
            Some(since) if since.elapsed() > END => Err(GuestError::Interrupted),
            _ => Ok(()),
        }
    }

    fn say(&mut self, frame: &Frame) -> Result<(), GuestError> {
        match frame.write(&mut self.kernel.line) {
            // The reader tells how it ended.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            said => said.map_err(|error| GuestError::Io { what: "talk to the guest", error }),
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

/// Sends stdin piece by piece, each once the guest has taken the one before.
fn feed(taken: &Receiver<()>, mut line: UnixStream) {
    let mut piece = vec![0; 4096];
    while taken.recv().is_ok() {
        // A terminal in the background or one that is gone: the command finds the end of its input.
        let length = io::stdin().lock().read(&mut piece).unwrap_or(0);
        let sent = Frame::Stdin(piece[..length].to_vec()).write(&mut line);
        if sent.is_err() || length == 0 {
            return;
        }
    }
}

/// The kernel's processes on the host.
struct Kernel {
    child: Child,
    line: UnixStream,
    console: Arc<Mutex<Vec<u8>>>,
}

impl Kernel {
    fn start(guest: &Guest, dir: &Path) -> Result<Self, GuestError> {
        let failed = |error| GuestError::Start { program: guest.uml.kernel.clone(), error };
        let (line, theirs) = UnixStream::pair().map_err(failed)?;
        let (console, to_console) = io::pipe().map_err(failed)?;
        let to_console_too = to_console.try_clone().map_err(failed)?;
        let mut command = Command::new(&guest.program);
        command
            .args(&guest.launch_args)
            .arg(launch::KERNEL)
            .arg(&guest.uml.kernel)
            .arg(format!("mem={}K", guest.ram.0 / 1024))
            .arg(format!("uml_dir={}", dir.display()))
            // Its first serial line is our end of the socket; its console goes beside it.
            .args(["ssl0=fd:0", "ssl=null", "con=null", "con0=null,fd:1"])
            .args(["rootfstype=hostfs", "rootflags=/", "ro", "quiet", "panic=-1"])
            .arg(format!("init={}", guest.program.display()))
            .arg("--")
            .args(&guest.init_args)
            .env_clear()
            .env("TMPDIR", dir)
            .stdin(OwnedFd::from(theirs))
            .stdout(to_console)
            .stderr(to_console_too)
            // A Ctrl-C of the terminal is ours to pass on.
            .process_group(0);
        let child = command.spawn().map_err(failed)?;
        // The parent's copies of the pipe would keep its reader waiting.
        drop(command);
        let kept = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&kept);
        thread::spawn(move || keep_the_last(console, &keep));
        Ok(Self { child, line, console: kept })
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

    /// Waits for the kernel's end, and makes it.
    fn end(&mut self, patience: Duration) {
        let deadline = Instant::now() + patience;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(POLL);
        }
        // The processes of the guest are host processes of the kernel's group.
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
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
