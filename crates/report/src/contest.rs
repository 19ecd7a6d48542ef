//! Several settings as a person reads them: a table, what differs from the reference and how
//! surely, and what a search recommends.
//!
//! No colour. The table loses columns where it is too wide.

use std::fmt::Write;

use floodwall_model::printable::printable;
use floodwall_stats::estimate::Estimate;
use floodwall_stats::versus::{Compared, Figure, Verdict};

use crate::headline::headline;
use crate::keep::Keep;
use crate::numbers::{UNKNOWN, burst_kept, count, duration_us, percent};
use crate::schema::Document;
use crate::schema::contest::{Contender, Contest};
use crate::status;
use crate::status::table::Column;
use crate::text::{WIDTH, paragraph};
use crate::told;
use crate::verdict::Words;
use crate::view;

/// The widest contender's name in columns; a longer name gets a separate line.
const NAME: usize = 16;
/// Columns of a figure at most.
const FIGURE: usize = 24;
/// Rows of a search's table at most: the reference, the recommended one, the frontier.
const ROWS: usize = 16;

/// The heading, machine, table, real differences, notes; for a search the frontier and, last, the
/// recommendation.
#[must_use]
pub fn text(document: &Document, width: usize) -> String {
    let room = width.min(WIDTH);
    let Some(contest) = &document.contest else { return String::new() };
    let mut out = String::new();
    if let Some(heading) = headline(document) {
        paragraph(&mut out, "", &heading, 0, room);
        out.push('\n');
    }
    paragraph(&mut out, "", &view::title(document), 0, room);
    for (label, text) in view::facts(document).into_iter().filter(|(label, _)| *label != "run") {
        paragraph(&mut out, label, &text, 10, room);
    }
    let rows = rows(contest);
    out.push('\n');
    table(&mut out, document, contest, &rows, width);
    out.push('\n');
    if contest.recommended.is_none() {
        for contender in contest.contenders.iter().skip(1) {
            paragraph(&mut out, "", &sentence(document, contest, contender), 0, room);
        }
    }
    let notes = notes(document, contest, &rows);
    for note in &notes {
        paragraph(&mut out, "note:", note, 6, room);
    }
    if let Some(recommended) = &contest.recommended {
        if !notes.is_empty() {
            out.push('\n');
        }
        paragraph(&mut out, "", &recommended.why, 0, room);
        for line in recommended.keep.iter().flat_map(Keep::lines) {
            // Lines to copy are not wrapped.
            if line.starts_with(' ') {
                let _ = writeln!(out, "{line}");
            } else {
                paragraph(&mut out, "", &line, 0, room);
            }
        }
    }
    out
}

/// The contenders that a table shows: all of a comparison; of a search the reference, the
/// recommended one and the frontier.
fn rows(contest: &Contest) -> Vec<usize> {
    let Some(recommended) = &contest.recommended else {
        return (0..contest.contenders.len()).collect();
    };
    let mut rows = vec![0];
    rows.extend(recommended.contender);
    rows.extend(&contest.frontier);
    let mut seen = std::collections::BTreeSet::new();
    rows.retain(|i| {
        seen.insert(*i) && contest.contenders.get(*i).is_some_and(|c| c.summary.is_some())
    });
    rows.truncate(ROWS);
    rows
}

fn table(out: &mut String, document: &Document, contest: &Contest, rows: &[usize], width: usize) {
    let shown: Vec<&Contender> = rows.iter().filter_map(|i| contest.contenders.get(*i)).collect();
    let operations = format!("{}/s", Words::of(&document.scenario).operations);
    let columns = [
        Column::figures(&operations, FIGURE),
        Column::figures("p99", FIGURE),
        Column::figures("slowest", FIGURE).rank(2),
        Column::figures("stalled", FIGURE).rank(1),
        Column::figures("victim_kept", FIGURE),
        Column::figures("flood_kept", FIGURE),
        Column::figures("burst_kept", FIGURE).rank(3),
    ];
    let is_long = |name: &str| name.chars().count() >= NAME;
    let names = shown.iter().map(|one| one.name.as_str()).filter(|name| !is_long(name));
    let names = names.map(|name| name.chars().count()).max().unwrap_or(0) + 2;
    let figures: Vec<Vec<String>> = shown.iter().map(|one| cells(one)).collect();
    let figures = status::table::table(&columns, &figures, width.saturating_sub(names));
    let labels = std::iter::once("").chain(shown.iter().map(|one| one.name.as_str()));
    for (name, figures) in labels.zip(&figures) {
        let mut label = printable(name);
        if is_long(name) {
            // Two names could become equal when cut, so a long name gets a separate line.
            let long = if label.chars().count() > width {
                name.replace(',', ", ")
            } else {
                name.to_owned()
            };
            paragraph(out, "", &long, 0, width);
            label = "".into();
        }
        let _ = writeln!(out, "{}", format!("{label:<names$}{figures}").trim_end());
    }
    let table = names + figures.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let _ = writeln!(out, "{:>table$}", "in brackets: 95 % intervals");
}

