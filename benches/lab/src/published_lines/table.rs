//! Published figures beside the measured ones.

use std::fmt::Write;

use anyhow::Context;
use published::Experiment;

use super::cells::Cell;
use super::measured::Measured;
use crate::stamp::{self, Stamp};

/// The published figures.
pub(super) struct Published {
    pub(super) y2007: Experiment,
    pub(super) y2010: Experiment,
    pub(super) y2016: Experiment,
}

/// What a published figure has to do with the model.
#[derive(Clone, Copy)]
enum Basis {
    /// A constant of the model was chosen by it.
    Fitted,
    /// It differs little from a fitted one.
    Neighbour,
    /// No constant was.
    Independent,
}

impl Basis {
    fn words(self) -> &'static str {
        match self {
            Self::Fitted => "fitted",
            Self::Neighbour => "calibrated on a neighbour",
            Self::Independent => "not fitted",
        }
    }
}

/// A figure of a cell.
struct Row {
    what: String,
    /// Among the cell's figures.
    key: String,
    published: f64,
    basis: Basis,
}

impl Row {
    fn new(what: impl Into<String>, key: impl Into<String>, published: f64, basis: Basis) -> Self {
        Self { what: what.into(), key: key.into(), published, basis }
    }
}

fn rows(cell: Cell, published: &Published) -> anyhow::Result<Vec<Row>> {
    let of_victim = |threads, block: u32, key: &str| {
        let figure = published.y2010.of_victim(threads, block / 1024, key);
        figure.with_context(|| format!("{threads} × {block} has no published {key}"))
    };
    let dd = |key: &str| published.y2010.number(&format!("sequential.{key}"));
    let (beside, small) = ("flood_default_iops", "flood_dirty_bytes_15MB_iops");
    Ok(match cell {
        Cell::Disktest { elevator, published: name } => {
            let basis = if name == "deadline" { Basis::Fitted } else { Basis::Neighbour };
            let tests = ["seq_read", "seq_write", "rnd_read", "rnd_write"];
            let row = |test: &str| {
                let (what, key) = (test.replace('_', ". "), format!("{name}.{test}"));
                let figure = published.y2007.number(&key)?;
                Ok(Row::new(format!("{what}, {name} (here {elevator}), IOPS"), key, figure, basis))
            };
            tests.into_iter().map(row).collect::<anyhow::Result<_>>()?
        }
        Cell::Sysbench { threads: threads @ 1, block: block @ 4096, .. } => {
            let of = |key| of_victim(threads, block, key);
            let (idle, large) = (of("idle_iops")?, of("flood_dirty_bytes_1GB_iops")?);
            vec![
                Row::new("1 × 4 KiB alone, 15 MB, IOPS", "15MB.alone", idle, Basis::Fitted),
                Row::new(
                    "1 × 4 KiB beside dd, 15 MB, IOPS",
                    "15MB.beside",
                    of(small)?,
                    Basis::Independent,
                ),
                Row::new(
                    "1 × 4 KiB beside dd, 1 GB, IOPS",
                    "1GB.beside",
                    large,
                    Basis::Independent,
                ),
            ]
        }
        Cell::Sysbench { threads, block, .. } => {
            let of = |key| of_victim(threads, block, key);
            let (victim, free) = (format!("{threads} × 16 KiB"), Basis::Independent);
            let mut rows = vec![
                Row::new(
                    format!("{victim} beside dd, default, IOPS"),
                    "default.beside",
                    of(beside)?,
                    free,
                ),
                Row::new(
                    format!("{victim} beside dd, 15 MB, IOPS"),
                    "15MB.beside",
                    of(small)?,
                    free,
                ),
            ];
            if let Ok(idle) = of("idle_iops") {
                let alone = format!("{victim} alone, default, IOPS");
                rows.insert(0, Row::new(alone, "default.alone", idle, Basis::Fitted));
                let fitted = dd("default_mb_s")?;
                rows.push(Row::new(
                    "dd alone, default, MB/s",
                    "default.dd_mb_s",
                    fitted,
                    Basis::Fitted,
                ));
                let limited = dd("dirty_bytes_15MB_mb_s")?;
                rows.push(Row::new("dd alone, 15 MB, MB/s", "15MB.dd_mb_s", limited, free));
            }
            rows
        }
        Cell::Dd => {
            let figure = published.y2016.number("local_mb_s")?;
            vec![Row::new("dd on the server's disks, MB/s", "local_mb_s", figure, Basis::Fitted)]
        }
    })
}

