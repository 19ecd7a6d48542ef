//! Commands as loads: their counters, their failures, and that nothing of them survives.

use std::path::Path;
use std::time::Duration;

use floodwall_load::{LoadError, PreparedFlood, User};
use floodwall_model::scenario::{command_flood, command_victim};
use floodwall_testing::{ROOT, Trial, lacks, tests};
use std::sync::atomic::AtomicBool;

use crate::support::*;

pub(crate) fn tests() -> Vec<Trial> {
    let mut of_users = tests![lacks_user =>
        a_command_runs_as_another_user_and_where_that_user_can_write,
        another_users_command_gets_neither_our_terminal_nor_our_environment,
    ];
    of_users.extend(tests![
        a_flood_command_counts_what_it_wrote_and_a_victim_also_what_it_read,
        a_command_that_ends_is_started_again_and_keeps_its_counts,
        a_failing_command_is_named_with_its_last_words,
        nothing_of_the_group_survives,
        what_ignores_sigterm_gets_sigkill,
        a_command_dies_with_floodwall,
        a_kernel_without_accounting_is_an_error_and_not_a_zero,
        stopping_at_once_is_no_failure,
    ]);
    of_users
}

/// A user that every machine has, and that owns nothing.
const NOBODY: &str = "nobody";

fn lacks_user() -> Option<String> {
    lacks(&[ROOT, "id", "getent"]).or_else(|| User::named(NOBODY).err().map(|e| e.to_string()))
}

