//! A result as GitHub Markdown: the verdict first, then figures, table and machine.

use std::fmt::Write;

use floodwall_model::printable::printable;
use floodwall_stats::estimate::Estimate;

use crate::numbers::{UNKNOWN, burst_kept, count, duration_us, interval, percent};
use crate::schema::Document;
use crate::study::{Study, Subject};
use crate::view::{self, View};

/// The same as [`crate::text::bench`], for an issue or a page.
#[must_use]
pub fn bench(document: &Document) -> String {
    let view = View::of(document);
    let mut out = String::new();
    let _ = writeln!(out, "**{}**\n", escaped(&view.verdict));
    let _ = writeln!(out, "| figure | value | 95 % interval | |\n|---|--:|--:|---|");
    for f in &view.figures {
        let (value, interval, meaning) =
            (escaped(&f.value), escaped(&f.interval), escaped(&f.meaning));
        let name = if f.label() == f.name { format!("`{}`", f.name) } else { f.label().into() };
        let _ = writeln!(out, "| {name} | {value} | {interval} | {meaning} |");
    }
    if !view.columns.is_empty() {
        let _ = writeln!(
            out,
            "\n| | {} |\n|---|{}",
            view.columns.join(" | "),
            "--:|".repeat(view.columns.len())
        );
        for (label, cells) in &view.rows {
            let _ = writeln!(out, "| {label} | {} |", cells.join(" | "));
        }
    }
    out.push('\n');
    let _ = writeln!(out, "- scenario: {}", escaped(&view.title));
    for (label, text) in &view.facts {
        let _ = writeln!(out, "- {label}: {}", escaped(text));
    }
    for note in &view.notes {
        let _ = writeln!(out, "- note: {}", escaped(note));
    }
    out
}

/// A result of any kind: of several settings the answer first, then their table; of one as
/// [`bench()`].
#[must_use]
pub fn report(study: &Study<'_>) -> String {
    let document = study.document;
    let mut out = String::new();
    if let Some(contest) = &document.contest {
        let sentence = study.sentence();
        match study.headline() {
            Some(heading) if heading != sentence.trim_end_matches('.') => {
                let _ = writeln!(out, "**{}**\n\n{}\n", escaped(&heading), escaped(&sentence));
            }
            _ => {
                let _ = writeln!(out, "**{}**\n", escaped(&sentence));
            }
        }
        if let Some(keep) = contest.recommended.as_ref().and_then(|r| r.keep.as_ref()) {
            let _ = writeln!(out, "```\n{}\n```\n", keep.lines().join("\n"));
        }
        let operations = format!("{}/s", study.operations());
        let _ = writeln!(
            out,
            "| setting | {operations} | p99 | slowest | seconds stalled | victim_kept | \
             flood_kept | burst_kept | frontier |\n|---|--:|--:|--:|--:|--:|--:|--:|---|"
        );
        for subject in &study.subjects {
            let _ = writeln!(out, "| {} |", row(subject).join(" | "));
        }
        out.push('\n');
        let _ = writeln!(out, "- scenario: {}", escaped(&view::title(document)));
        for (label, text) in view::facts(document) {
            let _ = writeln!(out, "- {label}: {}", escaped(&text));
        }
        let said: Vec<String> = contest
            .contenders
            .iter()
            .skip(1)
            .filter(|c| {
                !c.versus.is_empty() || (c.failure.is_some() && contest.recommended.is_none())
            })
            .map(|c| crate::contest::sentence(document, contest, c))
            .collect();
        if !said.is_empty() {
            out.push('\n');
            said.iter().for_each(|sentence| {
                let _ = writeln!(out, "- {}", escaped(sentence));
            });
            out.push('\n');
        }
        for (name, why) in
            study.subjects.iter().filter_map(|s| Some((&s.name, s.passed_over.as_ref()?)))
        {
            let _ = writeln!(out, "- not recommended: {}: {}", escaped(name), escaped(why));
        }
        for warning in &document.run.warnings {
            let _ = writeln!(out, "- note: {}", escaped(warning));
        }
    } else {
        out.push_str(&bench(document));
    }
    out
}

