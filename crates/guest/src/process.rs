//! A kernel's processes on the host, and the last words of its console.
//!
//! ```text
//! floodwall ─▶ keeper (launch) ─▶ linux.uml or QEMU
//! ```

use std::ffi::OsString;
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::Access;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use crate::error::GuestError;
use crate::guest::Guest;
use crate::kernel::Kernel;
use crate::machine::{self, Start};
use crate::wire::Order;
use crate::{first_root, launch};

/// Where the host's kernel runs virtual machines.
const KVM: &str = "/dev/kvm";
/// How long a kernel's banner may take with KVM, which has it within a second. A /dev/kvm below
/// another hypervisor may exist and never boot anything.
const BANNER_LIMIT: Duration = Duration::from_secs(5);
/// The first words of a kernel's banner (init/version.c). Firmware and the image's loader say other
/// words before it.
const BANNER: &[u8] = b"Linux version ";
/// What a user-mode kernel says where it has no room for the processor's registers
/// (arch/um/os-Linux/skas/process.c `userspace`). Linux 6.1 has room for those of AVX-512.
const TOO_MANY_REGISTERS: &str = "userspace - ptrace set fp regs failed";
/// The longest path of a program, in bytes: a kernel's command line has 2048 (`COMMAND_LINE_SIZE`
/// of x86).
const LONGEST_PATH: usize = 1024;
/// How long a kernel's keeper may take to end it.
const KEEPER: Duration = Duration::from_secs(5);
/// The time between two looks at a kernel's processes or at the stop flag.
pub(crate) const POLL: Duration = Duration::from_millis(20);
/// The length of the console's end that errors are told from, in bytes.
const CONSOLE: usize = 8 << 10;
/// Lines of the console in an error.
const CONSOLE_LINES: usize = 12;

/// The kernel's processes on the host. They end when it is dropped.
pub(crate) struct Process {
    /// Its keeper: [`crate::launch()`].
    child: Child,
    pub(crate) line: UnixStream,
    /// The last of what kernel and QEMU have said.
    console: Arc<Mutex<Vec<u8>>>,
    /// Whether the kernel has said its banner.
    has_banner: Arc<AtomicBool>,
    /// How long it may take to power off by itself.
    pub(crate) patience: Duration,
}

impl Process {
    /// Starts the kernel. `note` hears of modules that it lacks.
    ///
    /// # Errors
    /// It can't be started, or its parts can't be put together.
    pub(crate) fn start(
        guest: &Guest,
        order: &Order,
        note: &mut dyn FnMut(&str),
    ) -> Result<Self, GuestError> {
        let start = Start {
            ram: guest.ram,
            program: word_of(&guest.program)?,
            args: &guest.init_args,
            writable: &order.writable,
        };
        let mut writable = order.writable.clone();
        match &guest.kernel {
            Kernel::Uml { uml, memory_dir } => {
                writable.push(memory_dir.clone());
                Self::keep(guest, &writable, machine::uml(&uml.kernel, &start))
            }
            Kernel::Image { image, qemu, is_emulated } => {
                writable.push(KVM.into());
                let (first_root, missing) =
                    first_root::archive(&guest.program, image.modules.as_deref(), &order.modules)?;
                for name in missing {
                    note(&format!("this kernel has no module '{name}'"));
                }
                let machine =
                    machine::Qemu { program: qemu, image: &image.file, is_emulated: *is_emulated };
                // The keeper inherits the file.
                Self::keep(guest, &writable, machine.words(&start, first_root.as_raw_fd()))
            }
        }
    }

    /// Whether an image's kernel begins to run soon, without a root filesystem.
    ///
    /// # Errors
    /// QEMU can't be started.
    pub(crate) fn boots(guest: &Guest) -> Result<bool, GuestError> {
        let Kernel::Image { image, qemu, is_emulated } = &guest.kernel else { return Ok(true) };
        let machine =
            machine::Qemu { program: qemu, image: &image.file, is_emulated: *is_emulated };
        let process = Self::keep(guest, &[KVM.into()], machine.bare_words())?;
        let has_banner = || process.has_banner.load(Ordering::Relaxed);
        process.wait(BANNER_LIMIT, has_banner);
        Ok(has_banner())
    }

