//! A server that is killed under full load: the machine must be clean within ten seconds, every
//! time.

use std::fs::File;
use std::thread;
use std::time::{Duration, Instant};

use floodwall_lab::Filesystem;
use floodwall_testing::{ensure, said};
use rustix::process::{Pid, Signal, kill_process};

use crate::runner::{CLEAN_WITHIN, Load, Runner};
use crate::{KILLS, Test};

pub(crate) const TESTS: &[Test] = &[Test {
    name: "a server killed under full load leaves nothing behind",
    needs: &["mkfs.xfs"],
    seconds: 200,
    body: killed,
}];

/// The load: buffered floods, synchronous writes, direct writes and reads.
const LOADS: &[(&str, &str)] = &[
    ("flood", "if=/dev/urandom bs=1M count=100"),
    ("zeros", "if=/dev/zero bs=1M count=100"),
    ("synced", "if=/dev/urandom bs=16k count=1000 oflag=dsync"),
    ("direct", "if=/dev/urandom bs=64k count=500 oflag=direct"),
    ("huge", "if=/dev/zero bs=4M count=10 oflag=direct"),
];

/// Written before the kill, so that the page cache, the queue and the device are all full.
const LOADED_BYTES: u64 = 48 << 20;

fn killed() -> Result<(), String> {
    for round in 0..KILLS {
        let runner = Runner::new()?;
        // A device with a cache that answers at once, and one without any delay, in turn.
        let preset = if round % 2 == 0 { "sata-ssd" } else { "null" };
        let up = runner.up(preset, 400, Some(Filesystem::Xfs))?;
        let mut loads = Vec::new();
        for (name, arguments) in LOADS {
            let file = up.mounts[0].join(name);
            File::create(&file).map_err(said("create"))?;
            // Again and again, until it fails. Never into a file that is not there: a load must not
            // go on below the mount point.
            let script = format!(
                "while dd of={} {arguments} conv=notrunc,nocreat; do :; done",
                file.display()
            );
            loads.push(Load::start("sh", &["-c", &script])?);
        }
        let deadline = Instant::now() + Duration::from_secs(30);
        while runner.lab.stats(preset).map_err(said("stats"))?.device.write_bytes < LOADED_BYTES {
            ensure(Instant::now() < deadline, || format!("round {round}: no load arrived"))?;
            thread::sleep(Duration::from_millis(10));
        }
        let server = up.server_pid.and_then(Pid::from_raw).ok_or("no server")?;
        kill_process(server, Signal::KILL).map_err(said("kill"))?;
        runner.wait_clean().map_err(|e| format!("round {round}: {e}"))?;
        let deadline = Instant::now() + CLEAN_WITHIN;
        while let Some(stuck) = loads.iter_mut().find_map(|l| (!l.ended()).then(|| l.pid())) {
            ensure(Instant::now() < deadline, || {
                format!("round {round}: process {stuck} is stuck")
            })?;
            thread::sleep(Duration::from_millis(10));
        }
    }
    Ok(())
}
