//! One boot: QEMU as a child process, the guest's lines, and the time it may take.
//!
//! ```text
//! first serial line   the kernel's console ─▶ console.log;
//!                     its last lines are shown if the guest ends early
//! second serial line  QEMU's stdout ─▶ Said, a line each
//! ```

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::Context;
use processes::{child, interrupt};

use crate::said::Said;

/// The guest's memory, in MiB: some tests fill caches of several hundred.
const RAM: &str = "2048M";
/// Lines of the console that are shown.
const LAST_LINES: usize = 40;
const POLL: Duration = Duration::from_millis(200);

/// What to boot.
pub(crate) struct Boot<'a> {
    pub(crate) image: &'a Path,
    pub(crate) first_root: &'a Path,
    pub(crate) disk: &'a Path,
    pub(crate) console: &'a Path,
    /// Words for the kernel's command line.
    pub(crate) words: &'a str,
    pub(crate) limit: Duration,
}

/// Boots, and hands each line to `heard` until the guest has said that it is done.
///
/// # Errors
/// The guest ended or was silent before it was done; with the last of its console.
pub(crate) fn boot(boot: &Boot, heard: &mut dyn FnMut(Said)) -> anyhow::Result<()> {
    // Beside other work; and no guest outlives this program.
    let mut command = child::tied("KILL", "nice");
    // Emulation runs everywhere; a /dev/kvm below another hypervisor may exist and never boot
    // anything. The two processors share one thread. With a thread each (QEMU 7.2) a kernel hung
    // now and then when tracepoints were switched on, which patches its code.
    command.args(["-n", "5", "qemu-system-x86_64", "-accel", "tcg,thread=single"]);
    command.args(["-m", RAM, "-smp", "2", "-no-reboot", "-nodefaults", "-display", "none"]);
    command
        .arg("-serial")
        .arg(format!("file:{}", boot.console.display()))
        .args(["-serial", "stdio"]);
    command.arg("-kernel").arg(boot.image).arg("-initrd").arg(boot.first_root);
    // A kernel that hangs says where, and ends the guest.
    let hangs = "softlockup_panic=1 panic=-1";
    command.arg("-append").arg(format!("console=ttyS0 noapic {hangs} quiet {}", boot.words));
    let disk = format!("file={},if=none,id=disk,format=raw,cache=unsafe", boot.disk.display());
    command.arg("-drive").arg(disk);
    // `floodwall persist` knows a disk by its serial number.
    command.args(["-device", "virtio-blk-pci,drive=disk,serial=matrix1"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("can't start setpriv, nice and qemu-system-x86_64")?;
    let lines = BufReader::new(child.stdout.take().context("QEMU has no stdout")?);
    let (tell, said) = mpsc::channel();
    std::thread::spawn(move || {
        for line in lines.split(b'\n').map_while(Result::ok) {
            // The line discipline's carriage returns, and noise of the boot.
            if let Ok(said) = serde_json::from_slice::<Said>(line.trim_ascii())
                && tell.send(said).is_err()
            {
                return;
            }
        }
    });
    let begin = Instant::now();
    let ended = loop {
        match said.recv_timeout(POLL) {
            Ok(Said::Done) => break Ok(()),
            Ok(said) => heard(said),
            Err(RecvTimeoutError::Disconnected) => break Err("ended before it was done".to_owned()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if begin.elapsed() > boot.limit {
            break Err(format!("was ended after {} s", boot.limit.as_secs()));
        }
        if let Err(e) = interrupt::check() {
            let _ = child.kill();
            let _ = child.wait();
            return Err(e);
        }
    };
    if ended.is_ok() {
        // It writes its disk and powers off.
        let until = Instant::now() + Duration::from_secs(30);
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(POLL);
        }
    }
    let _ = child.kill();
    let output = child.wait_with_output().context("can't wait for QEMU")?;
    ended.map_err(|how| {
        let console = std::fs::read(boot.console).unwrap_or_default();
        let console = String::from_utf8_lossy(&[output.stderr, console].concat()).into_owned();
        let lines: Vec<&str> = console.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n  ");
        anyhow::anyhow!("the guest {how}; its last lines were:\n  {last}")
    })
}
