//! What a search knows of a host and a device.

use floodwall_model::Setting;

use super::known::Kind;
use crate::objective::Reference;

/// The knobs of a host and a device. An absent or unknown knob gives no dimension.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Description {
    /// The device's kind; `None` if the kernel does not say.
    pub kind: Option<Kind>,
    /// Bytes a second at which the device drains.
    pub drain_bytes_per_s: f64,
    /// Bytes a second that the flood writes alone and the device takes.
    pub flood_bytes_per_s: f64,
    /// Whether victims and floods have separate control groups.
    pub groups: bool,
    /// Whether the flood can be paced: it has a separate control group, which the kernel charges
    /// for its writeback (cgroup v2).
    pub paced: bool,
    /// Memory that can be dirtied, in bytes; `None`: the hard limit is the kernel's default share
    /// of it.
    pub dirtyable_bytes: Option<u64>,
    /// The hard dirty limit in force; larger ones are not tried.
    pub hard_limit_bytes: Option<u64>,
    /// Hard dirty limits below this are not tried: something on the machine would hang.
    pub least_hard_bytes: Option<u64>,
    /// The prefix of a queue's knobs: nothing, or `sda.` for each of the disks below (a logical
    /// volume, an array).
    pub queues: Vec<String>,
    /// The elevator in use.
    pub scheduler: Option<String>,
    /// All that the device offers.
    pub schedulers: Vec<String>,
    /// Requests that the queue admits now.
    pub nr_requests: Option<u64>,
    /// Largest request now, in KiB.
    pub max_sectors_kb: Option<u64>,
    /// The present target in microseconds; `None` where there is no writeback throttling.
    pub wbt_lat_us: Option<u64>,
    /// Whether the device can have a strict limit in bytes (`bdi.strict_limit`, `bdi.max_bytes`;
    /// Linux 6.2).
    pub strict_limit: bool,
    /// Whether limits in bytes exist (`vm.dirty_bytes`; after 2.6.24).
    pub byte_limits: bool,
    /// Whether the elevators' tunables and the victims' priority are choices too.
    pub tunables: bool,
    /// Whether bfq divides its tags among groups and priorities (CONFIG_BFQ_GROUP_IOSCHED). Where
    /// it does not, or that is not known (`None`), the victims' priority is tried last: without it
    /// best-effort 0 was slower in one run. It is tried last with [`Self::groups`] too: bfq
    /// divides by the groups' weights first.
    pub bfq_groups: Option<bool>,
    /// Whether a thread of ext4 commits the journal: it is raised along with the victims.
    pub ext4_journal: bool,
    /// Whether a victim reads.
    pub reads: bool,
    /// How many requests the device itself takes at once; `None` where that is not a knob
    /// (`device.queue_depth`).
    pub device_depth: Option<u64>,
}

impl Description {
    /// A machine with one queue whose settings at boot alone are known: knobs as they read back,
    /// the elevators on offer, RAM in bytes. Limits in bytes and writeback throttling are there if
    /// the setting names them. Strict limits are not in a setting.
    #[must_use]
    pub fn of_machine(
        in_force: &Setting,
        schedulers: Vec<String>,
        ram_bytes: u64,
        strict_limit: bool,
        reference: &Reference,
    ) -> Self {
        let number = |knob: &str| in_force.get(knob).and_then(|v| v.parse().ok());
        Self {
            drain_bytes_per_s: reference.drain_bytes_per_s,
            flood_bytes_per_s: reference.flood_bytes_per_s,
            // A fifth of what can be dirtied, which is nearly all of RAM on an idle machine.
            hard_limit_bytes: Some(ram_bytes / 5),
            least_hard_bytes: None,
            queues: vec![String::new()],
            scheduler: in_force.get("scheduler").map(str::to_owned),
            schedulers,
            nr_requests: number("nr_requests"),
            max_sectors_kb: number("max_sectors_kb"),
            wbt_lat_us: number("wbt_lat_usec"),
            strict_limit,
            byte_limits: in_force.get("vm.dirty_bytes").is_some(),
            ..Self::default()
        }
    }
}
