//! The position ratio: by how much writers are sped up or slowed down because of where the dirty
//! pages are (`wb_position_ratio`).
//!
//! ```text
//! 2.0 ─────╮                       × device's line: 1.0 at its own setpoint, falling to 1/4
//!           ╲__                    × up to 8 while the device has less than half its share
//! 1.0 ·········──●──__
//!                     ╲
//!   0                  ╰──────
//!       freerun  setpoint   limit
//! ```
//!
//! Ratios are fixed point, 1,024 = 1.0. Counts are pages, rates pages per second.

use crate::limits::Thresholds;

/// Bits after the point (`RATELIMIT_CALC_SHIFT`).
pub const SHIFT: u32 = 10;
/// 1.0.
pub const ONE: u64 = 1 << SHIFT;

/// What the ratio is computed from: one domain (the machine, or a memory cgroup) and one device in
/// it (`struct dirty_throttle_control`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// The domain's thresholds.
    pub thresholds: Thresholds,
    /// The hard limit in force, at least `thresholds.dirty` (`hard_dirty_limit`).
    pub limit: u64,
    /// The domain's pages dirty and under writeback.
    pub dirty: u64,
    /// The device's share of the hard limit.
    pub wb_thresh: u64,
    /// The device's share of the background threshold.
    pub wb_bg_thresh: u64,
    /// The device's pages dirty and under writeback.
    pub wb_dirty: u64,
}

/// 1 + ((setpoint - dirty) / (limit - setpoint))³, from 0 to 2 (`pos_ratio_polynom`; since 3.12,
/// before it was part of `bdi_position_ratio`).
#[must_use]
pub fn polynomial(setpoint: u64, dirty: u64, limit: u64) -> u64 {
    let divisor = (limit.wrapping_sub(setpoint) | 1) as i64;
    let x = ((setpoint as i64 - dirty as i64) << SHIFT).wrapping_div(divisor);
    let ratio = 1024 + cube(x);
    ratio.clamp(0, 2 << SHIFT) as u64
}

/// x³ in fixed point, rounded down at each step as the kernel shifts.
const fn cube(x: i64) -> i64 {
    (x.wrapping_mul(x) >> SHIFT).wrapping_mul(x) >> SHIFT
}

/// The ratio of 6.x (`wb_position_ratio`). `avg_bandwidth`: the device's.
#[must_use]
pub fn ratio(control: &Control, avg_bandwidth: u64, strict: bool) -> u64 {
    if control.dirty >= control.limit {
        return 0;
    }
    let setpoint = control.thresholds.setpoint(control.limit);
    let global = polynomial(setpoint, control.dirty, control.limit);
    if strict {
        global.min(strict_ratio(control))
    } else {
        device_line(control, avg_bandwidth, setpoint, global, 1)
    }
}

/// Under a strict limit: the same curve over the device's own share, and 0 where it has none.
fn strict_ratio(control: &Control) -> u64 {
    let setpoint = u64::midpoint(control.wb_thresh, control.wb_bg_thresh);
    if control.wb_dirty >= control.wb_thresh || setpoint == 0 || setpoint == control.wb_thresh {
        return 0;
    }
    polynomial(setpoint, control.wb_dirty, control.wb_thresh)
}

/// The ratio of 3.2 (`bdi_position_ratio`) differs in three points. The curve has no clamp (it can
/// exceed 2 a little below freerun). The device's share is raised here, to an eighth of the room
/// below the limit. Divisors are kept from 0 by adding 1.
#[must_use]
pub fn ratio_3_2(control: &Control, avg_bandwidth: u64) -> u64 {
    if control.dirty >= control.limit {
        return 0;
    }
    let setpoint = control.thresholds.setpoint(control.limit);
    let divisor = control.limit.wrapping_sub(setpoint).wrapping_add(1) as i64;
    let x = if divisor == 0 {
        0
    } else {
        ((setpoint as i64 - control.dirty as i64) << SHIFT).wrapping_div(divisor)
    };
    let global = (1024 + cube(x)).max(0) as u64;
    let share =
        control.wb_thresh.min(control.thresholds.dirty).max((control.limit - control.dirty) / 8);
    device_line(&Control { wb_thresh: share, ..*control }, avg_bandwidth, setpoint, global, 0)
}

