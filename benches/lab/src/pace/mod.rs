//! A victim beside a copy that is paced, beside the same copy unpaced, beside other ways to copy
//! politely, and beside other paced commands.
//!
//! ```text
//! round × device × victim × way: fresh device ─▶ floodwall bench --flood-cmd WAY ─▶ DATA/….json
//! all files of DATA ─▶ a row for each device, victim and way ─▶ docs/pace.md
//! ```
//!
//! With `--guest` the device is in a guest of user-mode Linux, which has control groups (cgroup
//! v2). A stored measurement is not repeated, so an interrupted run goes on where it was.

pub(crate) mod alone;
mod measured;
mod place;
mod source;
mod table;
mod victim;
mod way;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use published::origin::Origin;
use published::stored;

use crate::devices::Floodwall;
use crate::stamp::Stamp;
use crate::trials;

use self::measured::{Figures, Measured};
use self::place::Place;
use self::source::Source;
use self::victim::Victim;
use self::way::Way;

/// The measurements behind the table of docs/pace.md.
const DATA: &str = "benches/lab/pace";
/// The section's name.
const NAME: &str = "lab-pace";
const COMMAND: &str = "make lab-pace";

/// The measurement, and the directory of its results.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only these devices
    #[arg(long, value_delimiter = ',', default_values = way::DEVICES)]
    devices: Vec<String>,
    /// Only these victims
    #[arg(long, value_delimiter = ',', default_values = Victim::ALL.map(Victim::name))]
    victims: Vec<Victim>,
    /// Only these ways (default: all ways of the place)
    #[arg(long, value_delimiter = ',')]
    ways: Option<Vec<Way>>,
    /// In guests of user-mode Linux
    #[arg(long)]
    guest: bool,
    /// Rounds of each
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Seconds of each phase; 60 at least for rsync --bwlimit
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// Measure at most so many now, the others in later runs
    #[arg(long, default_value_t = usize::MAX, hide_default_value = true)]
    cells: usize,
    /// The directory of stored measurements, which are not repeated
    #[arg(long, default_value = DATA)]
    data: PathBuf,
    /// The document whose section is written anew
    #[arg(long, default_value = "docs/pace.md")]
    out: PathBuf,
}

/// One victim beside one way to copy, on one device.
struct Cell<'a> {
    place: Place,
    device: &'a str,
    victim: Victim,
    way: Way,
}

/// Takes the missing measurements, and writes the table of all stored ones.
pub(crate) fn run(floodwall: &Floodwall, options: &Options) -> anyhow::Result<()> {
    fs::create_dir_all(&options.data)
        .with_context(|| format!("can't make '{}'", options.data.display()))?;
    let (place, ways) = options.ways()?;
    let path =
        |round: u32, cell: &Cell<'_>| options.data.join(format!("{}-{round}.json", cell.name()));
    let all = (1..=options.rounds)
        .flat_map(|round| cells(options, place, &ways).map(move |cell| (round, cell)));
    let missing = all.filter(|(round, cell)| !path(*round, cell).exists());
    let missing: Vec<_> = missing.take(options.cells).collect();
    let source = Source::new(place == Place::Host && !missing.is_empty())?;
    for (round, cell) in &missing {
        eprintln!("{}, round {round}", cell.name());
        let mut stamp = Stamp::now(*round, cell.way.inputs())?;
        let command = cell.way.command(Some(&floodwall.program), &source);
        let seconds = cell.way.phase_seconds(options.seconds);
        let (device, scenario) = (cell.device, cell.victim.name());
        let (result, kept_up) =
            cell.place.measure(floodwall, device, scenario, &command, seconds)?;
        stamp.kept_up = kept_up;
        let measured = Measured {
            place: cell.place,
            device: cell.device.to_owned(),
            victim: cell.victim.name().to_owned(),
            way: cell.way.name().to_owned(),
            stamp,
            figures: Figures::of(&result)?,
        };
        stored::write_pretty(&path(*round, cell), &measured)?;
    }
    drop(source);
    trials::publish(section(&options.data)?, Some(&options.out), NAME, COMMAND)
}

impl Options {
    /// The place and its ways.
    fn ways(&self) -> anyhow::Result<(Place, Vec<Way>)> {
        let place = if self.guest { Place::Guest } else { Place::Host };
        let all = place.ways();
        let ways = self.ways.clone().unwrap_or_else(|| all.clone());
        if let Some(way) = ways.iter().find(|way| !all.contains(way)) {
            anyhow::bail!("{} is not measured there; see --guest", way.name());
        }
        Ok((place, ways))
    }
}

fn cells<'a>(
    options: &'a Options,
    place: Place,
    ways: &'a [Way],
) -> impl Iterator<Item = Cell<'a>> {
    let victims = options
        .devices
        .iter()
        .flat_map(|device| options.victims.iter().map(move |victim| (device, *victim)));
    victims.flat_map(move |(device, victim)| {
        ways.iter().map(move |way| Cell { place, device, victim, way: *way })
    })
}

impl Cell<'_> {
    /// Of its file.
    fn name(&self) -> String {
        let place = self.place.prefix();
        format!("{place}{}-{}-{}", self.device, self.victim.name(), self.way.name())
    }
}

/// The table of all stored measurements, and the origin of their code.
fn section(data: &Path) -> anyhow::Result<(String, Origin)> {
    let all: Vec<Measured> = stored::read_all(data)?.into_values().collect();
    let origins: Vec<Origin> = all.iter().map(|one| one.stamp.origin.clone()).collect();
    Ok((table::section(&all), Origin::of_parts(&origins)))
}

#[cfg(test)]
mod tests {
    use published::document::Section;

    use super::*;

    /// The section `name` of docs/pace.md, and the path of its measurements.
    pub(super) fn written(name: &str, data: &str) -> (Section, PathBuf) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = fs::read_to_string(root.join("docs/pace.md")).unwrap();
        let mut sections = published::document::sections(&text).unwrap();
        sections.retain(|section| section.name == name);
        (sections.remove(0), root.join(data))
    }

    #[test]
    fn the_documents_table_follows_from_what_is_stored() {
        let (written, data) = written(NAME, DATA);
        let (section, origin) = section(&data).unwrap();
        assert!(written.text == section, "`{}` writes it anew", written.command);
        assert_eq!(written.origin, origin);
    }
}
