//! A kernel and a journal directory in memory. Each write is a point at which the process can be
//! killed.
//!
//! Side effects of a write are modelled after mm/page-writeback.c, block/blk-sysfs.c,
//! block/blk-wbt.c and block/bfq-iosched.c, and after observations of a 6.18 kernel.

mod kernel;
mod store;
mod world;

use std::cell::Cell;

pub(crate) use kernel::{BDI, GROUP, Kernel, QUEUE};
pub(crate) use store::Memory;
pub(crate) use world::{World, change, sda};

/// Kills the process after so many writes.
#[derive(Default)]
pub(crate) struct Fuse {
    left: Cell<Option<u64>>,
    blown: Cell<bool>,
    /// Writes so far.
    pub(crate) burnt: Cell<u64>,
}

impl Fuse {
    /// Whether the write happens.
    fn burn(&self) -> bool {
        if self.blown.get() {
            return false;
        }
        match self.left.get() {
            Some(0) => {
                self.blown.set(true);
                return false;
            }
            Some(n) => self.left.set(Some(n - 1)),
            None => {}
        }
        self.burnt.set(self.burnt.get() + 1);
        true
    }

    /// A new process, to be killed before its write number `writes`, or never.
    pub(crate) fn arm(&self, writes: Option<u64>) {
        self.left.set(writes);
        self.blown.set(false);
    }

    pub(crate) fn is_blown(&self) -> bool {
        self.blown.get()
    }
}
