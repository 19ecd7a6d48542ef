//! Copies and commands on real directories, judged by the kernel's counters and the files.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test's own functions fail with it")]

mod command;
mod copy;

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|first| first == command::PACED) {
        return command::paced_process();
    }
    let tests = [command::tests(), copy::tests()];
    floodwall_testing::run(tests.into_iter().flatten().collect())
}
