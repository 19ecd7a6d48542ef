//! `floodwall check`: command lines, and directories that it refuses. Runs are in the suite
//! `kernel`.

use std::fs;

use crate::{floodwall, stderr, stdout, tmpfs};

#[test]
fn a_directory_in_memory_is_refused_because_every_check_would_pass() {
    let dir = tmpfs();
    let here = dir.path().to_string_lossy().into_owned();
    for more in [&[][..], &["--force"]] {
        let output = floodwall(&[&["check", "etcd", &here], more].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("a sync costs nothing there"), "{}", stderr(&output));
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn wrong_usage_has_status_2_and_says_what_to_do() {
    let dir = tmpfs();
    let here = dir.path().to_string_lossy().into_owned();
    let missing = dir.path().join("missing/x.xml").to_string_lossy().into_owned();
    for (args, part) in [
        (&["etcd"][..], "DIR is missing"),
        (&["etc", &here], "did you mean 'etcd'?"),
        (&["postgresql", &here], "no limit is published for postgresql; give the longest"),
        (&["any", &here], "a limit is missing; give the longest"),
        (&["etcd", "--p99", "0s", &here], "nothing takes less"),
        (&["etcd", "--p99", "10", &here], "write a number and a unit"),
        (&["etcd", "--block", "1GiB", &here], "write 1B to 22 MiB"),
        (&["etcd", "--measure", "1500ms", &here], "give at least 1s"),
        (&["etcd", "--json", "--nagios", &here], "leave one out"),
        (&["etcd", "--junit", &missing, &here], "make it first"),
        (&["etcd", &missing], "check its name"),
        (&["etcd", "/etc/passwd"], "is not a directory"),
    ] {
        let output = floodwall(&[&["check"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn for_nagios_a_check_that_fails_is_one_line_and_unknown() {
    let output = floodwall(&["check", "etcd", "--nagios", "/no/such/directory"]);
    assert_eq!(output.status.code(), Some(3));
    let line = stdout(&output);
    assert!(line.starts_with("ETCD UNKNOWN - "), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
}
