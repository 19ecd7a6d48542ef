//! The verdict: what a result says, in one sentence.
//!
//! ```text
//! Summary ─▶ outcome ─┐
//! scenario ─▶ words ──┴─▶ "While one file was written beside it, commits fell from 1,508/s
//!                          to 14/s (0.93 %): …"
//! ```
//!
//! **Damage** is any of three findings. The 95 % interval of `victim_kept` lies below 1, and not
//! all of it above [`HARMLESS_FROM`]. Or more seconds than alone in which the victim got under a
//! tenth of its speed. Or a p99 of more than [`P99_FACTOR`] times the victim's p99 alone, which
//! catches open-loop victims: their rate is given, their waiting is not. **Not conclusive** is an
//! interval that holds 1 and also losses that would matter.

use floodwall_model::units::Rate;
use floodwall_stats::figures::{PhaseFigures, Summary};
use serde::Serialize;
use serde_json::Value;

use crate::numbers::{count, duration_us, percent, whole};
use crate::schema::{Document, RunStatus};

/// A victim that surely keeps this share of its speed is not damaged: rounds differ by as much on
/// an idle machine.
pub const HARMLESS_FROM: f64 = 0.95;
/// A victim that keeps this share, without dead seconds and with a similar p99, is hardly damaged.
pub const LITTLE_FROM: f64 = 0.90;
/// A p99 that grew by more than this factor is damage even if the rate did not fall.
pub const P99_FACTOR: f64 = 2.0;
/// Characters of a command that the sentence quotes.
const COMMAND_CHARS: usize = 40;

/// What a result says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The flood takes speed from the victim.
    Damage,
    /// It takes none that matters.
    Harmless,
    /// The measurement can't tell.
    Inconclusive,
    /// Nothing was there to compare: only victims or only floods ran, or the run ended before both
    /// had.
    NotCompared,
}

/// What a result says, for programs and for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// In one word.
    pub outcome: Outcome,
    /// In one sentence, with capital and full stop.
    pub sentence: String,
}

/// What a result says.
#[must_use]
pub fn verdict(document: &Document) -> Verdict {
    let words = Words::of(&document.scenario);
    let s = &document.summary;
    let (outcome, sentence) = match (&s.victim, &s.both) {
        (Some(alone), Some(both)) if both.iops.is_some() => compare(&words, s, alone, both),
        (_, Some(both)) => (Outcome::NotCompared, nothing_to_compare(&words, both)),
        (Some(alone), None) => (Outcome::NotCompared, victim_only(&words, alone)),
        (None, None) => (Outcome::NotCompared, flood_only(s)),
    };
    let sentence = match &document.run.status {
        RunStatus::Complete => sentence,
        RunStatus::Partial { why } => format!("partial result ({why}): {sentence}"),
    };
    Verdict { outcome, sentence: capitalised(&sentence) + "." }
}

impl Document {
    /// What it says: [`verdict`].
    pub(crate) fn verdict(&self) -> Verdict {
        verdict(self)
    }
}

fn compare(
    words: &Words,
    s: &Summary,
    alone: &PhaseFigures,
    both: &PhaseFigures,
) -> (Outcome, String) {
    let Words { operations, flood, .. } = words;
    let (a, b) = (alone.iops.unwrap_or(0.0), both.iops.unwrap_or(0.0));
    let Some(kept) = s.victim_kept else {
        let why = s
            .unknown
            .iter()
            .find(|u| u.figure == "victim_kept")
            .map_or("it is not known", |u| &u.why);
        let text = format!("nothing can be said of {operations} while {flood}: {why}");
        return (Outcome::NotCompared, text);
    };
    let (from, to) = (count(a), count(b));
    let share = percent(kept.value);
    let p99 = p99_clause(alone, both);
    let stalls = dead_clause(s, alone);
    // One round has no interval: it excludes nothing.
    let (low, high) = kept.ends().unwrap_or((0.0, f64::INFINITY));
    let slower_p99 = p99_of(alone).zip(p99_of(both)).is_some_and(|(a, b)| b > P99_FACTOR * a);

    if stalls.is_none() && !slower_p99 && low >= HARMLESS_FROM {
        let also = p99.map_or_else(String::new, |p| format!(", and {p}"));
        let text = format!(
            "no damage: while {flood}, {operations} kept {share} % of their speed ({to}/s of \
             {from}/s){also}"
        );
        return (Outcome::Harmless, text);
    }
    if stalls.is_none() && !slower_p99 && high >= 1.0 {
        let but = match kept.ends() {
            None => "one round does not tell how much rounds differ; run two or more".into(),
            Some((low, high)) => format!(
                "the 95 % interval, {} to {} %, includes no change; run more rounds or longer ones",
                percent(low),
                percent(high)
            ),
        };
        let text = format!(
            "not conclusive: while {flood}, {operations} went from {from}/s to {to}/s ({share} %), \
             but {but}"
        );
        return (Outcome::Inconclusive, text);
    }
    let little = stalls.is_none() && !slower_p99 && kept.value >= LITTLE_FROM;
    let head = if kept.value < HARMLESS_FROM || high < 1.0 {
        format!("while {flood}, {operations} fell from {from}/s to {to}/s ({share} %)")
    } else {
        format!("while {flood}, {operations} kept {share} % of their rate ({to}/s of {from}/s)")
    };
    let clauses: Vec<String> = p99.into_iter().chain(stalls).collect();
    let joint = match (clauses.is_empty(), kept.value >= HARMLESS_FROM && high >= 1.0) {
        (true, _) => "",
        (false, true) => ", but ",
        (false, false) => ": ",
    };
    let little = if little { "little damage: " } else { "" };
    (Outcome::Damage, format!("{little}{head}{joint}{}", clauses.join(", and ")))
}

