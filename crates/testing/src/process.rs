//! Programs that a test runs, and children that end with it.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use floodwall_model::proc_stat::ProcStat;

use crate::{ensure, said};

/// Directories of programs, root's included: the `PATH` of an ordinary user may lack them.
pub(crate) const PROGRAMS: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Runs a program, root's included, that has to succeed, and returns what it printed, without the
/// last line end.
///
/// # Errors
/// Why it can't be run, or its status with everything that it wrote.
pub fn run(program: impl AsRef<OsStr>, arguments: &[&str]) -> Result<String, String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{path}:{}", PROGRAMS.join(":"));
    done(Command::new(program).args(arguments).env("PATH", path))
}

/// The same of a command.
///
/// # Errors
/// Why it can't be run, or its status with everything that it wrote.
pub fn done(command: &mut Command) -> Result<String, String> {
    let output = output(command)?;
    ensure(output.status.success(), || format!("{command:?}: {}", everything(&output)))?;
    Ok(text(&output.stdout).trim_end().to_owned())
}

/// A command's output, whatever its status. Its standard input is empty, its locale is UTF-8, its
/// text has the width of a pipe, whatever terminal the caller has.
///
/// # Errors
/// Why it can't be run.
pub fn output(command: &mut Command) -> Result<Output, String> {
    command.env("LC_ALL", "C.UTF-8").env_remove("COLUMNS");
    command.stdin(Stdio::null()).output().map_err(|e| format!("{command:?}: {e}"))
}

/// The status of a command and its messages.
#[must_use]
pub fn told(output: &Output) -> String {
    format!("{}: {}", output.status, text(&output.stderr))
}

/// The same, and what it printed.
#[must_use]
pub fn everything(output: &Output) -> String {
    format!("{}\n{}", told(output), text(&output.stdout))
}

/// The JSON that a command printed.
///
/// # Errors
/// The output is no JSON: why, with the command's messages.
pub fn json(output: &Output) -> Result<serde_json::Value, String> {
    serde_json::from_slice(&output.stdout).map_err(|e| format!("{e}: {}", told(output)))
}

/// Bytes that a program wrote, as text.
#[must_use]
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Copies a program to a place where the test starts it.
///
/// Another process writes the copy. If the test wrote it, a child that another thread starts at
/// that moment would keep the file open for writing. The start of the program would then fail:
/// "Text file busy" (ETXTBSY of execve(2)).
///
/// # Errors
/// Why it can't be copied.
pub fn install(from: impl AsRef<Path>, to: &Path) -> Result<(), String> {
    done(Command::new("install").args(["-m", "755"]).arg(from.as_ref()).arg(to)).map(drop)
}

/// Writes a script that the test starts, as [`install`] copies a program.
///
/// # Errors
/// Why it can't be written.
pub fn script(to: &Path, text: &str) -> Result<(), String> {
    let mut source = tempfile::NamedTempFile::new().map_err(said("a script"))?;
    source.write_all(text.as_bytes()).map_err(said("a script"))?;
    install(source.path(), to)
}

/// A child. It is killed at the latest when dropped.
pub struct Process(pub Child);

impl Process {
    /// Starts the test's own binary, with a pipe as its standard output.
    ///
    /// # Errors
    /// Why it can't be started.
    pub fn of_this_binary(arguments: &[&str], stdin: Stdio) -> Result<Self, String> {
        Command::new(std::env::current_exe().map_err(said("this binary"))?)
            .args(arguments)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .spawn()
            .map(Self)
            .map_err(said("this binary"))
    }

    /// Waits until it says this line, and reads not a byte more.
    ///
    /// # Errors
    /// Another line, or none.
    pub fn says(&mut self, line: &str) -> Result<(), String> {
        let mut told = String::new();
        let stdout = self.0.stdout.as_mut().ok_or("no stdout")?;
        BufReader::with_capacity(1, stdout).read_line(&mut told).map_err(said("stdout"))?;
        ensure(told.trim_end() == line, || format!("it says {told:?}, not {line:?}"))
    }
}

/// Whether a process runs: a zombie does not.
#[must_use]
pub fn lives(pid: i32) -> bool {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    ProcStat::parse(&stat).is_some_and(|stat| !stat.has_ended())
}

/// The lines that a child writes, read as they come.
pub struct Log(Arc<Mutex<String>>);

impl Log {
    /// Of a child's pipe; empty without one.
    pub fn of(stream: Option<impl Read + Send + 'static>) -> Self {
        let log = Self(Arc::default());
        let lines = Arc::clone(&log.0);
        std::thread::spawn(move || {
            for line in stream
                .map(BufReader::new)
                .into_iter()
                .flat_map(BufRead::lines)
                .map_while(Result::ok)
            {
                *lines.lock().unwrap_or_else(PoisonError::into_inner) += &format!("{line}\n");
            }
        });
        log
    }

    /// The lines until now.
    #[must_use]
    pub fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ends the whole run if a test takes too long.
pub struct Watchdog(#[expect(dead_code, reason = "dropping it ends the watch")] Sender<()>);

impl Watchdog {
    /// Until it is dropped. After `seconds`, `rescue` sees to it that nothing stays stuck.
    pub fn new(test: &'static str, seconds: u64, rescue: fn()) -> Self {
        let (done, waiting) = channel();
        std::thread::spawn(move || {
            let waited = waiting.recv_timeout(Duration::from_secs(seconds));
            if waited == Err(RecvTimeoutError::Timeout) {
                eprintln!("{test} hangs after {seconds} s: taking everything down");
                rescue();
                std::process::exit(101);
            }
        });
        Self(done)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::scope;

    use super::*;

    #[test]
    fn a_script_is_started_while_other_threads_start_children() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("script");
        let done = AtomicBool::new(false);
        scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        run("true", &[]).unwrap();
                    }
                });
            }
            for _ in 0..100 {
                let said = script(&path, "#!/bin/sh\necho yes\n").and_then(|()| run(&path, &[]));
                done.store(said.is_err(), Ordering::Relaxed);
                assert_eq!(said.unwrap(), "yes");
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
