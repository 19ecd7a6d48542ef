//! The comparison of 2009: eight parallel scans of a large InnoDB table on four SAS disks, under
//! each elevator.
//!
//! What a "read" was is not said. It is taken as a page of the compressed table, 8 KiB. InnoDB's
//! status page counts rows under that name, and a page holds several. The scans' extents are read
//! by InnoDB's four read threads; "a site's own queries" beside them are 16 random readers of
//! single pages.

use std::path::Path;

use floodwall_device::DeviceSpec;
use floodwall_model::{Bytes, Setting};
use floodwall_sim::kernel::Generation;
use floodwall_sim::{SimOptions, SimRunner, TableScans};
use published::Experiment;

use crate::cells;
use crate::table::number;

/// Constants of the machine that are not published.
#[derive(Clone, Copy)]
struct Assumptions {
    /// What counts as a read.
    page_kib: u64,
    /// Random readers beside the scans.
    queries: u32,
    /// InnoDB's, which read for all scans.
    read_threads: u32,
}

const ASSUMED: Assumptions = Assumptions { page_kib: 8, queries: 16, read_threads: 4 };

/// Other values, one at a time.
fn others() -> [Assumptions; 6] {
    [
        Assumptions { page_kib: 4, ..ASSUMED },
        Assumptions { page_kib: 16, ..ASSUMED },
        Assumptions { queries: 4, ..ASSUMED },
        Assumptions { queries: 64, ..ASSUMED },
        Assumptions { read_threads: 2, ..ASSUMED },
        Assumptions { read_threads: 8, ..ASSUMED },
    ]
}

/// In the published order, the fastest first.
const ELEVATORS: [&str; 4] = ["noop", "deadline", "anticipatory", "cfq"];

pub(crate) fn section(published: &Path) -> anyhow::Result<String> {
    let published = Experiment::read(published, "mysql_raid10_2009")?;
    let read = |assumptions: Assumptions| {
        cells::all(&ELEVATORS, |elevator| reads_per_s(elevator, assumptions))
    };
    let found = read(ASSUMED)?;
    let others = others().into_iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
    let mut out = String::from(
        "### Parallel scans of a MySQL table, 2009\n\n\
         Preset `sas-raid10-2009`, kernel 2.6.18, 16 GB of RAM, ext3; eight scans through four \
         read threads beside random reads. \
         All four are predictions: the preset is its data sheet's. What counts as a read is not \
         published; here it is a page of 8 KiB. \
         *Range*: one at a time, pages of 4 or 16 KiB, 4 or 64 random readers, 2 or 8 read \
         threads.\n\n\
         | elevator | published reads/s | simulated | range | |\n|---|---|---|---|---|\n",
    );
    let mut inside = 0;
    let mut ranges = Vec::new();
    for (i, (elevator, reads)) in ELEVATORS.iter().zip(&found).enumerate() {
        let (low, high) = published.range(&format!("reads_per_s.{elevator}"))?;
        let good = (low..=high).contains(reads);
        inside += usize::from(good);
        let all = others.iter().filter_map(|found| found.get(i)).chain([reads]);
        let (least, most) =
            all.fold((f64::MAX, 0.0), |(l, m), x| (f64::min(l, *x), f64::max(m, *x)));
        out.push_str(&format!(
            "| {elevator} | {low:.0} to {high:.0} | {} | {least:.0} to {most:.0} | {} |\n",
            number(Some(*reads)),
            if good { "met" } else { "**not met**" }
        ));
        ranges.push((low, high));
    }
    let (pairs, kept) = order(&ranges, &found);
    let kept_by_all = others.iter().filter(|found| order(&ranges, found).1 == pairs).count();
    out.push_str(&format!(
        "\n**{inside} of {} predictions met.** Of {pairs} pairs of elevators whose published \
         ranges do not overlap, \
         {kept} come in the published order and at least 5 % apart; all of them do so in \
         {kept_by_all} of the {} other machines. \
         noop and deadline are equal in the simulator; their published ranges overlap, so no order \
         is published for them.\n",
        ELEVATORS.len(),
        others.len(),
    ));
    Ok(out)
}

/// Of the elevators' pairs with published ranges apart: how many there are, and how many are
/// simulated in that order and at least 5 % apart.
fn order(ranges: &[(f64, f64)], found: &[f64]) -> (usize, usize) {
    let all = || ranges.iter().zip(found);
    let pairs = all().flat_map(|a| all().map(move |b| (a, b)));
    let apart = pairs.filter(|((above, _), (below, _))| above.0 > below.1);
    apart.fold((0, 0), |(pairs, kept), ((_, a), (_, b))| {
        (pairs + 1, kept + usize::from(*a > b * 1.05))
    })
}

fn reads_per_s(elevator: &str, assumptions: Assumptions) -> anyhow::Result<f64> {
    let options = SimOptions {
        generation: Generation::K2_6_18,
        ram: Bytes::gib(16),
        cpus: 8,
        fs: floodwall_sim::FsKind::Ext3,
        ..SimOptions::new(DeviceSpec::preset("sas-raid10-2009")?)
    };
    let setting: Setting = [("scheduler".to_owned(), elevator.to_owned())].into_iter().collect();
    let test = TableScans {
        scans: 8,
        read_threads: assumptions.read_threads,
        extent: Bytes::kib(512),
        table: Bytes::gib(300),
        queries: assumptions.queries,
        page: Bytes::kib(assumptions.page_kib),
        warmup_s: 5,
        seconds: 30,
    };
    let result = SimRunner::new(options).scans(&setting, &test)?;
    Ok(result.scanned_per_s + result.queried_per_s)
}
