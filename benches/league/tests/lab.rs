//! `league lab` under a signal, with a script in the place of the binary: whatever was brought up
//! is taken down.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use floodwall_testing::{process, until};

/// A machine that is too slow for this has other troubles.
const PATIENCE: Duration = Duration::from_secs(50);

/// In place of `floodwall`: writes down its arguments. Its search takes a minute.
const SCRIPT: &str = r#"#!/bin/sh
echo "$*" >> "$(dirname "$0")/asked"
case "$1 $2" in
"lab up") echo '{"device":"/dev/loop9","mounts":["/nowhere"]}' ;;
tune*) exec sleep 60 ;;
esac
"#;

fn asked(dir: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(dir.join("asked")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn league(dir: &Path) -> std::io::Result<Child> {
    let script = dir.join("floodwall");
    process::script(&script, SCRIPT).map_err(std::io::Error::other)?;
    Command::new(env!("CARGO_BIN_EXE_league"))
        .args(["lab", "usb-stick_scan_flood-1", "--floodwall"])
        .arg(&script)
        .arg("--data")
        .arg(dir.join("data"))
        .arg("--out")
        .arg(dir.join("league.md"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

#[test]
fn a_signal_takes_down_what_was_brought_up() {
    for signal in ["INT", "TERM", "HUP"] {
        let dir = tempfile::tempdir().unwrap();
        let mut league = league(dir.path()).unwrap();
        let searches = || asked(dir.path()).iter().any(|line| line.starts_with("tune"));
        until(PATIENCE, "a search begins", searches).unwrap();
        assert!(
            Command::new("kill")
                .args(["-s", signal, &league.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
        let mut status = None;
        let ended = until(PATIENCE, "it ends", || {
            status = league.try_wait().unwrap();
            status.is_some()
        });
        ended.unwrap();
        assert_eq!(status.and_then(|s| s.code()), Some(1), "{signal}");
        let asked = asked(dir.path());
        let down = format!("lab down league-{}", league.id());
        assert!(asked[0].ends_with("--scheduler mq-deadline"), "{asked:?}");
        assert_eq!(asked.last(), Some(&down), "{signal}: {asked:?}");
    }
}
