//! What passes between the caller and the guest's command: bytes, status, terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::process::Stdio;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

use crate::bed::{Bed, PATIENCE, Who, end_of, equal, run, said, text};
use crate::{Once, Test};

pub(crate) const TESTS: &[Test] = &[
    Test { name: "the command's status passes out", who: Once::Both, needs: &[], body: status },
    Test {
        name: "a mebibyte passes in and out unchanged",
        who: Once::Both,
        needs: &[],
        body: bytes,
    },
    Test {
        name: "output waits for its reader",
        who: Once::Caller,
        needs: &["md5sum"],
        body: slow_reader,
    },
    Test { name: "a reader that goes away", who: Once::Caller, needs: &["yes"], body: no_reader },
    Test {
        name: "a terminal is one",
        who: Once::Both,
        needs: &["setsid", "tty", "stty"],
        body: terminal,
    },
];

/// Bytes that repeat nowhere nearby, every value among them (a linear congruential generator).
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn status(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let cases =
        [("exit 7", 7), ("kill -9 $$", 137), ("exec /etc/passwd", 126), ("exec /no/such", 127)];
    for (script, should) in cases {
        let output = run(&mut bed.guest(&["--raw"], script), &[])?;
        equal(script, output.status.code(), Some(should))?;
    }
    // Not by the shell's own execve.
    let mut none = bed.command(&[], &bed.program());
    none.args([
        "lab", "run", "null", "--raw", "--size", "64MiB", "--kernel", "uml", "--ram", "640MiB",
        "--",
    ]);
    let output = run(none.arg("/etc/passwd"), &[])?;
    equal("no program", output.status.code(), Some(1))?;
    let words = "can't run '/etc/passwd': Permission denied";
    if !said(&output.stderr).contains(words) {
        return Err(format!("'{words}' is not in: {}", said(&output.stderr)));
    }
    bed.nothing_is_left()
}

fn bytes(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let noise = noise(1 << 20);
    // stderr beside it, and a line after the end of the input.
    let script = "cat; echo end >&2";
    let output = run(&mut bed.guest(&["--raw"], script), &noise)?;
    equal("status", output.status.code(), Some(0))?;
    equal("stderr", said(&output.stderr).as_str(), "end\n")?;
    equal("length", output.stdout.len(), noise.len())?;
    if output.stdout != noise {
        return Err("the bytes have changed".into());
    }
    bed.nothing_is_left()
}

fn slow_reader(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    // Much more than pipes and the line between guest and host hold.
    let mut command = bed.guest(&["--raw"], "head -c 4194304 /dev/zero; echo end");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(text)?;
    let mut stdout = child.stdout.take().ok_or("no stdout")?;
    let mut first = [0; 4096];
    stdout.read_exact(&mut first).map_err(text)?;
    std::thread::sleep(Duration::from_secs(3));
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).map_err(text)?;
    equal("status", end_of(&mut child)?.code(), Some(0))?;
    equal("length", first.len() + rest.len(), (4 << 20) + 4)?;
    equal("end", &rest[rest.len() - 4..], b"end\n".as_slice())?;
    bed.nothing_is_left()
}

fn no_reader(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let mut child =
        bed.guest(&["--raw"], "exec yes").stdout(Stdio::piped()).spawn().map_err(text)?;
    let mut stdout = child.stdout.take().ok_or("no stdout")?;
    stdout.read_exact(&mut [0; 4]).map_err(text)?;
    drop(stdout);
    equal("status", end_of(&mut child)?.code(), Some(143))?;
    bed.nothing_is_left()
}

/// A terminal, and its output so far.
pub(crate) struct Terminal {
    pub(crate) keys: File,
    seen: String,
}

impl Terminal {
    /// A terminal of 33 rows and 77 columns, and its three streams for a process.
    pub(crate) fn open() -> Result<(Self, [Stdio; 3]), String> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = rustix::pty::openpt(flags).map_err(text)?;
        rustix::pty::grantpt(&ours).map_err(text)?;
        rustix::pty::unlockpt(&ours).map_err(text)?;
        let name = rustix::pty::ptsname(&ours, Vec::new()).map_err(text)?;
        let name = name.into_string().map_err(text)?;
        let theirs = File::options().read(true).write(true).open(name).map_err(text)?;
        let size = Winsize { ws_row: 33, ws_col: 77, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&theirs, size).map_err(text)?;
        let clone = || theirs.try_clone().map(Stdio::from).map_err(text);
        let streams = [clone()?, clone()?, clone()?];
        Ok((Self { keys: ours.into(), seen: String::new() }, streams))
    }

    /// Reads until `words` are on the screen; everything so far.
    pub(crate) fn shows(&mut self, words: &str) -> Result<&str, String> {
        let patience = Timespec::try_from(PATIENCE).map_err(text)?;
        while !self.seen.contains(words) {
            let mut ready = [PollFd::new(&self.keys, PollFlags::IN)];
            let ready = rustix::event::poll(&mut ready, Some(&patience)).map_err(text)?;
            let mut piece = [0; 4096];
            match if ready == 0 { Ok(0) } else { self.keys.read(&mut piece) } {
                Ok(length @ 1..) => self.seen.push_str(&said(&piece[..length])),
                _ => return Err(format!("'{words}' is not on the screen: {}", self.seen)),
            }
        }
        Ok(&self.seen)
    }
}

fn terminal(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let (mut terminal, [stdin, stdout, stderr]) = Terminal::open()?;
    let script = "tty; stty size; read -r line; echo \"<$line>\"; stty -a | grep -c brkint; \
                  test -t 0 && test -t 1 && test -t 2 && echo three";
    let mut command = bed.guest_after(&["setsid", "--ctty"], &["--raw"], script);
    let mut child = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn().map_err(text)?;
    // The process has them; this process's copies would keep the terminal from being closed.
    drop(command);
    terminal.shows("33 77")?;
    terminal.keys.write_all(b"typed\n").map_err(text)?;
    let screen = terminal.shows("three")?;
    equal("echoes of what was typed", screen.matches("typed").count(), 2)?;
    if !screen.contains("/dev/pts/") || !screen.contains("<typed>") {
        return Err(format!("the screen: {screen}"));
    }
    // Carriage returns come from the caller's terminal alone.
    if screen.contains("\r\r\n") {
        return Err(format!("the screen has doubled carriage returns: {screen:?}"));
    }
    equal("status", end_of(&mut child)?.code(), Some(0))?;
    bed.nothing_is_left()
}