fn p99_of(figures: &PhaseFigures) -> Option<f64> {
    figures.operation_us?.p99
}

/// How p99 went; the longest operation where there were too few for a p99; nothing where none was
/// timed.
fn p99_clause(alone: &PhaseFigures, both: &PhaseFigures) -> Option<String> {
    if let Some((a, b)) = p99_of(alone).zip(p99_of(both)) {
        return Some(format!("p99 went from {} to {}", duration_us(a), duration_us(b)));
    }
    let (a, b) = (alone.operation_us?, both.operation_us?);
    Some(format!("the slowest took {} instead of {}", duration_us(b.max), duration_us(a.max)))
}

/// In how many seconds the victim stood still, if in more than when it was alone.
fn dead_clause(s: &Summary, alone: &PhaseFigures) -> Option<String> {
    let dead = s.dead_seconds?.value.round() as u64;
    let of_alone = alone.dead_seconds.unwrap_or(0) as f64 / alone.seconds.max(1.0);
    let of_both = dead as f64 / (s.of_seconds.max(1)) as f64;
    (dead > 0 && of_both > of_alone).then(|| {
        format!(
            "in {} of {} seconds the victim got less than a tenth of its speed",
            whole(dead),
            whole(s.of_seconds)
        )
    })
}

fn nothing_to_compare(words: &Words, both: &PhaseFigures) -> String {
    let Words { operations, flood, .. } = words;
    let rate = count(both.iops.unwrap_or(0.0));
    format!(
        "while {flood}, there were {rate} {operations} a second, but the victim alone was not \
         measured"
    )
}

fn victim_only(words: &Words, alone: &PhaseFigures) -> String {
    let latency = match alone.operation_us {
        None => String::new(),
        Some(l) => {
            let p99 = l.p99.map_or_else(String::new, |p| format!(", p99 was {}", duration_us(p)));
            format!("{p99} and the slowest took {}", duration_us(l.max))
        }
    };
    let rate = count(alone.iops.unwrap_or(0.0));
    format!("nothing flooded: there were {rate} {} a second{latency}", words.operations)
}

fn flood_only(s: &Summary) -> String {
    let flood = s
        .flood
        .as_ref()
        .and_then(|f| f.flood_bytes_per_s)
        .map(|r| format!("the flood wrote {}", Rate(r)));
    let burst = s.burst_bytes_per_s.map(|r| format!("a burst was accepted at {}", Rate(r)));
    match [flood, burst].into_iter().flatten().collect::<Vec<_>>() {
        said if said.is_empty() => "nothing was measured".into(),
        said => format!("no victim ran: {}", said.join(", and ")),
    }
}

pub(crate) fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// What a scenario's loads are called in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    /// What a victim's operations are called: `commits`, `reads`, …
    pub(crate) operations: &'static str,
    /// What the flood did beside it: `one file was written beside it`.
    pub(crate) flood: String,
    /// What the flood is called in a heading: `a copy`; empty without one.
    pub(crate) beside: String,
}

