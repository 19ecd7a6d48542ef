//! `floodwall bench` on real filesystems over loop devices, and settings changed and kept on one. Needs root; what a machine lacks is reported as ignored, with the reason.

mod bench;
mod disk;
mod knobs;
mod lab;
mod persist;
mod probe;
mod size;
mod sweep;
mod tune;
mod victim_cmd;

use std::path::Path;

use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let mut arguments = Arguments::from_args();
    // Benchmarks beside each other would measure each other, and the page cache is everybody's.
    arguments.test_threads = Some(1);
    let tests = bench::TESTS
        .iter()
        .chain(knobs::TESTS)
        .chain(size::TESTS)
        .chain(persist::TESTS)
        .chain(lab::TESTS)
        .chain(sweep::TESTS)
        .chain(tune::TESTS)
        .chain(probe::TESTS)
        .chain(victim_cmd::TESTS)
        .map(|test| {
            let missing = missing(test.needs);
            let name = match &missing {
                None => test.name.to_owned(),
                Some(why) => format!("{} (left out: {why})", test.name),
            };
            let body = test.body;
            Trial::test(name, move || body().map_err(Failed::from)).with_ignored_flag(missing.is_some())
        });
    libtest_mimic::run(&arguments, tests.collect()).exit();
}

/// Among what a test needs: FUSE, which labs stand on.
pub(crate) const FUSE: &str = "FUSE";
/// Among what a test needs: a udev that runs, and no settings of this machine's own that are kept across boots.
pub(crate) const UDEV: &str = "udev";

/// A test and the programs that it needs besides root and loop devices.
pub(crate) struct Test {
    name: &'static str,
    needs: &'static [&'static str],
    body: fn() -> Result<(), String>,
}

/// Why a test can't run here.
fn missing(programs: &[&str]) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root".into());
    }
    if !Path::new("/dev/loop-control").exists() {
        return Some("needs loop devices".into());
    }
    let directories = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    if programs.contains(&FUSE) && !Path::new("/dev/fuse").exists() {
        return Some("needs /dev/fuse".into());
    }
    if programs.contains(&UDEV)
        && let Some(why) = persist::missing()
    {
        return Some(why);
    }
    programs
        .iter()
        .filter(|p| !matches!(**p, FUSE | UDEV))
        .find(|p| !directories.iter().any(|d| Path::new(d).join(p).exists()))
        .map(|p| format!("needs {p}"))
}
