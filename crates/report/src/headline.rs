//! The heading of a result: its sentence, as short as a heading is.
//!
//! ```text
//! contest ─ verdicts against the reference ─▶ "Commits 21.2× faster beside a copy, p99 1.17 s → …"
//! bench ─ outcome, shares ─▶ "Commits fall to 2.7 % beside a copy, p99 1.06 ms → 1.17 s"
//! ```
//!
//! Of a comparison it names only figures that are surely better or surely worse. The sentence below
//! it has the others, the price and the intervals.

use floodwall_stats::versus::{Compared, Figure, Verdict};

use crate::numbers::{duration_us, percent};
use crate::schema::contest::{Contender, Contest, Outcome, Recommended};
use crate::schema::{Document, RunStatus};
use crate::told;
use crate::verdict::{self, HARMLESS_FROM, Words, capitalised, verdict};

/// The heading; `None` where nothing was compared.
pub(crate) fn headline(document: &Document) -> Option<String> {
    let words = Words::of(&document.scenario);
    let said = match &document.contest {
        None => of_one(document, &words)?,
        Some(contest) => match (&contest.recommended, contest.contenders.as_slice()) {
            (Some(recommended), all) => of_search(recommended, all, &words),
            (None, [_, one]) => of_two(one, &words)?,
            (None, [_, _, ..]) => counted(contest).trim_end_matches('.').to_owned(),
            (None, _) => return None,
        },
    };
    let partial = matches!(document.run.status, RunStatus::Partial { .. });
    Some(if partial { format!("Partial result: {said}") } else { said })
}

/// Of a comparison, how many settings differ really and which way.
pub(crate) fn counted(contest: &Contest) -> String {
    let split = contest.contenders.split_first();
    split.map_or_else(String::new, |(first, others)| summary(&first.name, others))
}

/// Of many contenders, how many differ really and which way.
fn summary(reference: &str, others: &[Contender]) -> String {
    let has = |c: &Contender, verdict| c.versus.iter().any(|v| v.verdict == verdict);
    let count = |of: &dyn Fn(&Contender) -> bool| others.iter().filter(|c| of(c)).count();
    let failed = count(&|c| c.failure.is_some());
    let better = count(&|c| has(c, Verdict::Better) && !has(c, Verdict::Worse));
    let worse = count(&|c| has(c, Verdict::Worse) && !has(c, Verdict::Better));
    let mixed = count(&|c| has(c, Verdict::Worse) && has(c, Verdict::Better));
    let same =
        count(&|c| !c.versus.is_empty() && c.versus.iter().all(|v| v.verdict == Verdict::Same));
    let parts = [
        (better, "better in something and worse in nothing"),
        (mixed, "better in something and worse in something else"),
        (worse, "worse in something and better in nothing"),
        (same, "the same in everything"),
        (others.len() - failed - better - worse - mixed - same, "that could not be told from it"),
        (failed, "failed"),
    ];
    let said: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    format!("{} settings beside {reference}: {}.", others.len(), said.join(", "))
}

fn of_search(recommended: &Recommended, all: &[Contender], words: &Words) -> String {
    match recommended.outcome {
        Outcome::Recommended => {
            let versus = recommended.contender.and_then(|i| all.get(i)).map(|c| &*c.versus);
            let sure = versus.unwrap_or_default();
            match changes(sure, words) {
                Some(said) if sure.iter().any(|c| c.verdict == Verdict::Better) => said,
                _ => "Recommended, though no figure alone is surely better".into(),
            }
        }
        Outcome::Keep if all.len() <= 1 => "Keep the setting in force".into(),
        Outcome::Keep => "Nothing better than the setting in force was found".into(),
        Outcome::Undecided => {
            "Not decided: the best candidate may be no better than the setting in force".into()
        }
        Outcome::NotMeasured => "Not measured".into(),
    }
}

/// A setting against the reference.
fn of_two(one: &Contender, words: &Words) -> Option<String> {
    let has = |verdict| told::shown(&one.versus).any(|c| c.verdict == verdict);
    changes(&one.versus, words).or_else(|| {
        if has(Verdict::Untold) {
            Some("No difference could be told".into())
        } else {
            has(Verdict::Same).then(|| "No difference".into())
        }
    })
}

/// What surely changed: the victim's figures; the flood's if none of the victim's did.
fn changes(versus: &[Compared], words: &Words) -> Option<String> {
    let sure = |figure| {
        let mut all = versus.iter().filter(|c| c.figure == figure);
        all.find(|c| matches!(c.verdict, Verdict::Better | Verdict::Worse))
    };
    let arrow = |c: &Compared| {
        let name = told::name(c.figure, words.operations);
        let (before, now) = (told::value(c.figure, c.reference), told::value(c.figure, c.value));
        format!("{name} {before} → {now}")
    };
    let at = |c: &Compared| match told::ratio(c) {
        Some(times) if times.ends_with('×') => format!("{} {times} faster", words.operations),
        Some(share) => format!("{} at {share}", told::name(c.figure, words.operations)),
        // A victim that stood still has no multiple.
        None => arrow(c),
    };
    let mut parts: Vec<String> = sure(Figure::VictimIops).map(at).into_iter().collect();
    parts.extend(sure(Figure::VictimP99Us).map(arrow));
    if parts.is_empty() {
        parts.extend(sure(Figure::DeadShare).map(arrow));
    }
    if parts.is_empty() {
        let price = [Figure::FloodBytesPerS, Figure::BurstBytesPerS];
        parts.extend(price.into_iter().filter_map(sure).map(at));
    } else if let (Some(first), false) = (parts.first_mut(), words.beside.is_empty()) {
        *first = format!("{first} beside {}", words.beside);
    }
    let said = parts.join(", ");
    match said.as_str() {
        "" => None,
        // A large P is never written there.
        p99 if p99.starts_with("p99") => Some(said),
        _ => Some(capitalised(&said)),
    }
}

