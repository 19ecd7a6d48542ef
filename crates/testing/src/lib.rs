//! Shared parts of tests: checks, programs, disks, and copies of captured machines. A test whose
//! need of the machine is not met is ignored with the reason.
//!
//! libtest can't ignore a test at run time. A suite whose tests need something therefore has
//! `harness = false`, and a `main` that hands its tests to [`run`] or one of its variants.
//!
//! ```text
//! lacks ─┬─ nothing ─▶ body ─▶ ok | FAILED
//!        └─ a reason ────────▶ ignored (reason)
//! ```

mod check;
pub mod disk;
pub mod process;
pub mod tree;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use libtest_mimic::{Arguments, Completion, Conclusion, Failed};

pub use check::{Message, ensure, equal, said, until};
pub use libtest_mimic::Trial;

/// Among a test's needs: to run as root.
pub const ROOT: &str = "root";
/// Among a test's needs: FUSE.
pub const FUSE: &str = "/dev/fuse";
/// Among a test's needs: loop devices.
pub const LOOP: &str = "/dev/loop-control";

/// Among a test's needs: [`image`].
pub const IMAGE: &str = "a kernel's image";

/// The kernel's image that `make install-test` unpacks for tests (scripts/kernel-image).
#[must_use]
pub fn image() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/kernel/vmlinuz")
}

/// Why a test can't run here: the first of its needs that this machine lacks. A need is [`ROOT`],
/// [`IMAGE`], an absolute path that exists, or else the name of a program.
#[must_use]
pub fn lacks(needs: &[&str]) -> Option<String> {
    let is_here = |need: &str| match need {
        ROOT => rustix::process::geteuid().is_root(),
        IMAGE => image().exists(),
        path if path.starts_with('/') => Path::new(path).exists(),
        program => {
            process::PROGRAMS.iter().any(|directory| Path::new(directory).join(program).exists())
        }
    };
    needs.iter().find(|need| !is_here(need)).map(|need| format!("needs {need}"))
}

/// Why user-mode Linux can't run here although it is installed; `None` if it can. `floodwall` is
/// the program that boots it, once in each process.
#[must_use]
pub fn lacks_user_mode_kernel(floodwall: &str) -> Option<String> {
    static WHY: OnceLock<Option<String>> = OnceLock::new();
    let boot = || {
        let words =
            ["lab", "run", "null", "--size", "64MiB", "--raw", "--kernel", "uml", "--", "true"];
        let output = process::output(Command::new(floodwall).args(words)).ok()?;
        let said = process::text(&output.stderr);
        let last = said.lines().last().unwrap_or_default().to_owned();
        // 4: a requirement is missing. Tests report all other failures.
        (output.status.code() == Some(4)).then_some(last)
    };
    WHY.get_or_init(boot).clone()
}

/// The result of a test's body: nothing, if it panics to fail, or why it failed.
pub trait Outcome {
    /// The failure, if it is one.
    ///
    /// # Errors
    /// Why the test failed.
    fn into_result(self) -> Result<(), String>;
}

impl Outcome for () {
    fn into_result(self) -> Result<(), String> {
        Ok(())
    }
}

impl Outcome for Result<(), String> {
    fn into_result(self) -> Result<(), String> {
        self
    }
}

/// A test. When its turn comes, `lacks` names a requirement that the machine lacks. The test is
/// then ignored and the reason is printed.
pub fn test<R: Outcome>(
    name: impl Into<String>,
    lacks: impl FnOnce() -> Option<String> + Send + 'static,
    body: impl FnOnce() -> R + Send + 'static,
) -> Trial {
    Trial::ignorable_test(name, move || match lacks() {
        Some(why) => Ok(Completion::ignored_with(why)),
        None => body().into_result().map(|()| Completion::Completed).map_err(Failed::from),
    })
}

/// Tests of functions, each called by its path: `tests![commits, reads]`. Where a requirement may
/// be missing: `tests![is_missing => commits, reads]` with a function that names it.
#[macro_export]
macro_rules! tests {
    ($lacks:expr => $($function:ident),+ $(,)?) => {
        vec![$($crate::test(
            $crate::path(module_path!(), stringify!($function)), $lacks, $function
        )),+]
    };
    ($($function:ident),+ $(,)?) => { $crate::tests![|| None => $($function),+] };
}

/// A function's path without its crate, which is the suite's: `it::floods` and `copies` are
/// `floods::copies`.
#[must_use]
pub fn path(module: &str, function: &str) -> String {
    match module.split_once("::") {
        Some((_, module)) => format!("{module}::{function}"),
        None => function.to_owned(),
    }
}

/// Runs tests as the command line says, and ends the process: with status 0 if none failed.
pub fn run(tests: Vec<Trial>) -> ! {
    libtest_mimic::run(&Arguments::from_args(), tests).exit()
}

/// The same, one test at a time: for tests that measure, or that count things of the whole machine.
pub fn run_alone(tests: Vec<Trial>) -> ! {
    alone(tests).exit()
}

/// The same for tests that mostly wait: two at a time for each processor, and four at most.
pub fn run_together(tests: Vec<Trial>) -> ! {
    together(tests).exit()
}

/// The same with the first tests, and with the others one at a time after them.
pub fn run_after(first: Vec<Trial>, others: Vec<Trial>) -> ! {
    let before = together(first);
    let after = alone(others);
    before.exit_if_failed();
    after.exit()
}

fn alone(tests: Vec<Trial>) -> Conclusion {
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, tests)
}

/// How many tests [`together`] runs at a time: each may have a guest with 2 GiB of memory.
const MOST: usize = 4;

fn together(tests: Vec<Trial>) -> Conclusion {
    let arguments = Arguments::from_args();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let test_threads = arguments.test_threads.or(Some((2 * processors).min(MOST)));
    libtest_mimic::run(&Arguments { test_threads, ..arguments }, tests)
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn the_first_need_that_is_missing_is_named() {
        assert_eq!(lacks(&[]), None);
        assert_eq!(lacks(&["sh", "/dev/null"]), None);
        let needs = ["sh", "floodwall-no-such-program", "/dev/null/no-such-device"];
        assert_eq!(lacks(&needs).unwrap(), "needs floodwall-no-such-program");
        assert_eq!(lacks(&needs[2..]).unwrap(), "needs /dev/null/no-such-device");
        assert_eq!(lacks(&[ROOT]).is_none(), rustix::process::geteuid().is_root());
    }

    #[test]
    fn a_test_is_called_by_its_path_in_the_suite() {
        assert_eq!(path("it::floods", "copies"), "floods::copies");
        assert_eq!(path("live", "disks"), "disks");
    }
}
