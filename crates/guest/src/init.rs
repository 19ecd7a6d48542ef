//! The guest's side: process 1 of its kernel.
//!
//! ```text
//! image: first root ─▶ the host's files ─▶ starts again
//! serial line raw, MAGIC ─▶ order ─▶ modules ─▶ root: overlay of a tmpfs over the host's files
//!   ─▶ cgroups ─▶ the command in a session of its own, its streams as frames ─▶ its status
//!   ─▶ power off
//! ```
//!
//! Nothing here outlives the guest: errors are told to the host, and the kernel powers off in every
//! case.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::process::{Pid, Signal, WaitOptions};
use rustix::pty::OpenptFlags;
use rustix::system::RebootCommand;
use rustix::termios::{LocalModes, OptionalActions, OutputModes, Winsize};

use crate::error::GuestError;
use crate::modules::{self, Modules};
use crate::wire::{self, End, Frame, Order, Streams};
use crate::{first_root, launch, machine, network};

/// The first serial line.
const LINE: &str = "/dev/ttyS0";
/// A directory that every host has, under which the new root is put together.
const STAGE: &str = "/mnt";
/// Controllers of cgroup v2 that children of the root get.
const CONTROLLERS: [&str; 4] = ["cpu", "io", "memory", "pids"];
/// Groups that are there for the command's victims and floods.
const GROUPS: [&str; 2] = ["victim", "flood"];
/// How often the guest says that it is alive.
const BEAT: Duration = Duration::from_secs(1);
/// How long output is waited for after the command has ended: its background processes may hold its
/// streams open.
const LAST_OUTPUT: Duration = Duration::from_secs(2);
/// How often ended processes are looked for.
const POLL: Duration = Duration::from_millis(5);

/// Serves the host as process 1: runs its order and powers off.
///
/// # Errors
/// [`GuestError::NotForPeople`] anywhere else than in process 1; the serial line can't be opened.
pub fn serve(launcher: &[String]) -> Result<(), GuestError> {
    if !rustix::process::getpid().is_init() {
        return Err(GuestError::NotForPeople);
    }
    let failed = |what| move |errno: Errno| GuestError::Io { what, error: errno.into() };
    // The kernel has done it if its configuration says so.
    let _ = mount("devtmpfs", "/dev", "devtmpfs", MountFlags::empty(), None);
    let line = open_line().map_err(failed("open the serial line"))?;
    let line = Line(Arc::new(Mutex::new(line)));
    if first_root::is_here() {
        let why = match first_root::leave() {
            Ok(()) => format!("can't start again: {}", first_root::again().exec()),
            Err(why) => why,
        };
        line.begin();
        return end_with(&line, End::Failed(why));
    }
    let end = serve_order(&line, launcher).unwrap_or_else(End::Failed);
    // Data written to the host's directories is still in this kernel's page cache.
    rustix::fs::sync();
    end_with(&line, end)
}

/// Tells the host how it ended, and powers off.
fn end_with(line: &Line, end: End) -> Result<(), GuestError> {
    line.say(&Frame::Ended(end));
    line.drain();
    rustix::system::reboot(RebootCommand::PowerOff)
        .map_err(|errno| GuestError::Io { what: "power off", error: errno.into() })
}

/// The serial line as a plain stream of bytes.
fn open_line() -> rustix::io::Result<File> {
    let line =
        rustix::fs::open(LINE, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    let mut modes = rustix::termios::tcgetattr(&line)?;
    modes.make_raw();
    rustix::termios::tcsetattr(&line, OptionalActions::Now, &modes)?;
    Ok(File::from(line))
}

/// The serial line, written to by several threads.
#[derive(Clone)]
struct Line(Arc<Mutex<File>>);

impl Line {
    /// A host that does not listen is gone: the reader ends the guest then.
    fn say(&self, frame: &Frame) {
        let mut line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = frame.write(&mut *line);
    }

    /// The first thing that is said.
    fn begin(&self) {
        let mut line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = line.write_all(wire::MAGIC);
    }

    /// Waits until all that was said has left the kernel: a slow reader lets a line fill.
    fn drain(&self) {
        let line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = rustix::termios::tcdrain(&*line);
    }

    fn reader(&self) -> io::Result<Reader> {
        let from = self.0.lock().unwrap_or_else(PoisonError::into_inner).try_clone()?;
        Ok(Reader { from, line: self.clone() })
    }
}

/// Reads the host's frames, and acknowledges them: the host never sends more than the line holds.
struct Reader {
    from: File,
    line: Line,
}

impl Read for Reader {
    fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        let length = self.from.read(piece)?;
        self.line.say(&Frame::Read(u32::try_from(length).unwrap_or(u32::MAX)));
        Ok(length)
    }
}

