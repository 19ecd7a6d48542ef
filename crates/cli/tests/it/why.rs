//! `floodwall why` and `floodwall` alone, on this machine, whatever it does meanwhile.

use floodwall_testing::process::output;
use serde_json::Value;
use std::process::Command;

use crate::{floodwall, stderr, stdout, tmpfs};

/// The statuses of an answer: nothing waits long, a process does, it can't be told.
const ANSWERED: [Option<i32>; 3] = [Some(0), Some(1), Some(4)];

#[test]
fn without_a_command_the_machine_is_diagnosed() {
    let narrow = Command::new(env!("CARGO_BIN_EXE_floodwall")).env("COLUMNS", "60").output();
    let alone = narrow.unwrap();
    assert!(ANSWERED.contains(&alone.status.code()), "{alone:?}");
    let text = stdout(&alone);
    assert!(text.contains("waits") || text.contains("waited"), "{text}");
    let too_wide = text.lines().find(|line| line.chars().count() > 60 && line.contains(' '));
    assert_eq!(too_wide, None, "{text}");
}

#[test]
fn programs_get_a_document_and_the_verdict_as_status() {
    let answer = floodwall(&["why", "--json"]);
    let document: Value = serde_json::from_str(&stdout(&answer)).unwrap();
    assert_eq!(document["schema"], "floodwall/why/1");
    let status = match document["verdict"].as_str() {
        Some("quiet" | "flooding") => 0,
        Some("stalling") => 1,
        Some("unknown") => 4,
        other => panic!("{other:?}"),
    };
    assert_eq!(answer.status.code(), Some(status), "{document}");
}

#[test]
fn an_argument_that_names_nothing_is_refused_with_what_may_be_named() {
    let tmpfs = tmpfs();
    let on_tmpfs = tmpfs.path().to_str().unwrap();
    let wrong = [
        ("no-such-thing", "nothing here is called 'no-such-thing'"),
        ("/dev/no-such-disk", "'/dev/no-such-disk' is no block device"),
        ("/no/such/place", "'/no/such/place'"),
        ("4294967295", "there is no process 4294967295"),
        ("4095:4095", "there is no block device 4095:4095"),
        (on_tmpfs, "is on tmpfs, which no disk holds"),
    ];
    for (argument, said) in wrong {
        let refused = floodwall(&["why", argument]);
        assert_eq!(refused.status.code(), Some(2), "{argument}: {}", stdout(&refused));
        assert!(stderr(&refused).contains(said), "{argument}: {}", stderr(&refused));
        assert_eq!(stdout(&refused), "");
    }
    let no_command = floodwall(&["no-such-thing"]);
    assert_eq!(no_command.status.code(), Some(2));
}

#[test]
fn help_lists_why_first() {
    let help = output(Command::new(env!("CARGO_BIN_EXE_floodwall")).arg("--help")).unwrap();
    let text = stdout(&help);
    let first = text.lines().skip_while(|line| *line != "Commands:").nth(1).unwrap();
    assert!(first.trim_start().starts_with("why "), "{text}");
    assert!(text.contains("Without a command: why."), "{text}");
}
