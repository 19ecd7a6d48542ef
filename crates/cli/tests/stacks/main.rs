//! What only a guest has ('lab run --kernel uml'): device stacks, network filesystems and power
//! cuts on a real kernel.
//!
//! ```text
//! test ─▶ bed::Guest ─▶ floodwall lab run --kernel uml -- sh -eu -c SCRIPT
//!                    ─▶ what the script printed
//! ```
//!
//! No test needs root: the script is root in its guest. What the machine lacks (the user-mode
//! kernel, a tool) is reported as ignored, with the reason.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a test binary, which clippy does not know without the harness"
)]

mod bed;
mod ground;
mod nfs;
mod powercut;
mod raid;

use floodwall_testing::run_together;

/// A test and the programs that its guest needs.
pub(crate) struct Test {
    name: &'static str,
    needs: &'static [&'static str],
    body: fn(),
}

fn main() {
    let tests = [ground::TESTS, raid::TESTS, nfs::TESTS, powercut::TESTS].into_iter().flatten();
    run_together(
        tests
            .map(|test| floodwall_testing::test(test.name, || bed::lacks(test.needs), test.body))
            .collect(),
    )
}
