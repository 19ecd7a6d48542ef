//! The experiment's table, beside the published figures, and the document that holds it.

use std::fmt::Write;
use std::path::Path;

use anyhow::Context;

use crate::experiment::{PRESET, Plan, Row, Sysbench};

/// The table. `published` is the part of the published figures that is about this experiment.
pub(crate) fn section(plan: Plan, rows: &[Row], sysbench: &[Sysbench], published: &toml::Value) -> String {
    let shown = |value: Option<f64>| value.map_or("–".into(), |v| format!("{v:.0}"));
    let mut out = format!(
        "Preset `{PRESET}` behind the real kernel, xfs, {} s a phase, {} rounds for ten threads and one for the others; the file has {} GiB (published: 10). \
         \"15 MB\" is `vm.dirty_bytes` = 15,000,000 (the kernel then begins to write at half of it). p99 in ms; *dead* are seconds with under a tenth of the idle rate.\n\n",
        plan.seconds, plan.rounds, plan.file_gib
    );
    out.push_str("| victim | setting | idle IOPS, published | lab | beside dd, published | lab | p99 beside | dead | dd alone MB/s | lateness p99 |\n|---|---|---|---|---|---|---|---|---|---|\n");
    for row in rows {
        let key = if row.setting == "default" { "flood_default_iops" } else { "flood_dirty_bytes_15MB_iops" };
        let _ = writeln!(
            out,
            "| {} × {} KiB | {} | {} | {:.0} | {} | {:.0} | {} | {} | {:.0} | {} |",
            row.threads,
            row.block_kib,
            row.setting,
            shown(published_iops(published, row.threads, row.block_kib, "idle_iops")),
            row.idle_iops,
            shown(published_iops(published, row.threads, row.block_kib, key)),
            row.flood_iops,
            row.p99,
            row.dead,
            row.sequential_mb_s,
            row.kept_up,
        );
    }
    for Sysbench { setting: name, idle, beside } in sysbench {
        let _ = writeln!(
            out,
            "| 10 × 16 KiB, sysbench | {name} | 1500 | {idle:.0} | {} | {beside:.0} | | | | |",
            if *name == "default" { 33 } else { 700 }
        );
    }
    out.push_str("\nPublished sequential rates: 251 MB/s under the default setting, 216 MB/s under 15 MB.\n");
    out
}

/// The published figures for a victim: idle, default flood, 15 MB flood.
fn published_iops(published: &toml::Value, threads: u32, block_kib: u32, key: &str) -> Option<f64> {
    let results = published.get("result")?.as_array()?;
    let entry = results.iter().find(|r| {
        r.get("threads").and_then(toml::Value::as_integer) == Some(i64::from(threads))
            && r.get("block_bytes").and_then(toml::Value::as_integer) == Some(i64::from(block_kib) * 1024)
    })?;
    let number = |v: &toml::Value| v.as_float().or_else(|| v.as_integer().map(|n| n as f64));
    let found = entry.get(key).and_then(number);
    // The 4 KiB runs were published as full reports under other names.
    let report = |name: &str| entry.get(name).and_then(|r| r.get("iops")).and_then(number);
    found.or_else(|| match key {
        "idle_iops" => report("idle_dirty_bytes_15MB"),
        "flood_dirty_bytes_15MB_iops" => report("flood_dirty_bytes_15MB"),
        _ => None,
    })
}

const BEGIN: &str = "<!-- lab-2010: written by `make lab-2010` -->\n";
const END: &str = "<!-- end of lab-2010 -->\n";

/// Puts the section between its marks, which are added at the end of a document without them.
pub(crate) fn replace_section(path: &Path, section: &str) -> anyhow::Result<()> {
    let old = std::fs::read_to_string(path)
        .unwrap_or_else(|_| "# Reproductions\n\n## The experiment of 2010 in the lab\n\n".into());
    let new = match (old.find(BEGIN), old.find(END)) {
        (Some(begin), Some(end)) if begin < end => {
            format!("{}{BEGIN}{section}{}", &old[..begin], &old[end..])
        }
        _ => format!("{}\n{BEGIN}{section}{END}", old.trim_end()),
    };
    std::fs::write(path, new).with_context(|| format!("can't write '{}'", path.display()))
}