fn serve_order(line: &Line, launcher: &[String]) -> Result<End, String> {
    let mut reader = line.reader().map_err(|e| format!("can't read the serial line: {e}"))?;
    line.begin();
    let order = Frame::read(&mut reader).map_err(|e| format!("can't read the order: {e}"))?;
    let Frame::Order(order, streams) = order else {
        return Err("the host did not begin with an order".into());
    };
    let beat = line.clone();
    thread::spawn(move || {
        loop {
            thread::sleep(BEAT);
            beat.say(&Frame::Beat);
        }
    });
    prepare(&order, line)?;
    run(&order, streams, launcher, line, reader)
}

/// Makes the guest a place where the order can run.
fn prepare(order: &Order, line: &Line) -> Result<(), String> {
    let is_image = first_root::has_been_left();
    // The first root filesystem had the modules of an image.
    if let Some(dir) = order.modules_dir.as_ref().filter(|_| !is_image) {
        let modules = Modules::below(dir)
            .map_err(|e| format!("can't list the modules in '{}': {e}", dir.display()))?;
        order.modules.iter().try_for_each(|name| modules.load(name)).map_err(|e| e.to_string())?;
    }
    build_root(order, is_image)?;
    for group in CONTROLLERS.map(|name| (format!("+{name}"), name)) {
        let (switch, name) = group;
        if let Err(e) = std::fs::write("/sys/fs/cgroup/cgroup.subtree_control", switch) {
            line.say(&Frame::Note(format!(
                "this kernel has no controller '{name}' in cgroup v2: {e}"
            )));
        }
    }
    for group in GROUPS {
        make_dir(&Path::new("/sys/fs/cgroup").join(group))?;
    }
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    if let Some(dir) = &order.modules_dir
        && let Err(e) = modules::show_to_modprobe(dir, &release)
    {
        line.say(&Frame::Note(format!("modprobe finds no modules here: {e}")));
    }
    if let Err(e) = network::bring_lo_up() {
        line.say(&Frame::Note(format!("this kernel's loopback device stays down: {e}")));
    }
    Ok(())
}

