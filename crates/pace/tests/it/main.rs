//! Copies and commands on real directories, judged by the kernel's counters and the files.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test's own functions fail with it")]

mod command;
mod copy;

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(command::PACED) => return command::paced_process(false),
        Some(command::PACED_STRICTLY) => return command::paced_process(true),
        Some(command::KEEPER) => return command::keeper_process(),
        Some(command::WRITER) => return command::writer_process(),
        Some(copy::groups::FEW_FILES) => {
            let dir = std::env::args_os().nth(2).unwrap_or_default();
            return copy::groups::process(dir.as_ref());
        }
        _ => {}
    }
    let tests = [command::tests(), copy::tests()];
    floodwall_testing::run(tests.into_iter().flatten().collect())
}
