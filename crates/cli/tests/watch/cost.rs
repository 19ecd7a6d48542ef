//! The cost of `watch` and `record`: `cargo test --release -p floodwall --test watch -- cost`.
//!
//! ```text
//! loop devices over tmpfs ◀─ this binary again, many times: sleeps, or commits once a second
//!   floodwall watch on a pseudoterminal ─▶ time to the first disk's row, processor time
//!   floodwall record                    ─▶ processor time
//! ```
//!
//! Processor time is that of the process itself. What the kernel's programs cost those whose calls
//! they count is told by floodwall-probe's examples.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use floodwall_testing::disk::{Disk, Mount};
use floodwall_testing::process::Process;
use floodwall_testing::{LOOP, ROOT, lacks, said};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::{FLOODWALL, blind};

/// What this binary is called with to be one of the many processes; then a file, and [`COMMITS`] or
/// another word.
const ONE_OF_MANY: &str = "one-of-many";
const COMMITS: &str = "commits";
/// A word of the first screen that is not drawn before the disks are known.
const FIRST_ROW: &[u8] = b"DRAINED IN";
const STARTS: usize = 11;
/// How long processor time is counted, and how long a program runs before.
const COUNTED: Duration = Duration::from_secs(60);
const SETTLES: Duration = Duration::from_secs(8);
const SIZE: Winsize = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };

/// Disks, processes, and whether these commit once a second.
const MACHINES: [(usize, usize, bool); 4] =
    [(0, 0, false), (5, 200, true), (100, 1000, false), (100, 1000, true)];

/// What the arguments of this binary ask for; `None` if that is tests.
pub(crate) fn by_arguments() -> Option<Result<(), String>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let done = match given.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [ONE_OF_MANY, path, what] => Some(one_of_many(path, *what == COMMITS)),
        ["cost"] => match lacks(&[ROOT, LOOP, "mkfs.ext4"]).or_else(blind) {
            Some(why) => Some(say(&format!("the cost of watch and record: left out, {why}"))),
            None => Some(figures()),
        },
        _ => None,
    };
    done.inspect(|done| drop(done.as_ref().map_err(|why| say(why))))
}

/// A line on stdout.
fn say(line: &str) -> Result<(), String> {
    writeln!(io::stdout().lock(), "{line}").map_err(said("stdout"))
}

/// A line for each machine.
fn figures() -> Result<(), String> {
    say("disks  processes        first screen, ms     watch, % of a core   record, % of a core")?;
    for (disks, processes, commit) in MACHINES {
        let _load = Load::start(disks, processes, commit)?;
        let mut starts = (0..STARTS).map(|_| first_screen()).collect::<Result<Vec<_>, _>>()?;
        starts.sort_by(f64::total_cmp);
        let first = starts[STARTS / 2];
        let range = format!("({:.0} to {:.0})", starts[0], starts[STARTS - 1]);
        let (watch, record) = (watch_percent()?, record_percent()?);
        let what = if commit { "commit" } else { "idle" };
        say(&format!(
            "+{disks:<5} +{processes:<5} {what:<8} {first:>6.0} {range:<18} {watch:>12.2} \
             {record:>22.2}"
        ))?;
    }
    Ok(())
}

/// One of the many processes. Ends when it is killed.
fn one_of_many(path: &str, commits: bool) -> Result<(), String> {
    let file = OpenOptions::new().create_new(true).write(true).open(path);
    let file = file.map_err(said("a file"))?;
    // Not all at once.
    std::thread::sleep(Duration::from_millis(u64::from(std::process::id()) % 100 * 10));
    loop {
        if commits {
            file.write_all_at(&[7; 4096], 0).map_err(said("a write"))?;
            file.sync_data().map_err(said("a commit"))?;
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Dropped in this order.
struct Load {
    _processes: Vec<Process>,
    _disks: Vec<Disk>,
    _memory: Mount,
    _directory: tempfile::TempDir,
}

impl Load {
    fn start(disks: usize, processes: usize, commit: bool) -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(said("a directory"))?;
        let memory = Mount::new(&["-t", "tmpfs", "-o", "size=4g", "none"], directory.path())?;
        let disk = |_| Disk::new_in(memory.path(), "ext4", 40);
        let disks = (0..disks).map(disk).collect::<Result<Vec<_>, _>>()?;
        let process = |n: usize| {
            let path = disks[n % disks.len()].file(&format!("file-{n}"));
            let what = if commit { COMMITS } else { "sleeps" };
            Process::of_this_binary(&[ONE_OF_MANY, &path, what], Stdio::null())
        };
        let processes = (0..processes).map(process).collect::<Result<_, _>>()?;
        Ok(Self { _processes: processes, _disks: disks, _memory: memory, _directory: directory })
    }
}

/// A running program, ended when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

/// `floodwall watch` on a new pseudoterminal, and the other side of that.
fn watch() -> Result<(Running, File), String> {
    let pair = || -> io::Result<(OwnedFd, File)> {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        tcsetwinsize(&ours, SIZE)?;
        let name = PathBuf::from(ptsname(&ours, Vec::new())?.to_string_lossy().into_owned());
        Ok((ours, OpenOptions::new().read(true).write(true).open(name)?))
    };
    let (ours, theirs) = pair().map_err(said("a pseudoterminal"))?;
    let end = || theirs.try_clone().map_err(said("a pseudoterminal"));
    let child = Command::new(FLOODWALL)
        .arg("watch")
        .env("TERM", "xterm-256color")
        .stdin(end()?)
        .stdout(end()?)
        .stderr(Stdio::null())
        .spawn()
        .map_err(said("floodwall watch"))?;
    Ok((Running(child), File::from(ours)))
}

/// Milliseconds from the start of `watch` to its first disks.
fn first_screen() -> Result<f64, String> {
    let begin = Instant::now();
    let (_watch, mut terminal) = watch()?;
    let (mut seen, mut some) = (Vec::new(), [0; 65536]);
    while !seen.windows(FIRST_ROW.len()).any(|part| part == FIRST_ROW) {
        let read = terminal.read(&mut some).map_err(said("the screen"))?;
        seen.extend_from_slice(&some[..read]);
    }
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}

fn watch_percent() -> Result<f64, String> {
    let (watch, mut terminal) = watch()?;
    // Ends with an error when the program has ended.
    std::thread::spawn(move || io::copy(&mut terminal, &mut io::sink()));
    percent(&watch)
}

fn record_percent() -> Result<f64, String> {
    let directory = tempfile::tempdir().map_err(said("a directory"))?;
    let mut command = Command::new(FLOODWALL);
    command.args(["record", "--dir"]).arg(directory.path()).stdin(Stdio::null());
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    percent(&Running(child.map_err(said("floodwall record"))?))
}

/// Share of a core that a running program uses.
fn percent(running: &Running) -> Result<f64, String> {
    std::thread::sleep(SETTLES);
    let (begin, before) = (Instant::now(), processor_s(running.0.id())?);
    std::thread::sleep(COUNTED);
    let used = processor_s(running.0.id())? - before;
    Ok(100.0 * used / begin.elapsed().as_secs_f64())
}

/// utime and stime of /proc/PID/stat (proc_pid_stat(5)), in seconds.
fn processor_s(pid: u32) -> Result<f64, String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).map_err(said("/proc/PID/stat"))?;
    let (_, after_name) = stat.rsplit_once(')').ok_or("no name in /proc/PID/stat")?;
    let ticks: u64 =
        after_name.split_whitespace().skip(11).take(2).flat_map(str::parse::<u64>).sum();
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}