/// Builds the root and moves into it: a tmpfs over the host's files, kernel filesystems, fresh
/// scratch space, and the writable directories of the host.
fn build_root(order: &Order, is_image: bool) -> Result<(), String> {
    let stage = Path::new(STAGE);
    let on = |what: &str, source: &str, target: &Path, kind: &str, data: Option<&str>| {
        let data = data
            .map(std::ffi::CString::new)
            .transpose()
            .map_err(|_| "a path has a NUL byte".to_owned())?;
        mount(source, target, kind, MountFlags::empty(), data.as_deref())
            .map_err(|e| format!("can't mount {what} on '{}': {e}", target.display()))
    };
    on("a tmpfs", "tmpfs", stage, "tmpfs", None)?;
    let [upper, work, root] = ["upper", "work", "root"].map(|name| stage.join(name));
    for dir in [&upper, &work, &root] {
        make_dir(dir)?;
    }
    let layers = format!("lowerdir=/,upperdir={},workdir={}", upper.display(), work.display());
    on("the root", "overlay", &root, "overlay", Some(&layers))?;
    let at = |path: &str| root.join(path.trim_start_matches('/'));
    on("proc", "proc", &at("/proc"), "proc", None)?;
    on("sysfs", "sysfs", &at("/sys"), "sysfs", None)?;
    on("cgroup v2", "cgroup2", &at("/sys/fs/cgroup"), "cgroup2", None)?;
    on("devtmpfs", "devtmpfs", &at("/dev"), "devtmpfs", None)?;
    make_dir(&at("/dev/pts"))?;
    on("devpts", "devpts", &at("/dev/pts"), "devpts", Some("ptmxmode=666"))?;
    for fresh in ["/dev/shm", "/run"]
        .map(Path::new)
        .into_iter()
        .chain(order.fresh.iter().map(PathBuf::as_path))
    {
        let dir = root.join(fresh.strip_prefix("/").unwrap_or(fresh));
        make_dir(&dir)?;
        on("a tmpfs", "tmpfs", &dir, "tmpfs", None)?;
    }
    for (number, dir) in order.writable.iter().enumerate() {
        let target = root.join(dir.strip_prefix("/").unwrap_or(dir));
        make_dir(&target)?;
        let host = dir.to_str().ok_or_else(|| format!("'{}' is no UTF-8", dir.display()))?;
        let what = "the host's directory";
        if is_image {
            on(what, &machine::writable_tag(number), &target, "9p", Some(first_root::WRITABLE))?;
        } else {
            on(what, "host", &target, "hostfs", Some(host))?;
        }
    }
    first_root::move_to(&root).map_err(|e| format!("can't move into the new root: {e}"))
}

fn make_dir(dir: &Path) -> Result<(), String> {
    std::fs::create_dir_all(dir).map_err(|e| format!("can't make '{}': {e}", dir.display()))
}

/// Runs the command; how it ended.
fn run(
    order: &Order,
    streams: Streams,
    launcher: &[String],
    line: &Line,
    reader: Reader,
) -> Result<End, String> {
    let failed = |e: io::Error| format!("can't start '{}': {e}", order.program.display());
    let plumbing = Plumbing::lay(streams).map_err(failed)?;
    let [stdin, stdout, stderr] = plumbing.theirs;
    let (program, first) = launcher.split_first().ok_or("the order names no launcher")?;
    let mut command = Command::new(program);
    command
        .args(first)
        .args([launch::SESSION, "--"])
        .arg(&order.program)
        .args(&order.args)
        .env_clear()
        .envs(order.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&order.dir)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr);
    let child = command.spawn().map_err(failed)?;
    // This process's copies of its ends would keep the readers waiting.
    drop(command);
    let child = Pid::from_raw(child.id() as i32).ok_or("the command has no process id")?;
    let (output_ended, outputs) = mpsc::channel();
    for (from, frame) in plumbing.outputs {
        let (line, ended) = (line.clone(), output_ended.clone());
        thread::spawn(move || {
            relay(from, frame, &line);
            let _ = ended.send(());
        });
    }
    drop(output_ended);
    let (input, pieces) = mpsc::channel();
    let (input_of, line_of_input) = (plumbing.input, line.clone());
    thread::spawn(move || feed(&pieces, input_of, &line_of_input));
    thread::spawn(move || listen(reader, &input, child));
    line.say(&Frame::Taken);
    let status = reap_until(child).map_err(|e| format!("can't wait for the command: {e}"))?;
    wait_for_output(&outputs);
    Ok(End::Status(status))
}

/// Which kind of frame a piece of output becomes.
type ToFrame = fn(Vec<u8>) -> Frame;

/// The pipes, and the terminal, between command and serial line.
struct Plumbing {
    /// The command's ends: stdin, stdout, stderr.
    theirs: [Stdio; 3],
    /// Where its input goes.
    input: File,
    /// Where its output comes from, and which frame it becomes.
    outputs: Vec<(File, ToFrame)>,
}

