//! Control groups that a setting names: one for the victims, one for the floods, as a bench makes
//! them on a host (cgroup v2). `GROUP` is `victim` or `flood`.
//!
//! | knob | value | source |
//! |---|---|---|
//! | `GROUP:io.max` | `rbps wbps riops wiops`, 1 and more a second or `max` | `tg_set_limit` |
//! | `GROUP:memory.high` | 64 KiB and more, cut to whole pages, or `max` | `memory_high_write` |
//!
//! A machine has the two groups if its setting names one of these knobs, `max` included, and none
//! otherwise. Kernel 6.x alone: control groups that writeback belongs to came with 4.2.

use floodwall_model::Setting;
use floodwall_model::setting::{FLOOD, VICTIM};

use crate::error::SimError;
use crate::kernel::Generation;
use crate::limits::PAGE_SIZE;

/// All groups, in the order of their numbers; the root group is before them.
pub(crate) const NAMES: [&str; 2] = [VICTIM, FLOOD];
/// The knobs of each.
const IO_MAX: &str = "io.max";
const MEMORY_HIGH: &str = "memory.high";
/// Why a machine has no such group.
const NOT_MADE: &str =
    "this machine has no control groups; name one of their knobs in the setting that it boots with";
/// The least `memory.high`: a page on every architecture.
const LEAST_HIGH: u64 = 65_536;
/// The keys of `io.max` in the order in which the kernel prints them (`tg_prfill_limit`).
const KEYS: [&str; 4] = ["rbps", "wbps", "riops", "wiops"];

/// What a group may read and write a second: of each pair reads, then writes; `None`: `max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rates {
    /// Bytes, at least 1.
    pub(crate) bytes: [Option<u64>; 2],
    /// Bios, at least 1.
    pub(crate) operations: [Option<u32>; 2],
}

/// The limits of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupLimits {
    /// `io.max`.
    pub(crate) io: Rates,
    /// `memory.high` in pages; `None`: `max`.
    pub(crate) high_pages: Option<u64>,
}

/// The group and the knob of a name such as `flood:io.max`; `None` if it is no such name.
fn split(name: &str) -> Option<(&str, &str)> {
    let (group, knob) = name.split_once(':')?;
    (NAMES.contains(&group) && [IO_MAX, MEMORY_HIGH].contains(&knob)).then_some((group, knob))
}

/// The first knob of a group that a setting names.
pub(crate) fn first_knob(setting: &Setting) -> Option<&str> {
    setting.0.keys().map(String::as_str).find(|name| split(name).is_some())
}

/// Whether a knob is a group's, and the kernel has groups.
///
/// # Errors
/// The generation, if it has none.
pub(crate) fn is_known(name: &str, generation: Generation) -> Result<bool, Generation> {
    match split(name) {
        Some(_) if !generation.has_groups() => Err(generation),
        found => Ok(found.is_some()),
    }
}

/// The groups in the order of [`NAMES`], if a setting names a knob of any.
///
/// # Errors
/// [`SimError::Value`].
pub(crate) fn from_setting(setting: &Setting) -> Result<Vec<GroupLimits>, SimError> {
    if first_knob(setting).is_none() {
        return Ok(Vec::new());
    }
    NAMES.iter().map(|group| limits(setting, group)).collect()
}

fn limits(setting: &Setting, group: &str) -> Result<GroupLimits, SimError> {
    let mut limits = GroupLimits::default();
    let (io_max, high) = (format!("{group}:{IO_MAX}"), format!("{group}:{MEMORY_HIGH}"));
    if let Some(text) = setting.get(&io_max) {
        limits.io = Rates::parse(text).ok_or_else(|| {
            let takes = "it takes rbps, wbps, riops, wiops, each with 1 or more a second, or max";
            SimError::Value { knob: io_max, value: text.into(), takes: takes.into() }
        })?;
    }
    if let Some(text) = setting.get(&high) {
        limits.high_pages = match text.trim() {
            "max" => None,
            bytes => match bytes.parse::<u64>() {
                Ok(bytes) if bytes >= LEAST_HIGH => Some(bytes / PAGE_SIZE),
                _ => {
                    let takes = format!("it takes {LEAST_HIGH} bytes or more, or max");
                    return Err(SimError::Value { knob: high, value: text.into(), takes });
                }
            },
        };
    }
    Ok(limits)
}

