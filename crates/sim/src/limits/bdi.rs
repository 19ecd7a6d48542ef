//! A device's share of the dirty limits: `/sys/class/bdi/*/{min,max}_{ratio,ratio_fine,bytes}` and
//! `strict_limit`.
//!
//! The kernel stores each of them as a share in parts per million, so a size drifts with the limit
//! that it is a share of.

use floodwall_model::Setting;

use super::knobs::{KnobError, known, number};
use super::{PAGE_SIZE, Thresholds};
use crate::kernel::Generation;

/// Parts per million of the whole (100 × `BDI_RATIO_SCALE`).
pub const PPM: u64 = 1_000_000;

/// The names that a setting may use, with the first generation that had each.
pub const BDI_KNOBS: &[(&str, Generation)] = &[
    ("bdi.min_ratio", Generation::K2_6_32),
    ("bdi.max_ratio", Generation::K2_6_32),
    ("bdi.min_ratio_fine", Generation::K6),
    ("bdi.max_ratio_fine", Generation::K6),
    ("bdi.min_bytes", Generation::K6),
    ("bdi.max_bytes", Generation::K6),
    ("bdi.strict_limit", Generation::K6),
];

/// A device's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BdiLimits {
    /// Least share of the hard limit, in parts per million.
    pub min_ppm: u32,
    /// Largest share of the hard limit, in parts per million.
    pub max_ppm: u32,
    /// Whether the largest share holds even while the machine as a whole has few dirty pages
    /// (`BDI_CAP_STRICTLIMIT`).
    pub strict: bool,
}

impl Default for BdiLimits {
    fn default() -> Self {
        Self { min_ppm: 0, max_ppm: PPM as u32, strict: false }
    }
}

/// What a write to one of the files depends on.
#[derive(Clone, Copy, Debug)]
pub struct BdiContext {
    /// The kernel.
    pub generation: Generation,
    /// The limits at that moment.
    pub thresholds: Thresholds,
    /// Dirtyable memory at that moment, in pages.
    pub dirtyable: u64,
    /// The minimum shares of all other devices together, in parts per million.
    pub other_min_ppm: u64,
}

impl BdiLimits {
    /// The defaults, changed by what a setting says of `bdi.*`; its other knobs are not looked at.
    /// Maximum before minimum; a share given twice (percent and size) is taken from the finer name.
    ///
    /// # Errors
    /// [`KnobError`] if the generation did not have a knob, or would not take its value.
    pub fn from_setting(setting: &Setting, context: &BdiContext) -> Result<Self, KnobError> {
        for name in
            setting.0.keys().filter(|name| name.starts_with("bdi.") && *name != "bdi.read_ahead_kb")
        {
            known(BDI_KNOBS, context.generation, name)?;
        }
        let mut limits = Self::default();
        if let Some(ppm) =
            share(setting, ["bdi.max_ratio", "bdi.max_ratio_fine", "bdi.max_bytes"], context)?
        {
            limits.max_ppm = ppm;
        }
        if let Some(ppm) =
            share(setting, ["bdi.min_ratio", "bdi.min_ratio_fine", "bdi.min_bytes"], context)?
        {
            limits.min_ppm = ppm;
        }
        if let Some(strict) = number(setting, "bdi.strict_limit", (0, 1))? {
            limits.strict = strict == 1;
        }
        if limits.min_ppm > limits.max_ppm {
            return Err(KnobError::MinAboveMax { min: limits.min_ppm, max: limits.max_ppm });
        }
        let sum = context.other_min_ppm + u64::from(limits.min_ppm);
        if limits.min_ppm > 0 && sum >= PPM {
            return Err(KnobError::MinSum { sum });
        }
        Ok(limits)
    }

    /// What `max_bytes` reads at this moment (`bdi_get_bytes`).
    #[must_use]
    pub fn max_bytes(&self, thresholds: Thresholds) -> u64 {
        bytes_of(self.max_ppm, thresholds)
    }

    /// What `min_bytes` reads at this moment.
    #[must_use]
    pub fn min_bytes(&self, thresholds: Thresholds) -> u64 {
        bytes_of(self.min_ppm, thresholds)
    }
}

/// `bdi_get_bytes`.
fn bytes_of(ppm: u32, thresholds: Thresholds) -> u64 {
    (u128::from(thresholds.dirty * PAGE_SIZE) * u128::from(ppm) / u128::from(PPM)) as u64
}

