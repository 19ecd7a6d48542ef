//! How many writes may be in flight: the depth that scales, and the limits that follow from it
//! (block/blk-rq-qos.c `rq_depth_*`, block/blk-wbt.c `calc_wb_limits`).

/// Writes in flight while nothing is known (`RWB_DEF_DEPTH`).
const DEFAULT_DEPTH: u32 = 16;

/// A depth that is halved by each step and doubled by each step below 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    queue_depth: u32,
    step: i32,
    /// The last step up reached the most there is.
    scaled_max: bool,
    max: u32,
}

/// Writes in flight, by kind. All 0 while there is no target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Writes that a process waits for, and all while a writer has just been throttled
    /// (`max_depth`).
    pub max: u32,
    /// Other writes (`wb_normal`).
    pub normal: u32,
    /// Background writeback, writes while there are reads, discards (`wb_background`).
    pub background: u32,
}

impl Depth {
    /// For a queue of so many requests (the device's depth, else `nr_requests`), at step 0.
    #[must_use]
    pub fn new(queue_depth: u32) -> Self {
        let mut new = Self { queue_depth, step: 0, scaled_max: false, max: 0 };
        new.calculate();
        new
    }

    /// The step: above 0 less than the default depth, below 0 more.
    #[must_use]
    pub const fn step(&self) -> i32 {
        self.step
    }

    /// The limits. `targeted`: whether there is a target latency.
    #[must_use]
    pub const fn limits(&self, targeted: bool) -> Limits {
        let max = self.max;
        if !targeted {
            Limits { max, normal: 0, background: 0 }
        } else if max <= 2 {
            Limits { max, normal: max, background: 1 }
        } else {
            Limits { max, normal: max.div_ceil(2), background: max.div_ceil(4) }
        }
    }

    /// Back to step 0 (`wbt_update_limits`).
    pub fn restart(&mut self) {
        *self = Self::new(self.queue_depth);
    }

    /// One step towards more in flight; `false` if it had all there is already
    /// (`rq_depth_scale_up`).
    pub fn scale_up(&mut self) -> bool {
        if self.scaled_max {
            return false;
        }
        self.step -= 1;
        self.scaled_max = self.calculate();
        true
    }

    /// One step towards less in flight, `hard` from a boost straight to step 0; `false` if one
    /// write is left (`rq_depth_scale_down`).
    pub fn scale_down(&mut self, hard: bool) -> bool {
        if self.max == 1 {
            return false;
        }
        self.step = if self.step < 0 && hard { 0 } else { self.step + 1 };
        self.scaled_max = false;
        self.calculate();
        true
    }

    /// `rq_depth_calc_max_depth`; says whether more can not be had by scaling.
    fn calculate(&mut self) -> bool {
        if self.queue_depth == 1 {
            // One request ready when one completes; scaled down, not even that.
            self.max = if self.step > 0 { 1 } else { 2 };
            return self.step <= 0;
        }
        let base = u64::from(DEFAULT_DEPTH.min(self.queue_depth)).max(1) - 1;
        let mut capped = false;
        let depth = match self.step {
            0 => base + 1,
            step if step > 0 => 1 + (base >> step.min(31)),
            step => {
                let most = u64::from(self.queue_depth) * 3 / 4;
                let depth = 1 + (base << (-step).min(31));
                capped = depth > most;
                depth.min(most)
            }
        };
        self.max = depth as u32;
        capped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(queue_depth: u32, step: i32) -> (u32, u32, u32) {
        let mut depth = Depth::new(queue_depth);
        for _ in 0..step.abs() {
            assert!(if step > 0 { depth.scale_down(true) } else { depth.scale_up() });
        }
        assert_eq!(depth.step(), step);
        let limits = depth.limits(true);
        (limits.max, limits.normal, limits.background)
    }

    #[test]
    fn depths_of_common_queues() {
        // As a kernel 6.18 shows in debugfs at step 0 (normal 8, background 4).
        assert_eq!(at(256, 0), (16, 8, 4));
        // Step -1 of a queue of 32: 1 + 15 * 2 = 31 is more than 24.
        assert_eq!(at(32, -1), (24, 12, 6));
        assert_eq!(at(256, -1), (31, 16, 8));
        assert_eq!(at(256, -4), (192, 96, 48));
        assert_eq!(at(256, 1), (8, 4, 2));
        assert_eq!(at(256, 2), (4, 2, 1));
        assert_eq!(at(256, 3), (2, 2, 1));
        assert_eq!(at(256, 4), (1, 1, 1));
        assert_eq!(at(8, 0), (8, 4, 2));
        // A queue of one has one more waiting.
        assert_eq!(at(1, 0), (2, 2, 1));
        assert_eq!(at(1, 1), (1, 1, 1));
    }

    #[test]
    fn steps_end_at_three_quarters_and_at_one() {
        let mut depth = Depth::new(256);
        while depth.scale_up() {}
        assert_eq!((depth.step(), depth.limits(true).max), (-4, 192));
        // A violation takes the whole boost away.
        assert!(depth.scale_down(true));
        assert_eq!(depth.step(), 0);
        while depth.scale_down(true) {}
        assert_eq!((depth.step(), depth.limits(true).max), (4, 1));
        // Slowly back: one step at a time.
        let mut boosted = Depth::new(256);
        boosted.scale_up();
        boosted.scale_up();
        boosted.scale_down(false);
        assert_eq!(boosted.step(), -1);
    }

    #[test]
    fn without_a_target_nothing_but_the_most_is_left() {
        assert_eq!(Depth::new(64).limits(false), Limits { max: 16, normal: 0, background: 0 });
    }
}