impl Words {
    /// From the scenario of a result.
    pub(crate) fn of(scenario: &Value) -> Self {
        let list =
            |key: &str| scenario.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let (victims, floods) = (list("victims"), list("floods"));
        let mut names = victims.iter().map(operations);
        let first = names.next().unwrap_or("operations");
        let operations = if names.all(|name| name == first) { first } else { "operations" };
        let beside = if victims.len() > 1 { "beside them" } else { "beside it" };
        let flood = match floods.as_slice() {
            [] => "nothing ran".into(),
            [one] => flood_did(one),
            many => format!("{} floods ran", many.len()),
        };
        let noun = match floods.as_slice() {
            [] => String::new(),
            [one] => flood_is(one),
            many => format!("{} floods", many.len()),
        };
        Self { operations, flood: format!("{flood} {beside}"), beside: noun }
    }
}

fn text<'a>(load: &'a Value, key: &str) -> &'a str {
    load.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// What a victim's operations are called; the same words as
/// [`floodwall_model::scenario::VictimKind::operations`].
fn operations(victim: &Value) -> &'static str {
    match text(victim, "kind") {
        "commit" | "wal" => "commits",
        "read" | "scan" => "reads",
        "command" => "I/O calls",
        _ => "operations",
    }
}

/// What a flood is called in a heading.
fn flood_is(flood: &Value) -> String {
    let streams = flood.get("streams").and_then(Value::as_u64).unwrap_or(1);
    match (text(flood, "kind"), streams) {
        ("seq" | "copy", 1) => "a copy".into(),
        ("seq" | "copy", n) => format!("{n} copies"),
        ("files", _) => "many small files".into(),
        _ => "a flood".into(),
    }
}

fn flood_did(flood: &Value) -> String {
    let streams = flood.get("streams").and_then(Value::as_u64).unwrap_or(1);
    let files = |done: &str| match streams {
        1 => format!("one file was {done}"),
        n => format!("{n} files were {done}"),
    };
    match text(flood, "kind") {
        "seq" => files("written"),
        "random" => files("overwritten at random"),
        "copy" => files("copied"),
        "mmap" => files("written through a memory mapping"),
        "files" => "many small files were written".into(),
        "command" => {
            let command = text(flood, "command");
            let cut = command.chars().count() > COMMAND_CHARS;
            let shown: String = command.chars().take(COMMAND_CHARS).collect();
            format!("'{shown}{}' ran", if cut { "…" } else { "" })
        }
        _ => "a flood ran".into(),
    }
}

#[cfg(test)]
mod tests {
    use floodwall_model::scenario::{self, builtin, builtin_names};

    use super::*;
    use crate::synthetic::Made;

    fn said(made: &Made) -> (Outcome, String) {
        let v = verdict(&made.document());
        (v.outcome, v.sentence)
    }

    fn assert_says(made: &Made, outcome: Outcome, sentence: &str) {
        assert_eq!(said(made), (outcome, sentence.to_owned()));
    }

    #[test]
    fn damage_to_commits() {
        assert_says(
            &Made::damage(),
            Outcome::Damage,
            "While one file was written beside it, commits fell from 1,516/s to 40.8/s (2.7 %): \
             p99 went from 1.06 ms to 1.17 s, and in 27 of 36 seconds the victim got less than a \
             tenth of its speed.",
        );
    }

    #[test]
    fn no_damage() {
        assert_says(
            &Made::harmless(),
            Outcome::Harmless,
            "No damage: while one file was written beside it, commits kept 98.4 % of their speed \
             (1,491/s of 1,516/s), and p99 went from 1.06 ms to 1.11 ms.",
        );
    }

    #[test]
    fn not_conclusive() {
        assert_says(
            &Made::inconclusive(),
            Outcome::Inconclusive,
            "Not conclusive: while one file was written beside it, commits went from 2,000/s to \
             1,100/s (55 %), but the 95 % interval, 4.0 to 760 %, includes no change; run more \
             rounds or longer ones.",
        );
    }

    #[test]
    fn a_good_mean_with_a_wide_interval_is_not_conclusive() {
        let made = Made { beside: |round, _| (1_150 + 200 * round, 1_000_000), ..Made::damage() };
        let (outcome, sentence) = said(&made);
        assert!(sentence.contains("1,516/s to 1,550/s (102 %)"), "{sentence}");
        assert_eq!(outcome, Outcome::Inconclusive, "{sentence}");
    }