/// A setting's cells.
fn row(subject: &Subject) -> Vec<String> {
    let summary = subject.summary.as_ref();
    let phase = summary.and_then(|s| s.both.as_ref().or(s.victim.as_ref()));
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.into());
    let share = |e: Option<Estimate>| {
        or_unknown(e.map(|e| format!("{} % ({})", percent(e.value), interval(&e, percent))))
    };
    let knobs = match (&subject.failure, subject.setting.is_empty()) {
        (Some(failure), _) => format!("<br>failed: {}", escaped(failure)),
        (None, true) => String::new(),
        (None, false) => {
            let setting = subject.setting.to_string().replace('`', "'").replace('|', "\\|");
            format!("<br>`{}`", printable(&setting))
        }
    };
    vec![
        format!("{}{knobs}", escaped(&subject.name)),
        or_unknown(phase.and_then(|p| p.iops).map(count)),
        or_unknown(phase.and_then(|p| p.operation_us?.p99).map(duration_us)),
        or_unknown(phase.and_then(|p| Some(duration_us(p.operation_us?.max)))),
        or_unknown(subject.dead_share().map(|d| format!("{} %", percent(d)))),
        share(summary.and_then(|s| s.victim_kept)),
        share(summary.and_then(|s| s.flood_kept)),
        match summary.map_or(Ok(None), burst_kept) {
            Ok(kept) => share(kept.copied()),
            Err(reference) => reference.to_owned(),
        },
        if subject.on_frontier { "yes".into() } else { String::new() },
    ]
}

/// One line with the characters escaped that would end a table cell, begin markup, or do something
/// to a terminal. The backslash of an unsafe character's escape is markup too, so it is escaped
/// last.
fn escaped(text: &str) -> String {
    let text = text.replace(['\n', '\r'], " ");
    let text = printable(&text);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\\' | '|' | '*' | '_' | '`' | '<' | '[' | '~' | '&' | '$') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Made;

    #[test]
    fn damage() {
        insta::assert_snapshot!(bench(&Made::damage().document()), @"
**While one file was written beside it, commits fell from 1,516/s to 40.8/s (2.7 %): p99 went from \
1.06 ms to 1.17 s, and in 27 of 36 seconds the victim got less than a tenth of its speed.**

| figure | value | 95 % interval | |
|---|--:|--:|---|
| `victim_kept` | 2.7 % | 0.91 – 7.9 | of its speed alone |
| `flood_kept` | 87 % | 86 – 88 | of its speed alone |
| `burst_kept` | – |  | no baseline to compare with; it ran at 2.11 GB/s |
| stalled seconds | 27 s | 2.95 – 36.0 | of 36 s beside the flood |

| | victim alone | flood alone | both |
|---|--:|--:|--:|
| commits/s | 1,516 | – | 40.8 |
| p50 | 1.03 ms | – | 20.1 ms |
| p99 | 1.06 ms | – | 1.17 s |
| p99.9 | 1.06 ms | – | 3.20 s |
| max | 1.06 ms | – | 3.20 s |
| worst second | 1,508/s | – | 1/s |
| stalled seconds | 0 of 36 | – | 27 of 36 |
| longest stall | 0 s | – | 3 s |
| flood | – | 251 MB/s | 218 MB/s |

- scenario: copy-vs-database: a database commits (4 threads, 16 KiB, fsync) while one large file \
is written beside it
- machine: Linux 6.18.5, 4 CPUs, 16 GiB RAM, Debian GNU/Linux 12 (bookworm)
- device: sda (ATA ST1000DM003, 932 GiB, seeks), ext4 on sda1 on sda
- setting: dirty limit 20 %, background 10 %, I/O scheduler mq-deadline, nr\\_requests \
256, wbt 75 ms
- run: 3 rounds, 12 s a phase, 5 min 5 s in all
        ");
    }

    #[test]
    fn markup_in_names_is_text() {
        assert_eq!(escaped("a|b <img> `x`\n*y*"), r"a\|b \<img> \`x\` \*y\*");
        assert_eq!(escaped("~~x~~ &lt; $y$"), r"\~\~x\~\~ \&lt; \$y\$");
        assert_eq!(escaped("\u{1b}[0m\u{202e}"), r"\\u{1b}\[0m\\u{202e}");
        let mut document = Made::damage().document();
        document.run.warnings = vec!["disk | model".into()];
        assert!(bench(&document).contains(r"- note: disk \| model"));
    }
}
