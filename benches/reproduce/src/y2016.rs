//! The article of 2016: dd with fdatasync over NFS on gigabit Ethernet, default limits and limits
//! from bandwidth × delay.

use std::path::Path;

use floodwall_model::{Bytes, Setting};
use floodwall_sim::kernel::Generation;
use floodwall_sim::{FsKind, SimOptions, SimRunner};
use published::Experiment;

use crate::cells;
use crate::table::{Basis, Goal, Line, preset_with, table, widen};

/// `dd bs=1M count=1000`.
const BYTES: Bytes = Bytes::mib(1000);
/// The client's RAM is not given; it was ready to hold back 1.6 GB, a tenth of this.
const RAM: Bytes = Bytes::gib(16);

/// Unpublished constants at other values, one at a time: lines of the preset. `size` is a fifth of
/// the server's RAM: 2, 4 and 16 GiB instead of 8.
const OTHERS: [&[(&str, &str)]; 5] = [
    &[("size", "\"400MB\"")],
    &[("size", "\"800MB\"")],
    &[("size", "\"3200MB\"")],
    &[("round_trip", "\"0.1ms\"")],
    &[("round_trip", "\"1ms\"")],
];

struct Cell {
    what: &'static str,
    figure: &'static str,
    basis: Basis,
    fs: FsKind,
    tuned: bool,
}

const CELLS: [Cell; 4] = [
    Cell {
        what: "on the server itself",
        figure: "local_mb_s",
        basis: Basis::Fitted,
        fs: FsKind::Btrfs,
        tuned: false,
    },
    Cell {
        what: "NFS, sync, default limits",
        figure: "export_sync_default_mb_s",
        basis: Basis::Fitted,
        fs: FsKind::Nfs { server_async: false },
        tuned: false,
    },
    Cell {
        what: "NFS, sync, limits from bandwidth × delay",
        figure: "export_sync_tuned_mb_s",
        basis: Basis::Neighbour,
        fs: FsKind::Nfs { server_async: false },
        tuned: true,
    },
    Cell {
        what: "NFS, async (not stable when it returns)",
        figure: "export_async_mb_s",
        basis: Basis::Fitted,
        fs: FsKind::Nfs { server_async: true },
        tuned: false,
    },
];

pub(crate) fn section(published: &Path) -> anyhow::Result<String> {
    let published = Experiment::read(published, "nfs_gige_2016")?;
    let lines = |changes| -> anyhow::Result<Vec<Line>> {
        let found = cells::all(&CELLS, |cell| rate(&published, cell, changes))?;
        let lines = CELLS.iter().zip(found).map(|(cell, rate)| {
            Ok(Line {
                what: format!("{}, MB/s", cell.what),
                expected: Some(published.number(cell.figure)?),
                simulated: Some(rate / 1e6),
                goal: Goal::Within(0.1),
                basis: cell.basis,
                range: None,
                doubt: None,
            })
        });
        lines.collect()
    };
    let mut all = lines(&[])?;
    let others = OTHERS.iter().map(|changes| lines(changes));
    widen(&mut all, &others.collect::<anyhow::Result<Vec<_>>>()?);
    Ok(format!(
        "### File server on gigabit Ethernet, 2016\n\n\
         Preset `usb3-btrfs-nas-2016` (without its link for the local figure), kernel 3.2 or \
         later, {RAM} of RAM in the client; `dd bs=1M count=1000 conv=fdatasync`. The goal is 10 \
         %. The disks are fitted on the local figure, the link on the asynchronous one. The \
         server's RAM was chosen as 8 GiB when the 44 MB/s were known, and they depend on it most. \
         The 56 MB/s follow from the same server.\n\n\
         *Range*, with one change at a time: 2 to 16 GiB of RAM in the server; 0.1 to 1 ms for a \
         round trip.\n\n{}",
        table("published", &all)
    ))
}

fn rate(published: &Experiment, cell: &Cell, changes: &[(&str, &str)]) -> anyhow::Result<f64> {
    let mut device = preset_with("usb3-btrfs-nas-2016", changes)?;
    if matches!(cell.fs, FsKind::Btrfs) {
        device.link = None;
    }
    let options =
        SimOptions { generation: Generation::K6, ram: RAM, fs: cell.fs, ..SimOptions::new(device) };
    let mut setting = Setting::default();
    if cell.tuned {
        for knob in ["dirty_bytes", "dirty_background_bytes"] {
            let bytes = published.number(&format!("tuned.{knob}"))?;
            setting.0.insert(format!("vm.{knob}"), format!("{bytes:.0}"));
        }
    }
    Ok(SimRunner::new(options).dd(&setting, BYTES)?.bytes_per_s)
}
