//! The effect of each value of a knob: all settings that have the value, side by side.
//!
//! Settings differ in several knobs at once, so a value's settings are shown one by one, with their
//! median. Settings that changed this knob alone are marked, because only they show its isolated
//! effect. Knobs that always change together (a limit and its background limit) are one.

use std::collections::{BTreeMap, BTreeSet};

use floodwall_model::Setting;
use floodwall_model::units::Bytes;

use super::Study;

/// A knob and what its values gave.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Effect {
    /// The knob, with those that always change with it.
    pub(crate) knob: String,
    pub(crate) values: Vec<Trait>,
}

/// A value of a knob.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Trait {
    /// As people read it.
    pub(crate) value: String,
    /// Whether it is the value in force.
    pub(crate) is_default: bool,
    /// Subjects that have it, by their index.
    pub(crate) subjects: Vec<usize>,
    /// Those of them that changed this knob alone.
    pub(crate) alone: Vec<usize>,
    /// Median share that the victim keeps.
    pub(crate) victim: Option<f64>,
    /// Median share that the flood keeps.
    pub(crate) flood: Option<f64>,
}

/// Of every knob that the result's settings differ in, the strongest first. Empty with fewer than
/// two settings that have figures.
pub(crate) fn effects(study: &Study<'_>) -> Vec<Effect> {
    let placed: Vec<_> = study.subjects.iter().filter(|s| s.spot().is_some()).collect();
    if placed.len() < 2 {
        return Vec::new();
    }
    let in_force = study.document.setting();
    let groups = groups(placed.iter().map(|s| &s.setting));
    let mut effects: Vec<Effect> = groups
        .iter()
        .map(|knobs| {
            let mut values: BTreeMap<Option<&str>, Trait> = BTreeMap::new();
            for subject in &placed {
                let own = subject.setting.get(&knobs[0]);
                let entry = values.entry(own).or_insert_with(|| Trait {
                    value: written(
                        &knobs[0],
                        own.or_else(|| in_force.get(&knobs[0])),
                        own.is_none(),
                    ),
                    is_default: own.is_none(),
                    subjects: Vec::new(),
                    alone: Vec::new(),
                    victim: None,
                    flood: None,
                });
                entry.subjects.push(subject.index);
                if own.is_some() && subject.setting.0.keys().all(|k| knobs.contains(k)) {
                    entry.alone.push(subject.index);
                }
            }
            let mut values: Vec<(Option<&str>, Trait)> = values.into_iter().collect();
            // The value in force first, then numbers by size.
            values.sort_by_key(|(own, _)| {
                (own.is_some(), own.and_then(|v| v.parse::<u64>().ok()), *own)
            });
            let mut values: Vec<Trait> = values.into_iter().map(|(_, value)| value).collect();
            for value in &mut values {
                let spots: Vec<_> =
                    value.subjects.iter().filter_map(|i| study.subjects[*i].spot()).collect();
                value.victim = floodwall_stats::estimate::median(
                    spots.iter().map(|s| s.victim.value).collect(),
                );
                value.flood = floodwall_stats::estimate::median(
                    spots.iter().map(|s| s.flood.value).collect(),
                );
            }
            Effect { knob: knobs.join(" and "), values }
        })
        .collect();
    effects.sort_by(|a, b| spread(b).total_cmp(&spread(a)).then_with(|| a.knob.cmp(&b.knob)));
    effects
}

/// How far apart its values are for the victim.
fn spread(effect: &Effect) -> f64 {
    let shares: Vec<f64> = effect.values.iter().filter_map(|v| v.victim).collect();
    let (low, high) = shares.iter().fold((f64::MAX, 0.0f64), |(l, h), v| (l.min(*v), h.max(*v)));
    (high - low).max(0.0)
}

/// Knobs that some setting names, those together that are named by the same settings and whose
/// values go with each other.
fn groups<'a>(settings: impl Iterator<Item = &'a Setting>) -> Vec<Vec<String>> {
    let settings: Vec<&Setting> = settings.collect();
    let mut groups: Vec<Vec<String>> = Vec::new();
    let knobs: BTreeSet<&String> = settings.iter().flat_map(|s| s.0.keys()).collect();
    // The second is named exactly where the first is, and follows from it.
    let goes_with = |a: &str, b: &str| {
        let pairs: BTreeSet<_> = settings.iter().map(|s| (s.get(a), s.get(b))).collect();
        let firsts: BTreeSet<_> = pairs.iter().map(|p| p.0).collect();
        pairs.len() == firsts.len() && pairs.iter().all(|(a, b)| a.is_some() == b.is_some())
    };
    // The limit itself comes before its background limit.
    let mut knobs: Vec<&String> = knobs.into_iter().collect();
    knobs.sort_by_key(|k| (k.contains("background") || k.contains("strict"), k.as_str()));
    for knob in knobs {
        match groups.iter_mut().find(|g| goes_with(&g[0], knob)) {
            Some(group) => group.push(knob.clone()),
            None => groups.push(vec![knob.clone()]),
        }
    }
    groups
}

/// A value as people read it; the one in force is marked.
fn written(knob: &str, value: Option<&str>, as_it_was: bool) -> String {
    let text = match value {
        None => return "as it was".into(),
        Some(v) if knob.ends_with("bytes") => {
            v.parse().map_or_else(|_| v.to_owned(), |n| Bytes(n).to_string())
        }
        Some(v) => v.to_owned(),
    };
    match (as_it_was, text.as_str()) {
        // A byte limit of 0 means that the ratio is in force.
        (true, "0 B") => "as it was".into(),
        (true, _) => format!("{text} (as it was)"),
        (false, _) => text,
    }
}
