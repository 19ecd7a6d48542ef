//! Changing settings on the real kernel: the queue of a loop device that the test makes itself,
//! killed with SIGKILL at every write.
//!
//! The binary is also what is killed: behind `knobs-child` it applies or rolls back, and stops
//! before each write until it is told to go on. Only the loop device's own knobs are ever written.
//! Needs root; without it those tests are reported as ignored, with the reason.
//!
//! `kill-points [N]` alone runs N random plans on a captured tree (10,000 by default) and all kills
//! on the real kernel. It prints the figures:
//! `cargo test --release -p floodwall-knobs --test kernel -- kill-points`.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test binary, which clippy does not know without the harness"
)]

mod changes;
mod child;
mod disk;
mod gate;
mod kill;
mod plans;
mod priorities;
mod steer;

use std::io::Write;

use floodwall_testing::{LOOP, ROOT, lacks, run_alone, test};

/// The first argument of the process that is killed.
pub(crate) const CHILD: &str = "knobs-child";

/// The argument that asks for the figures.
const FIGURES: &str = "kill-points";
/// Random plans for the figures, and in an ordinary run: the tests of the crate run 10,000 more on
/// a kernel in memory.
const PLANS: u32 = 10_000;
const SOME_PLANS: u32 = 500;

type Body = fn() -> Result<(), String>;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, first, rest @ ..] = arguments.as_slice()
        && first == CHILD
    {
        let outcome = child::run(rest);
        if let Err(why) = &outcome {
            let _ = writeln!(std::io::stderr().lock(), "{why}");
        }
        std::process::exit(i32::from(outcome.is_err()));
    }
    if let [_, first, rest @ ..] = arguments.as_slice()
        && first == FIGURES
    {
        let plans = rest.first().map_or(Some(PLANS), |text| text.parse().ok());
        std::process::exit(i32::from(!figures(plans.unwrap_or(PLANS))));
    }
    let tests = [kill::TESTS, changes::TESTS, steer::TESTS].concat().into_iter();
    let tests = tests.map(|(name, body): (&str, Body)| test(name, missing, body));
    let lacks_priorities = || missing().or_else(priorities::missing);
    let priorities =
        priorities::TESTS.iter().map(|(name, body)| test(*name, lacks_priorities, *body));
    let on_tree = || plans::run(SOME_PLANS).map(drop);
    let tree = test("killed_at_any_write_of_random_plans_on_a_captured_tree", || None, on_tree);
    // One loop device at a time.
    run_alone(tests.chain(priorities).chain([tree]).collect())
}

/// Prints how many kills were survived. Says whether all of them were.
fn figures(plans: u32) -> bool {
    let tree = plans::run(plans);
    let kernel = match missing() {
        Some(why) => Err(format!("left out: {why}")),
        None => kill::TESTS.iter().try_for_each(|(_, body)| body()).map(|()| kill::survived()),
    };
    let line = match (&tree, &kernel) {
        (Ok(tree), Ok(kills)) => format!(
            "kill points: {} random plans (captured tree, {} kills), {kills} real-kernel kills, \
             all restored",
            tree.plans, tree.kills
        ),
        (Ok(tree), Err(why)) => format!(
            "kill points: {} random plans (captured tree, {} kills), all restored; real-kernel \
             kills: {why}",
            tree.plans, tree.kills
        ),
        (Err(why), _) => format!("kill points: NOT restored: {why}"),
    };
    let _ = writeln!(std::io::stdout().lock(), "{line}");
    let left_out = missing().is_some();
    tree.is_ok() && (left_out || kernel.is_ok_and(|kills| kills >= kill::LEAST))
}

/// The missing requirements of this machine.
fn missing() -> Option<String> {
    lacks(&[ROOT, LOOP, "losetup"])
}
