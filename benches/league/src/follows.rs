//! Tables follow from the stored data: each section of the documents is rendered again and
//! compared.

use std::path::{Path, PathBuf};

use published::document::{Section, sections};
use published::origin::Origin;
use published::stored::read;

use crate::{cells, data, guard, lab, prior, table};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn section(name: &str) -> Section {
    let read = |file: &str| {
        sections(&std::fs::read_to_string(root().join("docs").join(file)).unwrap()).unwrap()
    };
    let mut all = ["league.md", "guard.md"].into_iter().flat_map(read);
    all.find(|section| section.name == name)
        .unwrap_or_else(|| panic!("no document has a section {name}"))
}

fn follows(name: &str, rendered: &str, origin: &Origin) {
    let section = section(name);
    assert!(
        section.text == rendered,
        "{name} differs from what is stored: `{}` writes it anew",
        section.command
    );
    assert_eq!(&section.origin, origin, "{name} was not measured with what it says");
}

#[test]
fn the_cells_tables_follow_from_the_stored_cells() {
    let stored = root().join("benches/league/data");
    let read = |cell: cells::Cell| {
        let data = read::<data::CellData>(&stored.join(cell.name() + ".json")).unwrap();
        (cell, data.unwrap_or_else(|| panic!("{} is not stored", cell.name())))
    };
    let there: Vec<_> = cells::all().into_iter().map(read).collect();
    let (summary, tables) = table::sections(&there).unwrap();
    let origin = data::origin(there.iter().map(|(_, data)| data));
    follows("league-summary", &summary, &origin);
    follows("league-cells", &tables, &origin);
}

#[test]
fn the_labs_table_follows_from_the_stored_runs() {
    let (rendered, origin) = lab::section(&root().join("benches/league/data/lab")).unwrap();
    follows("league-lab", &rendered, &origin);
}

#[test]
fn the_guards_tables_follow_from_the_stored_cells() {
    let stored = root().join("benches/league/data/guard");
    for (name, rendered, origin) in guard::sections(&stored).unwrap() {
        follows(name, &rendered, &origin);
    }
}

#[test]
fn the_priors_table_follows_from_the_stored_draws() {
    let stored = root().join("benches/league/data/prior.json");
    let (name, rendered, origin) = prior::stored(&stored).unwrap().expect("draws are stored");
    follows(name, &rendered, &origin);
}

/// The law has them rounded.
#[test]
fn the_laws_priors_are_the_quarters_of_the_stored_draws() {
    for (name, taken, quarter) in
        prior::taken(&root().join("benches/league/data/prior.json")).unwrap()
    {
        assert!((taken / quarter - 1.0).abs() < 0.1, "{name}: {taken} instead of {quarter}");
    }
}
