//! A result as a person reads it on a terminal: no colour, at most [`WIDTH`] columns.

use std::fmt::Write;

use floodwall_model::printable::printable;

use crate::numbers::NO_INTERVAL;
use crate::schema::Document;
use crate::view::View;

/// Longer lines are hard to read.
pub const WIDTH: usize = 100;
/// Columns of the labels before machine, device and the like.
const INDENT: usize = 10;
/// Columns of the labels of tables.
const LABEL: usize = 15;
/// Columns of each phase.
const CELL: usize = 16;

/// Machine, table, figures, notes and the verdict, which comes last because that is where the eye
/// is when a run ends.
#[must_use]
pub fn bench(document: &Document, width: usize) -> String {
    let room = width.min(WIDTH);
    let view = View::of(document);
    let mut out = String::new();
    paragraph(&mut out, "", &view.title, 0, room);
    for (label, text) in &view.facts {
        paragraph(&mut out, label, text, INDENT, room);
    }
    if !view.columns.is_empty() {
        out.push('\n');
        row(&mut out, "", &view.columns);
        for (label, cells) in &view.rows {
            row(&mut out, label, cells);
        }
    }
    out.push('\n');
    let width =
        view.figures.iter().map(|f| f.interval.chars().count() + 2).max().unwrap_or(0).max(17);
    for figure in &view.figures {
        let interval = if figure.interval.is_empty() {
            String::new()
        } else {
            format!("({})", figure.interval)
        };
        let head = format!("{:<LABEL$}{:>8}  {interval:<width$} ", figure.label(), figure.value);
        paragraph(&mut out, &head, &figure.meaning, head.chars().count(), room);
    }
    if view.figures.iter().any(|f| !["", NO_INTERVAL].contains(&f.interval.as_str())) {
        let _ = writeln!(out, "{:LABEL$}{:10}in brackets: 95 % intervals", "", "");
    }
    if !view.notes.is_empty() {
        out.push('\n');
        for note in &view.notes {
            paragraph(&mut out, "note:", note, 6, room);
        }
    }
    out.push('\n');
    paragraph(&mut out, "", &view.verdict, 0, room);
    out
}

fn row(out: &mut String, label: &str, cells: &[impl AsRef<str>]) {
    let _ = write!(out, "{:<LABEL$}", printable(label));
    for cell in cells {
        let _ = write!(out, "{:>CELL$}", printable(cell.as_ref()));
    }
    out.push('\n');
}

