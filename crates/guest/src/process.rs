//! A kernel's processes on the host, and the last words of its console.
//!
//! ```text
//! floodwall ─▶ keeper (launch) ─▶ linux.uml or QEMU
//! ```

use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use crate::error::GuestError;
use crate::host::Guest;
use crate::kernel::{self, Kernel};
use crate::machine::{self, Start};
use crate::wire::Order;
use crate::{first_root, launch};

/// How long a kernel's keeper may take to end it.
const KEEPER: Duration = Duration::from_secs(5);
/// How often the stop flag is looked at.
pub(crate) const POLL: Duration = Duration::from_millis(20);
/// What is kept of the console, in bytes.
const CONSOLE: usize = 8 << 10;
/// Lines of the console in an error.
const CONSOLE_LINES: usize = 12;

/// The kernel's processes on the host. They end when it is dropped.
pub(crate) struct Process {
    /// Its keeper: [`crate::launch()`].
    child: Child,
    pub(crate) line: UnixStream,
    console: Arc<Mutex<Vec<u8>>>,
    /// How long it may take to power off by itself.
    pub(crate) patience: Duration,
}

impl Process {
    /// Starts the kernel. `note` hears of modules that it lacks.
    ///
    /// # Errors
    /// It can't be started, or what it needs can't be put together.
    pub(crate) fn start(
        guest: &Guest,
        order: &Order,
        note: &mut dyn FnMut(&str),
    ) -> Result<Self, GuestError> {
        let failed = |error| GuestError::Start { program: guest.kernel.file().into(), error };
        let (line, theirs) = UnixStream::pair().map_err(failed)?;
        let (console, to_console) = io::pipe().map_err(failed)?;
        let to_console_too = to_console.try_clone().map_err(failed)?;
        let start = Start {
            ram: guest.ram,
            program: &guest.program,
            args: &guest.init_args,
            writable: &order.writable,
        };
        let mut command = Command::new(&guest.program);
        command.args(&guest.launch_args).arg(launch::KERNEL).args(&order.writable).env_clear();
        // It stays open until the kernel's program has it.
        let mut first_root = None;
        let words = match &guest.kernel {
            Kernel::Uml { uml, memory_dir } => {
                command.arg(memory_dir).env("TMPDIR", memory_dir);
                machine::uml(&uml.kernel, &start)
            }
            Kernel::Image { image, qemu, kvm } => {
                command.arg(kernel::KVM);
                let (file, missing) =
                    first_root::archive(&guest.program, image.modules.as_deref(), &order.modules)?;
                for name in missing {
                    note(&format!("this kernel has no module '{name}'"));
                }
                let file = first_root.insert(file);
                machine::qemu(qemu, &image.file, file.as_raw_fd(), !kvm.may_work(), &start)
            }
        };
        command
            .arg(launch::BEFORE_KERNEL)
            .args(words)
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

    /// Forgets what the console has said: a kernel that dies later has other last words than those of its boot.
    pub(crate) fn forget_console(&self) {
        self.console.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Whether the console has said anything since it was forgotten.
    pub(crate) fn has_spoken(&self) -> bool {
        !self.console.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// How the guest died, with the last of its console.
    pub(crate) fn died(&mut self, how: &'static str) -> GuestError {
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
    pub(crate) fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let Some(keeper) = Pid::from_raw(self.child.id() as i32) else { return true };
        !matches!(rustix::process::waitid(WaitId::Pid(keeper), options), Ok(None))
    }
}

impl Drop for Process {
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
