//! A change of many knobs that is killed at many moments: after each, `floodwall rollback` finds
//! the journal, and every file reads as before. Where the kernel has the files that they are
//! written for, the tests of `crates/knobs` kill at every single write as well.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::knobs::{everything, floodwall, unchanged_since};
use super::line::Line;
use super::suites;
use crate::said::Outcome;

/// Moments at which the change is killed, spread over the time that it takes.
const KILLS: u32 = 25;
/// What every kernel of the matrix has.
const CHANGES: [&str; 10] = [
    "vm.dirty_expire_centisecs=1234",
    "vm.dirty_ratio=33",
    "vda.scheduler=bfq",
    "vda.nr_requests=33",
    "vda.max_sectors_kb=128",
    "vda.read_ahead_kb=64",
    "vda.nomerges=2",
    "vda.rq_affinity=2",
    "vda.bdi.max_ratio=50",
    "vda.bdi.min_ratio=1",
];

pub(crate) fn check(line: &Line) -> anyhow::Result<Outcome> {
    let words = [&["apply", "--yes"], CHANGES.as_slice()].concat();
    let begin = Instant::now();
    floodwall(&words)?;
    let takes = begin.elapsed();
    floodwall(&["rollback"])?;
    let before = everything();
    let mut halfway = 0;
    for i in 0..KILLS {
        let mut child = Command::new("floodwall")
            .args(&words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        if i % 2 == 0 {
            std::thread::sleep(takes * i / KILLS);
        } else {
            // While it writes, which takes it a small part of its time.
            while child.try_wait()?.is_none() && everything() == before {}
            std::thread::sleep(Duration::from_millis(i.into()));
        }
        let _ = child.kill();
        let status = child.wait()?;
        halfway += u32::from(!status.success() && everything() != before);
        floodwall(&["rollback"])?;
        unchanged_since(&before)
            .with_context(|| format!("killed after {i}/{KILLS} of its time"))?;
    }
    let own = format!(
        "killed {KILLS} times, {halfway} of them between its first write and its last: all put back"
    );
    if !Path::new(suites::FINE).exists() {
        return Ok(Outcome::Passed(format!(
            "{own}; the tests of every single write need max_ratio_fine (Linux 6.2)"
        )));
    }
    Ok(match suites::run(line, "knobs", &[], 420)? {
        Outcome::Passed(tests) => Outcome::Passed(format!("{own}; {tests}")),
        other => other,
    })
}
