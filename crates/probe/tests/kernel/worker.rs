//! Processes that do I/O and report their latencies, by their clock.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use floodwall_model::LatencyCounts;
use floodwall_testing::process::Process;
use floodwall_testing::said;

/// First argument of this binary when it works.
pub(crate) const WORKER: &str = "probe-worker";
/// The data of one write.
const BLOCK: [u8; 4096] = [7; 4096];

/// Does its work and prints figures, one line.
pub(crate) fn run(what: &str, arguments: &[String]) {
    let number = |at: usize| arguments[at].parse::<u64>().unwrap();
    match what {
        // FILE COUNT [MILLISECONDS]: fsync, fdatasync in turn, for at least so long.
        "sync" => {
            let file = made().open(&arguments[0]).unwrap();
            let least = Duration::from_millis(arguments.get(2).map_or(0, |_| number(2)));
            let (mut took, start) = (Vec::new(), Instant::now());
            for n in (0..).take_while(|n| *n < number(1) || start.elapsed() < least) {
                file.write_all_at(&BLOCK, n % 64 * 4096).unwrap();
                let begin = Instant::now();
                if n % 2 == 0 { file.sync_all() } else { file.sync_data() }.unwrap();
                took.push(begin.elapsed().as_nanos() as u64);
            }
            print(&took);
        }
        // FILE MIB: syncs twice, waits for a line, and then syncs much at once.
        "large" => {
            let file = made().open(&arguments[0]).unwrap();
            (0..2).for_each(|_| {
                file.write_all_at(&BLOCK, 0).unwrap();
                file.sync_all().unwrap();
            });
            println!();
            let _ = std::io::stdin().read_line(&mut String::new());
            for n in 0..number(1) * 256 {
                file.write_all_at(&BLOCK, n * 4096).unwrap();
            }
            file.sync_all().unwrap();
        }
        // FILE MILLISECONDS: writes to a file opened with O_DSYNC.
        "dsync" => {
            let dsync = rustix::fs::OFlags::DSYNC.bits() as i32;
            let file = made().custom_flags(dsync).open(&arguments[0]).unwrap();
            let end = Instant::now() + Duration::from_millis(number(1));
            let mut took = Vec::new();
            while Instant::now() < end {
                let begin = Instant::now();
                file.write_all_at(&BLOCK, took.len() as u64 % 64 * 4096).unwrap();
                took.push(begin.elapsed().as_nanos() as u64);
            }
            print(&took);
        }
        // FILE: the same once, after a line.
        "dsync-once" => {
            let dsync = rustix::fs::OFlags::DSYNC.bits() as i32;
            let file = made().custom_flags(dsync).open(&arguments[0]).unwrap();
            println!();
            let _ = std::io::stdin().read_line(&mut String::new());
            file.write_all_at(&BLOCK, 0).unwrap();
        }
        // FILE MIB [BLOCK]: dirties page cache and stays until its stdin is closed.
        "dirty" => {
            let file = made().open(&arguments[0]).unwrap();
            let block = vec![7; arguments.get(2).map_or(4096, |_| number(2)) as usize];
            for at in (0..number(1) << 20).step_by(block.len()) {
                file.write_all_at(&block, at).unwrap();
            }
            println!("{}", own_bytes("write_bytes: "));
            let _ = std::io::stdin().read_line(&mut String::new());
        }
        // FILE MIB: the same, through a mapping.
        "map" => {
            let file = made().read(true).open(&arguments[0]).unwrap();
            let length = (number(1) << 20) as usize;
            file.set_len(length as u64).unwrap();
            let (protection, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
            let nowhere = std::ptr::null_mut();
            // SAFETY: a new mapping of an open file.
            let at = unsafe { libc::mmap(nowhere, length, protection, libc::MAP_SHARED, fd, 0) };
            assert_ne!(at, libc::MAP_FAILED);
            for page in (0..length).step_by(4096) {
                // SAFETY: within the mapping, which nobody else uses.
                unsafe { at.cast::<u8>().add(page).write_volatile(7) };
            }
            println!("{}", own_bytes("write_bytes: "));
            let _ = std::io::stdin().read_line(&mut String::new());
        }
        // FILE FILE MILLISECONDS: writes through the page cache and past it, and stays.
        "both" => {
            let cached = made().open(&arguments[0]).unwrap();
            let direct = made().custom_flags(libc::O_DIRECT).open(&arguments[1]).unwrap();
            // Where a direct write may begin.
            let blocks = vec![7; 32 << 10];
            let aligned = &blocks[blocks.as_ptr().align_offset(4096)..][..16 << 10];
            let end = Instant::now() + Duration::from_millis(number(2));
            for n in (0..).take_while(|_| Instant::now() < end) {
                cached
                    .write_all_at(&aligned[..4096 * (n % 4 + 1)], n as u64 % 512 * 65536)
                    .unwrap();
                direct.write_all_at(aligned, n as u64 % 512 * 16384).unwrap();
            }
            println!("{}", own_bytes("write_bytes: "));
            let _ = std::io::stdin().read_line(&mut String::new());
        }
        // FILE COUNT: as many processes, a hundred at a time; each writes a page of its own file.
        "pages" => {
            for first in (0..number(1)).step_by(100) {
                let page = |n| command("page", &[&format!("{}{n}", arguments[0])]).spawn().unwrap();
                let mut children: Vec<Child> = (first..first + 100).map(page).collect();
                children.iter_mut().for_each(|child| assert!(child.wait().unwrap().success()));
            }
            println!();
        }
        // FILE
        "page" => made().open(&arguments[0]).unwrap().write_all_at(&BLOCK, 0).unwrap(),
        // FILE: drops it from the page cache and reads it, 4 KiB at a time. Tells the bytes that
        // came from a device by the kernel's account, then how long each read took.
        "read" => {
            let file = OpenOptions::new().read(true).open(&arguments[0]).unwrap();
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
            let mut buffer = BLOCK;
            let blocks = file.metadata().unwrap().len() / 4096;
            let before = own_bytes("read_bytes: ");
            let mut took = vec![0];
            for n in 0..blocks {
                let begin = Instant::now();
                file.read_exact_at(&mut buffer, n * 4096).unwrap();
                took.push(begin.elapsed().as_nanos() as u64);
            }
            took[0] = own_bytes("read_bytes: ") - before;
            print(&took);
        }
        // FILE COUNT: as many processes, a hundred at a time; each syncs once.
        "fork" => {
            for _ in 0..number(1) / 100 {
                let mut children: Vec<Child> = (0..100)
                    .map(|_| command("sync", &[&arguments[0], "1"]).spawn().unwrap())
                    .collect();
                children.iter_mut().for_each(|child| assert!(child.wait().unwrap().success()));
            }
            println!();
        }
        other => {
            eprintln!("no work is called {other}");
            std::process::exit(2);
        }
    }
}

/// How a file is opened for writing.
fn made() -> OpenOptions {
    OpenOptions::new().create(true).truncate(true).write(true).clone()
}

/// A counter of this process in /proc/self/io.
fn own_bytes(key: &str) -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    io.lines().find_map(|line| line.strip_prefix(key)).unwrap().parse().unwrap()
}

