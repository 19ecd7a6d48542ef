//! Submissions → what several machines agree on, and the candidates that wait for a second machine.
//!
//! ```text
//! evidence ─ sources of the same result are one ─ by model, firmware, size class
//!    ├ of disks ───▶ each value ─ agreement ─▶ Entry | Candidate
//!    └ of presets ─▶ Entry, marked as modelled
//! ```
//!
//! The order of the submissions makes no difference.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::agreement::{self, Agreement};
use crate::database::{Database, Entry, MODELLED};
use crate::evidence::Evidence;
use crate::setting::parse_setting;
use crate::size_class::SizeClass;
use crate::submission::{Submission, VICTIMS};

/// Digits of a submission's hash in a key's evidence.
const HASH_DIGITS: usize = 12;
/// Hashes in a key's evidence at most; the number of results is told beside them.
const MOST_HASHES: usize = 8;

/// A value that is not confirmed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The device: model, firmware, size class.
    pub device: String,
    /// The value.
    pub what: String,
    /// The requirement that it does not meet.
    pub why: String,
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, what, why } = self;
        write!(f, "{device}: {what} stays a candidate: {why}")
    }
}

/// The outcome of a merge.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Merged {
    /// Confirmed and modelled values.
    pub database: Database,
    /// Values that are neither.
    pub candidates: Vec<Candidate>,
}

/// A device in submissions.
type Key = (String, Option<String>, SizeClass);

/// Merges submissions. The same file twice counts once.
#[must_use]
pub fn merge(evidence: &[Evidence]) -> Merged {
    let evidence = join_sources(evidence);
    let mut by_key: BTreeMap<Key, Vec<&Evidence>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for one in evidence.iter().filter(|one| seen.insert(&one.hash)) {
        let said = &one.submission;
        if let Ok(size) = said.size() {
            let key = (said.model.clone(), said.firmware.clone(), size);
            by_key.entry(key).or_default().push(one);
        }
    }
    let mut merged = Merged::default();
    let mut entries = Vec::new();
    for (key, all) in &by_key {
        let entry = match key.1 {
            Some(_) => confirmed(key, all, &mut merged.candidates),
            None => modelled(key, all),
        };
        entries.extend(entry);
    }
    let measured: BTreeSet<(String, SizeClass)> = entries
        .iter()
        .filter(|entry| !entry.is_modelled())
        .map(|entry| (entry.model.clone(), entry.size))
        .collect();
    // A measurement replaces the model of its disk.
    entries.retain(|entry| {
        !entry.is_modelled() || !measured.contains(&(entry.model.clone(), entry.size))
    });
    merged.database = Database::new(entries);
    merged
}

/// Sources that submit the same result get one name, the least of theirs: two measurements do not
/// give the same figures, so the result was copied.
fn join_sources(evidence: &[Evidence]) -> Vec<Evidence> {
    let mut by_result: BTreeMap<String, BTreeSet<&String>> = BTreeMap::new();
    for one in evidence {
        by_result.entry(one.result()).or_default().extend(&one.submission.source);
    }
    let all = by_result.values().flatten();
    let mut names: BTreeMap<&String, &String> = all.map(|source| (*source, *source)).collect();
    for sources in by_result.values() {
        let joined: BTreeSet<&String> = sources.iter().map(|source| names[source]).collect();
        let Some(least) = joined.first() else { continue };
        names.values_mut().filter(|name| joined.contains(*name)).for_each(|name| *name = least);
    }
    let rename = |one: &Evidence| {
        let source = one.submission.source.as_ref().map(|source| names[source].clone());
        Evidence { submission: Submission { source, ..one.submission.clone() }, ..one.clone() }
    };
    evidence.iter().map(rename).collect()
}

fn entry((model, firmware, size): &Key) -> Entry {
    Entry {
        model: model.clone(),
        firmware: firmware.clone(),
        size: *size,
        drain_bytes_per_s: None,
        sync_us: None,
        settings: BTreeMap::new(),
        evidence: String::new(),
    }
}

