//! The entries in the maps of `probe.bpf.c`, read from their bytes. Pure.

use floodwall_model::latency::bucket_of;
use floodwall_model::{DeviceId, LatencyCounts};

/// Buckets of a histogram in the kernel; as in `probe.bpf.c`.
pub(super) const BUCKETS: usize = 1056;
/// Bytes of a histogram there.
pub(super) const HISTOGRAM: usize = 16 + 4 * BUCKETS;
/// Bytes of the structures there.
pub(super) const USE_KEY: usize = 16;
pub(super) const USE: usize = 24 + HISTOGRAM;
pub(super) const DEVICE_KEY: usize = 12;
pub(super) const DEVICE: usize = 8 + 2 * HISTOGRAM;
pub(super) const PENDING: usize = 16;
pub(super) const OUTSTANDING: usize = 24;
pub(super) const CONTROL: usize = 16;
/// The finest that is told apart: 2^6 ns.
const UNIT_SHIFT: u32 = 6;
/// Buckets of one unit each, before they grow.
const LINEAR: usize = 64;
/// Buckets in each octave above.
const PER_OCTAVE: usize = 32;

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The kernel's own `dev_t`: 20 bits of minor number.
pub(super) fn device_id(dev: u32) -> DeviceId {
    DeviceId { major: dev >> 20, minor: dev & 0xf_ffff }
}

/// The middle of what a bucket holds, in nanoseconds.
fn middle_ns(bucket: usize) -> u64 {
    let (low, width) = if bucket < LINEAR {
        (bucket as u64, 1)
    } else {
        let above = bucket - LINEAR;
        let shift = above / PER_OCTAVE + 1;
        (((above % PER_OCTAVE + PER_OCTAVE) as u64) << shift, 1u64 << shift)
    };
    (low << UNIT_SHIFT) + (width << UNIT_SHIFT) / 2
}

/// A histogram of the kernel, in the finer buckets of `model::latency`: each of its buckets where
/// its middle lies. Sum and maximum are exact.
pub(super) fn histogram(bytes: &[u8]) -> Option<LatencyCounts> {
    let (sum_ns, max_ns) = (u64_at(bytes, 0)?, u64_at(bytes, 8)?);
    let counts = bytes.get(16..HISTOGRAM)?.chunks_exact(4).map(|c| u32_at(c, 0).unwrap_or(0));
    let used = counts.enumerate().filter(|(_, n)| *n > 0).map(|(bucket, n)| {
        // The longest is known exactly, and no operation took longer.
        (bucket_of(middle_ns(bucket).min(max_ns)), u64::from(n))
    });
    let mut merged: Vec<(usize, u64)> = Vec::new();
    for (bucket, n) in used {
        match merged.last_mut() {
            Some((last, total)) if *last >= bucket => *total += n,
            _ => merged.push((bucket, n)),
        }
    }
    Some(LatencyCounts::from_buckets(merged, sum_ns, max_ns))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As the kernel's side counts (`bucket_of` in probe.bpf.c).
    fn kernel_bucket(ns: u64) -> usize {
        let v = ns >> 6;
        if v < 64 {
            return v as usize;
        }
        let shift = v.ilog2() - 5;
        (64 + (shift as usize - 1) * 32 + (v >> shift) as usize - 32).min(BUCKETS - 1)
    }

    proptest! {
        #[test]
        fn a_bucket_s_middle_is_within_two_percent_or_32_ns(ns in 0u64..4_000_000_000_000) {
            let middle = middle_ns(kernel_bucket(ns));
            prop_assert!(middle.abs_diff(ns) <= (ns / 60).max(32), "{ns} {middle}");
        }

        #[test]
        fn counts_sums_and_maxima_survive(
            values in prop::collection::vec(0u64..20_000_000_000, 1..200)
        ) {
            let mut bytes = vec![0u8; HISTOGRAM];
            bytes[..8].copy_from_slice(&values.iter().sum::<u64>().to_ne_bytes());
            bytes[8..16].copy_from_slice(&values.iter().max().unwrap().to_ne_bytes());
            for ns in &values {
                let at = 16 + 4 * kernel_bucket(*ns);
                let n = u32_at(&bytes, at).unwrap() + 1;
                bytes[at..at + 4].copy_from_slice(&n.to_ne_bytes());
            }
            let counts = histogram(&bytes).unwrap();
            let exact = LatencyCounts::from_values(values.iter().copied());
            prop_assert_eq!(counts.count(), exact.count());
            prop_assert_eq!(counts.sum_ns(), exact.sum_ns());
            prop_assert_eq!(counts.max_ns(), exact.max_ns());
            for fraction in [0.1, 0.5, 0.99] {
                let rank = |of: &LatencyCounts| of.nearest_rank_ns(fraction).unwrap();
                let (a, b) = (rank(&counts), rank(&exact));
                prop_assert!(a.abs_diff(b) <= (b / 30).max(64), "{fraction}: {a} {b}");
            }
        }

        #[test]
        fn no_bytes_make_the_reader_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..HISTOGRAM + 8)
        ) {
            let _ = histogram(&bytes);
        }
    }
}