fn print(took: &[u64]) {
    let words: Vec<String> = took.iter().map(ToString::to_string).collect();
    println!("{}", words.join(" "));
}

fn command(what: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(WORKER).arg(what).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// A worker at work. Its output is read all along: a pipe may hold as little as a page, and a wait
/// for its end would then last for ever.
pub(crate) struct Worker(Process, Option<JoinHandle<std::io::Result<String>>>);

impl Worker {
    pub(crate) fn start(what: &str, arguments: &[&str]) -> Result<Self, String> {
        let mut child = command(what, arguments).spawn().map_err(said(what))?;
        let stdout = child.stdout.take().ok_or("no stdout")?;
        let reader = std::thread::spawn(move || {
            let mut line = String::new();
            std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line)
                .map(|_| line)
        });
        Ok(Self(Process(child), Some(reader)))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.0.id()
    }

    /// Lets it go on.
    pub(crate) fn go(&mut self) {
        drop(self.0.0.stdin.take());
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> Result<(), String> {
        self.0.0.wait().map(drop).map_err(said("a worker"))
    }

    pub(crate) fn ended(&mut self) -> bool {
        !matches!(self.0.0.try_wait(), Ok(None))
    }

    /// The line that it prints.
    pub(crate) fn line(&mut self) -> Result<String, String> {
        let reader = self.1.take().ok_or("its line was taken already")?;
        let line = reader
            .join()
            .map_err(|_| "the reader of its line panicked")?
            .map_err(|e| e.to_string())?;
        Ok(line.trim().to_owned())
    }

    /// The latencies that it prints at its end.
    pub(crate) fn latencies(&mut self) -> Result<LatencyCounts, String> {
        Ok(LatencyCounts::from_values(self.line()?.split(' ').filter_map(|word| word.parse().ok())))
    }
}
