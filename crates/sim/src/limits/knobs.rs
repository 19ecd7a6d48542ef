//! The six `vm.dirty_*` knobs, typed, with each generation's ranges.

use floodwall_device::Nanos;
use floodwall_model::Setting;

use super::PAGE_SIZE;
use crate::kernel::Generation;

/// The names that a setting may use, with the first generation that had each.
pub const DIRTY_KNOBS: &[(&str, Generation)] = &[
    ("vm.dirty_ratio", Generation::K2_6_18),
    ("vm.dirty_bytes", Generation::K2_6_32),
    ("vm.dirty_background_ratio", Generation::K2_6_18),
    ("vm.dirty_background_bytes", Generation::K2_6_32),
    ("vm.dirty_writeback_centisecs", Generation::K2_6_18),
    ("vm.dirty_expire_centisecs", Generation::K2_6_18),
];

/// Why a knob can not have a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KnobError {
    /// The kernel of that generation has no such knob.
    #[error("Linux {generation} has no {knob}; it has {had}")]
    Absent {
        /// The knob.
        knob: String,
        /// The kernel.
        generation: Generation,
        /// The knobs that it has instead, as a list.
        had: String,
    },
    /// Not a whole number.
    #[error("{knob} is a whole number, not '{value}'")]
    NotANumber {
        /// The knob.
        knob: &'static str,
        /// The given value.
        value: String,
    },
    /// Outside what the kernel takes.
    #[error("{knob} is {range}, not {value}")]
    OutOfRange {
        /// The knob.
        knob: &'static str,
        /// What the kernel takes.
        range: String,
        /// The given value.
        value: i128,
    },
    /// Both halves of a pair are in force.
    #[error("{ratio} and {bytes} are one limit: one of them is 0, or leave it out")]
    Both {
        /// The half in percent.
        ratio: &'static str,
        /// The half in bytes.
        bytes: &'static str,
    },
    /// The minimum share of a device is above its maximum.
    #[error(
        "bdi.min_ratio ({min} ppm) is above bdi.max_ratio ({max} ppm); raise the maximum or lower \
         the minimum"
    )]
    MinAboveMax {
        /// Minimum, in parts per million.
        min: u32,
        /// Maximum, in parts per million.
        max: u32,
    },
    /// The minimum shares of all devices leave nothing.
    #[error("the devices' bdi.min_ratio add up to {sum} ppm; they must stay below 1000000")]
    MinSum {
        /// Their sum, in parts per million.
        sum: u64,
    },
}

/// One limit: a share of dirtyable memory or a fixed size. The kernel keeps both and zeroes the one
/// that is not in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Percent of dirtyable memory, 0 to 100.
    Ratio(u8),
    /// Bytes.
    Bytes(u64),
}

/// The global knobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyKnobs {
    /// `vm.dirty_ratio` or `vm.dirty_bytes`: the hard limit.
    pub dirty: Limit,
    /// `vm.dirty_background_ratio` or `vm.dirty_background_bytes`: where flushers start.
    pub background: Limit,
    /// `vm.dirty_writeback_centisecs`: how often flushers look for old data; 0: never.
    pub writeback_centisecs: u32,
    /// `vm.dirty_expire_centisecs`: how old data gets before it counts as old.
    pub expire_centisecs: u32,
}

impl DirtyKnobs {
    /// What a kernel boots with (mm/page-writeback.c).
    #[must_use]
    pub const fn defaults(generation: Generation) -> Self {
        Self {
            dirty: Limit::Ratio(generation.dirty_ratio()),
            background: Limit::Ratio(10),
            writeback_centisecs: 500,
            expire_centisecs: 3000,
        }
    }

