//! Why changes can't become a plan.

use crate::catalogue::files::CGROUPS;
use crate::catalogue::systemd;
use crate::catalogue::target::TargetError;

/// Changes can't become a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Two changes of one cell.
    #[error("{}", twice(first, second))]
    SameCell {
        /// The one.
        first: String,
        /// The other.
        second: String,
    },
    /// The kernel or the device does not have it.
    #[error("{label} is not there: {why}{}", it_needs(needs))]
    NotThere {
        /// The knob.
        label: String,
        /// The missing thing.
        why: String,
        /// The requirement.
        needs: &'static str,
    },
    /// There is no such control group.
    #[error("{label}: there is no control group {CGROUPS}/{group}; {}", instead_of(group))]
    NoGroup {
        /// The knob.
        label: String,
        /// The group's path below the mount.
        group: String,
    },
    /// There is no such control group, and none of version 2.
    #[error("{label}: {why}")]
    NoVersion2 {
        /// The knob.
        label: String,
        /// Why, and what to do.
        why: TargetError,
    },
    /// It may be there but can't be read, so it could not be put back.
    #[error("{label} can't be read, so it could not be put back ({why})")]
    Unreadable {
        /// The knob.
        label: String,
        /// Why.
        why: String,
    },
    /// The tunable of another elevator.
    #[error(
        "{label} belongs to {elevators}, and {device} runs {current}; add \
         {device}.scheduler={first}"
    )]
    WrongElevator {
        /// The knob.
        label: String,
        /// The elevators that have it.
        elevators: String,
        /// One of them.
        first: &'static str,
        /// The device.
        device: String,
        /// What runs, or is to run.
        current: String,
    },
    /// Not an elevator of this kernel.
    #[error("{device} has no scheduler '{name}'; it has {available}")]
    UnknownElevator {
        /// The device.
        device: String,
        /// The wanted elevator.
        name: String,
        /// The elevators that the file lists.
        available: String,
    },
    /// Limits under which a userspace block server and the machine can wait for each other.
    #[error("{label} is refused: {why}")]
    WouldHang {
        /// The knob.
        label: String,
        /// Which server, why, and what to do instead.
        why: String,
    },
    /// Something that would do harm.
    #[error("{label} is refused: {why}")]
    Refused {
        /// The knob.
        label: String,
        /// Why, and what to do instead.
        why: String,
    },
}

fn twice(first: &str, second: &str) -> String {
    if first == second {
        format!("{first} is given twice: give it once")
    } else {
        format!("{first} and {second} are two names of one limit: give one of them")
    }
}

fn it_needs(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("; it needs {text}") }
}

/// What to name instead of a group that is not there.
fn instead_of(group: &str) -> String {
    // A unit's group is hardly ever at the top.
    match systemd::section(group) {
        Some(_) => format!("write unit:{group} for the unit's, wherever it is"),
        None => "systemd-cgls shows those that there are, mkdir makes one".to_owned(),
    }
}