/// One share under the three names it may have: percent, parts per million, size.
fn share(
    setting: &Setting,
    [percent, fine, bytes]: [&'static str; 3],
    context: &BdiContext,
) -> Result<Option<u32>, KnobError> {
    let mut ppm = number(setting, percent, (0, 100))?.map(|n| n as u32 * 10_000);
    if let Some(n) = number(setting, fine, (0, i128::from(PPM)))? {
        ppm = Some(n as u32);
    }
    if let Some(n) = number(setting, bytes, (0, i128::from(u64::MAX)))? {
        ppm = Some(share_of_bytes(bytes, n as u64, context)?);
    }
    Ok(ppm)
}

/// `bdi_check_pages_limit` and `bdi_ratio_from_pages`: floored to pages, then to parts per million;
/// small sizes become 0 without an error.
fn share_of_bytes(knob: &'static str, bytes: u64, context: &BdiContext) -> Result<u32, KnobError> {
    let pages = bytes / PAGE_SIZE;
    let most = context.thresholds.dirty.min(context.dirtyable);
    if pages > most || most == 0 {
        let range = format!("at most the hard dirty limit, {} now", most * PAGE_SIZE);
        return Err(KnobError::OutOfRange { knob, range, value: i128::from(bytes) });
    }
    Ok((u128::from(pages) * u128::from(PPM) / u128::from(context.thresholds.dirty)) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> BdiContext {
        // A machine on which these were read: 1,191,286 pages of hard limit.
        let thresholds = Thresholds { dirty: 1_191_286, background: 595_643 };
        BdiContext {
            generation: Generation::K6,
            thresholds,
            dirtyable: 5_956_430,
            other_min_ppm: 0,
        }
    }

    fn limits(name: &str, value: &str) -> Result<BdiLimits, KnobError> {
        BdiLimits::from_setting(
            &[(name.to_owned(), value.to_owned())].into_iter().collect(),
            &context(),
        )
    }

    /// What a kernel 6.18 answered, written and read back. The limit was 1,191,286 pages when the
    /// files were written and had fallen by a few when they were read. Only 1,191,267 pages explain
    /// the first answer, only 1,191,268 the second.
    #[test]
    fn sizes_become_shares_and_read_back_as_on_a_live_kernel() {
        for (written, ppm, limit_when_read, read) in [
            ("104857600", 21_489, 1_191_267, 104_854_063),
            ("1048576", 214, 1_191_268, 1_044_198),
            ("12288", 2, 1_191_268, 9_758),
        ] {
            let limits = limits("bdi.max_bytes", written).unwrap();
            assert_eq!(limits.max_ppm, ppm, "{written}");
            let thresholds = Thresholds { dirty: limit_when_read, background: limit_when_read / 2 };
            assert_eq!(limits.max_bytes(thresholds), read, "{written}");
        }
        for written in ["4096", "8191", "100"] {
            assert_eq!(limits("bdi.max_bytes", written).unwrap().max_ppm, 0, "{written}");
        }
    }

    #[test]
    fn a_size_drifts_with_the_limit() {
        let limits = limits("bdi.max_bytes", "104857600").unwrap();
        let fallen = Thresholds { dirty: 1_191_286 / 2, background: 1 };
        // Half the limit, half the size: 595,643 pages * 4096 B = 2,439,753,728 B; * 21,489 ppm =
        // 52,427,867.8.
        assert_eq!(limits.max_bytes(fallen), 52_427_867);
    }

    #[test]
    fn shares_that_the_kernel_refuses_are_refused() {
        assert!(matches!(limits("bdi.max_ratio", "101"), Err(KnobError::OutOfRange { .. })));
        assert!(matches!(
            limits("bdi.min_ratio", "100"),
            Err(KnobError::MinSum { sum: 1_000_000 })
        ));
        // 1,191,286 pages are all of the limit; one more is too many.
        assert_eq!(limits("bdi.max_bytes", "4879507456").unwrap().max_ppm, 1_000_000);
        assert!(matches!(limits("bdi.max_bytes", "4879511552"), Err(KnobError::OutOfRange { .. })));
        let crossed = [("bdi.max_ratio", "10"), ("bdi.min_ratio", "20")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()));
        let crossed = BdiLimits::from_setting(&crossed.into_iter().collect(), &context());
        assert_eq!(crossed, Err(KnobError::MinAboveMax { min: 200_000, max: 100_000 }));
        let old = BdiContext { generation: Generation::K3_2, ..context() };
        let strict = [("bdi.strict_limit".to_owned(), "1".to_owned())].into_iter().collect();
        insta::assert_snapshot!(BdiLimits::from_setting(&strict, &old).unwrap_err(), @"Linux 3.2 \
            has no bdi.strict_limit; it has bdi.min_ratio, bdi.max_ratio");
        let oldest = BdiContext { generation: Generation::K2_6_18, ..context() };
        insta::assert_snapshot!(BdiLimits::from_setting(&strict, &oldest).unwrap_err(), @"Linux \
            2.6.18 has no bdi.strict_limit; it has none of its kind");
    }
}
