//! `floodwall sim sweep merge`: the tables of all shards, put together in the order of their cells.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;
use floodwall_sim::sweep::{Shard, Value};

use super::args::MergeArgs;
use super::table::{Facts, Table};
use crate::exit::{Exit, UsageError};
use crate::output;

/// Runs the command.
///
/// # Errors
/// [`UsageError`] if the parts are not those of one sweep, or not all of them; what the disk says
/// otherwise.
pub(super) fn run(args: &MergeArgs) -> anyhow::Result<Exit> {
    output::check_writable(&args.out)?;
    let mut parts = Vec::new();
    for path in &args.parts {
        parts.push((path.as_path(), Table::read(path)?));
    }
    let merged = merge(parts)?;
    merged.write(&args.out)?;
    output::result(&format!(
        "{}: {} cells in '{}'\n",
        merged.facts.name,
        merged.rows.len(),
        args.out.display()
    ))?;
    Ok(Exit::Done)
}

/// Puts parts together.
fn merge(parts: Vec<(&Path, Table)>) -> anyhow::Result<Table> {
    let mut parts = parts.into_iter();
    let (first, mut whole) = parts.next().context("nothing to merge")?;
    let mut shards = vec![(first, whole.facts.shard)];
    for (path, part) in parts {
        if part.facts.fingerprint != whole.facts.fingerprint || part.columns != whole.columns {
            let (a, b) = (first.display(), path.display());
            return usage(format!(
                "'{a}' and '{b}' are not of one sweep: its file, a file that it names or floodwall \
                 changed between them; run all shards of one"
            ));
        }
        shards.push((path, part.facts.shard));
        whole.rows.extend(part.rows);
    }
    if let Some(message) = wrong_shards(&shards, &whole) {
        return usage(message);
    }
    whole.rows.sort_by_key(|row| cell(row));
    whole.facts.shard = Shard::WHOLE;
    Ok(whole)
}

/// Why the parts are not the whole.
fn wrong_shards(shards: &[(&Path, Shard)], whole: &Table) -> Option<String> {
    for (i, (path, shard)) in shards.iter().enumerate() {
        if let Some((other, _)) = shards[..i].iter().find(|(_, before)| before == shard) {
            return Some(format!(
                "'{}' and '{}' are both shard {shard}; leave one out",
                other.display(),
                path.display()
            ));
        }
    }
    let distinct: BTreeSet<u64> =
        whole.rows.iter().filter_map(|row| cell(row)).map(i64::unsigned_abs).collect();
    let Facts { cells, .. } = whole.facts;
    if distinct.len() as u64 == cells && whole.rows.len() as u64 == cells {
        return None;
    }
    let of: BTreeSet<u64> = shards.iter().map(|(_, shard)| shard.parts().1).collect();
    let [of] = of.into_iter().collect::<Vec<_>>()[..] else {
        return Some(
            "the tables come from different divisions of the sweep; give all shards of one".into(),
        );
    };
    let there: BTreeSet<u64> = shards.iter().map(|(_, shard)| shard.parts().0).collect();
    let missing: Vec<String> =
        (1..=of).filter(|k| !there.contains(k)).map(|k| format!("{k}/{of}")).collect();
    let shown = missing.iter().take(8).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more =
        if missing.len() > 8 { format!(" and {} more", missing.len() - 8) } else { String::new() };
    Some(format!(
        "{} of {cells} cells are missing: give shard {shown}{more} too (or read the parts as they \
         are: docs/sweeps.md)",
        cells.saturating_sub(distinct.len() as u64)
    ))
}

fn cell(row: &[Option<Value>]) -> Option<i64> {
    match row.first()? {
        Some(Value::Integer(cell)) => Some(*cell),
        _ => None,
    }
}

fn usage<T>(message: String) -> anyhow::Result<T> {
    Err(UsageError(message).into())
}

#[cfg(test)]
mod tests {
    use floodwall_sim::sweep::{Column, ColumnKind, Key};

    use super::*;

    fn part(shard: &str, fingerprint: u128, cells: &[i64]) -> Table {
        Table {
            facts: Facts {
                name: "x".into(),
                fingerprint: Key(fingerprint),
                version: "1".into(),
                cells: 4,
                shard: shard.parse().unwrap(),
            },
            columns: vec![Column { name: "cell".into(), kind: ColumnKind::Integer }],
            rows: cells.iter().map(|cell| vec![Some(Value::Integer(*cell))]).collect(),
        }
    }

    fn merged(parts: Vec<Table>) -> Result<Vec<i64>, String> {
        let named = parts
            .into_iter()
            .zip(["a", "b", "c"])
            .map(|(part, name)| (Path::new(name), part))
            .collect();
        let whole = merge(named).map_err(|e| e.to_string())?;
        assert_eq!(whole.facts.shard, Shard::WHOLE);
        Ok(whole.rows.iter().filter_map(|row| cell(row)).collect())
    }

    #[test]
    fn parts_in_any_order_are_the_whole_in_its_order() {
        assert_eq!(
            merged(vec![part("2/2", 1, &[1, 3]), part("1/2", 1, &[0, 2])]),
            Ok(vec![0, 1, 2, 3])
        );
        assert_eq!(merged(vec![part("1/1", 1, &[0, 1, 2, 3])]), Ok(vec![0, 1, 2, 3]));
    }

    #[test]
    fn what_is_not_the_whole_says_what_is_missing() {
        let error = |parts| merged(parts).unwrap_err();
        assert!(
            error(vec![part("1/2", 1, &[0, 2]), part("2/2", 2, &[1, 3])])
                .starts_with("'a' and 'b' are not of one sweep")
        );
        assert_eq!(
            error(vec![part("1/2", 1, &[0, 2]), part("1/2", 1, &[0, 2])]),
            "'a' and 'b' are both shard 1/2; leave one out"
        );
        assert!(
            error(vec![part("1/3", 1, &[0, 3])])
                .starts_with("2 of 4 cells are missing: give shard 2/3, 3/3 too")
        );
        assert!(
            error(vec![part("1/2", 1, &[0, 2]), part("2/3", 1, &[1])])
                .starts_with("the tables come from different")
        );
    }
}
