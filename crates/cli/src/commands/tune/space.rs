//! What this host and device, or a simulated one, have to choose from.

use floodwall_host::servers::{self, Exposure, fuse_limits};
use floodwall_host::{SysRoot, memory, queue};
use floodwall_knobs::OVERRIDE;
use floodwall_model::{Bytes, DeviceId, Reading};
use floodwall_sim::SimOptions;
use floodwall_sim::kernel::Generation;
use floodwall_tune::objective::Reference;
use floodwall_tune::space::Description;

/// The limits that userspace block servers allow.
pub(super) struct Least {
    /// The least hard limit under which none can hang; `None` if any limit can hang one.
    pub(super) hard_bytes: Option<u64>,
    /// Who they are.
    servers: String,
}

impl Least {
    /// `None` if the machine has no such server.
    pub(super) fn read(root: &SysRoot) -> Option<Self> {
        let servers = servers::read(root);
        let exposure = Exposure::of(&servers, fuse_limits)?;
        let who: Vec<String> = servers.iter().filter(|s| s.may_hang()).map(servers::describe).collect();
        let served_by_queue = exposure.queue_bytes > 0 || exposure.boundless.is_some();
        served_by_queue.then(|| Self { hard_bytes: exposure.least_hard_bytes(), servers: who.join("; ") })
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

/// Of a directory's devices: the one whose queue its writes meet, and those below it.
pub(super) fn of_host(
    root: &SysRoot,
    queue_device: Option<DeviceId>,
    leaves: &[(String, DeviceId)],
    least_hard_bytes: Option<u64>,
    reference: &Reference,
) -> Description {
    let mut description = Description {
        drain_bytes_per_s: reference.drain_bytes_per_s,
        hard_limit_bytes: memory::read_thresholds(root).hard_bytes.into_value(),
        least_hard_bytes,
        byte_limits: root.exists("/proc/sys/vm/dirty_bytes"),
        strict_limit: queue_device
            .is_some_and(|id| root.exists(&format!("/sys/class/bdi/{id}/strict_limit"))),
        ..Description::default()
    };
    // Logical volumes and arrays built on bios have no elevator of their own; the disks below have.
    let has_elevator = |id: DeviceId| schedulers(root, id).len() > 1;
    let queues: Vec<(String, DeviceId)> = match queue_device {
        Some(id) if has_elevator(id) || leaves.is_empty() => vec![(String::new(), id)],
        _ => leaves
            .iter()
            .filter(|(_, id)| has_elevator(*id))
            .map(|(name, id)| (format!("{name}."), *id))
            .collect(),
    };
    let Some((_, first)) = queues.first().cloned() else { return description };
    let read = queue::read_queue(root, first);
    description.scheduler = read.scheduler.into_value();
    description.schedulers = schedulers(root, first);
    description.nr_requests = read.nr_requests.into_value();
    description.max_sectors_kb = read.max_sectors_kib.into_value();
    description.wbt_lat_us = read.wbt_lat_us.into_value();
    description.queues = queues.into_iter().map(|(prefix, _)| prefix).collect();
    description
}

/// `none [mq-deadline] bfq` as names.
fn schedulers(root: &SysRoot, id: DeviceId) -> Vec<String> {
    let text = match root.read_line(&format!("{}/scheduler", queue::directory(id))) {
        Reading::Value(text) => text,
        _ => String::new(),
    };
    text.split_whitespace().map(|name| name.trim_matches(['[', ']']).to_owned()).collect()
}

/// Of a simulated machine: `in_force` is what it boots with.
pub(super) fn of_sim(
    options: &SimOptions,
    in_force: &floodwall_model::Setting,
    reference: &Reference,
) -> Description {
    let offered = floodwall_sim::elevator::offered(options.generation);
    let names = offered.iter().map(|kind| kind.name().to_owned()).collect();
    let strict_limit = options.generation == Generation::K6;
    Description::of_machine(in_force, names, options.ram.0, strict_limit, reference)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_that_are_not_tried_are_named_with_the_servers() {
        let warning = |hard_bytes| Least { hard_bytes, servers: "loop0: served by pid 7".into() }.warning();
        insta::assert_snapshot!(warning(Some(263 << 20)), @"no limit below 263 MiB is tried, because it could hang the machine: loop0: served by pid 7 (FW045); --allow-userspace-servers tries them");
        insta::assert_snapshot!(warning(None), @"no limit is tried, because any could hang the machine: loop0: served by pid 7 (FW045); --allow-userspace-servers tries them");
    }
}
