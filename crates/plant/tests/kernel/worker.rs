//! Processes that do I/O until they are killed.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use floodwall_testing::process::Process;

/// First argument of this binary when it works.
pub(crate) const WORKER: &str = "plant-worker";
/// Bytes that a flood writes at once.
const BLOCK: usize = 1 << 20;

/// `commit FILE` commits. `flood FILE MIB [MS]` writes a file of so many MiB, over and over, with a
/// pause of so many milliseconds after each write. `both FILE MIB MS FILE` floods the first file in
/// a separate thread and commits to the second. `crowd FILE MS` commits in one more thread each so
/// many milliseconds, and in a hundred at most. Says how much it has done, ten times a second.
pub(crate) fn run(arguments: &[String]) {
    if let [both, flood @ .., commit] = arguments
        && both == "both"
    {
        let flood: Vec<String> =
            std::iter::once(&"flood".to_owned()).chain(flood).cloned().collect();
        std::thread::spawn(move || run(&flood));
        return run(&["commit".to_owned(), commit.clone()]);
    }
    if let [crowd, file, ms] = arguments
        && crowd == "crowd"
    {
        let (file, pause) = (file.clone(), Duration::from_millis(ms.parse().unwrap()));
        std::thread::spawn(move || {
            for n in 0..100 {
                let commit = ["commit".to_owned(), format!("{file}{n}")];
                std::thread::spawn(move || run(&commit));
                std::thread::sleep(pause);
            }
        });
        return run(&["commit".to_owned(), arguments[1].clone()]);
    }
    let file = std::fs::File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&arguments[1])
        .unwrap();
    let mut said = Instant::now();
    let mut done = 0_u64;
    let mut tell = |done: u64| {
        if said.elapsed() > Duration::from_millis(100) {
            said = Instant::now();
            // The process that started this one has gone.
            if writeln!(std::io::stdout().lock(), "{done}").is_err() {
                std::process::exit(0);
            }
        }
    };
    match arguments[0].as_str() {
        "commit" => loop {
            file.write_all_at(&[7; 4096], done % 64 * 4096).unwrap();
            file.sync_data().unwrap();
            done += 1;
            tell(done);
        },
        _ => {
            let blocks: u64 = arguments[2].parse().unwrap();
            let block = vec![7; BLOCK];
            let pause = arguments.get(3).map_or(0, |ms| ms.parse().unwrap());
            loop {
                file.write_all_at(&block, done % blocks * BLOCK as u64).unwrap();
                done += 1;
                std::thread::sleep(Duration::from_millis(pause));
                tell(done);
            }
        }
    }
}

/// A worker at work; killed when dropped.
pub(crate) struct Worker {
    process: Process,
    done: Arc<AtomicU64>,
}

impl Worker {
    pub(crate) fn start(arguments: &[&str]) -> Result<Self, String> {
        let mut process = Process::of_this_binary(&[&[WORKER], arguments].concat(), Stdio::null())?;
        let done = Arc::new(AtomicU64::new(0));
        let (stdout, told) = (process.0.stdout.take().ok_or("no stdout")?, Arc::clone(&done));
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                told.store(line.parse().unwrap_or(0), Ordering::Relaxed);
            }
        });
        Ok(Self { process, done })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// Kills it. It ends once the kernel lets it.
    pub(crate) fn kill(&mut self) {
        let _ = self.process.0.kill();
    }

    /// Commits, or MiB written, so far.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}