/// A single setting: what the flood does to the victim.
fn of_one(document: &Document, words: &Words) -> Option<String> {
    let s = &document.summary;
    let (kept, alone, both) = (s.victim_kept.as_ref()?, s.victim.as_ref()?, s.both.as_ref()?);
    let Words { operations, beside, .. } = words;
    let share = percent(kept.value);
    let fell = kept.value < HARMLESS_FROM || kept.ends().is_some_and(|(_, high)| high < 1.0);
    Some(match verdict(document).outcome {
        verdict::Outcome::Damage => {
            let head = if fell {
                format!("{operations} fall to {share} % beside {beside}")
            } else {
                format!("{operations} keep {share} % of their rate beside {beside}")
            };
            let tail =
                alone.operation_us.zip(both.operation_us).map_or_else(String::new, |(a, b)| {
                    let (name, from, to) = match a.p99.zip(b.p99) {
                        Some((from, to)) => ("p99", from, to),
                        None => ("slowest", a.max, b.max),
                    };
                    format!(", {name} {} → {}", duration_us(from), duration_us(to))
                });
            capitalised(&(head + &tail))
        }
        verdict::Outcome::Harmless => {
            format!("No damage: {operations} keep {share} % of their speed beside {beside}")
        }
        verdict::Outcome::Inconclusive => {
            format!(
                "Not conclusive: {operations} at {share} % beside {beside}, which may be chance"
            )
        }
        verdict::Outcome::NotCompared => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{Made, contest};

    fn said(document: &Document) -> Option<String> {
        headline(document)
    }

    #[test]
    fn a_single_setting() {
        let of = |made: Made| said(&made.document()).unwrap();
        assert_eq!(of(Made::damage()), "Commits fall to 2.7 % beside a copy, p99 1.06 ms → 1.17 s");
        assert_eq!(
            of(Made::harmless()),
            "No damage: commits keep 98.4 % of their speed beside a copy"
        );
        assert_eq!(
            of(Made::inconclusive()),
            "Not conclusive: commits at 55 % beside a copy, which may be chance"
        );
        let waits = Made { beside: |_, s| (1_510 + s as u32 % 9, 40_000_000), ..Made::damage() };
        assert_eq!(
            of(waits),
            "Commits keep 99.8 % of their rate beside a copy, p99 1.06 ms → 40.1 ms"
        );
        let mut partial = Made::damage().document();
        partial.run.status = RunStatus::Partial { why: "interrupted".into() };
        assert!(said(&partial).unwrap().starts_with("Partial result: Commits fall"));
        let mut alone = Made::damage();
        alone.scenario.floods.clear();
        assert_eq!(said(&alone.document()), None);
    }

    #[test]
    fn a_search_and_a_comparison() {
        let gain = "Commits 7.39× faster beside a copy, p99 1.17 s → 12.1 ms";
        assert_eq!(said(&contest(true)).unwrap(), gain);
        let mut two = contest(false);
        assert_eq!(
            said(&two).unwrap(),
            "2 settings beside default: 1 better in something and worse in nothing, 1 failed"
        );
        two.contest.as_mut().unwrap().contenders.truncate(2);
        assert_eq!(said(&two).unwrap(), gain);
    }

    /// The heading of two settings whose figures have these verdicts.
    fn heading(verdicts: &[(Figure, Verdict)], outcome: Option<Outcome>) -> String {
        let mut document = contest(true);
        let contest = document.contest.as_mut().unwrap();
        contest.contenders.truncate(2);
        for c in &mut contest.contenders[1].versus {
            let given = verdicts.iter().find(|(figure, _)| *figure == c.figure);
            c.verdict = given.map_or(Verdict::Same, |(_, verdict)| *verdict);
        }
        match outcome {
            None => contest.recommended = None,
            Some(outcome) => contest.recommended.as_mut().unwrap().outcome = outcome,
        }
        said(&document).unwrap()
    }

    #[test]
    fn a_heading_says_no_more_than_the_verdicts() {
        use Figure::{DeadShare, FloodBytesPerS, VictimIops, VictimP99Us};
        assert_eq!(heading(&[], None), "No difference");
        assert_eq!(heading(&[(VictimIops, Verdict::Untold)], None), "No difference could be told");
        assert_eq!(
            heading(&[(VictimIops, Verdict::Untold), (VictimP99Us, Verdict::Better)], None),
            "p99 1.17 s → 12.1 ms beside a copy"
        );
        assert_eq!(
            heading(&[(DeadShare, Verdict::Better)], None),
            "Stalled seconds 75 % → 0 % beside a copy"
        );
        assert_eq!(heading(&[(FloodBytesPerS, Verdict::Worse)], None), "Flood at 100 %");
        let unsure = "Recommended, though no figure alone is surely better";
        for figure in [VictimIops, FloodBytesPerS] {
            assert_eq!(heading(&[(figure, Verdict::Untold)], Some(Outcome::Recommended)), unsure);
            assert_eq!(heading(&[(figure, Verdict::Worse)], Some(Outcome::Recommended)), unsure);
        }
        assert_eq!(
            heading(&[(VictimIops, Verdict::Better)], Some(Outcome::Keep)),
            "Nothing better than the setting in force was found"
        );
        assert!(
            heading(&[(VictimIops, Verdict::Better)], Some(Outcome::Undecided))
                .starts_with("Not decided")
        );
    }
}
