//! Other managers of the same knobs: the lines of their configuration files that set one.
//!
//! ```text
//! udev      rules that assign queue/, bdi/, or run a command with such a path ┐
//! sysctl    sysctl.d files, /etc/sysctl.conf                                  │ claims, in the
//! tmpfiles  `w` lines on /sys and /proc/sys                                   │ order in which
//! power     laptop-mode-tools, TLP                                            │ they are applied
//! tuned     the files of the active profile                                   ┘ at boot
//!    ↓
//! settle    of each knob and place the last certain claim wins
//!
//! floodwalls    another floodwall that changes settings now, or a guard that runs
//! ```
//!
//! Everything is read through [`SysRoot`], so it runs on a captured tree; no manager is started or
//! asked. A line whose effect depends on more than its files say is a claim that *may*
//! be applied ([`Standing::Uncertain`]). Sizes are in the unit of the knob's kernel file.

mod drop_ins;
mod floodwalls;
mod found;
mod glob;
mod power;
mod reach;
mod redact;
mod service;
mod sysctl;
mod tmpfiles;
mod tuned;
mod udev;

use std::collections::HashMap;

use floodwall_model::managers::{Claim, Kind, Managers, Standing, cell};

use self::found::Found;
use crate::root::SysRoot;

pub use floodwalls::{STEERS, floodwalls};
pub use reach::is_known;
pub(crate) use redact::redacted;

/// Finds what every manager but a second floodwall sets.
#[must_use]
pub fn read(root: &SysRoot) -> Managers {
    let mut found = Found::new(root);
    udev::read(&mut found);
    sysctl::read(&mut found);
    tmpfiles::read(&mut found);
    power::read(&mut found);
    tuned::read(&mut found);
    let mut managers = found.managers;
    settle(&mut managers.claims);
    managers
}

/// A certain claim is overridden if a later certain claim sets the same cell in the same place. An
/// uncertain claim is left out if the same manager has a later certain one. Another manager may
/// apply its own at any time.
fn settle(claims: &mut Vec<Claim>) {
    // The sources of the certain ones, the strongest first.
    let mut certain: HashMap<_, Vec<(Kind, String)>> = HashMap::new();
    claims.reverse();
    claims.retain_mut(|claim| {
        let spot = (cell(&claim.knob).to_owned(), claim.place.device());
        let stronger = certain.entry(spot).or_default();
        if matches!(claim.standing, Standing::Uncertain { .. }) {
            return stronger.iter().all(|(kind, _)| *kind != claim.by);
        }
        stronger.push((claim.by, claim.source()));
        if let [(_, by), _, ..] = stronger.as_slice() {
            claim.standing = Standing::Overridden { by: by.clone() };
        }
        true
    });
    claims.reverse();
}

#[cfg(test)]
mod tests;
