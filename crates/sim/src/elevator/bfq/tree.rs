//! A queue's place among the queues of its class.

/// Which tree a queue is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    /// None: it is served, or forgotten.
    None,
    /// Waiting for service.
    Active,
    /// Empty, its finish still ahead of virtual time.
    Idle,
}

/// A queue's scheduling state (`struct bfq_entity`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Entity {
    pub(super) start: u64,
    pub(super) finish: u64,
    /// Service that it may have in this turn, and that it has had, sectors.
    pub(super) budget: i64,
    pub(super) service: i64,
    pub(super) weight: u64,
    pub(super) own_weight: u64,
    /// The weight must be calculated again before the queue next enters a tree.
    pub(super) weight_changed: bool,
    pub(super) tree: Tree,
    /// Its weight is in the sum of its class.
    pub(super) counted: bool,
}

impl Entity {
    pub(super) const fn new(weight: u64) -> Self {
        Self {
            start: 0,
            finish: 0,
            budget: 0,
            service: 0,
            weight,
            own_weight: weight,
            weight_changed: false,
            tree: Tree::None,
            counted: false,
        }
    }
}

/// The queues of a priority class (`struct bfq_service_tree`).
#[derive(Clone, Debug)]
pub(super) struct ServiceTree {
    /// By finish, equal ones in the order in which they came.
    pub(super) active: Vec<u32>,
    pub(super) idle: Vec<u32>,
    pub(super) vtime: u64,
    pub(super) weight_sum: u64,
}

impl ServiceTree {
    pub(super) const fn new() -> Self {
        Self { active: Vec::new(), idle: Vec::new(), vtime: 0, weight_sum: 0 }
    }

    pub(super) fn active(&self) -> &[u32] {
        &self.active
    }
}
