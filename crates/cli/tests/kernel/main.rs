//! `floodwall bench` on real filesystems over loop devices, and settings changed and kept on one.
//! Needs root; a test that lacks something is ignored with the reason.
//!
//! The binary is also the userspace block server of one test, behind a special argument.

mod bench;
mod check;
mod knobs;
mod lab;
mod pace;
mod persist;
mod probe;
mod server;
mod size;
mod tune;
mod users;
mod victim_cmd;

use floodwall_testing::{LOOP, ROOT, lacks, run_alone};

fn main() {
    let words: Vec<String> = std::env::args().collect();
    if let [_, first, mountpoint, file] = words.as_slice()
        && first == server::CHILD
    {
        std::process::exit(i32::from(server::serve(mountpoint.as_ref(), file.as_ref()).is_err()));
    }
    let tests = bench::TESTS
        .iter()
        .chain(check::TESTS)
        .chain(knobs::TESTS)
        .chain(size::TESTS)
        .chain(persist::TESTS)
        .chain(lab::TESTS)
        .chain(pace::TESTS)
        .chain(tune::TESTS)
        .chain(probe::TESTS)
        .chain(server::TESTS)
        .chain(victim_cmd::TESTS)
        .chain(users::TESTS)
        .map(|test| floodwall_testing::test(test.name, || missing(test.needs), test.body));
    // Benchmarks beside each other would measure each other, and they share the page cache.
    run_alone(tests.collect())
}

pub(crate) const FLOODWALL: &str = env!("CARGO_BIN_EXE_floodwall");
/// Among what a test needs: FUSE, which labs stand on.
pub(crate) const FUSE: &str = floodwall_testing::FUSE;
/// Among what a test needs: a udev that runs, and no settings of this machine's own that are kept
/// across boots.
pub(crate) const UDEV: &str = "udev";
/// Among what a test needs: so much memory for files.
pub(crate) const SHM_GIB: &str = "1 GiB in /dev/shm";

/// A test and what it needs besides root and loop devices.
pub(crate) struct Test {
    name: &'static str,
    needs: &'static [&'static str],
    body: fn() -> Result<(), String>,
}

/// Why a test can't run here.
fn missing(needs: &[&str]) -> Option<String> {
    let others: Vec<&str> =
        needs.iter().copied().filter(|need| ![UDEV, SHM_GIB].contains(need)).collect();
    lacks(&[ROOT, LOOP])
        .or_else(|| lacks(&others))
        .or_else(|| needs.contains(&UDEV).then(persist::missing).flatten())
        .or_else(|| needs.contains(&SHM_GIB).then(server::missing).flatten())
}
