//! `--user NAME`: the commands of `bench` and `lab run` as another user, and everything of them
//! gone afterwards.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Command, Output};

use floodwall_testing::ensure;
use floodwall_testing::process::{output, text, told};

use crate::{FLOODWALL, FUSE, Test};

/// A user that every machine has.
const NOBODY: &str = "nobody";

pub(crate) const TESTS: &[Test] = &[
    Test { name: "bench --user runs commands as that user", needs: &["id", "stat"], body: bench },
    Test {
        name: "lab run --user runs its command as that user",
        needs: &[FUSE, "mkfs.ext4", "id", "stat"],
        body: lab,
    },
    Test {
        name: "--user takes root and a user that there is",
        needs: &["setpriv"],
        body: refusals,
    },
];

fn floodwall(program: &[&str], args: &[&str]) -> Result<Output, String> {
    let all = [program, &[FLOODWALL], args].concat();
    output(Command::new(all[0]).args(&all[1..]))
}

fn bench() -> Result<(), String> {
    let fail = |e: std::io::Error| e.to_string();
    let (dir, heard) = (tempfile::tempdir().map_err(fail)?, tempfile::tempdir().map_err(fail)?);
    // The directory of a third user.
    chown(dir.path(), Some(54_321), Some(54_321)).map_err(fail)?;
    fs::set_permissions(heard.path(), fs::Permissions::from_mode(0o777)).map_err(fail)?;
    let who = heard.path().join("who");
    let command = format!(
        "id -un >> {0}; touch mine; stat -c %U mine >> {0}; \
         while dd if=/dev/zero of=file bs=4k count=1 conv=fsync 2>/dev/null; do :; done",
        who.display()
    );
    let place = dir.path().display().to_string();
    let args =
        ["bench", "--force", "--rounds", "1", "--measure", "1s", "--no-burst", "--flood", "none"];
    let output = floodwall(
        &[],
        &[&args[..], &["--victim-cmd", &command, "--user", NOBODY, &place]].concat(),
    )?;
    ensure(matches!(output.status.code(), Some(0 | 3)), || told(&output))?;
    let told = fs::read_to_string(&who).map_err(fail)?;
    if told.is_empty() || told.lines().any(|line| line != NOBODY) {
        return Err(format!("ran as {told:?}"));
    }
    match fs::read_dir(dir.path()).map_err(fail)?.count() {
        0 => Ok(()),
        left => Err(format!("{left} files are left")),
    }
}

fn lab() -> Result<(), String> {
    let script = "id -un; stat -c %U .; touch mine && stat -c %U mine";
    let args =
        ["lab", "run", "null", "--size", "64MiB", "--user", NOBODY, "--", "sh", "-c", script];
    let output = floodwall(&[], &args)?;
    let printed = text(&output.stdout);
    let is_all = output.status.success() && printed == format!("{NOBODY}\n").repeat(3);
    ensure(is_all, || format!("{printed:?} {}", told(&output)))
}

fn refusals() -> Result<(), String> {
    let as_nobody = ["setpriv", "--reuid", "65534", "--clear-groups"];
    let bench = |user| ["bench", "--victim-cmd", "true", "--flood", "none", "--user", user, "."];
    let cases: [(&[&str], _, _, _); 4] = [
        (&[], bench("floodwall-no-such-user"), Some(2), "unknown user 'floodwall-no-such-user'"),
        (
            &as_nobody,
            ["lab", "run", "null", "--size", "64MiB", "--", "true", ""],
            Some(4),
            "or without root in a kernel of its own (--kernel uml)",
        ),
        (&as_nobody, bench("root"), Some(4), "only root can run commands as user 'root'"),
        (
            &[],
            ["lab", "run", "null", "--user", "floodwall-no-such-user", "--", "true", ""],
            Some(2),
            "unknown user",
        ),
    ];
    for (program, args, status, part) in cases {
        let output = floodwall(program, &args)?;
        let is_told = told(&output).contains(part);
        ensure(output.status.code() == status && is_told, || told(&output))?;
    }
    Ok(())
}