    /// The defaults, changed by what a setting says of `vm.dirty_*`; its other knobs are not looked
    /// at.
    ///
    /// A setting may name both halves of a pair, as the kernel's files read: then one of them is 0.
    ///
    /// # Errors
    /// [`KnobError`] if the generation did not have a knob, or would not take its value.
    pub fn from_setting(generation: Generation, setting: &Setting) -> Result<Self, KnobError> {
        for name in setting.0.keys().filter(|name| name.starts_with("vm.dirty")) {
            known(DIRTY_KNOBS, generation, name)?;
        }
        let mut knobs = Self::defaults(generation);
        if let Some(limit) = pair(setting, "vm.dirty_ratio", "vm.dirty_bytes", 2 * PAGE_SIZE)? {
            knobs.dirty = limit;
        }
        if let Some(limit) =
            pair(setting, "vm.dirty_background_ratio", "vm.dirty_background_bytes", 1)?
        {
            knobs.background = limit;
        }
        if let Some(n) = centisecs(setting, "vm.dirty_writeback_centisecs")? {
            knobs.writeback_centisecs = n;
        }
        if let Some(n) = centisecs(setting, "vm.dirty_expire_centisecs")? {
            knobs.expire_centisecs = n;
        }
        Ok(knobs)
    }

    /// How often flushers look for old data; `None`: never.
    #[must_use]
    pub fn writeback_interval(&self) -> Option<Nanos> {
        (self.writeback_centisecs > 0)
            .then(|| Nanos::from_millis(u64::from(self.writeback_centisecs) * 10))
    }

    /// How old data gets before it counts as old.
    #[must_use]
    pub fn expire_interval(&self) -> Nanos {
        Nanos::from_millis(u64::from(self.expire_centisecs) * 10)
    }
}

/// Whether the generation had a knob of a table.
pub(crate) fn has(table: &[(&str, Generation)], generation: Generation, name: &str) -> bool {
    table.iter().any(|(knob, since)| *knob == name && *since <= generation)
}