    #[test]
    fn seconds_that_are_as_dead_without_the_flood_are_not_its_doing() {
        let bistable: fn(u32, usize) -> (u32, u64) =
            |_, s| (if s % 4 == 3 { 1_600 } else { 10 }, 1_000_000);
        let (outcome, sentence) =
            said(&Made { alone: bistable, beside: bistable, ..Made::damage() });
        assert!(!sentence.contains("a tenth of its speed"), "{sentence}");
        assert_ne!(outcome, Outcome::Damage, "{sentence}");
    }

    #[test]
    fn damage_to_reads_without_dead_seconds() {
        assert_says(
            &Made::reads(),
            Outcome::Damage,
            "While many small files were written beside it, reads fell from 1,516/s to 300/s (20 \
             %): p99 went from 1.06 ms to 5.01 ms.",
        );
    }

    #[test]
    fn a_little_damage() {
        let made = Made { beside: |_, s| (1_400 + s as u32 % 3, 1_200_000), ..Made::damage() };
        assert_says(
            &made,
            Outcome::Damage,
            "Little damage: while one file was written beside it, commits fell from 1,516/s to \
             1,401/s (92.4 %): p99 went from 1.06 ms to 1.25 ms.",
        );
    }

    #[test]
    fn a_rate_that_is_given_does_not_hide_the_waiting() {
        let made = Made { beside: |_, s| (1_510 + s as u32 % 9, 40_000_000), ..Made::damage() };
        assert_says(
            &made,
            Outcome::Damage,
            "While one file was written beside it, commits kept 99.8 % of their rate (1,513/s of \
             1,516/s), but p99 went from 1.06 ms to 40.1 ms.",
        );
    }

    #[test]
    fn a_mixed_victim_beside_several_streams() {
        let scenario = builtin("oltp-vs-copies").unwrap().unwrap();
        assert_says(
            &Made { scenario, ..Made::damage() },
            Outcome::Damage,
            "While 4 files were written beside it, operations fell from 1,516/s to 40.8/s (2.7 %): \
             p99 went from 1.06 ms to 1.17 s, and in 27 of 36 seconds the victim got less than a \
             tenth of its speed.",
        );
    }

    #[test]
    fn commands_have_no_latencies() {
        let mut scenario = builtin("copy-vs-database").unwrap().unwrap();
        scenario.victims = vec![scenario::command_victim("pgbench -c 8 -T 600 bench").unwrap()];
        scenario.floods = vec![
            scenario::command_flood("cp /backup/a-rather-long-name-of-a-file /data/big").unwrap(),
        ];
        assert_says(
            &Made { scenario, timed: false, ..Made::damage() },
            Outcome::Damage,
            "While 'cp /backup/a-rather-long-name-of-a-file …' ran beside it, I/O calls fell from \
             1,516/s to 40.8/s (2.7 %): in 27 of 36 seconds the victim got less than a tenth of \
             its speed.",
        );
    }

    #[test]
    fn victims_alone() {
        let mut made = Made::damage();
        made.scenario.floods.clear();
        assert_says(
            &made,
            Outcome::NotCompared,
            "Nothing flooded: there were 1,516 commits a second, p99 was 1.06 ms and the slowest \
             took 1.06 ms.",
        );
    }

    #[test]
    fn floods_alone() {
        let mut made = Made::damage();
        made.scenario.victims.clear();
        assert_says(
            &made,
            Outcome::NotCompared,
            "No victim ran: the flood wrote 251 MB/s, and a burst was accepted at 2.11 GB/s.",
        );
        made.scenario.floods.clear();
        made.scenario.burst = None;
        assert_says(&made, Outcome::NotCompared, "Nothing was measured.");
    }

    #[test]
    fn a_partial_result_says_so() {
        let mut document = Made::damage().document();
        document.run.status = RunStatus::Partial { why: "interrupted".into() };
        document.trials.truncate(1);
        document.trials[0].phases.remove(0);
        document.summary = document.recomputed_summary();
        assert_eq!(
            verdict(&document).sentence,
            "Partial result (interrupted): while one file was written beside it, there were 40.8 \
             commits a second, but the victim alone was not measured."
        );
    }

    #[test]
    fn operations_are_called_what_the_scenario_calls_them() {
        for name in builtin_names() {
            let scenario = builtin(name).unwrap().unwrap();
            let words = Words::of(&serde_json::to_value(&scenario).unwrap());
            assert_eq!(words.operations, scenario.victims[0].kind.operations(), "{name}");
            assert!(
                !words.flood.contains("a flood ran"),
                "{name}: every kind of flood has its words"
            );
        }
    }
}
