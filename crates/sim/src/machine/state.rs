//! A machine's state, and how it is put together.

use std::collections::VecDeque;

use floodwall_device::{Device, Nanos};
use floodwall_model::Priority;

use super::process::{Process, Role};
use crate::block::{Bio, BlockLayer, Done, IoMax, QueueParams};
use crate::elevator::Elevator;
use crate::event::EventQueue;
use crate::explain::Explainer;
use crate::fs::{Filesystem, FsKind};
use crate::groups::GroupLimits;
use crate::kernel::Generation;
use crate::limits::nfs::NfsClient;
use crate::limits::{BdiLimits, DirtyKnobs, Memory};
use crate::page_cache::PageCache;
use crate::request::ProcessIndex;
use crate::settings::Priorities;
use crate::throttle::jiffies::Clock;
use crate::throttle::{Throttle, WbId};
use crate::workload::{Load, Task};
use crate::writeback::Flusher;

/// A fraction of RAM in thousandths.
const fn share(pages: u64, thousandths: u64) -> u64 {
    pages * thousandths / 1000
}

/// The machine's memory while little else runs. A 6.18 machine of 24 GiB had 98.5 % of its RAM in
/// the page allocator. Less 2.6 % in use and 1.2 % reserve, 94.7 % were dirtyable.
#[must_use]
pub(crate) fn memory_of(ram_pages: u64) -> Memory {
    let total = share(ram_pages, 985);
    let anon = share(ram_pages, 20);
    let mapped = share(ram_pages, 6);
    Memory {
        total,
        free: total - anon - mapped,
        reserve: share(ram_pages, 12),
        file: 0,
        anon,
        mapped,
        swap_free: false,
    }
}

/// How a machine is put together.
pub(crate) struct MachineParams {
    pub(crate) generation: Generation,
    pub(crate) hz: u32,
    pub(crate) cpus: u32,
    pub(crate) ram_pages: u64,
    pub(crate) knobs: DirtyKnobs,
    pub(crate) bdi: BdiLimits,
    pub(crate) device: Box<dyn Device + Send>,
    pub(crate) elevator: Box<dyn Elevator>,
    pub(crate) throttle: Box<dyn Throttle>,
    pub(crate) queue: QueueParams,
    pub(crate) fs: FsKind,
    pub(crate) read_ahead_pages: u64,
    /// Whether the device is a software RAID, with separate queues for each member.
    pub(crate) software_raid: bool,
    /// What the CPU's part costs, in percent of what `cost` says.
    pub(crate) cpu_percent: u32,
    /// Control groups beside the root group; mostly none.
    pub(crate) groups: Vec<GroupLimits>,
    /// I/O priorities of the victims' threads and of the journal's.
    pub(crate) priorities: Priorities,
}

/// A writeback context (`struct bdi_writeback`).
#[derive(Debug)]
pub(crate) struct Wb {
    pub(crate) id: WbId,
    pub(crate) flusher: Flusher,
    /// Whether [`crate::event::Event::Bandwidth`] is on its way.
    pub(crate) bandwidth_due: bool,
}

impl Wb {
    pub(super) fn new(id: WbId, flusher: ProcessIndex) -> Self {
        Self { id, flusher: Flusher::new(flusher), bandwidth_due: false }
    }
}

/// The limits of all groups, and the worker that submits the bios that they held back.
#[derive(Debug)]
pub(super) struct Kthrotld {
    pub(super) process: ProcessIndex,
    pub(super) limits: IoMax,
    /// Bios that may go on, to be submitted when the worker has no others.
    pub(super) ready: VecDeque<Bio>,
    /// Which setting of the timer counts.
    pub(super) timer: u32,
}

/// The thread of a software RAID and its list.
#[derive(Debug)]
pub(crate) struct Md {
    pub(crate) process: ProcessIndex,
    pub(crate) pending: VecDeque<Bio>,
    pub(crate) clock: Clock,
    /// The plug's timer runs; it counts if this is its number.
    pub(crate) plugged: Option<u32>,
    pub(crate) plugs: u32,
}

