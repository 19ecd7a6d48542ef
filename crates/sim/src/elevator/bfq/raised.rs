//! What is remembered of a queue whose weight is raised, and of bursts of new queues.

/// `bfq_wr_coeff`.
pub(super) const FACTOR: u64 = 30;
/// `BFQ_SOFTRT_WEIGHT_FACTOR`.
const SOFT_REAL_TIME_FACTOR: u64 = 100;

/// Kinds of weight raising, with how long they last in jiffies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    None,
    Interactive(u64),
    SoftRealTime,
}

/// How a queue's weight is raised. Moments in jiffies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raise {
    /// The factor of its weight; 1: not raised.
    pub(super) factor: u64,
    pub(super) kind: Kind,
    /// When raising began, or when it ended, or when the last request came.
    pub(super) since: u64,
    /// When the interactive raising began that soft real-time raising replaced; 0 without one.
    pub(super) interactive_since: u64,
    pub(super) service: i64,
    /// A batch that comes before this is too early for a player.
    pub(super) next_start: u64,
    pub(super) backlogged_since: u64,
    pub(super) service_from_backlogged: i64,
    /// `next_start` is calculated when the last request of the batch completes.
    pub(super) update_when_done: bool,
}

impl Raise {
    pub(super) const fn new(jiffies: u64) -> Self {
        Self {
            factor: 1,
            kind: Kind::None,
            since: jiffies,
            interactive_since: 0,
            service: 0,
            next_start: jiffies,
            backlogged_since: 0,
            service_from_backlogged: 0,
            update_when_done: false,
        }
    }

    pub(super) fn is_soft_real_time(&self) -> bool {
        self.kind == Kind::SoftRealTime
    }

    pub(super) const fn served(&mut self, sectors: i64) {
        if self.factor > 1 {
            self.service += sectors;
        }
        self.service_from_backlogged += sectors;
    }

    pub(super) const fn start_interactive(&mut self, duration: u64) {
        self.factor = FACTOR;
        self.kind = Kind::Interactive(duration);
    }

    pub(super) const fn start_soft_real_time(&mut self) {
        self.factor = FACTOR * SOFT_REAL_TIME_FACTOR;
        self.kind = Kind::SoftRealTime;
    }
}

/// Queues that were created shortly after one another (`bfq_handle_burst`).
#[derive(Clone, Debug, Default)]
pub(super) struct Burst {
    pub(super) size: u32,
    pub(super) members: Vec<u32>,
    pub(super) large: bool,
    pub(super) last: u64,
}
