//! The idling elevators' memory of a process: its think time and its seek distance.
//!
//! Both are decaying means in fixed point: 256 is one sample, and 7/8 of the past is kept. They are
//! the same in `as-iosched.c` (`as_update_thinktime`, `as_update_seekdist`) and in `cfq-iosched.c`
//! (`cfq_update_io_thinktime`, `cfq_update_io_seektime`), 2.6.18 and 2.6.32.

/// Mean time between the completion of a request and the next one of the same process, in jiffies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThinkTime {
    /// Weight of the samples: 0 at first, 255 at most.
    pub(crate) samples: u64,
    total: u64,
    /// Mean, jiffies.
    pub(crate) mean: u64,
}

impl ThinkTime {
    pub(crate) const fn update(&mut self, jiffies: u64) {
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * jiffies) / 8;
        self.mean = (self.total + 128) / self.samples;
    }
}

/// Mean distance between the end of a request and the start of the next one of the same process, in
/// sectors of 512 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SeekDistance {
    /// Weight of the samples: 0 at first, 255 at most.
    pub(crate) samples: u64,
    total: u64,
    /// Mean, sectors.
    pub(crate) mean: u64,
}

impl SeekDistance {
    /// Takes a distance in; a single long one (page-in, metadata) counts for no more than four
    /// times the mean and a bit.
    pub(crate) fn update(&mut self, sectors: u64) {
        let slack = if self.samples <= 60 { 2 * 1024 * 1024 } else { 2 * 1024 * 64 };
        let sectors = sectors.min(self.mean * 4 + slack);
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * sectors) / 8;
        self.mean = (self.total + self.samples / 2) / self.samples;
    }
}

/// Whether a mean rests on enough to be believed (`sample_valid`): three samples.
pub(crate) const fn sample_valid(samples: u64) -> bool {
    samples > 80
}

/// Whether a head at `last` should visit the first of two positions before the second
/// (`as_choose_req`, `cfq_choose_req`), all in bytes. The nearer one ahead wins. Going back costs
/// `penalty` times as much and is considered up to `back_max` only. Of two positions further
/// behind, the one furthest behind wins.
pub(crate) const fn first_is_better(
    last: u64,
    back_max: u64,
    penalty: u64,
    first: u64,
    second: u64,
) -> bool {
    match (cost(last, back_max, penalty, first), cost(last, back_max, penalty, second)) {
        (Some(a), Some(b)) if a == b => first >= second,
        (Some(a), Some(b)) => a < b,
        (Some(_), None) => true,
        (None, Some(_)) => false,
        (None, None) => first <= second,
    }
}

/// Distance from the head, or none if it is too far behind.
const fn cost(last: u64, back_max: u64, penalty: u64, position: u64) -> Option<u64> {
    if position >= last {
        Some(position - last)
    } else if position.saturating_add(back_max) >= last {
        Some((last - position).saturating_mul(penalty))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_follow_the_kernels_fixed_point() {
        let mut think = ThinkTime::default();
        think.update(8);
        // samples 32, total 256, mean (256 + 128) / 32 = 12: the first sample overshoots, as in the
        // kernel.
        assert_eq!((think.samples, think.mean), (32, 12));
        for _ in 0..60 {
            think.update(8);
        }
        assert_eq!(
            (think.samples, think.mean),
            (249, 8),
            "integer division stops the weight below 255"
        );
    }

    #[test]
    fn three_samples_are_enough_and_two_are_not() {
        let mut think = ThinkTime::default();
        for _ in 0..2 {
            think.update(0);
        }
        assert!(!sample_valid(think.samples), "{}", think.samples);
        think.update(0);
        assert!(sample_valid(think.samples), "{}", think.samples);
    }

    #[test]
    fn one_long_seek_is_capped() {
        let mut seek = SeekDistance::default();
        for _ in 0..20 {
            seek.update(0);
        }
        seek.update(1 << 40);
        assert!(seek.mean < 20_000, "{}", seek.mean);
    }

    #[test]
    fn the_head_prefers_ahead_then_a_little_behind() {
        let (back, penalty) = (100, 2);
        assert!(first_is_better(1000, back, penalty, 1010, 1020));
        assert!(
            first_is_better(1000, back, penalty, 1010, 994),
            "10 ahead against 6 behind, which costs 12"
        );
        assert!(
            !first_is_better(1000, back, penalty, 1010, 996),
            "10 ahead against 4 behind, which costs 8"
        );
        assert!(first_is_better(1000, back, penalty, 950, 899), "too far behind is out");
        assert!(
            first_is_better(1000, back, penalty, 10, 20),
            "of two far behind, the one furthest behind: one sweep"
        );
    }
}
