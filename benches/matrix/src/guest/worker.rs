//! Processes that do I/O: this program again, with a special argument.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::Context;

/// First argument of such a process.
pub(crate) const WORKER: &str = "guest-worker";
/// What a flood writes at once, and the size of its file in such blocks.
const BLOCK: usize = 1 << 20;
const BLOCKS: u64 = 600;
/// The data of one commit.
const PAGE: [u8; 4096] = [7; 4096];

/// `syncs FILE N` waits for a line and makes N fsyncs; `commit FILE` and `flood FILE` go on until
/// they are killed.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let [what, path, rest @ ..] = args else { anyhow::bail!("a worker needs its work and a file") };
    let file = std::fs::File::options().create(true).truncate(false).write(true).open(path)?;
    if what == "syncs" {
        let count: u64 = rest.first().context("how many")?.parse()?;
        std::io::stdin().lock().read_line(&mut String::new())?;
        for i in 0..count {
            file.write_all_at(&PAGE, i * 4096)?;
            file.sync_all()?;
        }
        std::io::stdout().lock().write_all(b"done\n")?;
        // An observer may still want to see the process that they belonged to.
        std::io::stdin().lock().read_line(&mut String::new())?;
        return Ok(());
    }
    let block = vec![7; BLOCK];
    for i in 0.. {
        if what == "commit" {
            file.write_all_at(&PAGE, i % 64 * 4096)?;
            file.sync_data()?;
        } else {
            file.write_all_at(&block, i % BLOCKS * BLOCK as u64)?;
        }
    }
    Ok(())
}

/// A worker at work; killed when dropped.
pub(crate) struct Worker {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Worker {
    pub(crate) fn start(args: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child =
            command.arg(WORKER).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(child.stdout.take().context("no stdout")?);
        Ok(Self { child, output })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it to begin, and waits until it has done its work.
    pub(crate) fn work(&mut self) -> anyhow::Result<()> {
        self.child.stdin.as_mut().context("no stdin")?.write_all(b"\n")?;
        self.output.read_line(&mut String::new())?;
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