/// A text in lines of so many columns, with a label before its first line and as much indent before
/// the others. Unsafe characters are escaped.
pub(crate) fn paragraph(out: &mut String, label: &str, text: &str, indent: usize, width: usize) {
    let mut line = format!("{label:<indent$}");
    let mut used = line.chars().count();
    let mut empty = true;
    for word in text.split_whitespace().map(printable) {
        let length = word.chars().count();
        if !empty && used + 1 + length > width {
            out.push_str(line.trim_end());
            out.push('\n');
            line = " ".repeat(indent);
            used = indent;
            empty = true;
        }
        if !empty {
            line.push(' ');
            used += 1;
        }
        line.push_str(&word);
        used += length;
        empty = false;
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use floodwall_model::status::Missing;

    use super::*;
    use crate::schema::{Baseline, RunStatus};
    use crate::synthetic::{Made, run};

    fn shown(document: &Document) -> String {
        let text = bench(document, WIDTH);
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH && line == line.trim_end(), "{line}");
        }
        text
    }

    #[test]
    fn damage() {
        insta::assert_snapshot!(shown(&Made::damage().document()), @"
copy-vs-database: a database commits (4 threads, 16 KiB, fsync) while one large file is written
beside it
machine   Linux 6.18.5, 4 CPUs, 16 GiB RAM, Debian GNU/Linux 12 (bookworm)
device    sda (ATA ST1000DM003, 932 GiB, seeks), ext4 on sda1 on sda
setting   dirty limit 20 %, background 10 %, I/O scheduler mq-deadline, nr_requests 256, wbt 75 ms
run       3 rounds, 12 s a phase, 5 min 5 s in all

                   victim alone     flood alone            both
commits/s                 1,516               –            40.8
p50                     1.03 ms               –         20.1 ms
p99                     1.06 ms               –          1.17 s
p99.9                   1.06 ms               –          3.20 s
max                     1.06 ms               –          3.20 s
worst second            1,508/s               –             1/s
stalled seconds         0 of 36               –        27 of 36
longest stall               0 s               –             3 s
flood                         –        251 MB/s        218 MB/s

victim_kept       2.7 %  (0.91 – 7.9)      of its speed alone
flood_kept         87 %  (86 – 88)         of its speed alone
burst_kept            –                    no baseline to compare with; it ran at 2.11 GB/s
stalled seconds    27 s  (2.95 – 36.0)     of 36 s beside the flood
                         in brackets: 95 % intervals

While one file was written beside it, commits fell from 1,516/s to 40.8/s (2.7 %): p99 went from
1.06 ms to 1.17 s, and in 27 of 36 seconds the victim got less than a tenth of its speed.
        ");
    }

    #[test]
    fn a_narrow_terminal_holds_every_line() {
        let text = bench(&Made::damage().document(), 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(bench(&Made::damage().document(), 160), bench(&Made::damage().document(), 100));
    }

    #[test]
    fn a_stall_that_fills_its_phase_is_marked_and_the_mark_explained() {
        let mut document = Made::damage().document();
        assert!(!shown(&document).contains('≥'));
        document.summary.both.as_mut().unwrap().longest_stall_s = Some(12);
        let text = shown(&document);
        assert!(text.contains("longest stall               0 s               –          ≥ 12 s"));
        assert!(
            text.contains("note: ≥: this stall fills its phase, so it may last longer"),
            "{text}"
        );
    }

    #[test]
    fn what_only_a_real_machine_has_is_not_missed_on_a_simulated_one() {
        let mut document = Made::damage().document();
        let missing = |why: &str| Missing { what: "psi io".into(), why: why.into() };
        document.run.missing = vec![missing(crate::schema::SIMULATED)];
        assert!(!shown(&document).contains("not measured"));
        document.run.missing = vec![missing("unreadable")];
        assert!(shown(&document).contains("not measured: psi io"));
    }

    #[test]
    fn compared_with_a_baseline() {
        let mut stored = Made::harmless().document();
        stored
            .trials
            .iter_mut()
            .for_each(|t| t.phases[1].intervals.iter_mut().for_each(|i| i.flood_bytes *= 2));
        let baseline = Baseline::from_document(&stored, "default.json");
        let document = Document::new(
            run(),
            &Made::harmless().scenario,
            Made::harmless().trials(),
            Some(baseline),
        )
        .unwrap();
        insta::assert_snapshot!(shown(&document), @"
copy-vs-database: a database commits (4 threads, 16 KiB, fsync) while one large file is written
beside it
machine   Linux 6.18.5, 4 CPUs, 16 GiB RAM, Debian GNU/Linux 12 (bookworm)
device    sda (ATA ST1000DM003, 932 GiB, seeks), ext4 on sda1 on sda
setting   dirty limit 20 %, background 10 %, I/O scheduler mq-deadline, nr_requests 256, wbt 75 ms
run       3 rounds, 12 s a phase, 5 min 5 s in all
baseline  default.json, dirty limit 20 %, background 10 %, I/O scheduler mq-deadline, nr_requests
          256, wbt 75 ms

                   victim alone     flood alone            both
commits/s                 1,516               –           1,491
p50                     1.03 ms               –         1.08 ms
p99                     1.06 ms               –         1.11 ms
p99.9                   1.06 ms               –         1.11 ms
max                     1.06 ms               –          3.20 s
worst second            1,508/s               –         1,490/s
stalled seconds         0 of 36               –         0 of 36
longest stall               0 s               –             0 s
flood                         –        251 MB/s        218 MB/s

victim_kept      98.4 %  (97.1 – 99.6)     of its speed alone
flood_kept         43 %  (43 – 44)         of its speed alone under the baseline
burst_kept        100 %  (95.7 – 105)      of a burst under the baseline, now 2.11 GB/s
stalled seconds     0 s  (0 – 28.8)        of 36 s beside the flood
                         in brackets: 95 % intervals

No damage: while one file was written beside it, commits kept 98.4 % of their speed (1,491/s of
1,516/s), and p99 went from 1.06 ms to 1.11 ms.
        ");
    }

    #[test]
    fn a_partial_run_with_notes() {
        let mut document = Made { rounds: 1, ..Made::damage() }.document();
        document.run.status = RunStatus::Partial { why: "no space left on the device".into() };
        document.run.warnings = vec![
            "the floods were shrunk to 2 GiB: only 3 GiB are free, and \
            the run must leave a tenth of the space"
                .into(),
        ];
        document.run.missing = vec![
            Missing { what: "psi io".into(), why: "absent".into() },
            Missing { what: "wbt_lat_usec".into(), why: "unreadable".into() },
        ];
        let both = &mut document.trials[0].phases[2];
        both.cut_short = Some("no space left on the device".into());
        both.warmup.steady = Some(false);
        both.warmup.verdict =
            "not steady after 5 s: victims: still falling by 80 % of the median".into();
        document.trials[0].phases.truncate(3);
        document.summary = document.recomputed_summary();
        insta::assert_snapshot!(shown(&document), @"
copy-vs-database: a database commits (4 threads, 16 KiB, fsync) while one large file is written
beside it
machine   Linux 6.18.5, 4 CPUs, 16 GiB RAM, Debian GNU/Linux 12 (bookworm)
device    sda (ATA ST1000DM003, 932 GiB, seeks), ext4 on sda1 on sda
setting   dirty limit 20 %, background 10 %, I/O scheduler mq-deadline, nr_requests 256, wbt 75 ms
run       1 round, 12 s a phase, 5 min 5 s in all, partial: no space left on the device

                   victim alone     flood alone            both
commits/s                 1,508               –            40.8
p50                     1.03 ms               –         20.1 ms
p99                     1.06 ms               –          1.17 s
p99.9                   1.06 ms               –               –
max                     1.06 ms               –          3.20 s
worst second            1,508/s               –             1/s
stalled seconds         0 of 12               –         9 of 12
longest stall               0 s               –             3 s
flood                         –        251 MB/s        217 MB/s

victim_kept       2.7 %  (one round: no interval) of its speed alone
flood_kept         86 %  (one round: no interval) of its speed alone
burst_kept            –                           no burst was measured
stalled seconds     9 s  (one round: no interval) of 12 s beside the flood

note: the floods were shrunk to 2 GiB: only 3 GiB are free, and the run must leave a tenth of the
      space
note: one round does not tell how much rounds differ: no intervals; run two or more
note: round 1, phase both was cut short: no space left on the device
note: 1 of 3 phases began before the load was steady; the first was round 1, phase both: not steady
      after 5 s: victims: still falling by 80 % of the median
note: not measured: psi io, wbt_lat_usec (the reasons are in the JSON)

Partial result (no space left on the device): while one file was written beside it, commits fell
from 1,508/s to 40.8/s (2.7 %): p99 went from 1.06 ms to 1.17 s, and in 9 of 12 seconds the victim
got less than a tenth of its speed.
        ");
    }

    #[test]
    fn victims_alone_of_a_command() {
        let mut made = Made { timed: false, ..Made::damage() };
        made.scenario.floods.clear();
        made.scenario.burst = None;
        made.scenario.victims =
            vec![floodwall_model::scenario::command_victim("pgbench -T 60").unwrap()];
        insta::assert_snapshot!(shown(&made.document()), @"
copy-vs-database: a database commits (4 threads, 16 KiB, fsync) while one large file is written
beside it
machine   Linux 6.18.5, 4 CPUs, 16 GiB RAM, Debian GNU/Linux 12 (bookworm)
device    sda (ATA ST1000DM003, 932 GiB, seeks), ext4 on sda1 on sda
setting   dirty limit 20 %, background 10 %, I/O scheduler mq-deadline, nr_requests 256, wbt 75 ms
run       3 rounds, 12 s a phase, 5 min 5 s in all

                   victim alone
I/O calls/s               1,516
worst second            1,508/s
stalled seconds         0 of 36
longest stall               0 s

victim_kept           –                    a victim beside a flood was not measured
flood_kept            –                    a flood beside a victim was not measured
burst_kept            –                    no burst was measured
stalled seconds       –                    a victim beside a flood was not measured

Nothing flooded: there were 1,516 I/O calls a second.
        ");
    }

    #[test]
    fn long_paragraphs_wrap_under_their_label() {
        let mut out = String::new();
        paragraph(&mut out, "note:", &"word ".repeat(30), 6, WIDTH);
        assert_eq!(out.lines().count(), 2);
        assert!(out.lines().all(|l| l.chars().count() <= WIDTH));
        assert!(out.lines().nth(1).unwrap().starts_with("      word"));
    }
}
