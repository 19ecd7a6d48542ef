//! A hundred random pairs of a load and a disk, ten at a time: the recording says of at least 99
//! who waited for which disk and how often, and who dirtied how much on which disk.
//!
//! Amounts of dirtied bytes need the programs in the kernel. Without them they come from
//! /proc/PID/io at a window's end, and a process that ends within it takes its last bytes along.

use std::collections::BTreeMap;
use std::io::{self, Write};

use floodwall_model::frame::Frame;
use floodwall_testing::disk::{Disk, Mount};
use floodwall_testing::{ROOT, ensure, said};
use rand_core::Rng;
use rand_pcg::Pcg32;

use crate::Test;
use crate::pairs::{Kind, Load, Truth};
use crate::recorder::Recorder;

pub(crate) const TESTS: &[Test] = &[Test {
    name: "of a hundred loads on five disks 99 are told with their disk and their amounts",
    needs: &[ROOT, floodwall_testing::LOOP, "fio", "unshare", "mkfs.ext4", "mkfs.xfs"],
    body: attribution,
}];

/// Pairs, and how many run at once.
const PAIRS: usize = 100;
const AT_ONCE: usize = 10;
/// So many may be wrong.
const MOST_WRONG: usize = 1;
/// Filesystems of the disks.
const DISKS: [&str; 5] = ["ext4", "xfs", "ext4", "xfs", "ext4"];
const DISK_MIB: u64 = 1024;
/// How far an amount may be off.
const TOLERANCE: f64 = 0.1;
/// Bytes that may be dirtied elsewhere: metadata.
const METADATA: f64 = 256e3;
/// The share of what is told of a load that must be on its disk.
const RIGHT: f64 = 0.95;
/// Stands for the disk of what is put down to none.
const UNKNOWN: &str = "unknown";
/// Seeds the choice of pairs: another seed is another hundred.
const SEED: u64 = 20;

fn attribution() -> Result<(), String> {
    let memory = tempfile::tempdir().map_err(said("a directory"))?;
    // Disks in memory are quick, so that loads keep their rates.
    let memory = Mount::new(&["-t", "tmpfs", "-o", "size=6g", "tmpfs"], memory.path())?;
    let disk = |kind: &str| Disk::new_in(memory.path(), kind, DISK_MIB);
    let disks: Vec<Disk> = DISKS.iter().map(|kind| disk(kind)).collect::<Result<_, _>>()?;
    let programs = tempfile::tempdir().map_err(said("a directory"))?;
    let recorder = Recorder::start("1s")?;
    let mut random = Pcg32::new(SEED, 1);
    let mut pick = |n: usize| random.next_u32() as usize % n;
    let mut wrong = Vec::new();
    for batch in 0..PAIRS / AT_ONCE {
        let mut loads = Vec::new();
        for n in 0..AT_ONCE {
            let (kind, disk) = (Kind::ALL[pick(Kind::ALL.len())], pick(disks.len()));
            let name = format!("load{:03}", batch * AT_ONCE + n);
            loads.push(Load::start(name, kind, disk, disks[disk].path(), programs.path())?);
        }
        let ended: Vec<_> = loads.into_iter().map(Load::end).collect::<Result<_, _>>()?;
        let frames = recorder.after(2)?;
        for (name, kind, disk, truth) in ended {
            let told = told(&frames, &name);
            if let Err(why) = compare(&told, disks[disk].device.name(), truth) {
                wrong.push(format!("{name} ({kind:?}): {why}"));
            }
        }
    }
    writeln!(io::stdout(), "{} of {PAIRS} are right{}", PAIRS - wrong.len(), listed(&wrong))
        .map_err(said("stdout"))?;
    ensure(wrong.len() <= MOST_WRONG, || listed(&wrong))
}

fn listed(wrong: &[String]) -> String {
    wrong.iter().map(|line| format!("\n  {line}")).collect()
}

/// What the frames tell of processes with a name, by disk.
fn told(frames: &[Frame], name: &str) -> BTreeMap<String, Truth> {
    let mut told: BTreeMap<String, Truth> = BTreeMap::new();
    let processes = frames.iter().flat_map(|frame| &frame.processes);
    for process in processes.filter(|process| process.name == name) {
        let disk = process.disk.clone().unwrap_or_else(|| UNKNOWN.to_owned());
        let truth = told.entry(disk).or_default();
        truth.dirtied += process.dirtied_bytes.unwrap_or(0);
        for waits in &process.waits {
            match waits.call.as_str() {
                "fsync" | "fdatasync" => truth.commits += waits.count,
                "read" => truth.reads += waits.count,
                _ => {}
            }
        }
    }
    told
}

/// An amount: its name, where it is, and how far it may be off besides.
type Amount = (&'static str, fn(&Truth) -> u64, f64);

fn compare(told: &BTreeMap<String, Truth>, disk: &str, truth: Truth) -> Result<(), String> {
    let here = told.get(disk).copied().unwrap_or_default();
    let amounts: [Amount; 3] = [
        ("dirtied", |t| t.dirtied, METADATA),
        ("commits", |t| t.commits, 1.0),
        ("reads", |t| t.reads, 1.0),
    ];
    for (what, of, slack) in amounts {
        let (found, wanted) = (of(&here) as f64, of(&truth) as f64);
        if wanted > 0.0 && (found - wanted).abs() > TOLERANCE * wanted + slack {
            return Err(format!("{what} on {disk}: {found}, not {wanted}; in all {told:?}"));
        }
    }
    // Programs are read from the disk that they are on, and write and commit nothing there.
    let apart: [Amount; 2] =
        [("dirtied", |t| t.dirtied, METADATA), ("commits", |t| t.commits, 0.0)];
    for (what, of, slack) in apart {
        // An unknown disk is no wrong one.
        let named = told.iter().filter(|(name, _)| *name != UNKNOWN);
        let all: u64 = named.map(|(_, truth)| of(truth)).sum();
        if (of(&here) as f64) + slack < RIGHT * all as f64 {
            return Err(format!("{what} elsewhere than on {disk}: {told:?}"));
        }
    }
    Ok(())
}
