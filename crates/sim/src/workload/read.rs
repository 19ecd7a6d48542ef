//! Reads through the page cache, with read-ahead.
//!
//! ```text
//! page there? ─ yes ─▶ copy;  at the marker ─▶ the next window is read meanwhile
//!      └ being read ─▶ wait
//!      └ no ─▶ read a window: grows from 4 pages to `read_ahead_kb` while reads go on in order;
//!                             just the pages asked for when they do not
//! ```
//!
//! mm/readahead.c `ondemand_readahead` (2.6.24 to 6.18; 2.6.18's older algorithm reads the same
//! windows in order). Pages are never pushed out while a phase lasts: a file that would not fit
//! into memory is read as if nothing of it stayed.

use floodwall_device::{Nanos, Op};
use floodwall_model::scenario::Access;

use super::choose::Way;
use super::task::{Program, State};
use super::victim::pages_of;
use crate::block::{Bio, End};
use crate::cost;
use crate::machine::Machine;
use crate::page_cache::{InodeId, PAGE_SHIFT};
use crate::request::{Flags, ProcessIndex};

impl Machine {
    /// Reads pages of a file for a copy, then spends CPU time and goes on writing them.
    pub(super) fn read_then(
        &mut self,
        t: usize,
        source: InodeId,
        begin: u64,
        end: u64,
        cpu: Nanos,
        then: State,
    ) -> bool {
        let State::Copy { begin: to, end: to_end, bytes } = then else { return false };
        let task = &mut self.tasks[t];
        task.read_ahead.then = Some((cpu, to, to_end, bytes));
        task.read_ahead.source = Some(source);
        task.state = State::ReadPages { page: begin, end };
        true
    }

    /// Goes through the pages of a buffered read.
    pub(super) fn read_pages(&mut self, t: usize, mut page: u64, end: u64) -> bool {
        let process = self.tasks[t].process;
        let inode = self.tasks[t].read_ahead.source.unwrap_or(self.tasks[t].op.inode);
        let most = self.read_ahead_pages;
        while page < end {
            // Its own reads of the window are on their way before it sleeps.
            self.tasks[t].state = State::ReadPages { page, end };
            if !self.pump(process) {
                return false;
            }
            let file = self.cache.inode(inode);
            let there = file.present.as_ref().is_some_and(|p| p.touches(page, page + 1));
            if there {
                if let Some((from, to)) = self.tasks[t].read_ahead.marker(page, most) {
                    self.fill(process, inode, from, to);
                }
                page += 1;
            } else if file.filling.touches(page, page + 1) {
                self.cache.inode_mut(inode).fill_waiters.push((process, page));
                return false;
            } else {
                let (from, to) = match self.reads_ahead(t) {
                    true => self.tasks[t].read_ahead.missed(page, end - page, most),
                    false => (page, end),
                };
                self.fill(process, inode, from, to);
            }
        }
        self.tasks[t].read_ahead.previous = end;
        self.pages_there(t, inode, end)
    }

    /// A victim that drops its blocks has told the kernel that it reads at random
    /// (POSIX_FADV_RANDOM), unless it scans.
    fn reads_ahead(&self, t: usize) -> bool {
        match &self.tasks[t].program {
            Program::Victim(p) => {
                self.read_ahead_pages > 0
                    && (p.access == Access::Cached
                        || matches!(p.chooser.way, Way::Sequential { .. }))
            }
            _ => self.read_ahead_pages > 0,
        }
    }

    fn pages_there(&mut self, t: usize, inode: InodeId, end: u64) -> bool {
        if let Some((cpu, to, to_end, bytes)) = self.tasks[t].read_ahead.then.take() {
            self.forget(inode, 0, end);
            let cpu = cpu + cost::pages(cost::PAGE_READ, to_end - to);
            return self.spend(t, cpu, State::Copy { begin: to, end: to_end, bytes });
        }
        let block = self.loads[self.tasks[t].load].block;
        let keeps = match &self.tasks[t].program {
            Program::Victim(p) => {
                p.access == Access::Cached && self.loads[self.tasks[t].load].fits_in_memory
            }
            _ => false,
        };
        if !keeps {
            let (begin, end) = pages_of(self.tasks[t].op.offset, block);
            self.forget(inode, begin, end);
        }
        self.tasks[t].cpu += cost::pages(cost::PAGE_READ, block.div_ceil(1 << PAGE_SHIFT));
        self.read_done(t)
    }

    /// Reads pages that are neither there nor on their way.
    fn fill(&mut self, process: ProcessIndex, id: InodeId, from: u64, to: u64) {
        let most = (self.block.max_bytes() >> PAGE_SHIFT).max(1);
        let file = self.cache.inode_mut(id);
        let to = to.min(file.pages.max(from + 1));
        let mut page = from;
        while page < to {
            let stop = file
                .present
                .as_ref()
                .and_then(|p| p.first_from(page))
                .into_iter()
                .chain(file.filling.first_from(page))
                .map(|(b, e)| (b, e.min(to)))
                .min();
            let until = match stop {
                Some((b, e)) if b <= page => {
                    page = e;
                    continue;
                }
                Some((b, _)) => b.min(to),
                None => to,
            };
            let until = until.min(page + most);
            file.filling.insert(page, until);
            let end = End::Fill { inode: id, begin: page, pages: (until - page) as u32 };
            let (at, len) = (file.offset_of(page), (until - page) << PAGE_SHIFT);
            let flags = Flags { sync: true, ..Flags::default() };
            let bio = Bio::new(Op::Read, at, len, flags, end);
            self.processes[process.0 as usize].queue(bio);
            page = until;
        }
    }

    /// Pages have been read.
    pub(crate) fn pages_read(&mut self, id: InodeId, begin: u64, end: u64) {
        let file = self.cache.inode_mut(id);
        file.filling.remove(begin, end);
        if let Some(present) = &mut file.present {
            present.insert(begin, end);
        }
        let mut waiters = std::mem::take(&mut file.fill_waiters);
        waiters.retain(|(process, page)| {
            let waits = *page < begin || *page >= end;
            if !waits {
                self.wake(*process);
            }
            waits
        });
        self.cache.inode_mut(id).fill_waiters.append(&mut waiters);
    }

    /// Clean pages leave the cache.
    fn forget(&mut self, id: InodeId, begin: u64, end: u64) {
        if let Some(present) = &mut self.cache.inode_mut(id).present {
            present.remove(begin, end);
        }
    }
}