/// All of it; cells that are not measured are named.
pub(super) fn section(all: &[Measured], published: &Published) -> anyhow::Result<String> {
    let (mut lines, mut table, mut missing) = (String::new(), String::new(), Vec::new());
    for cell in Cell::all() {
        let name = cell.name();
        let own: Vec<&Measured> = all.iter().filter(|one| one.cell == name).collect();
        let Some(first) = own.first() else {
            missing.push(name);
            continue;
        };
        let commands: Vec<String> = first.commands.iter().map(|line| format!("`{line}`")).collect();
        writeln!(lines, "- {name}: {}", commands.join("; "))?;
        for row in rows(cell, published)? {
            let found = own.iter().filter_map(|one| one.figures.get(&row.key)).copied();
            let found: Vec<f64> = found.collect();
            anyhow::ensure!(!found.is_empty(), "{name} has no figure {}", row.key);
            let mean = found.iter().sum::<f64>() / found.len() as f64;
            let each: Vec<String> = found.iter().map(|one| shown(*one)).collect();
            let each =
                if each.len() > 1 { format!(" ({})", each.join(", ")) } else { String::new() };
            writeln!(
                table,
                "| {} | {} | {}{each} | {:.2} | {} | {} |",
                row.what,
                shown(row.published),
                shown(mean),
                mean / row.published,
                row.basis.words(),
                lab(&own)
            )?;
        }
    }
    let mut out = format!("{}\n\n", circumstances(all));
    out += &lines;
    out += "\n| figure | published | measured | measured / published | the model is | the lab |\n\
        |---|---|---|---|---|---|\n";
    out += &table;
    if !missing.is_empty() {
        writeln!(out, "\nNot measured yet: {}.", missing.join(", "))?;
    }
    Ok(out)
}

/// Whether the lab kept up with its model in a cell's rounds.
fn lab(rounds: &[&Measured]) -> String {
    let late = rounds.iter().filter(|one| one.stamp.kept_up == Some(false)).count();
    match (late, rounds.len()) {
        (0, _) if rounds.iter().all(|one| one.stamp.kept_up == Some(true)) => "kept up".into(),
        (0, _) => "nothing to tell by".into(),
        (1, 1) => "**did not keep up**".into(),
        (late, rounds) => format!("**did not keep up** in {late} of {rounds} rounds"),
    }
}

/// When, on what, and what else ran.
fn circumstances(all: &[Measured]) -> String {
    let stamps: Vec<&Stamp> = all.iter().map(|one| &one.stamp).collect();
    let late = stamp::late(&stamps)
        .map(|late| format!(" {late}: the rates of such a row may be the machine's."))
        .unwrap_or_default();
    format!(
        "{} Means, and in brackets each round's figure if there were several.{late}",
        stamp::circumstances(&stamps)
    )
}

fn shown(figure: f64) -> String {
    match figure {
        f if f >= 100.0 => format!("{f:.0}"),
        f if f >= 10.0 => format!("{f:.1}"),
        f => format!("{f:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_cell_has_published_figures() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../published/measurements.toml");
        let of = |name: &str| Experiment::read(&file, name).unwrap();
        let published = Published {
            y2007: of("raid1_3ware_2007"),
            y2010: of("adaptec_raid10_2010"),
            y2016: of("nfs_gige_2016"),
        };
        let rows: usize = Cell::all().map(|cell| rows(cell, &published).unwrap().len()).sum();
        assert_eq!(rows, 4 + 4 + 1 + 5 + 2 + 3);
    }
}