/// Refuses a knob that the generation did not have, and names the ones that it had.
pub(super) fn known(
    table: &[(&'static str, Generation)],
    generation: Generation,
    name: &str,
) -> Result<(), KnobError> {
    if has(table, generation, name) {
        return Ok(());
    }
    let had: Vec<&str> =
        table.iter().filter(|(_, since)| *since <= generation).map(|(knob, _)| *knob).collect();
    let had = if had.is_empty() { "none of its kind".to_owned() } else { had.join(", ") };
    Err(KnobError::Absent { knob: name.to_owned(), generation, had })
}

/// A whole number within a range, if the setting names the knob.
pub(super) fn number(
    setting: &Setting,
    knob: &'static str,
    (low, high): (i128, i128),
) -> Result<Option<i128>, KnobError> {
    let Some(text) = setting.get(knob) else { return Ok(None) };
    let value: i128 =
        text.trim().parse().map_err(|_| KnobError::NotANumber { knob, value: text.to_owned() })?;
    if (low..=high).contains(&value) {
        Ok(Some(value))
    } else {
        Err(KnobError::OutOfRange { knob, range: format!("{low} to {high}"), value })
    }
}

/// Largest byte limit: as many pages as fit 32 bits (`dirty_bytes_handler`, 6.12; older kernels do
/// not check and go wrong).
const MAX_BYTES: u64 = u32::MAX as u64 * PAGE_SIZE;

fn pair(
    setting: &Setting,
    ratio_knob: &'static str,
    bytes_knob: &'static str,
    min_bytes: u64,
) -> Result<Option<Limit>, KnobError> {
    let ratio = number(setting, ratio_knob, (0, 100))?.map(|n| n as u8);
    let bytes = number(setting, bytes_knob, (0, i128::from(MAX_BYTES)))?.map(|n| n as u64);
    let in_bytes = |n: u64| {
        if n >= min_bytes {
            Ok(Some(Limit::Bytes(n)))
        } else {
            let range = format!("{min_bytes} to {MAX_BYTES} (to leave bytes, set {ratio_knob})");
            Err(KnobError::OutOfRange { knob: bytes_knob, range, value: i128::from(n) })
        }
    };
    match (ratio, bytes) {
        (None, None) => Ok(None),
        (Some(ratio), None | Some(0)) => Ok(Some(Limit::Ratio(ratio))),
        (None | Some(0), Some(n)) => in_bytes(n),
        (Some(_), Some(_)) => Err(KnobError::Both { ratio: ratio_knob, bytes: bytes_knob }),
    }
}

fn centisecs(setting: &Setting, knob: &'static str) -> Result<Option<u32>, KnobError> {
    // The kernel takes negative writeback intervals (proc_dointvec on an unsigned number); a user
    // never means one.
    Ok(number(setting, knob, (0, i128::from(i32::MAX)))?.map(|n| n as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(pairs: &[(&str, &str)]) -> Setting {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn a_setting_may_name_one_half_of_a_pair_or_both_as_the_files_read() {
        let both = setting(&[
            ("vm.dirty_ratio", "0"),
            ("vm.dirty_bytes", "15000000"),
            ("vm.dirty_background_bytes", "0"),
            ("vm.dirty_background_ratio", "5"),
            ("vm.dirty_expire_centisecs", "100"),
            ("scheduler", "bfq"),
        ]);
        let knobs = DirtyKnobs::from_setting(Generation::K6, &both).unwrap();
        assert_eq!(knobs.dirty, Limit::Bytes(15_000_000));
        assert_eq!(knobs.background, Limit::Ratio(5));
        assert_eq!(knobs.writeback_interval(), Some(Nanos::from_secs(5)));
        assert_eq!(knobs.expire_interval(), Nanos::from_secs(1));
        let none = DirtyKnobs::from_setting(Generation::K2_6_18, &Setting::default()).unwrap();
        assert_eq!((none.dirty, none.background), (Limit::Ratio(40), Limit::Ratio(10)));
        let off = DirtyKnobs::from_setting(
            Generation::K6,
            &setting(&[("vm.dirty_writeback_centisecs", "0")]),
        )
        .unwrap();
        assert_eq!(off.writeback_interval(), None);
        // Both halves 0 is the ratio of 0, which the kernel takes.
        let zero = setting(&[("vm.dirty_ratio", "0"), ("vm.dirty_bytes", "0")]);
        assert_eq!(DirtyKnobs::from_setting(Generation::K6, &zero).unwrap().dirty, Limit::Ratio(0));
    }

    #[test]
    fn what_a_kernel_did_not_have_or_take_is_refused_with_what_it_has() {
        let told = |generation, name: &str, value: &str| {
            DirtyKnobs::from_setting(generation, &setting(&[(name, value)]))
                .unwrap_err()
                .to_string()
        };
        insta::assert_snapshot!(told(Generation::K2_6_18, "vm.dirty_bytes", "15000000"), @"Linux \
            2.6.18 has no vm.dirty_bytes; it has vm.dirty_ratio, vm.dirty_background_ratio, \
            vm.dirty_writeback_centisecs, vm.dirty_expire_centisecs");
        insta::assert_snapshot!(told(Generation::K6, "vm.dirty_ration", "1"), @"Linux 6.18 has no \
            vm.dirty_ration; it has vm.dirty_ratio, vm.dirty_bytes, vm.dirty_background_ratio, \
            vm.dirty_background_bytes, vm.dirty_writeback_centisecs, vm.dirty_expire_centisecs");
        insta::assert_snapshot!(told(Generation::K6, "vm.dirty_ratio", "101"), @"vm.dirty_ratio is \
            0 to 100, not 101");
        insta::assert_snapshot!(told(Generation::K6, "vm.dirty_bytes", "4096"), @"vm.dirty_bytes \
            is 8192 to 17592186040320 (to leave bytes, set vm.dirty_ratio), not 4096");
        insta::assert_snapshot!(told(Generation::K6, "vm.dirty_background_bytes", "0"), @"\
            vm.dirty_background_bytes is 1 to 17592186040320 (to leave bytes, set \
            vm.dirty_background_ratio), not 0");
        insta::assert_snapshot!(told(Generation::K6, "vm.dirty_bytes", "15MB"), @"vm.dirty_bytes \
            is a whole number, not '15MB'");
        insta::assert_snapshot!(told(Generation::K6, "vm.dirty_writeback_centisecs", "-1"), @"\
            vm.dirty_writeback_centisecs is 0 to 2147483647, not -1");
        let both = setting(&[("vm.dirty_ratio", "20"), ("vm.dirty_bytes", "15000000")]);
        insta::assert_snapshot!(DirtyKnobs::from_setting(Generation::K6, &both).unwrap_err(), @"\
            vm.dirty_ratio and vm.dirty_bytes are one limit: one of them is 0, or leave it out");
    }
}