/// Scales the ratio by where the device is within its share.
///
/// `or_one`: 1 if the kernel makes a divisor odd to keep it from 0 (`| 1`, since 4.2), 0 if it
/// adds 1.
fn device_line(
    control: &Control,
    avg_bandwidth: u64,
    setpoint: u64,
    mut ratio: u64,
    or_one: u64,
) -> u64 {
    let nonzero = |n: u64| if or_one == 1 { n | 1 } else { n.wrapping_add(1).max(1) };
    let thresh = control.thresholds.dirty;
    let share = if or_one == 1 { control.wb_thresh.min(thresh) } else { control.wb_thresh };
    // Share and line in 1/65,536 of the whole.
    let x = (share << 16) / nonzero(thresh);
    let wb_setpoint = setpoint.wrapping_mul(x) >> 16;
    let span = thresh.wrapping_sub(share).wrapping_add(8 * avg_bandwidth).wrapping_mul(x) >> 16;
    let zero_at = wb_setpoint.wrapping_add(span);
    if control.wb_dirty < zero_at.wrapping_sub(span / 4) {
        ratio = ratio.wrapping_mul(zero_at - control.wb_dirty)
            / nonzero(zero_at.wrapping_sub(wb_setpoint));
    } else {
        ratio /= 4;
    }
    // Reserve: a device with less than half its share must not run dry.
    let reserve = share / 2;
    if control.wb_dirty < reserve {
        ratio = if control.wb_dirty > reserve / 8 {
            ratio.wrapping_mul(reserve) / control.wb_dirty
        } else {
            ratio.wrapping_mul(8)
        };
    }
    ratio
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 20 % and 10 % of 1,000,000 pages: freerun 150,000, setpoint 175,000.
    const THRESHOLDS: Thresholds = Thresholds { dirty: 200_000, background: 100_000 };

    fn alone(dirty: u64) -> Control {
        Control {
            thresholds: THRESHOLDS,
            limit: 200_000,
            dirty,
            wb_thresh: 200_000,
            wb_bg_thresh: 100_000,
            wb_dirty: dirty,
        }
    }

    #[test]
    fn the_curve_is_2_at_freerun_1_at_the_setpoint_and_0_at_the_limit() {
        // The divisor is 25,001 (made odd), so freerun is 1,023/1,024 of the way: 1,023² >> 10 =
        // 1,022; 1,022 * 1,023 >> 10 = 1,021.
        assert_eq!(polynomial(175_000, 150_000, 200_000), 2_045);
        assert_eq!(polynomial(175_000, 175_000, 200_000), 1_024);
        // Shifts round down: 1,023² >> 10 = 1,022; 1,022 * -1,023 >> 10 = -1,022; 1,024 - 1,022
        // = 2.
        assert_eq!(polynomial(175_000, 199_999, 200_000), 2);
        assert_eq!(polynomial(175_000, 10, 200_000), 2_048);
        assert_eq!(polynomial(175_000, 300_000, 200_000), 0);
        // Half way between setpoint and limit: 1 - 1/8. Here x = -12,500 * 1024 / 25,001 = -511;
        // 511² >> 10 = 255; 255 * -511 >> 10 = -128.
        assert_eq!(polynomial(175_000, 187_500, 200_000), 896);
    }

    #[test]
    fn one_device_at_the_setpoint_has_ratio_1() {
        // With the share of all: x = (200,000 << 16) / 200,001 = 65,535. So wb_setpoint = 175,000 *
        // 65,535 >> 16 = 174,997. Further span = (0 + 8 * 25,600) * 65,535 >> 16 = 204,796; zero at
        // 379,793. At last (379,793 - 175,000) / 204,797 * 1,024 = 1,023.
        assert_eq!(ratio(&alone(175_000), 25_600, false), 1_023);
        assert_eq!(ratio(&alone(200_000), 25_600, false), 0);
        // At freerun 2,045 from the curve, times (379,793 - 150,000) / 204,797 from the device's
        // line.
        assert_eq!(ratio(&alone(150_000), 25_600, false), 2_294);
    }

    #[test]
    fn a_device_above_its_share_is_slowed_to_a_quarter_and_one_that_runs_dry_is_sped_up_eightfold()
    {
        let at = |wb_thresh, wb_dirty| {
            ratio(&Control { wb_thresh, wb_dirty, ..alone(175_000) }, 25_600, false)
        };
        // Share 10 %: x = 6,553; wb_setpoint 175,000 * x >> 16 = 17,498. Span (180,000 + 204,800) *
        // x >> 16 = 38,476, zero at 55,974. Beyond 3/4 of the span it stays a quarter.
        assert_eq!(at(20_000, 60_000), 256);
        assert_eq!(at(20_000, 48_000), 256);
        assert_eq!(at(20_000, 17_498), 1_023);
        // Reserve below 10,000. At 5,000: 1,024 * 50,974 / 38,477 = 1,356, twice. At 1,250: 1,024 *
        // 54,724 / 38,477 = 1,456, eight times; one page more, 1,456 * 10,000 / 1,251.
        assert_eq!(at(20_000, 5_000), 2_712);
        assert_eq!(at(20_000, 1_250), 11_648);
        assert_eq!(at(20_000, 1_251), 11_638);
        // A share of nothing is a device that must not write: a quarter.
        assert_eq!(at(0, 10), 256);
    }

    #[test]
    fn a_strict_limit_is_the_curve_over_the_devices_share() {
        let at = |wb_dirty| {
            let control = Control {
                dirty: 2_000,
                wb_thresh: 2_000,
                wb_bg_thresh: 1_000,
                wb_dirty,
                ..alone(0)
            };
            ratio(&control, 25_600, true)
        };
        assert_eq!(at(1_500), 1_024);
        assert_eq!(at(2_000), 0);
        // (1,500 - 1,000) * 1,024 / 501 = 1,021; 1,021² >> 10 = 1,018; 1,018 * 1,021 >> 10 = 1,015.
        assert_eq!(at(1_000), 2_039);
        // Neither a device without a share nor one with a share too small for a setpoint gets
        // anything.
        let nothing = Control { wb_thresh: 0, wb_bg_thresh: 0, wb_dirty: 0, ..alone(0) };
        assert_eq!(ratio(&nothing, 25_600, true), 0);
        assert_eq!(ratio(&Control { wb_thresh: 1, ..nothing }, 25_600, true), 0);
        // The machine's own position counts, too.
        let crowded = Control {
            dirty: 199_999,
            wb_thresh: 2_000,
            wb_bg_thresh: 1_000,
            wb_dirty: 100,
            ..alone(0)
        };
        assert_eq!(ratio(&crowded, 25_600, true), 2);
    }

    #[test]
    fn the_curve_of_3_2_divides_by_one_more() {
        // limit - setpoint + 1 = 25,001: as above at the setpoint. The share already exceeds an
        // eighth of the room.
        assert_eq!(ratio_3_2(&alone(175_000), 25_600), 1_023);
        assert_eq!(ratio_3_2(&alone(200_000), 25_600), 0);
        // A device without a share gets (200,000 - 175,000) / 8 = 3,125 pages of one.
        let new = Control { wb_thresh: 0, wb_dirty: 100, ..alone(175_000) };
        assert!(ratio_3_2(&new, 25_600) >= 8 * 1_024);
    }

    proptest! {
        /// More dirty pages never make writers faster, on the machine's curve or on a strict
        /// device's.
        #[test]
        fn the_curve_falls(
            setpoint in 1u64..1 << 32, above in 1u64..1 << 32,
            dirty in 0u64..1 << 33, more in 0u64..1 << 20
        ) {
            let at = |dirty| polynomial(setpoint, dirty, setpoint + above);
            prop_assert!(at(dirty) >= at(dirty + more));
        }

        /// The fixed-point curve is the real one but for what truncation takes: 1/1024 of x, three
        /// times that of x³, 1/1024 for each shift; and the odd divisor.
        #[test]
        fn the_curve_is_the_cubic(
            thresh in 4_000u64..1 << 30, share in 1u64..99, at in 0u64..=1000
        ) {
            let t = Thresholds { dirty: thresh, background: thresh * share / 100 };
            let (freerun, setpoint) = (t.freerun(), t.setpoint(thresh));
            let dirty = freerun + (thresh - freerun) * at / 1000;
            let x = (setpoint as f64 - dirty as f64) / (thresh - setpoint) as f64;
            let exact = (1.0 + x.powi(3)).clamp(0.0, 2.0) * 1024.0;
            let tolerance = 6.0 + 3.0 * 1024.0 / (thresh - setpoint) as f64;
            prop_assert!((polynomial(setpoint, dirty, thresh) as f64 - exact).abs() <= tolerance);
        }
    }
}