fn cells(contender: &Contender) -> Vec<String> {
    let Some(s) = &contender.summary else { return vec!["failed".into()] };
    let phase = s.both.as_ref().or(s.victim.as_ref());
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.into());
    let dead = contender.dead_share().map(|d| format!("{} %", percent(d)));
    vec![
        or_unknown(phase.and_then(|p| p.iops).map(count)),
        or_unknown(phase.and_then(|p| p.operation_us?.p99).map(duration_us)),
        or_unknown(phase.and_then(|p| Some(duration_us(p.operation_us?.max)))),
        or_unknown(dead),
        or_unknown(s.victim_kept.as_ref().map(share)),
        or_unknown(s.flood_kept.as_ref().map(share)),
        burst_kept(s).map_or_else(str::to_owned, |kept| or_unknown(kept.map(share))),
    ]
}

fn share(e: &Estimate) -> String {
    let value = percent(e.value);
    e.ends().map_or_else(
        || format!("{value} %"),
        |(low, high)| format!("{value} % ({}–{})", percent(low), percent(high)),
    )
}

/// What differs from the reference, and whether that is real, in words.
#[must_use]
pub fn sentence(document: &Document, contest: &Contest, contender: &Contender) -> String {
    let reference = contest.contenders.first().map_or("the reference", |c| c.name.as_str());
    if let Some(failure) = &contender.failure {
        return format!("{}: failed: {failure}", contender.name);
    }
    let operations = Words::of(&document.scenario).operations;
    let mut parts = Vec::new();
    for verdict in [Verdict::Better, Verdict::Worse, Verdict::Same, Verdict::Untold] {
        let of: Vec<&Compared> =
            told::shown(&contender.versus).filter(|c| c.verdict == verdict).collect();
        if let Some(first) = of.first() {
            let said: Vec<String> = of.iter().map(|c| told::phrase(c, operations)).collect();
            parts.push(format!("{}: {}", told::verdict(first), said.join(", ")));
        }
    }
    let (facts, unknown): (Vec<&Compared>, Vec<&Compared>) = told::shown(&contender.versus)
        .filter(|c| c.verdict == Verdict::Unknown)
        .partition(|c| c.figure == Figure::VictimSlowestUs);
    parts.extend(facts.iter().map(|c| told::phrase(c, operations)));
    let mut unknown: Vec<String> = unknown
        .into_iter()
        .filter_map(|c| Some(format!("{} ({})", told::name(c.figure, operations), c.why.as_ref()?)))
        .collect();
    // What a contender that has no trials lacks, all figures lack alike.
    let whys: std::collections::BTreeSet<&Option<String>> =
        contender.versus.iter().map(|c| &c.why).collect();
    if let (1, Some(Some(why)), true) = (whys.len(), whys.first(), parts.is_empty()) {
        unknown = vec![why.clone()];
    }
    if !unknown.is_empty() {
        parts.push(format!("not known: {}", unknown.join(", ")));
    }
    format!("{} against {reference}: {}", contender.name, parts.join("; "))
}

/// What a comparison says in which no difference is real.
pub const NOTHING_REAL: &str = "no setting is surely better or worse than the first one; more \
    rounds (--rounds) or longer phases (--measure) tell smaller differences apart";

/// Whether any difference is real.
#[must_use]
pub fn anything_real(contest: &Contest) -> bool {
    let real = |c: &Compared| matches!(c.verdict, Verdict::Better | Verdict::Worse);
    contest.contenders.iter().flat_map(|c| &c.versus).any(real)
}

