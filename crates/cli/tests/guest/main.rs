//! `floodwall lab run --kernel` boots another kernel, for root and for an ordinary user. Needs
//! linux.uml with its modules, or QEMU and an image; a test that lacks something is ignored with
//! the reason.

mod bed;
mod commands;
mod ends;
mod groups;
mod images;
mod pace;
mod place;
mod streams;
mod units;

use floodwall_guest::{Uml, memory};
use floodwall_testing::{lacks, lacks_user_mode_kernel};
use landlock::{AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};

use crate::bed::{RAM, Who};

fn main() {
    let all = [
        streams::TESTS,
        ends::TESTS,
        place::TESTS,
        groups::TESTS,
        commands::TESTS,
        units::TESTS,
        images::TESTS,
        pace::TESTS,
    ]
    .concat();
    let mut tests = Vec::new();
    for test in all {
        for who in [Who::Caller, Who::Ordinary] {
            if who == Who::Ordinary && test.who == Once::Caller {
                continue;
            }
            let name = format!("{}, {}", test.name, who.words());
            let body = test.body;
            tests.push(floodwall_testing::test(
                name,
                move || missing(who, test.needs),
                move || body(who),
            ));
        }
    }
    floodwall_testing::run_together(tests)
}

/// Among what a test needs: a kernel that keeps processes from files.
pub(crate) const LANDLOCK: &str = "Landlock";

/// Among what a test needs: virtual machines at the processor's own speed.
pub(crate) const KVM: &str = "KVM";

/// Among what a test needs: any kernel that a guest can have here. An image is only used where
/// user-mode Linux can't run, since it boots slowly.
pub(crate) const ANY_KERNEL: &str = "a kernel";

/// What an image needs.
const OF_IMAGE: &[&str] = &["qemu-system-x86_64", "ldd", floodwall_testing::IMAGE];

/// Why user-mode Linux can't run here.
pub(crate) fn lacks_uml() -> Option<String> {
    let kernel = || match Uml::find(std::env::var_os("PATH").as_deref(), None) {
        Ok(Uml { modules: Some(_), .. }) => None,
        Ok(Uml { kernel, .. }) => Some(format!("needs the modules of {}", kernel.display())),
        Err(e) => Some(e.to_string()),
    };
    lacks(&["linux.uml"])
        .or_else(kernel)
        .or_else(|| lacks_user_mode_kernel(env!("CARGO_BIN_EXE_floodwall")))
}

/// Whether this kernel has Landlock. Nothing is restricted.
fn has_landlock() -> bool {
    let set = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    set.handle_access(AccessFs::WriteFile).and_then(Ruleset::create).is_ok()
}

/// Whether a test has another outcome for an ordinary user than for root.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Once {
    /// It may: it runs as both.
    Both,
    /// It has not: it runs as the caller.
    Caller,
}

/// A test and what it needs besides a kernel.
#[derive(Clone, Copy)]
pub(crate) struct Test {
    name: &'static str,
    who: Once,
    needs: &'static [&'static str],
    body: fn(Who) -> Result<(), String>,
}

/// Why a test can't run here.
fn missing(who: Who, needs: &[&str]) -> Option<String> {
    let room =
        || memory::choose(&["/dev/shm".into()], Some(RAM), None).err().map(|e| e.to_string());
    let landlock =
        || (needs.contains(&LANDLOCK) && !has_landlock()).then(|| "needs Landlock".to_owned());
    let is_other = |need: &&str| ![LANDLOCK, KVM, ANY_KERNEL].contains(need);
    let others: Vec<&str> = needs.iter().copied().filter(is_other).collect();
    if needs.contains(&floodwall_testing::IMAGE) {
        return lacks(&others)
            .or_else(|| images::is_hidden(who))
            .or_else(room)
            .or_else(|| lacks(who.needs()))
            .or_else(|| needs.contains(&KVM).then(images::lacks_kvm).flatten());
    }
    lacks_uml()
        .filter(|_| !needs.contains(&ANY_KERNEL) || lacks(OF_IMAGE).is_some())
        .or_else(room)
        .or_else(|| lacks(who.needs()))
        .or_else(landlock)
        .or_else(|| lacks(&others))
}
