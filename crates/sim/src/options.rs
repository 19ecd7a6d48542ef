//! The machine to simulate.

use floodwall_device::DeviceSpec;
use floodwall_model::Bytes;

use crate::driver::Driver;
use crate::eras::parts::QueueFacts;
use crate::fs::FsKind;
use crate::kernel::Generation;

/// Bytes on a member before the next one's turn, where the device does not say (md's default).
const DEFAULT_CHUNK: u64 = 512 << 10;

/// A machine to simulate.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// The device.
    pub device: DeviceSpec,
    /// How much of it is used; `None`: all.
    pub capacity: Option<Bytes>,
    /// The kernel.
    pub generation: Generation,
    /// RAM.
    pub ram: Bytes,
    /// CPUs.
    pub cpus: u32,
    /// The CPU's part of the work, in percent of its cost on the lab's machine: 200 is a machine
    /// half as fast.
    pub cpu_percent: u32,
    /// Timer ticks per second; `None`: as kernels of the generation were mostly built.
    pub hz: Option<u32>,
    /// The filesystem.
    pub fs: FsKind,
    /// Commands that the device takes at once; `None`: as many as its driver gives it, at most
    /// 128.
    pub queue_depth: Option<u32>,
    /// Whether the device is one of the lab's: behind the loop driver and a FUSE file, not behind
    /// a hardware driver.
    pub lab: bool,
    /// Whether the kernel's bfq has group support (`CONFIG_BFQ_GROUP_IOSCHED`), and with it shares
    /// of the request slots by priority.
    pub bfq_groups: bool,
    /// Queues and elevators, one for each member of a software RAID (a mirrored pair counts as
    /// one). With 1 the device has one queue, like a RAID card or the lab's loop device.
    pub member_queues: u32,
    /// Makes offsets repeatable.
    pub seed: u64,
    /// Keep an account of where every operation's time went.
    pub explain: bool,
}

impl SimOptions {
    /// A machine as the lab's: 24 GiB, 2 CPUs, kernel 6.18, xfs.
    #[must_use]
    pub fn new(device: DeviceSpec) -> Self {
        Self {
            device,
            capacity: None,
            generation: Generation::K6,
            ram: Bytes::gib(24),
            cpus: 2,
            cpu_percent: 100,
            hz: None,
            fs: FsKind::Xfs,
            queue_depth: None,
            lab: false,
            bfq_groups: true,
            member_queues: 1,
            seed: 1,
            explain: false,
        }
    }

    pub(crate) fn facts(&self) -> QueueFacts {
        let mut facts = QueueFacts::new(self.generation);
        facts.cpus = self.cpus.max(1);
        facts.rotational = self.device.rotational();
        let driver = self.driver();
        facts.rotated_at_first = driver.rotational_at_first(facts.rotational);
        facts.default_elevator = driver.default_elevator(self.generation);
        facts.bfq_groups = self.bfq_groups;
        facts.hz = self.hz.unwrap_or(facts.hz);
        facts
    }

    pub(crate) fn driver(&self) -> Driver {
        Driver::of(&self.device, self.lab, self.cpus)
    }

    /// Commands that the device is given at once where a setting can change that
    /// (`device.queue_depth`); `None` where none can, or without such a device.
    #[must_use]
    pub fn device_depth(&self) -> Option<u32> {
        let profile = self.device.build(self.capacity().0, self.seed).ok()?.profile();
        let changes = self.driver().queue_depth_changes() && !matches!(self.fs, FsKind::Nfs { .. });
        changes.then(|| self.depth(profile.queue_depth))
    }

    /// Commands that the device is given at once, if it can use `usable`.
    pub(crate) fn depth(&self, usable: u32) -> u32 {
        self.queue_depth.unwrap_or(self.driver().depth(usable)).max(1)
    }

    /// Bytes on a member of an array before the next one's turn.
    pub(crate) fn chunk(&self) -> u64 {
        self.device.array.as_ref().map_or(DEFAULT_CHUNK, |a| a.params.chunk)
    }

    /// Bytes of the device that are used.
    #[must_use]
    pub fn capacity(&self) -> Bytes {
        self.capacity.unwrap_or_else(|| self.device.capacity())
    }
}