fn a_command_runs_as_another_user_and_where_that_user_can_write() {
    let dir = tempfile::tempdir().unwrap();
    let text = "id -u > who; id -G >> who; id -un >> who; echo $USER >> who; \
        touch ../beside 2>/dev/null && touch outside; \
        cat \"$SECRET\" 2>/dev/null && touch read; \
        echo heard > /dev/stdout; touch done; sleep 1000";
    let secret = dir.path().join("secret");
    std::fs::File::create(&secret).unwrap();
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let text = text.replace("$SECRET", &secret.display().to_string());
    let flood = command_flood(&text).unwrap();
    let user = User::named(NOBODY).unwrap();
    let (scratch, stop) = (open(dir.path()), AtomicBool::new(false));
    let prepare = |seed| {
        floodwall_load::prepare_flood(&scratch, &flood, Some(&user), seed, &mut |_| {}, &stop)
    };
    let first = prepare(1).unwrap();
    let mut running = first.start(1, proc_root()).unwrap();
    let own = dir.path().join(".commands");
    wait_for("the command", || own.join("done").exists());
    assert!(running.sample().ops > 0, "its calls are counted");
    let finished = running.finish();
    assert_eq!(finished.failure, None);
    // What id(1) says of that user, asked by root.
    let id = |what: &str| {
        let output = std::process::Command::new("id").args([what, NOBODY]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let expected = format!("{}{}{NOBODY}\n{NOBODY}\n", id("-u"), id("-G"));
    assert_eq!(text_of(&own.join("who")), expected);
    assert!(
        !own.join("outside").exists()
            && !own.join("read").exists()
            && !dir.path().join("beside").exists()
    );
    assert_eq!(text_of(&first.dir().join("stdout.log")), "heard\n");
    // The next command finds the same directory.
    drop(prepare(2).unwrap());
    scratch.remove_contents(None).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

fn another_users_command_gets_neither_our_terminal_nor_our_environment() {
    let dir = tempfile::tempdir().unwrap();
    let text =
        "cat /proc/$$/environ > environment; cat /proc/$$/stat > stat; touch done; sleep 1000";
    let flood = command_flood(text).unwrap();
    let user = User::named(NOBODY).unwrap();
    let stop = AtomicBool::new(false);
    let flood = floodwall_load::prepare_flood(
        &open(dir.path()),
        &flood,
        Some(&user),
        1,
        &mut |_| {},
        &stop,
    )
    .unwrap();
    let running = flood.start(1, proc_root()).unwrap();
    let own = dir.path().join(".commands");
    wait_for("the command", || own.join("done").exists());
    drop(running);
    // proc(5): process, name, state, parent, group, session, terminal.
    let stat = text_of(&own.join("stat"));
    let stat: Vec<&str> = stat.split(' ').collect();
    assert_eq!(
        [stat[4], stat[5], stat[6]],
        [stat[0], stat[0], "0"],
        "it leads a session without a terminal"
    );
    let entry = std::process::Command::new("getent").args(["passwd", NOBODY]).output().unwrap();
    let entry = String::from_utf8(entry.stdout).unwrap();
    let [name, .., home, shell] = entry.trim().split(':').collect::<Vec<_>>()[..] else {
        panic!("{entry}")
    };
    let mut expected = vec![
        format!("HOME={home}"),
        format!("LOGNAME={name}"),
        format!("SHELL={shell}"),
        format!("USER={name}"),
    ];
    let kept = |name: &str| {
        ["PATH", "LANG", "TERM", "TZ"].contains(&name)
            || name.starts_with("LC_")
            || name.starts_with("FLOODWALL_")
    };
    expected.extend(
        std::env::vars().filter(|(name, _)| kept(name)).map(|(name, is)| format!("{name}={is}")),
    );
    expected.sort();
    let environment = text_of(&own.join("environment"));
    let mut environment: Vec<&str> = environment.split_terminator('\0').collect();
    environment.sort_unstable();
    assert_eq!(environment, expected);
}

fn text_of(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn command(dir: &Path, command: &str) -> PreparedFlood {
    let flood = command_flood(command).unwrap();
    prepare_flood(dir, &flood, 1, &mut |_| {}, &AtomicBool::new(false)).unwrap()
}

/// The processes that the command wrote down.
fn groups(dir: &Path) -> Vec<i32> {
    match std::fs::read_to_string(dir.join("groups")) {
        Ok(text) => text.lines().map(|line| line.trim().parse().unwrap()).collect(),
        Err(_) => Vec::new(),
    }
}

fn a_flood_command_counts_what_it_wrote_and_a_victim_also_what_it_read() {
    let work = "dd if=/dev/zero of=out bs=64k count=100 2>/dev/null; touch done; sleep 1000";
    let wrote = 100 * 65536;
    let dir = tempfile::tempdir().unwrap();
    let mut running = command(dir.path(), work).start(1, proc_root()).unwrap();
    wait_for("dd", || dir.path().join("done").exists());
    let flooded = running.sample();
    assert_eq!(running.finish().failure, None);
    assert!((wrote..wrote + 65536).contains(&flooded.bytes), "{}", flooded.bytes);
    assert!(
        (200..1000).contains(&flooded.ops),
        "100 reads and 100 writes and a little: {}",
        flooded.ops
    );

    let dir = tempfile::tempdir().unwrap();
    let victim = command_victim(work).unwrap();
    let victim =
        prepare_victim(dir.path(), &victim, 1, &mut |_| {}, &AtomicBool::new(false)).unwrap();
    let mut running = victim.start(1, proc_root()).unwrap();
    wait_for("dd", || dir.path().join("done").exists());
    let served = running.sample();
    let finished = running.finish();
    assert!((2 * wrote..2 * wrote + 131_072).contains(&served.bytes), "{}", served.bytes);
    assert_eq!((finished.cpu_us, finished.command_runs), (None, Some(0)));
}

fn a_command_that_ends_is_started_again_and_keeps_its_counts() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = command(dir.path(), "echo x >> runs; head -c 100000 /dev/zero > out")
        .start(1, proc_root())
        .unwrap();
    let mut bytes = 0;
    let runs =
        || std::fs::read_to_string(dir.path().join("runs")).map_or(0, |t| t.lines().count() as u64);
    wait_for("three runs", || {
        bytes += running.sample().bytes;
        runs() >= 4
    });
    let finished = running.finish();
    bytes += finished.last.bytes;
    let completed = finished.command_runs.unwrap();
    assert_eq!(finished.failure, None);
    assert!((3..=runs()).contains(&completed), "{completed} of {}", runs());
    assert!(bytes >= completed * 100_000, "{bytes} in {completed} runs");
    assert!(bytes <= runs() * 110_000, "{bytes} in {} runs", runs());
}

fn a_failing_command_is_named_with_its_last_words() {
    for (text, parts) in [
        (
            "echo starting; echo no such database >&2; exit 3",
            ["exited with status 3", "no such database"],
        ),
        ("floodwall-no-such-command", ["status 127 (not found)", "floodwall-no-such-command"]),
        ("echo to stdout; kill -9 $$", ["was killed by signal 9", "to stdout"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let running = command(dir.path(), text).start(1, proc_root()).unwrap();
        wait_for("the failure", || running.failure().is_some());
        let message = running.finish().failure.unwrap().to_string();
        for part in parts {
            assert!(message.contains(part), "{message}");
        }
    }
}

fn nothing_of_the_group_survives() {
    for text in [
        // Children and grandchildren.
        "echo $$ >> groups; sleep 1000 & (sleep 1000; true) & wait",
        // The shell leaves at once and its children stay, again and again.
        "echo $$ >> groups; sleep 1000 & exit 0",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let running = command(dir.path(), text).start(1, proc_root()).unwrap();
        wait_for("the group", || !groups(dir.path()).is_empty());
        assert_eq!(running.finish().failure, None);
        for group in groups(dir.path()) {
            assert_eq!(alive_in_group(group), [0; 0], "{text}");
        }
    }
}

fn what_ignores_sigterm_gets_sigkill() {
    let dir = tempfile::tempdir().unwrap();
    let text = "trap '' TERM; echo $$ > groups; sleep 1000 & while :; do sleep 0.1; done";
    let running = command(dir.path(), text).start(1, proc_root()).unwrap();
    wait_for("the group", || !groups(dir.path()).is_empty());
    // Dropped, not finished: that has to end it too.
    drop(running);
    assert_eq!(alive_in_group(groups(dir.path())[0]), [0; 0]);
}

fn a_command_dies_with_floodwall() {
    let dir = tempfile::tempdir().unwrap();
    let text = "echo $$ > groups; (sleep 1000; true) & wait";
    let mut child = crate::child::spawn("command", dir.path(), text);
    wait_for("the group", || !groups(dir.path()).is_empty());
    let group = groups(dir.path())[0];
    assert!(!alive_in_group(group).is_empty());
    // SIGKILL: no handler, no destructor.
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("the group to end", || alive_in_group(group).is_empty());
}

fn a_kernel_without_accounting_is_an_error_and_not_a_zero() {
    let (dir, empty) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let error = command(dir.path(), "true").start(1, empty.path()).map(|_| ()).unwrap_err();
    assert!(matches!(error, LoadError::NoAccounting { .. }), "{error}");
}

fn stopping_at_once_is_no_failure() {
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let running = command(dir.path(), "sleep 1000").start(1, proc_root()).unwrap();
        let finished = running.finish();
        assert_eq!((finished.failure, finished.command_runs), (None, Some(0)));
    }
    std::thread::sleep(Duration::ZERO);
}
