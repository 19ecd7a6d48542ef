//! Rows with parity that are worked on, and the writes that wait for them.

use std::collections::{BTreeMap, VecDeque};

use crate::device::Request;

/// A member's range within a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) member: usize,
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// One row's share of a write.
pub(super) struct Task {
    pub(super) parent: usize,
    pub(super) remaining: u32,
    pub(super) failures: u32,
    pub(super) row: u64,
    pub(super) request: Request,
    pub(super) reads: Vec<Piece>,
    pub(super) writes: Vec<Piece>,
}

/// Rows that are worked on, with the tasks that wait for them.
#[derive(Default)]
pub(super) struct Rows(pub(super) BTreeMap<u64, VecDeque<usize>>);

impl Rows {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
