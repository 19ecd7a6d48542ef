//! The documents' commands are run here as far as they are short and change nothing. The output of
//! a session is compared with the document, numbers left out.

use std::process::Command;

use floodwall_testing::process::{output, text};

use crate::commands_of_documents::{Command as Line, commands};

/// The test's way with a command.
#[derive(Debug)]
enum Done {
    /// It is run, and ends with status 0.
    Run,
    /// It is only parsed (`src/documents_tests.rs`), for this reason.
    Parsed(&'static str),
}
use Done::{Parsed, Run};

/// Commands by their first words and a word that they have: the first row that fits counts.
const TABLE: &[(&str, &str, Done)] = &[
    ("bench", "--list-scenarios", Run),
    ("bench", "", Parsed("loads a disk for minutes; tests/it/bench.rs")),
    ("check", "", Parsed("loads a disk for a minute; tests/it/check.rs")),
    ("compare --kernel", "", Parsed("boots kernels; tests/guest")),
    ("compare", "", Parsed("loads a disk for minutes, as root; tests/kernel/tune.rs")),
    ("compat", "", Parsed("loads a disk, or waits for seconds; tests/compat")),
    ("diff", "", Parsed("tells what this machine's journal holds; tests/it/knobs.rs")),
    ("apply", "", Parsed("changes the machine; tests/it/knobs.rs, tests/kernel/knobs.rs")),
    ("dump", "", Parsed("needs a recording; tests/it/dump.rs")),
    ("explain", "", Run),
    ("fix", "", Parsed("needs a stall, and changes the machine; tests/why")),
    ("guard", "", Parsed("stays on, or needs a guard; tests/it/guard.rs, tests/guard")),
    ("hwdb", "", Parsed("needs its files; tests/it/hwdb.rs")),
    ("lab list", "", Run),
    (
        "lab run",
        "",
        Parsed("makes a device, as root, or boots a kernel; tests/kernel, tests/guest"),
    ),
    ("lab seeks", "", Parsed("needs a recording; tests/it/seeks.rs")),
    ("lab", "", Parsed("makes a device, as root; tests/kernel/lab.rs")),
    ("log", "", Parsed("tells what this machine's journal holds; tests/it/knobs.rs")),
    ("pace", "", Parsed("copies files; tests/it/pace.rs, tests/kernel/pace.rs")),
    ("persist", "", Parsed("changes the machine; tests/it/persist.rs")),
    ("probe", "", Parsed("looks for ten seconds, or until Ctrl-C; tests/kernel/probe.rs")),
    ("record", "", Parsed("stays on; tests/watch/recorder.rs")),
    ("report", "", Parsed("needs a result or a recording; tests/it/report.rs")),
    ("rollback", "", Parsed("changes the machine; tests/it/knobs.rs")),
    ("sim --device hdd-7200", "--quick", Run),
    ("sim sweep", "", Parsed("needs its file; tests/it/sweep.rs")),
    ("sim", "", Parsed("takes half a minute in a debug build; tests/it/sim.rs")),
    ("size --link", "", Run),
    ("size --rate", "", Run),
    ("size", "", Parsed("loads a disk; tests/kernel/size.rs")),
    ("stalls", "", Parsed("needs a recording; tests/it/stalls.rs")),
    ("status --watch", "", Parsed("goes on until Ctrl-C; tests/it/status.rs")),
    ("status --root", "", Parsed("needs a captured tree; tests/it/status.rs")),
    ("status", "", Run),
    ("tune", "", Parsed("loads a disk for minutes, as root; tests/it/tune.rs")),
    ("unpersist", "", Parsed("changes the machine; tests/it/persist.rs")),
    ("watch", "", Parsed("needs a terminal; tests/watch")),
    ("why", "", Parsed("names disks and processes of no machine; tests/it/why.rs, tests/why")),
    ("", "", Parsed("ends with 1 while something stalls; tests/it/why.rs, tests/why")),
];

/// The row of a command.
fn row(line: &Line) -> usize {
    let words = &line.words[1..];
    let fits = |(first, word, _): &(&str, &str, Done)| {
        let first: Vec<&str> = first.split_whitespace().collect();
        let begins = words.len() >= first.len() && words.iter().zip(&first).all(|(a, b)| a == b);
        let is_bare = first.is_empty() && !words.is_empty();
        begins && !is_bare && (word.is_empty() || words.iter().any(|other| other == word))
    };
    let found = TABLE.iter().position(fits);
    found.ok_or_else(|| format!("{}: no row for {:?}", line.page, line.words)).unwrap()
}

/// Words alone, digits as `#`: the terminal's width and a figure make no difference.
fn masked(text: &str) -> String {
    let mut masked = String::new();
    let mut was_number = false;
    for c in text.split_whitespace().collect::<Vec<_>>().join(" ").chars() {
        let is_number = c.is_ascii_digit() || was_number && matches!(c, '.' | ',');
        if !is_number {
            masked.push(c);
        } else if !was_number {
            masked.push('#');
        }
        was_number = is_number;
    }
    masked
}

#[test]
fn short_commands_of_the_documents_run_and_print_what_the_documents_show() {
    let lines = commands();
    let mut fitted = vec![false; TABLE.len()];
    let (mut ran, mut sessions) = (Vec::new(), 0);
    let dir = tempfile::tempdir().unwrap();
    for line in lines.iter().filter(|line| !line.is_part) {
        let row = row(line);
        fitted[row] = true;
        let is_known = line.output.is_empty() && ran.contains(&&line.words);
        if !matches!(TABLE[row].2, Run) || is_known {
            continue;
        }
        ran.push(&line.words);
        let mut command = Command::new(env!("CARGO_BIN_EXE_floodwall"));
        let got = output(command.args(&line.words[1..]).current_dir(dir.path())).unwrap();
        let (printed, said) = (text(&got.stdout), text(&got.stderr));
        assert!(got.status.success(), "{}: {:?}: {said}", line.page, line.words);
        let printed = masked(&printed);
        for part in line.output.split('…').map(masked).filter(|part| !part.is_empty()) {
            assert!(printed.contains(&part), "{}: '{part}' is not in '{printed}'", line.page);
        }
        sessions += usize::from(!line.output.is_empty());
    }
    assert!(ran.len() >= 8 && sessions >= 2, "{sessions} sessions: {ran:#?}");
    for (row, fitted) in TABLE.iter().zip(fitted) {
        assert!(fitted, "no document has a command for the row {row:?}");
        if let Parsed(reason) = row.2 {
            assert!(!reason.is_empty());
        }
    }
}
