//! What this host and device, or a simulated one, have to choose from.

use floodwall_bench::HostRunner;
use floodwall_host::mounts::charges_writeback;
use floodwall_host::servers::{self, Exposure, fuse_limits};
use floodwall_host::{SysRoot, memory, queue};
use floodwall_knobs::OVERRIDE;
use floodwall_model::scenario::VictimKind;
use floodwall_model::{Bytes, DeviceId, Reading, Scenario};
use floodwall_sim::kernel::Generation;
use floodwall_sim::{FsKind, SimOptions};
use floodwall_tune::objective::Reference;
use floodwall_tune::space::{Description, Kind};

/// The limits that userspace block servers allow.
pub(super) struct Least {
    /// The least hard limit under which none can hang; `None` if any limit can hang one.
    pub(super) hard_bytes: Option<u64>,
    /// The names of the servers.
    servers: String,
}

impl Least {
    /// `None` if the machine has no such server.
    pub(super) fn read(root: &SysRoot) -> Option<Self> {
        let servers = servers::read(root);
        let exposure = Exposure::of(&servers, fuse_limits)?;
        let who: Vec<String> =
            servers.iter().filter(|s| s.may_hang()).map(servers::describe).collect();
        let served_by_queue = exposure.queue_bytes > 0 || exposure.boundless.is_some();
        served_by_queue
            .then(|| Self { hard_bytes: exposure.least_hard_bytes(), servers: who.join("; ") })
    }

    /// Which limits are not tried, and why.
    pub(super) fn warning(&self) -> String {
        let servers = &self.servers;
        let which = match self.hard_bytes {
            Some(least) => {
                let least = Bytes(least);
                format!("no limit below {least} is tried, because it could hang the machine")
            }
            None => "no limit is tried, because any could hang the machine".to_owned(),
        };
        format!("{which}: {servers} (FW045); {OVERRIDE} tries them")
    }
}

/// What a benchmark's directory, its devices and its loads have to choose from.
pub(super) struct Offers {
    queue_device: Option<DeviceId>,
    /// Queues with an elevator, by the prefix of their knobs: empty, or the name of a disk below
    /// (a logical volume, an array).
    queues: Vec<(String, DeviceId)>,
    is_array: bool,
    groups: bool,
    paced: bool,
    ext4_journal: bool,
    reads: bool,
}

impl Offers {
    /// Of a runner that is open.
    pub(super) fn of(root: &SysRoot, runner: &HostRunner, scenario: &Scenario) -> Self {
        let location = runner.location();
        let queue_device = location.queue_device;
        // Logical volumes and arrays built on bios have no elevator; the disks below have.
        let has_elevator = |id: DeviceId| schedulers(root, id).len() > 1;
        let queues = match queue_device {
            Some(id) if has_elevator(id) || location.leaves.is_empty() => vec![(String::new(), id)],
            _ => location
                .leaves
                .iter()
                .filter(|leaf| has_elevator(leaf.id))
                .map(|leaf| (format!("{}.", leaf.name), leaf.id))
                .collect(),
        };
        let filesystem = location.mount.fs_type.as_str();
        let groups = runner.groups().is_ok();
        Self {
            queue_device,
            queues,
            is_array: location.leaves.len() > 1,
            groups,
            paced: queue_device.is_some() && groups && charges_writeback(filesystem),
            ext4_journal: filesystem == "ext4",
            reads: reads(scenario),
        }
    }

    /// What the user should know before a search: a lever that is tried last, and why.
    pub(super) fn doubt(&self, root: &SysRoot) -> Option<String> {
        let (_, first) = self.queues.first()?;
        let has_bfq = schedulers(root, *first).iter().any(|name| name == "bfq");
        let why = match queue::read_bfq_groups(root) {
            Reading::Value(true) => return None,
            Reading::Value(false) => {
                "this kernel's bfq has no group support (CONFIG_BFQ_GROUP_IOSCHED)".to_owned()
            }
            unknown => {
                format!(
                    "whether bfq has group support is not known ({})",
                    unknown.why().unwrap_or_default()
                )
            }
        };
        has_bfq.then(|| {
            format!(
                "the victims' priority under bfq is tried last: {why}, and without it a \
                database was slower at best-effort 0 in one run"
            )
        })
    }

    /// What there is to choose from, once the drain rate is known.
    pub(super) fn description(
        &self,
        root: &SysRoot,
        least_hard_bytes: Option<u64>,
        reference: &Reference,
    ) -> Description {
        let mut description = Description {
            drain_bytes_per_s: reference.drain_bytes_per_s,
            flood_bytes_per_s: reference.flood_bytes_per_s,
            hard_limit_bytes: memory::read_thresholds(root).hard_bytes.into_value(),
            dirtyable_bytes: memory::read_memory(root).available_bytes.into_value(),
            least_hard_bytes,
            byte_limits: root.exists("/proc/sys/vm/dirty_bytes"),
            strict_limit: self
                .queue_device
                .is_some_and(|id| root.exists(&format!("/sys/class/bdi/{id}/strict_limit"))),
            groups: self.groups,
            paced: self.paced,
            tunables: true,
            bfq_groups: queue::read_bfq_groups(root).into_value(),
            ext4_journal: self.ext4_journal,
            reads: self.reads,
            ..Description::default()
        };
        let Some((_, first)) = self.queues.first() else { return description };
        let read = queue::read_queue(root, *first);
        description.kind = match read.rotational.into_value() {
            _ if self.is_array => Some(Kind::Array),
            Some(true) => Some(Kind::Disk),
            Some(false) => Some(Kind::SolidState),
            None => None,
        };
        description.scheduler = read.scheduler.into_value();
        description.schedulers = schedulers(root, *first);
        description.nr_requests = read.nr_requests.into_value();
        description.max_sectors_kb = read.max_sectors_kib.into_value();
        description.wbt_lat_us = read.wbt_lat_us.into_value();
        description.device_depth =
            queue::read_depth(root, *first).into_value().and_then(|depth| depth.parse().ok());
        description.queues = self.queues.iter().map(|(prefix, _)| prefix.clone()).collect();
        description
    }
}

