//! The article of 2016: dd with fdatasync over NFS on gigabit Ethernet, default limits and limits from bandwidth × delay.

use std::path::Path;

use anyhow::Context;
use floodwall_device::DeviceSpec;
use floodwall_model::{Bytes, Setting};
use floodwall_sim::kernel::Generation;
use floodwall_sim::{FsKind, SimOptions, SimRig};
use published::Experiment;

use crate::cells;
use crate::table::{Goal, Line, table};

/// `dd bs=1M count=1000`.
const BYTES: Bytes = Bytes::mib(1000);
/// The client's RAM is not given; it was ready to hold back 1.6 GB, a tenth of this.
const RAM: Bytes = Bytes::gib(16);

struct Cell {
    what: &'static str,
    figure: &'static str,
    fs: FsKind,
    tuned: bool,
}

const CELLS: [Cell; 4] = [
    Cell { what: "on the server itself", figure: "local_mb_s", fs: FsKind::Btrfs, tuned: false },
    Cell {
        what: "NFS, sync, default limits",
        figure: "export_sync_default_mb_s",
        fs: FsKind::Nfs { server_async: false },
        tuned: false,
    },
    Cell {
        what: "NFS, sync, limits from bandwidth × delay",
        figure: "export_sync_tuned_mb_s",
        fs: FsKind::Nfs { server_async: false },
        tuned: true,
    },
    Cell {
        what: "NFS, async (not stable when it returns)",
        figure: "export_async_mb_s",
        fs: FsKind::Nfs { server_async: true },
        tuned: false,
    },
];

pub(crate) fn section(published: &Path) -> anyhow::Result<String> {
    let published = Experiment::read(published, "nfs_gige_2016")?;
    let found = cells::all(&CELLS, |cell| rate(&published, cell))?;
    let lines: Vec<Line> = CELLS
        .iter()
        .zip(found)
        .map(|(cell, rate)| {
            Ok(Line {
                what: format!("{}, MB/s", cell.what),
                expected: Some(published.number(cell.figure)?),
                simulated: Some(rate / 1e6),
                goal: Goal::Within(0.1),
            })
        })
        .collect::<anyhow::Result<_>>()?;
    Ok(format!(
        "### File server on gigabit Ethernet, 2016\n\nPreset `usb3-btrfs-nas-2016` (without its link for the local figure, on which it is fitted; its link is fitted on the asynchronous one; 8 GiB of RAM in the server are assumed), kernel 3.2 or later, {RAM} of RAM in the client; `dd bs=1M count=1000 conv=fdatasync`. The goal is 10 %.\n\n{}",
        table("published", &lines)
    ))
}

fn rate(published: &Experiment, cell: &Cell) -> anyhow::Result<f64> {
    let text = floodwall_device::preset_text("usb3-btrfs-nas-2016").context("the preset")?;
    let local = matches!(cell.fs, FsKind::Btrfs);
    let text = if local { text.split("[link]").next().unwrap_or(text) } else { text };
    let options = SimOptions {
        generation: Generation::K6,
        ram: RAM,
        fs: cell.fs,
        ..SimOptions::new(DeviceSpec::parse(text)?)
    };
    let mut setting = Setting::default();
    if cell.tuned {
        for knob in ["dirty_bytes", "dirty_background_bytes"] {
            let bytes = published.number(&format!("tuned.{knob}"))?;
            setting.0.insert(format!("vm.{knob}"), format!("{bytes:.0}"));
        }
    }
    Ok(SimRig::new(options).dd(&setting, BYTES)?.bytes_per_s)
}
