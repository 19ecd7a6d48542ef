//! The table of docs/pace.md.

use std::fmt::Write;

use super::measured::{Figures, Measured};
use super::place::Place;
use super::victim::Victim;
use super::way::{DEVICES, Way};
use crate::rounds;
use crate::stamp::{self, Stamp};

/// A row: one device, one victim, one way.
struct Row<'a> {
    rounds: Vec<&'a Measured>,
}

impl Row<'_> {
    /// The 99th percentile as a multiple of the victim's alone, where all rounds have one.
    fn p99(&self) -> String {
        if self.rounds.iter().all(|one| one.figures.p99_ratio().is_some()) {
            self.cell(1, |f| f.p99_ratio().unwrap_or(0.0))
        } else {
            "–".to_owned()
        }
    }

    /// The median of the rounds, and in brackets the figure of each round if there are several.
    fn cell(&self, digits: usize, figure: impl Fn(&Figures) -> f64) -> String {
        rounds::cell(self.rounds.iter().map(|one| figure(&one.figures)).collect(), digits)
    }
}

/// All stored measurements, as Markdown.
pub(super) fn section(all: &[Measured]) -> String {
    let mut text = String::new();
    if all.is_empty() {
        return "Nothing is measured yet.\n".to_owned();
    }
    let stamps: Vec<&Stamp> = all.iter().map(|one| &one.stamp).collect();
    let late = stamp::late(&stamps).map(|late| format!(" {late}.")).unwrap_or_default();
    let _ = writeln!(
        text,
        "{}{late} The middle of the rounds, and in brackets each round.\n",
        stamp::circumstances(&stamps)
    );
    for place in Place::ALL {
        let here: Vec<&Measured> = all.iter().filter(|one| one.place == place).collect();
        if !here.is_empty() {
            text.push_str(place_words(place));
            table(&mut text, &here);
        }
    }
    text
}

/// The text before a place's table.
fn place_words(place: Place) -> &'static str {
    match place {
        Place::Host => "",
        Place::Guest => {
            "\nIn a guest of user-mode Linux, with a file of 1 GiB. The copy is in a control \
             group there.\n\n"
        }
    }
}

/// A row for each device, victim and way.
fn table(text: &mut String, all: &[&Measured]) {
    text.push_str(
        "| device | victim | copy | victim kept | p99 / alone | slowest, s | dead seconds | \
         copy alone, MB/s | copy beside, MB/s | kept × beside, MB/s |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (device, victim, way) in rows() {
        let same = |one: &&&Measured| {
            one.device == device && one.victim == victim.name() && one.way == way.name()
        };
        let mut rounds: Vec<&Measured> = all.iter().filter(same).copied().collect();
        if rounds.is_empty() {
            continue;
        }
        rounds.sort_by_key(|one| one.stamp.round);
        let row = Row { rounds };
        let _ = writeln!(
            text,
            "| {device} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            victim.words(),
            way.words(),
            row.cell(2, Figures::victim_kept),
            row.p99(),
            row.cell(1, |f| f.slowest_beside_us / 1e6),
            row.cell(0, |f| f.dead_seconds),
            row.cell(1, |f| f.copy_alone_bytes_per_s / 1e6),
            row.cell(1, |f| f.copy_beside_bytes_per_s / 1e6),
            row.cell(1, |f| f.victim_kept() * f.copy_beside_bytes_per_s / 1e6),
        );
    }
}

/// All rows, in their order.
fn rows() -> impl Iterator<Item = (&'static str, Victim, Way)> {
    let victims = DEVICES
        .into_iter()
        .flat_map(|device| Victim::ALL.into_iter().map(move |victim| (device, victim)));
    victims.flat_map(|(device, victim)| Way::ALL.into_iter().map(move |way| (device, victim, way)))
}
