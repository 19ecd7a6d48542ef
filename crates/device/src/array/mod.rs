//! Arrays: RAID 0, 1, 10, 5 and 6 over any devices.
//!
//! ```text
//! request ─▶ parts by chunk (`layout.rs`) ─▶ members ─▶ done with the slowest part
//!               └─ RAID 5/6 write: one task a row ─▶ reads ─▶ data and parity writes (`parity.rs`)
//! ```
//!
//! - Mirrored writes go to every live copy and are done with the last. Reads go to one copy: the
//!   one that the read continues, else an idle one. Failing both, md's `read_balance` decides:
//!   rotating members by the nearest last transfer, others by the fewest requests.
//! - A failed member gets nothing. Mirrors serve its reads. RAID 5 and 6 read the same range of
//!   other live members instead, as many as data columns.
//! - A read that fails on a member is tried again in these ways. A write that
//!   some copies refused has succeeded if one has not. (md would then drop the member; here it
//!   stays.)
//! - Parts cost nothing extra: md's work is microseconds against milliseconds. A RAID card's cost
//!   is the [controller](crate::controller)'s.

mod device;
mod layout;
mod parity;
mod rows;

use std::collections::VecDeque;

use crate::device::{Completion, Device, IoError, LostExtent, LostWrites, Op, Request};
use crate::events::or_never;
use crate::slab::Slab;
use crate::time::Nanos;

use layout::{Layout, Part};
use rows::{Rows, Task};

pub use layout::Level as RaidLevel;

/// Which copy serves a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBalance {
    /// Nearest to where it last was.
    Closest,
    /// Fewest requests in flight.
    LeastQueued,
}

/// How an array is put together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArrayParams {
    /// RAID level.
    pub level: RaidLevel,
    /// Bytes on one member before the next one's turn; a multiple of 4 KiB.
    pub chunk: u64,
    /// Which copy serves a read.
    pub read_balance: ReadBalance,
}

impl ArrayParams {
    /// Bytes of an array of so many members with so many bytes each.
    #[must_use]
    pub fn capacity(&self, members: usize, member: u64) -> u64 {
        Layout { level: self.level, members, chunk: self.chunk }.capacity(member)
    }
}

/// The work that a sub-request belongs to.
#[derive(Clone, Copy, Debug)]
enum Owner {
    /// A part of the request itself.
    Parent(usize),
    /// A row of a RAID 5 or 6 write.
    Task(usize),
}

#[derive(Clone, Copy, Debug)]
struct Sub {
    owner: Owner,
    member: usize,
    request: Request,
    /// Whether this is already a second attempt.
    retried: bool,
}

struct Parent {
    id: u64,
    remaining: u32,
    error: Option<IoError>,
    /// Mirrored parts that failed on a copy: pair, offset, copies that failed.
    failed: Vec<(usize, u64, usize)>,
}

struct Member {
    device: Box<dyn Device>,
    /// When something next happens in it; [`Nanos::MAX`] for never.
    due: Nanos,
    alive: bool,
    /// Where its last transfer ended.
    head: u64,
    queued: u32,
}

impl Member {
    /// Notes when something next happens.
    fn look(&mut self) {
        self.due = or_never(self.device.next_event());
    }
}

/// See the [module](self).
pub struct Array {
    p: ArrayParams,
    layout: Layout,
    members: Vec<Member>,
    /// The least of their `due`, or less, and the first member that has it.
    soonest: (Nanos, usize),
    parents: Slab<Parent>,
    tasks: Slab<Task>,
    rows: Rows,
    subs: Slab<Sub>,
    /// Completions to hand out, in the order of time.
    ready: VecDeque<Completion>,
    scratch: Vec<Completion>,
    parts: Vec<Part>,
}

