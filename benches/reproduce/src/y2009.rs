//! The comparison of 2009: eight parallel scans of a large InnoDB table on four SAS disks, under each elevator.
//!
//! What a "read" was is not said. It is taken as a page of the compressed table, 8 KiB; InnoDB's own status page counts rows under that name, of which a page holds
//! several. The scans' extents are read by InnoDB's four read threads; "a site's own queries" beside them are 16 random readers of single pages.

use std::path::Path;

use floodwall_device::DeviceSpec;
use floodwall_model::{Bytes, Setting};
use floodwall_sim::kernel::Generation;
use floodwall_sim::{SimOptions, SimRig, TableScans};
use published::Experiment;

use crate::cells;
use crate::table::number;

/// In the published order, the fastest first.
const ELEVATORS: [&str; 4] = ["noop", "deadline", "anticipatory", "cfq"];

pub(crate) fn section(published: &Path) -> anyhow::Result<String> {
    let published = Experiment::read(published, "mysql_raid10_2009")?;
    let found = cells::all(&ELEVATORS, |elevator| reads_per_s(elevator))?;
    let mut out = String::from(
        "### Parallel scans of a MySQL table, 2009\n\nPreset `sas-raid10-2009`, kernel 2.6.18, 16 GB of RAM, ext3; eight scans through four read threads beside random reads. What counts as a read is not published; here it is a page of 8 KiB.\n\n| elevator | published reads/s | simulated | |\n|---|---|---|---|\n",
    );
    let mut inside = 0;
    for (elevator, reads) in ELEVATORS.iter().zip(&found) {
        let (low, high) = published.range(&format!("reads_per_s.{elevator}"))?;
        let good = (low..=high).contains(reads);
        inside += usize::from(good);
        out.push_str(&format!(
            "| {elevator} | {low:.0} to {high:.0} | {} | {} |\n",
            number(Some(*reads)),
            if good { "inside" } else { "**outside**" }
        ));
    }
    let ordered = found.is_sorted_by(|a, b| a >= b);
    out.push_str(&format!(
        "\n{inside} of {} inside; the order of the elevators is {}.\n",
        ELEVATORS.len(),
        if ordered { "the published one" } else { "**not** the published one" }
    ));
    Ok(out)
}

fn reads_per_s(elevator: &str) -> anyhow::Result<f64> {
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
        read_threads: 4,
        extent: Bytes::kib(512),
        table: Bytes::gib(300),
        queries: 16,
        page: Bytes::kib(8),
        warmup_s: 5,
        seconds: 30,
    };
    let result = SimRig::new(options).scans(&setting, &test)?;
    Ok(result.scanned_per_s + result.queried_per_s)
}
