//! When results of different machines agree.
//!
//! Each source has one voice for each value: its newest result. A number without a narrow interval
//! has no voice. Two voices or more must agree, and they must be more than half of all.

use std::collections::BTreeMap;

use floodwall_model::Setting;

use crate::evidence::Evidence;
use crate::setting::{are_near, parse_setting};
use crate::submission::{Best, Figure};

/// An interval that spans more than this factor confirms nothing: it would agree with anything.
const WIDEST: f64 = 2.0;

/// The results of a value.
pub(crate) enum Agreement<T> {
    /// The value, and those who agree on it.
    Value(T, Vec<usize>),
    /// The reason why no value follows.
    Candidate(String),
}

/// A voice: the index of its evidence, and its interval.
#[derive(Clone, Copy)]
struct Voice {
    index: usize,
    value: f64,
    low: f64,
    high: f64,
}

/// Each source's newest result that has the value, in the order of the sources' names.
fn newest<'a, T>(
    all: &'a [&'a Evidence],
    of: impl Fn(&'a Evidence) -> Option<T>,
) -> Vec<(usize, T)> {
    let mut by_source: BTreeMap<&str, (usize, T)> = BTreeMap::new();
    for (index, evidence) in all.iter().enumerate() {
        let (Some(source), Some(value)) = (&evidence.submission.source, of(evidence)) else {
            continue;
        };
        let age = |e: &'a Evidence| (&e.submission.date, &e.hash);
        let is_newer = by_source
            .get(source.as_str())
            .is_none_or(|(known, _)| age(evidence) > age(all[*known]));
        if is_newer {
            by_source.insert(source, (index, value));
        }
    }
    by_source.into_values().collect()
}

/// The reason why no value follows from the voices; `None` if one does.
fn refused(voices: usize, agree: usize) -> Option<String> {
    match (voices, agree) {
        (0, _) => Some("no result has a source and an interval that is narrow enough".to_owned()),
        (1, _) => Some("one source; a second one has to agree".to_owned()),
        (_, ..2) => Some(format!("{voices} sources, and no two of them agree")),
        _ if agree * 2 <= voices => {
            Some(format!("{agree} of {voices} sources agree; more than half have to"))
        }
        _ => None,
    }
}

fn is_narrow(low: f64, high: f64) -> bool {
    low > 0.0 && high / low <= WIDEST
}

/// A number on which sources agree if their intervals have a point in common. The value is the
/// median, the lower one of two.
pub(crate) fn number(
    all: &[&Evidence],
    of: impl Fn(&Evidence) -> Option<Figure>,
) -> Agreement<f64> {
    let narrow = |evidence| {
        let figure = of(evidence)?;
        figure.ends().filter(|(low, high)| is_narrow(*low, *high)).map(|ends| (figure.value, ends))
    };
    let voices: Vec<Voice> = newest(all, narrow)
        .into_iter()
        .map(|(index, (value, (low, high)))| Voice { index, value, low, high })
        .collect();
    let at = |point: f64| voices.iter().filter(move |v| v.low <= point && point <= v.high).copied();
    // The most intervals meet at the lower end of one of them.
    let mut points: Vec<f64> = voices.iter().map(|voice| voice.low).collect();
    points.sort_by(f64::total_cmp);
    let point = points.into_iter().rev().max_by_key(|point| at(*point).count());
    let mut agree: Vec<Voice> = point.map(|point| at(point).collect()).unwrap_or_default();
    if let Some(why) = refused(voices.len(), agree.len()) {
        return Agreement::Candidate(why);
    }
    agree.sort_by(|a, b| a.value.total_cmp(&b.value));
    let value = agree[(agree.len() - 1) / 2].value;
    Agreement::Value(value, agree.into_iter().map(|voice| voice.index).collect())
}

/// A setting on which sources agree if they found near ones. Where both know the interval of the
/// share that the victim kept, the intervals overlap as well. A search that measured the victim
/// alone once has no such interval; it recommends a setting only if it is really better. The value
/// is the one whose victim kept most.
pub(crate) fn setting(all: &[&Evidence], victim: &str) -> Agreement<Setting> {
    let found = |evidence| {
        let best: &Best = Evidence::best(evidence).filter(|best| best.victim == victim)?;
        // An evidence that was read has a setting that can be read.
        Some((parse_setting(&best.setting).ok()?, best.victim_kept))
    };
    let voices = newest(all, found);
    let overlap = |a: Figure, b: Figure| match (a.ends(), b.ends()) {
        (Some(a), Some(b)) => a.0 <= b.1 && b.0 <= a.1,
        _ => true,
    };
    let agree_with = |(setting, kept): &(Setting, Figure)| -> Vec<usize> {
        let agrees =
            |(other, of): &(Setting, Figure)| are_near(setting, other) && overlap(*kept, *of);
        voices.iter().filter(|(_, voice)| agrees(voice)).map(|(index, _)| *index).collect()
    };
    let best = voices.iter().max_by(|(i, a), (j, b)| {
        let supporters = |voice| agree_with(voice).len();
        (supporters(a).cmp(&supporters(b)))
            .then(a.1.value.total_cmp(&b.1.value))
            .then_with(|| all[*i].hash.cmp(&all[*j].hash))
    });
    let agree = best.map(|(_, voice)| agree_with(voice)).unwrap_or_default();
    match (refused(voices.len(), agree.len()), best) {
        (None, Some((_, (setting, _)))) => Agreement::Value(setting.clone(), agree),
        (why, _) => Agreement::Candidate(why.unwrap_or_default()),
    }
}