/// See the [module](super).
pub(crate) struct Machine {
    pub(crate) now: Nanos,
    pub(crate) generation: Generation,
    /// Timer ticks a second.
    pub(super) hz: u32,
    pub(crate) cpus: u32,
    pub(crate) memory: Memory,
    pub(crate) knobs: DirtyKnobs,
    pub(crate) cache: PageCache,
    pub(crate) throttle: Box<dyn Throttle>,
    /// Writeback contexts: the root group's, then one for each control group.
    pub(crate) wbs: Vec<Wb>,
    /// The control groups' limits, in the order of [`crate::groups::NAMES`]; none without groups.
    pub(crate) groups: Vec<GroupLimits>,
    pub(crate) block: BlockLayer,
    pub(crate) fs: Filesystem,
    pub(crate) nfs: NfsClient,
    pub(crate) processes: Vec<Process>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) loads: Vec<Load>,
    pub(crate) read_ahead_pages: u64,
    /// What the CPU's part costs, in percent of what `cost` says.
    pub(crate) cpu_percent: u64,
    /// What victims' threads submit with.
    pub(crate) victims: Priority,
    pub(crate) explainer: Option<Explainer>,
    /// Pages dirty and under writeback that belong to other devices of the same memory.
    pub(crate) elsewhere: (u64, u64),
    pub(super) events: EventQueue,
    pub(super) ready: VecDeque<ProcessIndex>,
    pub(super) done: Vec<Done>,
    /// Processes that wait for a queue to leave congestion, with their tokens.
    pub(super) congestion_waiters: Vec<(ProcessIndex, u32)>,
    /// The thread of a software RAID, where there is one.
    pub(crate) md: Option<Md>,
    /// The groups' `io.max`, where any is set.
    pub(super) kthrotld: Option<Kthrotld>,
    pub(super) woken: Vec<ProcessIndex>,
    /// What victims were told is stable: first byte on the device, length, when it was written
    /// into the page cache, when it was said.
    #[cfg(test)]
    pub(crate) served: Option<Vec<(u64, u64, Nanos, Nanos)>>,
}

impl Machine {
    pub(crate) fn new(p: MachineParams) -> Self {
        let memory = memory_of(p.ram_pages);
        let mut throttle = p.throttle;
        throttle.set_knobs(p.knobs, &memory);
        let bdi = throttle.add_bdi(p.bdi);
        let wb = throttle.add_wb(bdi, None);
        let capacity = p.device.capacity();
        let block = BlockLayer::new(p.device, p.elevator, p.queue);
        let mut machine = Self {
            now: Nanos::ZERO,
            generation: p.generation,
            hz: p.hz,
            cpus: p.cpus,
            memory,
            knobs: p.knobs,
            cache: PageCache::default(),
            throttle,
            wbs: vec![Wb::new(wb, ProcessIndex(0))],
            groups: Vec::new(),
            block,
            fs: Filesystem::new(p.fs, p.generation, p.hz, capacity, ProcessIndex(1)),
            nfs: NfsClient::new(p.ram_pages),
            processes: Vec::new(),
            tasks: Vec::new(),
            loads: Vec::new(),
            read_ahead_pages: p.read_ahead_pages,
            cpu_percent: u64::from(p.cpu_percent),
            victims: p.priorities.victims,
            explainer: None,
            elsewhere: (0, 0),
            events: EventQueue::default(),
            ready: VecDeque::new(),
            done: Vec::new(),
            congestion_waiters: Vec::new(),
            md: None,
            kthrotld: None,
            woken: Vec::new(),
            #[cfg(test)]
            served: None,
        };
        machine.add_process(Role::Flusher(0));
        let journal = machine.add_process(Role::Journal);
        machine.block.set_priority(journal, p.priorities.journal);
        if p.software_raid && p.generation.has_raid_thread() {
            machine.add_md(p.hz);
        }
        machine.add_groups(bdi, p.groups);
        machine.fs_start();
        machine
    }
}
