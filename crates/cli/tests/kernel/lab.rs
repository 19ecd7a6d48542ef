//! What `floodwall lab up` says on a machine that lacks something. A private mount namespace hides
//! it; the machine itself is untouched.

use std::process::Command;

use crate::Test;

pub(crate) const TESTS: &[Test] = &[
    Test { name: "lab up without mkfs names the package", needs: &["unshare"], body: no_mkfs },
    Test {
        name: "lab up without a free loop device",
        needs: &["unshare", "mkfs.xfs"],
        body: no_loop_device,
    },
    Test { name: "lab up without FUSE", needs: &["unshare", "mkfs.xfs"], body: no_fuse },
];

/// The stderr and exit status of `lab up`, in a mount namespace in which the shell command `hide`
/// ran first.
fn up_where(hide: &str) -> Result<(String, Option<i32>), String> {
    let state = tempfile::tempdir().map_err(|e| e.to_string())?;
    let script = format!(
        "{hide} && exec '{}' lab up null --size 400MiB --memory 500MiB --fs xfs --name \
         hidden-parts",
        env!("CARGO_BIN_EXE_floodwall")
    );
    let output = Command::new("unshare")
        .args(["--mount", "/bin/sh", "-c", &script])
        .current_dir(state.path())
        .output()
        .map_err(|e| e.to_string())?;
    Ok((String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code()))
}

fn expect(hide: &str, status: i32, words: &[&str]) -> Result<(), String> {
    let (said, code) = up_where(hide)?;
    match words.iter().find(|w| !said.contains(**w)) {
        Some(word) => Err(format!("'{word}' is not in: {said}")),
        None if code != Some(status) => {
            Err(format!("ended with {code:?} instead of {status}: {said}"))
        }
        None => Ok(()),
    }
}

fn no_mkfs() -> Result<(), String> {
    // The targets of all sbin links, and the directories themselves.
    expect(
        "for d in /usr/local/sbin /usr/local/bin /usr/sbin /sbin; do mount -t tmpfs none \
         \"$(readlink -f $d)\" || exit 9; done",
        4,
        &["mkfs.xfs is missing; install xfsprogs"],
    )
}

fn no_loop_device() -> Result<(), String> {
    expect(
        "mount --bind /dev/null /dev/loop-control",
        4,
        &["no loop device is free", "losetup --list"],
    )
}

fn no_fuse() -> Result<(), String> {
    expect("mount -t tmpfs none /dev", 4, &["needs FUSE", "/dev/fuse is missing", "floodwall sim"])
}