/// The values of a disk on which sources agree; `None` without any.
fn confirmed(key: &Key, all: &[&Evidence], candidates: &mut Vec<Candidate>) -> Option<Entry> {
    let mut found = entry(key);
    let mut behind = BTreeSet::new();
    let device = format!("{} (firmware {}, {})", key.0, key.1.as_deref().unwrap_or("*"), key.2);
    let mut candidate = |what: &str, why| {
        candidates.push(Candidate { device: device.clone(), what: what.to_owned(), why });
    };
    if all.iter().any(|one| one.submission.drain_bytes_per_s.is_some()) {
        match agreement::number(all, |one| one.submission.drain_bytes_per_s) {
            Agreement::Value(value, agree) => {
                found.drain_bytes_per_s = Some(value.round());
                behind.extend(agree);
            }
            Agreement::Candidate(why) => candidate("drain rate", why),
        }
    }
    if all.iter().any(|one| one.submission.sync_us.is_some()) {
        match agreement::number(all, |one| one.submission.sync_us) {
            Agreement::Value(value, agree) => {
                found.sync_us = Some(value.round());
                behind.extend(agree);
            }
            Agreement::Candidate(why) => candidate("time of a sync", why),
        }
    }
    for victim in VICTIMS {
        if !all.iter().any(|one| one.best().is_some_and(|best| best.victim == victim)) {
            continue;
        }
        match agreement::setting(all, victim) {
            Agreement::Value(setting, agree) => {
                found.settings.insert(victim.to_owned(), setting);
                behind.extend(agree);
            }
            Agreement::Candidate(why) => candidate(&format!("setting for {victim}"), why),
        }
    }
    let behind: Vec<&Evidence> = behind.into_iter().map(|index| all[index]).collect();
    found.evidence = evidence_of(&behind);
    (!behind.is_empty()).then_some(found)
}

/// `3f0c…+9ab1…,n=2,kernel=6.1.0..6.18.5,ram=16..64GiB,date=2026-11-28`.
fn evidence_of(behind: &[&Evidence]) -> String {
    let mut hashes: Vec<&str> =
        behind.iter().map(|one| one.hash.get(..HASH_DIGITS).unwrap_or(&one.hash)).collect();
    hashes.sort_unstable();
    hashes.truncate(MOST_HASHES);
    let sources: BTreeSet<_> = behind.iter().map(|one| &one.submission.source).collect();
    let numbers = |one: &&Evidence| -> Vec<u32> {
        one.submission.kernel.split('.').filter_map(|part| part.parse().ok()).collect()
    };
    let mut kernels: Vec<_> =
        behind.iter().map(|one| (numbers(one), one.submission.kernel.as_str())).collect();
    kernels.sort_unstable();
    let mut ram: Vec<u32> = behind.iter().map(|one| one.submission.ram_gib).collect();
    ram.sort_unstable();
    let date = behind.iter().map(|one| one.submission.date.as_str()).max().unwrap_or_default();
    let range =
        |low: String, high: String| if low == high { low } else { format!("{low}..{high}") };
    let ends = |of: Vec<String>| match (of.first(), of.last()) {
        (Some(low), Some(high)) => range(low.clone(), high.clone()),
        _ => String::new(),
    };
    format!(
        "{},n={},kernel={},ram={}GiB,date={date}",
        hashes.join("+"),
        sources.len(),
        ends(kernels.iter().map(|(_, text)| (*text).to_owned()).collect()),
        ends(ram.iter().map(u32::to_string).collect()),
    )
}

/// The values of a preset, of the result with most rounds, then of the newest. They confirm nothing
/// and need no confirmation.
fn modelled(key: &Key, all: &[&Evidence]) -> Option<Entry> {
    let mut all = all.to_vec();
    let rounds = |said: &Submission| said.drain_bytes_per_s.map_or(0, |drain| drain.rounds);
    all.sort_by_key(|one| (rounds(&one.submission), &one.submission.date, &one.hash));
    let mut found = entry(key);
    for said in all.iter().map(|one| &one.submission) {
        let value = |figure: Option<crate::Figure>| figure.map(|figure| figure.value.round());
        found.drain_bytes_per_s = value(said.drain_bytes_per_s).or(found.drain_bytes_per_s);
        found.sync_us = value(said.sync_us).or(found.sync_us);
        if let Some(best) = &said.best
            && let Ok(setting) = parse_setting(&best.setting)
        {
            found.settings.insert(best.victim.clone(), setting);
        }
        let preset = said.modelled_by.as_deref()?;
        found.evidence = format!("{MODELLED}{preset},n=0,kernel={}", said.kernel);
    }
    Some(found)
}