/// The group of a knob, by its place in [`NAMES`], and its limits with another value of that knob.
///
/// # Errors
/// [`SimError::Value`]; [`SimError::NoGroup`] if the machine has no such group.
pub(crate) fn changed(
    groups: &[GroupLimits],
    knob: &str,
    only: &Setting,
) -> Result<(usize, GroupLimits), SimError> {
    let none = || SimError::NoGroup { knob: knob.into(), why: NOT_MADE };
    let (name, file) = split(knob).ok_or_else(none)?;
    let place = NAMES.iter().position(|group| *group == name).ok_or_else(none)?;
    let (before, given) = (*groups.get(place).ok_or_else(none)?, limits(only, name)?);
    let after = match file {
        IO_MAX => GroupLimits { io: given.io, ..before },
        _ => GroupLimits { high_pages: given.high_pages, ..before },
    };
    Ok((place, after))
}

/// Every knob of the groups as its file reads.
pub(crate) fn read(groups: &[GroupLimits]) -> Vec<(String, String)> {
    let read = |(group, limits): (&&str, &GroupLimits)| {
        let high =
            limits.high_pages.map_or("max".to_owned(), |pages| (pages * PAGE_SIZE).to_string());
        [
            (format!("{group}:{IO_MAX}"), limits.io.to_string()),
            (format!("{group}:{MEMORY_HIGH}"), high),
        ]
    };
    NAMES.iter().zip(groups).flat_map(read).collect()
}

/// What reading the knobs back would show that a setting names.
pub(crate) fn in_force(groups: &[GroupLimits], setting: &Setting, in_force: &mut Setting) {
    in_force.0.extend(read(groups).into_iter().filter(|(name, _)| setting.get(name).is_some()));
}

impl Rates {
    pub(crate) fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// `tg_set_limit`: keys in any order, the last of a name counts; operations beyond 32 bits are
    /// no limit.
    fn parse(text: &str) -> Option<Self> {
        let mut rates = Self::default();
        let mut any = false;
        for pair in text.split_whitespace() {
            any = true;
            let (key, value) = pair.split_once('=')?;
            let limit = match value {
                "max" => None,
                value => Some(value.parse::<u64>().ok().filter(|n| *n > 0)?),
            };
            let way = usize::from(key.starts_with('w'));
            match key {
                "rbps" | "wbps" => rates.bytes[way] = limit.filter(|n| *n < u64::MAX),
                "riops" | "wiops" => {
                    rates.operations[way] =
                        limit.and_then(|n| u32::try_from(n).ok()).filter(|n| *n < u32::MAX);
                }
                _ => return None,
            }
        }
        any.then_some(rates)
    }
}

impl std::fmt::Display for Rates {
    /// As `io.max` reads, without the device's number.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let operations = self.operations.map(|limit| limit.map(u64::from));
        let values = self.bytes.into_iter().chain(operations);
        for (i, (key, limit)) in KEYS.iter().zip(values).enumerate() {
            let space = if i == 0 { "" } else { " " };
            match limit {
                Some(limit) => write!(f, "{space}{key}={limit}")?,
                None => write!(f, "{space}{key}=max")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(pairs: &[(&str, &str)]) -> Setting {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn groups_exist_if_a_knob_of_one_is_named_and_read_back_as_the_kernel_prints_them() {
        assert_eq!(from_setting(&setting(&[("vm.dirty_ratio", "5")])).unwrap(), []);
        let given = setting(&[
            ("flood:io.max", "wbps=60000000 riops=5000000000"),
            ("flood:memory.high", "134217729"),
            ("victim:memory.high", "max"),
        ]);
        let groups = from_setting(&given).unwrap();
        assert_eq!(groups[0], GroupLimits::default());
        assert_eq!(
            (groups[1].io.bytes, groups[1].high_pages),
            ([None, Some(60_000_000)], Some(32_768))
        );
        let mut read = Setting::default();
        in_force(&groups, &given, &mut read);
        let expected = setting(&[
            ("flood:io.max", "rbps=max wbps=60000000 riops=max wiops=max"),
            ("flood:memory.high", "134217728"),
            ("victim:memory.high", "max"),
        ]);
        assert_eq!(read, expected);
    }

    #[test]
    fn values_that_the_kernel_refuses_are_refused() {
        for text in
            ["", "wbps", "wbps=", "wbps=0", "wbps=-1", "wbps=1MB", "bps=1", "riops=0", "wiops=1.5"]
        {
            let error = from_setting(&setting(&[("flood:io.max", text)])).unwrap_err().to_string();
            assert!(error.starts_with("flood:io.max can't be"), "{error}");
        }
        for text in ["0", "-1", "65535", "64MiB", ""] {
            let error =
                from_setting(&setting(&[("victim:memory.high", text)])).unwrap_err().to_string();
            assert!(error.starts_with("victim:memory.high can't be"), "{error}");
        }
    }
}
