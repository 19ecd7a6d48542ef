//! The table at the end of `make test` (`scripts/test-table`), from what `cargo test` prints.
#![expect(clippy::unwrap_used, reason = "a test's own functions fail with it")]

use std::fs;
use std::path::Path;
use std::process::Command;

/// A complete run, with one test left out by libtest and one by libtest-mimic.
const LOG: &str = "\
suite model-00aa model
suite kernel-11bb cli
     Running unittests src/lib.rs (target/debug/deps/model-00aa)

running 3 tests
test units::exact ... ok
test units::slow ... ignored, takes an hour
test units::round ... ok

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.50s

     Running tests/kernel/main.rs (target/debug/deps/kernel-11bb)

running 2 tests
test a disk is measured            ... 3 of 3 rounds
ok
test a disk goes and comes back    ... ignored (needs udev (it runs nowhere))

test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 2.30s
";

/// Exit status 0 or not, and the table.
fn table(least: &str, log: &str) -> (bool, String) {
    let dir = tempfile::tempdir().unwrap();
    let [least_file, log_file] = ["least", "log"].map(|name| dir.path().join(name));
    fs::write(&least_file, least).unwrap();
    fs::write(&log_file, log).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/test-table");
    let output =
        Command::new("awk").arg("-f").arg(script).args([least_file, log_file]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn suites_are_counted_and_what_is_left_out_has_its_reason() {
    let (good, said) = table("1 cli kernel\n", LOG);
    let expected = "
suite                 passed  failed  left out   seconds
model unit                 2       0         1       0.5
cli kernel                 1       0         1       2.3
all                        3       0         2       2.8

left out:
  model unit: units::slow: takes an hour
  cli kernel: a disk goes and comes back: needs udev (it runs nowhere)

3 passed, 0 failed, 2 skipped
";
    assert_eq!((good, said.as_str()), (true, expected));
}

#[test]
fn too_few_tests_of_a_suite_are_a_failure() {
    for least in ["2 cli kernel\n", "1 lab kernel\n"] {
        let (good, said) = table(least, LOG);
        assert!(!good && said.contains("too few ran (scripts/test-least):\n  "), "{said}");
    }
}

#[test]
fn a_failed_test_and_a_suite_without_its_result_are_named() {
    let failed = LOG
        .replace("test units::exact ... ok", "test units::exact ... FAILED")
        .replace("2 passed; 0 failed; 1", "1 passed; 1 failed; 1")
        .replacen(
            "\ntest result: ok. 1 passed",
            "\n---- units::exact stdout ----\n\nlib.rs:7: no\nleft: 1\n\n\n\
             failures:\n    units::exact\n\n\
             test result: FAILED. 1 passed",
            1,
        );
    let (good, said) = table("", &failed);
    assert!(
        !good
            && said
                .contains("failed:\n  model unit: units::exact\n    lib.rs:7: no\n    left: 1\n\n"),
        "{said}"
    );
    // Its first lines tell.
    let (_, said) = table("", &failed.replace("left: 1\n", &"more\n".repeat(100)));
    assert_eq!(said.matches("    more\n").count(), 7, "{said}");
    // Killed before it printed anything.
    let cut = &LOG[..LOG.find("test a disk goes").unwrap()];
    let (good, said) = table("", cut);
    assert!(!good && said.contains("cli kernel: ended without a result"), "{said}");
    assert!(said.ends_with("2 passed, 1 failed, 1 skipped\n"), "{said}");
    let (good, _) = table("", "error: could not compile `floodwall`\n");
    assert!(!good, "nothing ran at all");
}

#[test]
fn tests_that_lack_the_same_are_told_together() {
    let both = LOG
        .replace("takes an hour", "needs root")
        .replace("units::round ... ok", "units::round ... ignored, needs root");
    let (_, said) = table("", &both);
    assert!(said.contains("\n  model unit: 2 tests: needs root\n"), "{said}");
}

#[test]
fn what_runs_later_is_not_left_out() {
    let beside_udev = "
     Running tests/kernel/main.rs (target/debug/deps/kernel-11bb)
test a disk goes and comes back    ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out; finished in 1.00s
";
    let (good, said) = table("2 cli kernel\n", &format!("{LOG}{beside_udev}"));
    assert!(
        good && said.contains("cli kernel                 2       0         0       3.3"),
        "{said}"
    );
    assert!(said.ends_with("4 passed, 0 failed, 1 skipped\n"), "{said}");
}
