//! Changing settings on the real kernel: the queue of a loop device that the test makes itself, killed with SIGKILL at every write.
//!
//! The binary is also what is killed: behind `knobs-child` it applies or rolls back, and stops before each write until it is told to go on.
//! Only the loop device's own knobs are ever written. Needs root; without it the tests are reported as ignored, with the reason.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test binary, which clippy does not know without the harness"
)]

mod changes;
mod child;
mod disk;
mod kill;

use libtest_mimic::{Arguments, Failed, Trial};

/// The first argument of the process that is killed.
pub(crate) const CHILD: &str = "knobs-child";

type Body = fn() -> Result<(), String>;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, first, rest @ ..] = arguments.as_slice()
        && first == CHILD
    {
        std::process::exit(i32::from(child::run(rest).is_err()));
    }
    let mut arguments = Arguments::from_args();
    // One loop device at a time.
    arguments.test_threads = Some(1);
    let missing = missing();
    let tests = [kill::TESTS, changes::TESTS].concat().into_iter().map(|(name, body): (&str, Body)| {
        let name = match &missing {
            None => name.to_owned(),
            Some(why) => format!("{name} (left out: {why})"),
        };
        Trial::test(name, move || body().map_err(Failed::from)).with_ignored_flag(missing.is_some())
    });
    libtest_mimic::run(&arguments, tests.collect()).exit();
}

/// What this machine lacks.
fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root".to_owned());
    }
    if !std::path::Path::new("/dev/loop-control").exists() {
        return Some("needs loop devices".to_owned());
    }
    let losetup = std::process::Command::new("losetup").arg("--version").output();
    losetup.is_err().then(|| "needs losetup".to_owned())
}