fn notes(document: &Document, contest: &Contest, rows: &[usize]) -> Vec<String> {
    let mut notes = document.run.warnings.clone();
    let shown = rows.iter().filter_map(|i| contest.contenders.get(*i));
    for contender in shown.filter(|c| !c.setting.is_empty() && c.setting.to_string() != c.name) {
        notes.push(format!(
            "{} is {}",
            contender.name,
            contender.setting.to_string().replace(',', ", ")
        ));
    }
    let finalists: Vec<&Contender> =
        contest.contenders.iter().filter(|c| !c.final_trials.is_empty()).collect();
    if let [reference, others @ ..] = finalists.as_slice()
        && let Some(other) = others.first()
    {
        let (a, b) = (&reference.name, &other.name);
        notes.push(format!(
            "{a} and {b} are shown by the trials made after the choice, other settings by the \
             race's"
        ));
    }
    for (name, why) in
        contest.contenders.iter().filter_map(|c| Some((&c.name, c.passed_over.as_ref()?)))
    {
        notes
            .push(format!("victim and flood keep more under {name}; it is not recommended: {why}"));
    }
    let has_burst = document.scenario.get("burst").is_some_and(|burst| !burst.is_null());
    let unmeasured = |i: &usize| {
        contest
            .contenders
            .get(*i)
            .and_then(|c| c.summary.as_ref())
            .is_some_and(|s| s.burst_kept.is_none())
    };
    if contest.recommended.is_some() && has_burst && rows.iter().any(unmeasured) {
        notes.push(format!(
            "burst_kept {UNKNOWN}: not measured, for the setting leaves the limits \
            as they are; the choice counts it as the default's"
        ));
    }
    let disturbed: usize = contest.contenders.iter().map(|c| c.disturbed.len()).sum();
    if disturbed > 0 {
        notes.push(format!("{disturbed} trials were disturbed by others and don't count"));
    }
    let rounds = contest.contenders.first().map_or(0, |c| c.trials.len());
    let untold =
        contest.contenders.iter().flat_map(|c| &c.versus).any(|c| c.verdict == Verdict::Untold);
    if contest.recommended.is_none() && !anything_real(contest) && untold {
        notes.push(format!(
            "no difference could be told after {rounds} rounds; more rounds \
            (--rounds) or longer phases (--measure) tell smaller differences apart"
        ));
    }
    if let crate::schema::RunStatus::Partial { why } = &document.run.status {
        notes.push(format!("partial result: {why}"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use floodwall_model::Setting;

    use super::*;
    use crate::schema::contest::{Outcome, Recommended};
    use crate::synthetic::{Made, run};

    fn contest(recommended: Option<Recommended>) -> Document {
        let (damage, better) = (
            Made::damage(),
            Made { beside: |_, s| (300 + s as u32 % 3, 12_000_000), ..Made::damage() },
        );
        let mut trials = Made { rounds: 5, ..damage }.trials();
        trials.extend(Made { rounds: 5, ..better }.trials());
        let setting: Setting =
            [("vm.dirty_bytes".to_owned(), "15000000".to_owned())].into_iter().collect();
        let finals =
            |trials: std::ops::Range<usize>| trials.filter(|_| recommended.is_some()).collect();
        let contenders = vec![
            Contender {
                name: "default".into(),
                trials: (0..5).collect(),
                final_trials: finals(2..5),
                ..Contender::default()
            },
            Contender {
                name: "2010-15MB".into(),
                setting,
                trials: (5..10).collect(),
                final_trials: finals(7..10),
                ..Contender::default()
            },
            Contender {
                name: "a setting whose name is long".into(),
                failure: Some(
                    "the kernel refused sda.scheduler = cfq: no such elevator; it has none, bfq"
                        .into(),
                ),
                ..Contender::default()
            },
        ];
        let contest = Contest { contenders, frontier: Vec::new(), recommended };
        Document::of_contest(run(), &Made::damage().scenario, trials, contest).unwrap()
    }

    fn shown(document: &Document) -> String {
        let text = text(document, WIDTH);
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH && line == line.trim_end(), "{line}");
        }
        text
    }

    #[test]
    fn a_comparison() {
        insta::assert_snapshot!(shown(&contest(None)), @"
2 settings beside default: 1 better in something and worse in nothing, 1 failed

copy-vs-database: a database commits (4 threads, 16 KiB, fsync) while one large file is written
beside it
machine   Linux 6.18.5, 4 CPUs, 16 GiB RAM, Debian GNU/Linux 12 (bookworm)
device    sda (ATA ST1000DM003, 932 GiB, seeks), ext4 on sda1 on sda
setting   dirty limit 20 %, background 10 %, I/O scheduler mq-deadline, nr_requests 256, wbt 75 ms

           commits/s      p99  slowest  stalled      victim_kept    flood_kept        burst_kept
default         40.8   1.17 s   3.20 s     75 %  2.7 % (1.6–4.6)  87 % (86–88)         reference
2010-15MB        301  12.1 ms   3.20 s      0 %     20 % (20–20)  87 % (86–88)  100 % (95.7–105)
a setting whose name is long
              failed
                                                                     in brackets: 95 % intervals

2010-15MB against default: better: commits 7.39× (4.30 – 12.7), p99 12.1 ms instead of 1.17 s (1.0 %
(1.0 – 1.0)), stalled seconds 0 % of the time instead of 75 %; the same: flood 100 % (100 – 100),
bursts 100 % (100 – 100)
a setting whose name is long: failed: the kernel refused sda.scheduler = cfq: no such elevator; it
has none, bfq
note: 2010-15MB is vm.dirty_bytes=15000000
");
    }

    #[test]
    fn a_comparison_on_screens_of_all_widths() {
        for width in [80, 100, 160] {
            let text = text(&contest(None), width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        }
        assert_eq!(text(&contest(None), 160), text(&contest(None), 100));
        let narrow = text(&contest(None), 80);
        let table = narrow.split("\n\n").nth(1).unwrap();
        insta::assert_snapshot!(table, @"
        copy-vs-database: a database commits (4 threads, 16 KiB, fsync) while one large
        file is written beside it
        machine   Linux 6.18.5, 4 CPUs, 16 GiB RAM, Debian GNU/Linux 12 (bookworm)
        device    sda (ATA ST1000DM003, 932 GiB, seeks), ext4 on sda1 on sda
        setting   dirty limit 20 %, background 10 %, I/O scheduler mq-deadline,
                  nr_requests 256, wbt 75 ms
        ");
    }

    #[test]
    fn long_names_stay_whole_and_a_space_parts_all_figures() {
        let mut document = contest(None);
        let contenders = &mut document.contest.as_mut().unwrap().contenders;
        let names = ["vm.dirty_bytes=64MiB,nr_requests=32", "vm.dirty_bytes=64MiB,nr_requests=64"];
        for (contender, name) in contenders.iter_mut().zip(names) {
            contender.name = name.to_owned();
            let summary = contender.summary.as_mut().unwrap();
            // 17 columns, as wide as the column was.
            let share =
                Some(Estimate { value: 0.955, low: Some(0.911), high: Some(0.992), rounds: 5 });
            (summary.victim_kept, summary.flood_kept, summary.burst_kept) = (share, share, share);
        }
        let text = shown(&document);
        let share = "95.5 % (91.1–99.2)";
        // The first one's burst is what others are compared with.
        for row in [
            format!("  {share}  {share}           reference"),
            format!("  {share}  {share}  {share}"),
        ] {
            assert_eq!(text.matches(&row).count(), 1, "{text}");
        }
        let lines: Vec<&str> = text.lines().collect();
        assert!(names.iter().all(|name| lines.contains(name)), "{text}");
    }

    #[test]
    fn a_recommendation_comes_last() {
        let recommended = Recommended {
            outcome: Outcome::Recommended,
            contender: Some(1),
            ..Recommended::default()
        };
        let text = shown(&contest(Some(recommended)));
        let last = text.trim_end().rsplit("\n\n").next().unwrap_or_default();
        assert!(
            last.starts_with(
                "Recommended: 2010-15MB (vm.dirty_bytes=15000000): p99 from 1.17 s to 12.1 ms"
            ),
            "{text}"
        );
    }

    #[test]
    fn what_is_to_be_copied_is_not_wrapped() {
        let limits = [("flood:io.max", "wbps=180000000"), ("flood:memory.high", "134217728")];
        let recommended = Recommended {
            outcome: Outcome::Recommended,
            contender: Some(1),
            setting: limits.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
            ..Recommended::default()
        };
        let document = contest(Some(recommended));
        let keep =
            document.contest.as_ref().and_then(|c| c.recommended.as_ref()?.keep.as_ref()).unwrap();
        let text = text(&document, WIDTH);
        for command in [&keep.apply, &keep.persist] {
            let command = format!("  {command}");
            assert!(command.len() > WIDTH && text.lines().any(|line| line == command), "{text}");
        }
        let read = Document::read(&document.to_json().unwrap()).unwrap();
        assert_eq!(read.contest.unwrap().recommended.unwrap().keep.as_ref(), Some(keep));
    }

    #[test]
    fn a_contest_is_read_as_it_was_written() {
        let document = contest(None);
        let json = document.to_json().unwrap();
        let read = Document::read(&json).unwrap();
        assert_eq!(read, document);
        assert_eq!(read.recomputed_summary(), document.summary);
        let mut judged = read.clone();
        judged.judge();
        assert_eq!(judged, document, "figures, verdicts and sentence follow from the trials");
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["trials_run"], 10);
        assert_eq!(value["contenders"][1]["versus"][0]["verdict"], "better");
    }

    #[test]
    fn a_contest_that_names_what_is_not_there_is_refused() {
        let json = contest(None).to_json().unwrap();
        let message = |json: &str| Document::read(json).unwrap_err().to_string();
        let cut = json.replacen("\"trials\": [\n        0,", "\"trials\": [\n        99,", 1);
        assert!(message(&cut).contains("contenders[0] names trial 99 of 10"), "{}", message(&cut));
        // JSON has no NaN; a figure that is missing where one must be is said, not taken for zero.
        let lost = json.replacen("\"verdict\": \"better\"", "\"verdict\": null", 1);
        assert!(message(&lost).contains("can't read the result"), "{}", message(&lost));
    }
}