impl Plumbing {
    /// A terminal for the streams that are one at the caller's, pipes for the others.
    fn lay(streams: Streams) -> io::Result<Self> {
        let [stdin, stdout, stderr] = streams.terminals;
        let pty =
            if stdin || stdout || stderr { Some(open_terminal(streams.window)?) } else { None };
        let mut outputs: Vec<(File, ToFrame)> = Vec::new();
        let mut output = |is_terminal: bool, frame: ToFrame| -> io::Result<Stdio> {
            match &pty {
                Some((_, theirs)) if is_terminal => Ok(theirs.try_clone()?.into()),
                _ => {
                    let (ours, theirs) = io::pipe()?;
                    outputs.push((File::from(OwnedFd::from(ours)), frame));
                    Ok(theirs.into())
                }
            }
        };
        let (out, err) = (output(stdout, Frame::Stdout)?, output(stderr, Frame::Stderr)?);
        if let Some((ours, _)) = &pty {
            let frame = if stdout || !stderr { Frame::Stdout } else { Frame::Stderr };
            outputs.push((ours.try_clone()?, frame));
        }
        let (theirs, input) = match pty {
            Some((ours, theirs)) if stdin => (Stdio::from(theirs), ours),
            _ => {
                let (theirs, ours) = io::pipe()?;
                (theirs.into(), File::from(OwnedFd::from(ours)))
            }
        };
        Ok(Self { theirs: [theirs, out, err], input, outputs })
    }
}

/// A terminal that neither echoes nor changes the output: the caller's terminal does both.
fn open_terminal(window: Option<(u16, u16)>) -> io::Result<(File, File)> {
    let ours = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    rustix::pty::grantpt(&ours)?;
    rustix::pty::unlockpt(&ours)?;
    let name = rustix::pty::ptsname(&ours, Vec::new())?;
    let theirs =
        rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    let mut modes = rustix::termios::tcgetattr(&theirs)?;
    modes.local_modes.remove(LocalModes::ECHO);
    modes.output_modes.remove(OutputModes::OPOST);
    rustix::termios::tcsetattr(&theirs, OptionalActions::Now, &modes)?;
    if let Some((ws_row, ws_col)) = window {
        rustix::termios::tcsetwinsize(
            &theirs,
            Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 },
        )?;
    }
    Ok((ours.into(), theirs.into()))
}

/// Output as frames, until its end. A terminal whose other side is closed reads as `EIO`.
fn relay(mut from: File, frame: ToFrame, line: &Line) {
    let mut piece = vec![0; 16 << 10];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        line.say(&frame(piece[..length].to_vec()));
    }
}

/// Input for the command, a piece at a time. An empty piece is its end.
fn feed(pieces: &Receiver<Vec<u8>>, to: File, line: &Line) {
    let mut to = Some(to);
    for piece in pieces {
        if piece.is_empty() {
            to = None;
        } else if let Some(open) = &mut to
            && open.write_all(&piece).is_err()
        {
            // The command does not read it any more.
            to = None;
        }
        line.say(&Frame::Taken);
    }
}

/// Follows the host's orders until it is gone; then the guest has no purpose.
fn listen(mut reader: Reader, input: &Sender<Vec<u8>>, child: Pid) {
    loop {
        match Frame::read(&mut reader) {
            Ok(Frame::Stdin(piece)) => {
                let _ = input.send(piece);
            }
            Ok(Frame::Signal(signal)) => {
                if let Some(signal) = Signal::from_named_raw(signal) {
                    let _ = rustix::process::kill_process(child, signal);
                }
            }
            Ok(_) => {}
            Err(_) => {
                let _ = rustix::system::reboot(RebootCommand::PowerOff);
                return;
            }
        }
    }
}

/// Waits for `child`, and takes note of every other process that ends: process 1 inherits orphans.
fn reap_until(child: Pid) -> rustix::io::Result<i32> {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == child => return Ok(status.as_raw()),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => thread::sleep(POLL),
            Err(e) => return Err(e),
        }
    }
}

/// Waits until all output has come, at most [`LAST_OUTPUT`].
fn wait_for_output(ended: &Receiver<()>) {
    let deadline = Instant::now() + LAST_OUTPUT;
    while ended.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok() {}
}