impl Array {
    /// `failed` numbers the members that are missing. The counts must suit the level: the
    /// specification checks that.
    #[must_use]
    pub fn new(p: ArrayParams, members: Vec<Box<dyn Device>>, failed: &[usize]) -> Self {
        let layout = Layout { level: p.level, members: members.len(), chunk: p.chunk };
        let members: Vec<Member> = members
            .into_iter()
            .enumerate()
            .map(|(i, device)| Member {
                device,
                due: Nanos::MAX,
                alive: !failed.contains(&i),
                head: 0,
                queued: 0,
            })
            .collect();
        Self {
            p,
            layout,
            soonest: (Nanos::MAX, 0),
            members,
            parents: Slab::new(),
            tasks: Slab::new(),
            rows: Rows::default(),
            subs: Slab::new(),
            ready: VecDeque::new(),
            scratch: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// Members that hold a column.
    fn copies(&self, column: usize) -> std::ops::Range<usize> {
        match self.p.level {
            RaidLevel::Raid1 => 0..self.members.len(),
            RaidLevel::Raid10 => 2 * column..2 * column + 2,
            _ => column..column + 1,
        }
    }

    /// The column that a member belongs to.
    fn column_of(&self, member: usize) -> usize {
        match self.p.level {
            RaidLevel::Raid1 => 0,
            RaidLevel::Raid10 => member / 2,
            _ => member,
        }
    }

    fn send(&mut self, now: Nanos, sub: Sub) {
        match sub.owner {
            Owner::Parent(p) => {
                if let Some(parent) = self.parents.get_mut(p) {
                    parent.remaining += 1;
                }
            }
            Owner::Task(t) => {
                if let Some(task) = self.tasks.get_mut(t) {
                    task.remaining += 1;
                }
            }
        }
        let slot = self.subs.insert(sub);
        let member = &mut self.members[sub.member];
        member.queued += 1;
        if matches!(sub.request.op, Op::Read | Op::Write { .. } | Op::WriteZeroes) {
            member.head = sub.request.end();
        }
        member.device.submit(now, Request { id: slot as u64, ..sub.request });
        member.look();
        self.soonest = self.soonest.min((member.due, sub.member));
    }

    /// When something next happens, or before.
    fn due(&self) -> Nanos {
        self.ready.front().map_or(self.soonest.0, |c| c.at.min(self.soonest.0))
    }

    fn find_soonest(&mut self) {
        self.soonest = (Nanos::MAX, 0);
        for (i, member) in self.members.iter().enumerate() {
            if member.due < self.soonest.0 {
                self.soonest = (member.due, i);
            }
        }
    }

    /// Lets time pass in one member.
    fn advance_member(&mut self, i: usize, now: Nanos) {
        let mut done = std::mem::take(&mut self.scratch);
        let member = &mut self.members[i];
        member.device.advance(now, &mut done);
        member.look();
        for c in &done {
            self.member_done(c);
        }
        done.clear();
        self.scratch = done;
    }

    /// The copy that a read should go to; `None` if no copy is alive.
    fn reader(&self, column: usize, offset: u64, not: Option<usize>) -> Option<usize> {
        let alive = self.copies(column).filter(|m| self.members[*m].alive && Some(*m) != not);
        alive.min_by_key(|m| {
            let member = &self.members[*m];
            let distance = member.head.abs_diff(offset);
            match self.p.read_balance {
                _ if distance == 0 => (0, 0),
                ReadBalance::Closest if member.queued == 0 => (1, distance),
                ReadBalance::Closest => (2, distance),
                ReadBalance::LeastQueued => (1, u64::from(member.queued)),
            }
        })
    }

    /// Reads a range of one member, or what makes up for it if that member is missing.
    fn read_part(
        &mut self,
        now: Nanos,
        parent: usize,
        request: &Request,
        column: usize,
        offset: u64,
        len: u64,
    ) {
        let owner = Owner::Parent(parent);
        let request = Request { offset, len, ..*request };
        match self.reader(column, offset, None) {
            Some(member) => self.send(now, Sub { owner, member, request, retried: false }),
            None => self.reconstruct(now, owner, column, request),
        }
    }

    /// Reads the same range of as many other live members as there are data columns. Without them
    /// the read fails.
    fn reconstruct(&mut self, now: Nanos, owner: Owner, lost: usize, request: Request) {
        let need = self.layout.data_columns();
        let others: Vec<usize> = (0..self.members.len())
            .filter(|m| *m != lost && self.members[*m].alive && self.p.level.parity() > 0)
            .take(need)
            .collect();
        if others.len() < need {
            if let Owner::Parent(p) = owner
                && let Some(parent) = self.parents.get_mut(p)
            {
                parent.error = Some(IoError::Medium);
            }
            return;
        }
        for member in others {
            self.send(now, Sub { owner, member, request, retried: true });
        }
    }

    fn start(&mut self, now: Nanos, request: Request) {
        let parent = self.parents.insert(Parent {
            id: request.id,
            // Held until everything is sent, so that nothing completes half sent.
            remaining: 1,
            error: None,
            failed: Vec::new(),
        });
        let owner = Owner::Parent(parent);
        match request.op {
            Op::Read => {
                let mut parts = std::mem::take(&mut self.parts);
                self.layout.parts(request.offset, request.len, &mut parts);
                for part in parts.drain(..) {
                    self.read_part(now, parent, &request, part.column, part.offset, part.len);
                }
                self.parts = parts;
            }
            Op::Flush => {
                for member in 0..self.members.len() {
                    if self.members[member].alive {
                        self.send(now, Sub { owner, member, request, retried: false });
                    }
                }
            }
            // md switches discard off for parity rows, whose parity it would spoil.
            Op::Discard if self.p.level.parity() > 0 => {}
            Op::Write { .. } | Op::WriteZeroes if self.p.level.parity() > 0 => {
                self.start_rows(now, parent, &request);
            }
            Op::Write { .. } | Op::WriteZeroes | Op::Discard => {
                let mut parts = std::mem::take(&mut self.parts);
                self.layout.parts(request.offset, request.len, &mut parts);
                for part in parts.drain(..) {
                    let request = Request { offset: part.offset, len: part.len, ..request };
                    let mut sent = false;
                    for member in self.copies(part.column) {
                        if self.members[member].alive {
                            self.send(now, Sub { owner, member, request, retried: false });
                            sent = true;
                        }
                    }
                    if !sent && let Some(p) = self.parents.get_mut(parent) {
                        p.error = Some(IoError::Medium);
                    }
                }
                self.parts = parts;
            }
        }
        self.release(now, parent);
    }

    /// One thing less that a parent waits for.
    fn release(&mut self, now: Nanos, parent: usize) {
        let Some(p) = self.parents.get_mut(parent) else { return };
        p.remaining -= 1;
        if p.remaining > 0 {
            return;
        }
        if let Some(p) = self.parents.remove(parent) {
            let result = p.error.map_or(Ok(()), Err);
            self.ready.push_back(Completion { id: p.id, at: now, result });
        }
    }

    fn member_done(&mut self, c: &Completion) {
        let Some(sub) = self.subs.remove(c.id as usize) else { return };
        self.members[sub.member].queued -= 1;
        if c.result.is_err() {
            self.sub_failed(c.at, &sub);
        }
        match sub.owner {
            Owner::Parent(p) => self.release(c.at, p),
            Owner::Task(t) => self.task_step(c.at, t),
        }
    }

    fn sub_failed(&mut self, now: Nanos, sub: &Sub) {
        let column = self.column_of(sub.member);
        let parent = match sub.owner {
            Owner::Parent(p) => p,
            Owner::Task(t) => match self.tasks.get_mut(t) {
                Some(task) => {
                    // One lost chunk of a row is what parity is for: a task fails only beyond that.
                    task.failures += 1;
                    if task.failures <= self.p.level.parity() as u32 {
                        return;
                    }
                    task.parent
                }
                None => return,
            },
        };
        if sub.request.op == Op::Read && !sub.retried {
            if let Some(member) = self.reader(column, sub.request.offset, Some(sub.member)) {
                return self.send(now, Sub { member, retried: true, ..*sub });
            }
            if self.p.level.parity() > 0 {
                return self.reconstruct(now, sub.owner, sub.member, sub.request);
            }
        }
        let copies = self.copies(column).filter(|m| self.members[*m].alive).count();
        let Some(parent) = self.parents.get_mut(parent) else { return };
        let offset = sub.request.offset;
        let failures = match parent.failed.iter_mut().find(|(c, o, _)| (*c, *o) == (column, offset))
        {
            Some((_, _, n)) => {
                *n += 1;
                *n
            }
            None => {
                parent.failed.push((column, offset, 1));
                1
            }
        };
        if failures >= copies || !sub.request.op.is_write() {
            parent.error = Some(IoError::Medium);
        }
    }

    /// Losses of the first live copy of each column, in the array's addresses: a resync copies from
    /// it.
    fn translate(&self, losses: &[LostWrites]) -> LostWrites {
        let mut extents = Vec::new();
        for (member, lost) in losses.iter().enumerate() {
            let column = self.column_of(member);
            let first = self.copies(column).find(|m| self.members[*m].alive);
            if first != Some(member) {
                continue;
            }
            for e in &lost.extents {
                let mut at = e.offset;
                while at < e.offset + e.len {
                    let step = match self.p.level {
                        RaidLevel::Raid1 => e.len,
                        _ => (self.p.chunk - at % self.p.chunk).min(e.offset + e.len - at),
                    };
                    if let Some(offset) = self.layout.address(column, at) {
                        extents.push(LostExtent { offset, len: step, since: e.since });
                    }
                    at += step;
                }
            }
        }
        LostWrites::new(extents)
    }
}
