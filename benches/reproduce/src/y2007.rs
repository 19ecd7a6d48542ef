//! The report of 2007: disktest on a RAID 1 behind a 3ware card, four elevators × sequential and
//! random × read and write.

use std::path::Path;

use floodwall_model::{Bytes, Setting};
use floodwall_sim::kernel::Generation;
use floodwall_sim::{DiskTest, SimOptions, SimRunner};
use published::Experiment;

use crate::cells;
use crate::table::{Basis, Goal, Line, preset_with, table, widen};

const PRESET: &str = "raid1-3ware-2007";
/// The elevator whose column the preset was calibrated on.
const FITTED: &str = "deadline";
/// A figure that differs less than this from its neighbour in that column carries no further
/// information.
const NEIGHBOUR: f64 = 0.05;
/// Unpublished constants at other values, one at a time: lines of the preset.
const OTHERS: [&[(&str, &str)]; 6] = [
    &[("queue_depth", "1")],
    &[("queue_depth", "32")],
    &[("read_ahead", "\"128KiB\"")],
    &[("read_ahead", "\"2MiB\"")],
    &[("size", "\"64MiB\"")],
    &[("outer_rate", "\"75MB/s\"")],
];
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
            TESTS.into_iter().map(move |(test, sequential, reads)| Cell {
                elevator,
                test,
                sequential,
                reads,
            })
        })
        .collect();
    let lines = |changes| -> anyhow::Result<(Vec<f64>, Vec<Line>)> {
        let found = cells::all(&cells, |cell| iops(cell, changes))?;
        let lines = cells.iter().zip(&found).map(|(cell, iops)| line(&published, cell, *iops));
        let lines = lines.collect::<anyhow::Result<_>>()?;
        Ok((found, lines))
    };
    let (found, mut all) = lines(&[])?;
    let others = OTHERS.iter().map(|changes| Ok(lines(changes)?.1));
    widen(&mut all, &others.collect::<anyhow::Result<Vec<_>>>()?);
    Ok(format!(
        "### RAID 1 behind a 3ware card, 2007\n\n\
         Preset `{PRESET}`, kernel 2.6.18, disktest on the block device: 4 KiB, 4 threads, direct, \
         30 s. Transfers a second; the goal is 15 %. The column of {FITTED} is fitted; a figure \
         within 5 % of it is its neighbour.\n\n\
         *Range*, with one change at a time: 1 to 32 commands at a disk; 128 KiB to 2 MiB read \
         ahead; 64 or 112 MiB of cache; 65 or 75 MB/s outside.\n\n{}\n{}",
        table("published", &all),
        ordering(&published, &cells, &found)?
    ))
}

fn line(published: &Experiment, cell: &Cell, iops: f64) -> anyhow::Result<Line> {
    let of = |elevator: &str| published.number(&format!("{elevator}.{}", cell.test));
    let expected = of(cell.elevator)?;
    let basis = match (cell.elevator == FITTED, (expected / of(FITTED)? - 1.0).abs() < NEIGHBOUR) {
        (true, _) => Basis::Fitted,
        (_, true) => Basis::Neighbour,
        _ => Basis::Predicted,
    };
    Ok(Line {
        what: format!("{}, {}", cell.elevator, cell.test.replace('_', ". ")),
        expected: Some(expected),
        simulated: Some(iops),
        goal: Goal::Within(0.15),
        basis,
        range: None,
        doubt: None,
    })
}

fn iops(cell: &Cell, changes: &[(&str, &str)]) -> anyhow::Result<f64> {
    let device = preset_with(PRESET, changes)?;
    let capacity = Bytes(device.capacity().0.min(SECTORS * 512 / 4096 * 4096));
    let options = SimOptions {
        capacity: Some(capacity),
        generation: Generation::K2_6_18,
        ram: Bytes::gib(4),
        cpus: 2,
        ..SimOptions::new(device)
    };
    let setting: Setting =
        [("scheduler".to_owned(), cell.elevator.to_owned())].into_iter().collect();
    let test = DiskTest {
        threads: 4,
        block: Bytes(4096),
        sequential: cell.sequential,
        reads: cell.reads,
        // The device was tested without a pause, and random writes measure a full cache. The 44 s
        // of wall time for 30 s of test show that as well.
        warmup_s: if cell.sequential || cell.reads { 0 } else { 150 },
        seconds: 30,
        span: capacity,
    };
    Ok(SimRunner::new(options).disktest(&setting, &test)?.iops)
}

/// Whether the elevators come in the published order, where the published figures differ by more
/// than a twentieth.
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
            "All {pairs} pairs of elevators whose published figures differ by more than 5 % come \
             in the published order.\n"
        )
    } else {
        format!(
            "Of {pairs} pairs of elevators whose published figures differ by more than 5 %, out of \
             order: {}.\n",
            wrong.join("; ")
        )
    })
}