/// Whether a victim reads; a command may.
fn reads(scenario: &Scenario) -> bool {
    let writes_only =
        |kind: &VictimKind| kind.writes() && !matches!(kind, VictimKind::Mixed { .. });
    scenario.victims.iter().any(|victim| !writes_only(&victim.kind))
}

/// `none [mq-deadline] bfq` as names.
fn schedulers(root: &SysRoot, id: DeviceId) -> Vec<String> {
    let text = match root.read_line(&format!("{}/scheduler", queue::directory(id))) {
        Reading::Value(text) => text,
        _ => String::new(),
    };
    queue::choices(&text).map(str::to_owned).collect()
}

/// For a simulated machine: `in_force` is its setting at boot. Its runner refuses what this version
/// of the simulator lacks. Victims and floods have groups only under a setting that names one.
pub(super) fn of_sim(
    options: &SimOptions,
    scenario: &Scenario,
    in_force: &floodwall_model::Setting,
    reference: &Reference,
) -> Description {
    let offered = floodwall_sim::eras::parts::offered(options.generation);
    let names = offered.iter().map(|kind| kind.name().to_owned()).collect();
    let strict_limit = options.generation == Generation::K6;
    // A RAID card is one disk to the kernel, whatever is behind it.
    let kind = match options {
        array if array.member_queues > 1 => Kind::Array,
        disk if disk.device.rotational() => Kind::Disk,
        _ => Kind::SolidState,
    };
    Description {
        kind: Some(kind),
        paced: options.generation == Generation::K6,
        tunables: true,
        bfq_groups: Some(options.bfq_groups),
        ext4_journal: options.fs == FsKind::Ext4,
        reads: reads(scenario),
        device_depth: options.device_depth().map(u64::from),
        ..Description::of_machine(in_force, names, options.ram.0, strict_limit, reference)
    }
}

#[cfg(test)]
mod tests {
    use floodwall_device::DeviceSpec;
    use floodwall_model::{LatencyCounts, Setting, scenario};

    use super::*;

    #[test]
    fn a_simulated_machine_has_the_kind_of_its_device_and_what_its_victims_do() {
        let reference = Reference {
            iops_alone: 1.0,
            flood_bytes_per_s: 1e8,
            burst_bytes_per_s: None,
            drain_bytes_per_s: 1e8,
            rated: Vec::new(),
            waits: LatencyCounts::default(),
        };
        let of = |preset: &str, victim: &str, generation| {
            let machine =
                SimOptions { generation, ..SimOptions::new(DeviceSpec::preset(preset).unwrap()) };
            let mut scenario = scenario::builtin("copy-vs-database").unwrap().unwrap();
            scenario.victims = vec![scenario::parse_victim(victim).unwrap()];
            let told = of_sim(&machine, &scenario, &Setting::default(), &reference);
            let members = SimOptions { member_queues: 5, bfq_groups: false, ..machine };
            let array = of_sim(&members, &scenario, &Setting::default(), &reference);
            assert_eq!((array.kind, array.bfq_groups), (Some(Kind::Array), Some(false)));
            assert_eq!((told.bfq_groups, told.groups), (Some(true), false));
            (told.kind, told.reads, told.paced, told.device_depth)
        };
        let (now, then) = (Generation::K6, Generation::K3_2);
        // The presets' depths, and 32 of a SATA disk (`ATA_MAX_QUEUE`); NVMe has no such knob.
        let raid = of("raid10-bbwc-2010", "commit", now);
        assert_eq!((raid.0, raid.1, raid.2), (Some(Kind::Disk), false, true));
        assert!(raid.3.is_some_and(|depth| depth > 32), "{raid:?}");
        assert_eq!(of("hdd-7200", "read", now), (Some(Kind::Disk), true, true, Some(32)));
        assert_eq!(
            of("sata-ssd-worn", "wal", then),
            (Some(Kind::SolidState), false, false, Some(32))
        );
        assert_eq!(of("nvme-consumer", "read", now).3, None);
    }

    #[test]
    fn the_limits_that_are_not_tried_are_named_with_the_servers() {
        let warning =
            |hard_bytes| Least { hard_bytes, servers: "loop0: served by pid 7".into() }.warning();
        insta::assert_snapshot!(warning(Some(263 << 20)), @"no limit below 263 MiB is tried, \
            because it could hang the machine: loop0: served by pid 7 (FW045); \
            --allow-userspace-servers tries them");
        insta::assert_snapshot!(warning(None), @"no limit is tried, because any could hang the \
            machine: loop0: served by pid 7 (FW045); --allow-userspace-servers tries them");
    }
}
