//! A guest that runs a script.

use std::ffi::OsStr;
use std::process::{Command, Output, Stdio};

/// What every guest of this suite needs.
const GUEST: &str = "modprobe";
/// What a user-mode guest needs besides.
const UML: &str = "linux.uml";
/// The memory of a guest: contents of several lab devices, and page cache for a flood.
const RAM: &str = "2GiB";
/// The part of it for the device below the script's working directory: the scripts make further
/// devices.
const CONTENTS: &str = "64MiB";

/// Why a test can't run here.
pub(crate) fn lacks(needs: &[&str]) -> Option<String> {
    let user_mode = || {
        floodwall_testing::lacks(&[UML])
            .or_else(|| floodwall_testing::lacks_user_mode_kernel(env!("CARGO_BIN_EXE_floodwall")))
    };
    let is_image = needs.contains(&floodwall_testing::IMAGE);
    floodwall_testing::lacks(&[GUEST])
        .or_else(|| if is_image { None } else { user_mode() })
        .or_else(|| floodwall_testing::lacks(needs))
}

/// Runs a shell script as root in a guest, on a filesystem on a lab device that takes no time. The
/// script ends at the first command that fails, and finds `floodwall` in its PATH.
pub(crate) fn try_in_guest(script: &str) -> Output {
    run("uml".as_ref(), script)
}

/// As [`try_in_guest`], for a script that has to end well; what it printed.
pub(crate) fn in_guest(script: &str) -> String {
    printed(&try_in_guest(script))
}

/// As [`in_guest`], in a kernel with tracepoints. Its processor may be emulated: ten times slower.
pub(crate) fn in_image(script: &str) -> String {
    printed(&run(floodwall_testing::image().as_ref(), script))
}

fn run(kernel: &OsStr, script: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_floodwall"))
        .args(["lab", "run", "null", "--memory", CONTENTS, "--ram", RAM, "--kernel"])
        .arg(kernel)
        .args(["--", "sh", "-euc", script])
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn printed(output: &Output) -> String {
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success(), "{}\nstdout:\n{stdout}\nstderr:\n{stderr}", output.status);
    stdout.into_owned()
}

/// What a script printed between `=== NAME` and the next such line.
pub(crate) fn part<'a>(said: &'a str, name: &str) -> &'a str {
    let begins = format!("=== {name}\n");
    let (_, rest) =
        said.split_once(&begins).unwrap_or_else(|| panic!("no part '{name}' in:\n{said}"));
    rest.split("=== ").next().unwrap_or(rest)
}
