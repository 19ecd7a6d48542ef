//! The report of 2007: disktest on a RAID 1 behind a 3ware card, four elevators × sequential and random × read and write.

use std::path::Path;

use anyhow::Context;
use floodwall_device::DeviceSpec;
use floodwall_model::{Bytes, Setting};
use floodwall_sim::kernel::Generation;
use floodwall_sim::{DiskTest, SimOptions, SimRig};
use published::Experiment;

use crate::cells;
use crate::table::{Goal, Line, table};

const ELEVATORS: [&str; 4] = ["deadline", "noop", "anticipatory", "cfq"];
/// Name in the figures, in order, reads.
const TESTS: [(&str, bool, bool); 4] = [
    ("seq_read", true, true),
    ("seq_write", true, false),
    ("rnd_read", false, true),
    ("rnd_write", false, false),
];
/// Size of the device that was tested.
const SECTORS: u64 = 488_259_583;

struct Cell {
    elevator: &'static str,
    test: &'static str,
    sequential: bool,
    reads: bool,
}

pub(crate) fn section(published: &Path) -> anyhow::Result<String> {
    let published = Experiment::read(published, "raid1_3ware_2007")?;
    let cells: Vec<Cell> = ELEVATORS
        .into_iter()
        .flat_map(|elevator| {
            TESTS.into_iter().map(move |(test, sequential, reads)| Cell { elevator, test, sequential, reads })
        })
        .collect();
    let found = cells::all(&cells, iops)?;
    let mut lines = Vec::new();
    for (cell, iops) in cells.iter().zip(&found) {
        lines.push(Line {
            what: format!("{}, {}", cell.elevator, cell.test.replace('_', ". ")),
            expected: Some(published.number(&format!("{}.{}", cell.elevator, cell.test))?),
            simulated: Some(*iops),
            goal: Goal::Within(0.15),
        });
    }
    Ok(format!(
        "### RAID 1 behind a 3ware card, 2007\n\nPreset `raid1-3ware-2007`, kernel 2.6.18, disktest on the block device: 4 KiB, 4 threads, direct, 30 s. Transfers a second; the goal is 15 %.\n\n{}{}",
        table("published", &lines),
        ordering(&published, &cells, &found)?
    ))
}

fn iops(cell: &Cell) -> anyhow::Result<f64> {
    let device = DeviceSpec::preset("raid1-3ware-2007").context("the preset")?;
    let capacity = Bytes(device.capacity().0.min(SECTORS * 512 / 4096 * 4096));
    let options = SimOptions {
        capacity: Some(capacity),
        generation: Generation::K2_6_18,
        ram: Bytes::gib(4),
        cpus: 2,
        ..SimOptions::new(device)
    };
    let setting: Setting = [("scheduler".to_owned(), cell.elevator.to_owned())].into_iter().collect();
    let test = DiskTest {
        threads: 4,
        block: Bytes(4096),
        sequential: cell.sequential,
        reads: cell.reads,
        // The device was tested without a pause, and what random writes measure is a full cache: 44 s of wall time for 30 s of test say so too.
        warmup_s: if cell.sequential || cell.reads { 0 } else { 150 },
        seconds: 30,
        span: capacity,
    };
    Ok(SimRig::new(options).disktest(&setting, &test)?.iops)
}

/// Whether the elevators come in the published order, where the published figures differ by more than a twentieth.
fn ordering(published: &Experiment, cells: &[Cell], found: &[f64]) -> anyhow::Result<String> {
    let mut wrong = Vec::new();
    let mut pairs = 0;
    for (a, x) in cells.iter().zip(found) {
        for (b, y) in cells.iter().zip(found).filter(|(b, _)| b.test == a.test) {
            let of = |cell: &Cell| published.number(&format!("{}.{}", cell.elevator, cell.test));
            if of(a)? > of(b)? * 1.05 {
                pairs += 1;
                if x <= y {
                    wrong.push(format!(
                        "{} is not above {} in {}",
                        a.elevator,
                        b.elevator,
                        a.test.replace('_', ". ")
                    ));
                }
            }
        }
    }
    Ok(if wrong.is_empty() {
        format!(
            "All {pairs} pairs of elevators whose published figures differ by more than 5 % come in the published order.\n"
        )
    } else {
        format!(
            "Of {pairs} pairs of elevators whose published figures differ by more than 5 %, out of order: {}.\n",
            wrong.join("; ")
        )
    })
}