    /// Starts a kernel's command line below a keeper, with the directories and files that it may
    /// write to.
    fn keep(guest: &Guest, writable: &[PathBuf], words: Vec<OsString>) -> Result<Self, GuestError> {
        let failed = |error| GuestError::Start { program: guest.kernel.file().into(), error };
        let (line, theirs) = UnixStream::pair().map_err(failed)?;
        let (console, to_console) = io::pipe().map_err(failed)?;
        let (complaints, to_complaints) = io::pipe().map_err(failed)?;
        let mut command = Command::new(&guest.program);
        command
            .args(&guest.launch_args)
            .arg(launch::KERNEL)
            .args(writable)
            .arg(launch::BEFORE_KERNEL)
            .args(words)
            .env_clear()
            .stdin(OwnedFd::from(theirs))
            .stdout(to_console)
            .stderr(to_complaints)
            // A Ctrl-C of the terminal is passed on by this program. The keeper leaves this group
            // for the kernel's.
            .process_group(0);
        if let Kernel::Uml { memory_dir, .. } = &guest.kernel {
            command.env("TMPDIR", memory_dir);
        }
        let child = command.spawn().map_err(failed)?;
        // The parent's copies of the pipes would keep their readers waiting.
        drop(command);
        let kept = Arc::new(Mutex::new(Vec::new()));
        let has_banner = Arc::new(AtomicBool::new(false));
        let (keep, seen) = (Arc::clone(&kept), Arc::clone(&has_banner));
        thread::spawn(move || keep_the_last(console, &keep, &seen));
        let keep = Arc::clone(&kept);
        thread::spawn(move || keep_the_last(complaints, &keep, &AtomicBool::default()));
        Ok(Self { child, line, console: kept, has_banner, patience: Duration::ZERO })
    }

    /// Forgets what the console has said: a kernel that dies later has other last words than those
    /// of its boot.
    pub(crate) fn forget_console(&self) {
        self.console.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// How the guest died, with the last of its console.
    pub(crate) fn died(&mut self, how: &'static str) -> GuestError {
        // Its last output may still be on its way.
        thread::sleep(Duration::from_millis(100));
        let console = self.console.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&console);
        if text.contains(TOO_MANY_REGISTERS) {
            return GuestError::Processor;
        }
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

    /// Waits until something is so or the kernel has ended, at most `time`.
    fn wait(&self, time: Duration, is_so: impl Fn() -> bool) {
        let deadline = Instant::now() + time;
        while !is_so() && !self.has_ended() && Instant::now() < deadline {
            thread::sleep(POLL);
        }
    }
}

impl Drop for Process {
    /// Waits for the kernel to end by itself, then ends it. Only here, once: after the keeper is
    /// reaped, its number may be another process's.
    fn drop(&mut self) {
        self.wait(self.patience, || false);
        // The keeper ends the kernel with all of its processes.
        let _ = self.line.shutdown(Shutdown::Both);
        self.wait(KEEPER, || false);
        // A keeper that does not act, one that is stopped for example. It is not reaped before: its
        // number is its own.
        if let Some(keeper) = Pid::from_raw(self.child.id() as i32)
            && let Ok(group) = rustix::process::getpgid(Some(keeper))
        {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// Whether this process may use the host's KVM.
pub(crate) fn may_use_kvm() -> bool {
    rustix::fs::access(KVM, Access::READ_OK | Access::WRITE_OK).is_ok()
}

/// A program's path as a word of a kernel's command line.
fn word_of(program: &Path) -> Result<&str, GuestError> {
    let fits = |text: &&str| text.len() <= LONGEST_PATH && !text.contains([' ', '\t', '\n', '"']);
    program.to_str().filter(fits).ok_or_else(|| GuestError::Place { program: program.into() })
}

/// Keeps the last bytes of the output, and whether a kernel's banner was among it.
fn keep_the_last(mut from: impl Read, kept: &Mutex<Vec<u8>>, has_banner: &AtomicBool) {
    let mut piece = [0; 1024];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&piece[..length]);
        if !has_banner.load(Ordering::Relaxed)
            && kept.windows(BANNER.len()).any(|words| words == BANNER)
        {
            has_banner.store(true, Ordering::Relaxed);
        }
        let surplus = kept.len().saturating_sub(CONSOLE);
        kept.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands its pieces out one by one, as a pipe may.
    struct Pieces(Vec<&'static str>);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            self.0.remove(0).as_bytes().read(buffer)
        }
    }

    #[test]
    fn only_a_kernels_banner_shows_that_kvm_boots_it() {
        let has_banner = |pieces: &[&'static str]| {
            let seen = AtomicBool::new(false);
            keep_the_last(Pieces(pieces.to_vec()), &Mutex::default(), &seen);
            seen.into_inner()
        };
        // A KVM without VMX or SVM (kvm_pvm) prints the loader's words and starts no kernel.
        assert!(!has_banner(&["Probing EDD (edd=off to disable)... ok\n"]));
        assert!(has_banner(&[
            "Probing EDD... ok\n[    0.000000] Linux ver",
            "sion 6.1.0-56-amd64 (debian"
        ]));
    }
}
