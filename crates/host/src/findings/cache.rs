//! Volatile caches: what is believed of them, and whether data gets out of them.

use floodwall_model::finding::Severity;
use floodwall_model::status::{Device, Queue};

use super::facts::Facts;
use super::found::Found;
use super::remedy::{apply, fstab};
use super::view::{Disk, disks, writable};

/// The kernel sends flushes and forced writes to a queue.
fn sends_flushes(queue: &Queue) -> Option<bool> {
    queue.write_cache.value().map(|cache| cache.starts_with("write back"))
}

/// FW026: flushes are dropped before they reach a cache that needs them.
pub(super) fn flushes_dropped(facts: Facts<'_>) -> Option<Found> {
    let mut found = Found::nothing();
    let mut settings = Vec::new();
    let mut add = |name: &str, evidence: String| {
        found.add(Severity::Critical, name, evidence);
        settings.push(format!("{name}.write_cache=write-back"));
    };
    for disk in disks(facts.status) {
        let says = disk.queue.device_cache.value().filter(|cache| cache.starts_with("write back"));
        if let (Some(false), Some(says)) = (sends_flushes(disk.queue), says) {
            add(
                disk.name,
                format!(
                    "{}: queue/write_cache is 'write through', the disk's cache_type is '{says}'",
                    disk.name
                ),
            );
        }
    }
    for device in facts.status.devices.iter().filter(|device| writable(device)) {
        let below = device.leaves.iter().find(|leaf| sends_flushes(&leaf.queue) == Some(true));
        if let (Some(false), Some(below)) = (sends_flushes(&device.queue), below) {
            let evidence = format!(
                "{}: queue/write_cache is 'write through', but {} below has a volatile cache \
                 ('write back')",
                device.name, below.name
            );
            add(&device.name, evidence);
        }
    }
    found.remedied_by(apply(&settings))
}

/// Parts of the models under which controllers with a cache present their volumes.
const CONTROLLERS: [(&str, &str); 9] = [
    ("PERC", "perccli64 /c0/bbu show"),
    ("MegaRAID", "storcli64 /c0/bbu show"),
    ("AVAGO", "storcli64 /c0/bbu show"),
    ("LSI", "storcli64 /c0/bbu show"),
    ("ServeRAID", "storcli64 /c0/bbu show"),
    ("LOGICAL VOLUME", "ssacli controller all show status"),
    ("Adaptec", "arcconf getconfig 1 ad"),
    ("ASR", "arcconf getconfig 1 ad"),
    ("Areca", "areca-cli hw info"),
];

/// FW027: a controller's volume is taken to have a volatile cache; if a battery keeps it, flushes
/// are for nothing.
pub(super) fn controller_flushes(facts: Facts<'_>) -> Option<Found> {
    let mut found = Found::nothing();
    let mut command = "";
    for disk in
        disks(facts.status).into_iter().filter(|disk| sends_flushes(disk.queue) == Some(true))
    {
        let Some((model, show)) = controller(&disk) else { continue };
        let evidence = format!(
            "{}: {model} says 'write back', so every fsync waits for a flush; a cache kept by a \
             battery needs none",
            disk.name
        );
        found.add(Severity::Note, disk.name, evidence);
        command = show;
    }
    found.remedied_by(command)
}

fn controller<'a>(disk: &Disk<'a>) -> Option<(&'a str, &'static str)> {
    let model = disk.model.value()?;
    CONTROLLERS
        .iter()
        .find(|(part, _)| model.contains(part))
        .map(|(_, show)| (model.as_str(), *show))
}

/// FW028: mounted without barriers over a cache that loses what it holds.
pub(super) fn no_barriers(facts: Facts<'_>) -> Option<Found> {
    let mut found = Found::nothing();
    let mut edits = Vec::new();
    for device in facts.status.devices.iter().filter(|device| writable(device)) {
        let Some(volatile) = volatile_cache(device) else { continue };
        for mount in device.mounts.iter().filter(|mount| !mount.read_only) {
            let Some(option) =
                mount.options.iter().find(|o| matches!(o.as_str(), "nobarrier" | "barrier=0"))
            else {
                continue;
            };
            let evidence = format!(
                "{}: mounted with {option}, and {volatile} has a volatile cache ('write back')",
                mount.mountpoint
            );
            found.add(Severity::Critical, &mount.mountpoint, evidence);
            let back = if mount.filesystem.starts_with("ext") { "barrier=1" } else { "barrier" };
            edits.push((mount.mountpoint.as_str(), option.clone(), back.to_owned()));
        }
    }
    found.remedied_by(fstab(&edits))
}

/// The device, itself or below, whose cache is volatile.
fn volatile_cache(device: &Device) -> Option<&str> {
    if device.leaves.is_empty() {
        return (sends_flushes(&device.queue)? && device.id.major != 0)
            .then_some(device.name.as_str());
    }
    device
        .leaves
        .iter()
        .find(|leaf| sends_flushes(&leaf.queue) == Some(true))
        .map(|leaf| leaf.name.as_str())
}

#[cfg(test)]
mod tests {
    use floodwall_model::Reading;

    use crate::findings::testing::{Machine, found};

    fn through() -> Reading<String> {
        Reading::Value("write through".into())
    }

    #[test]
    fn fw026_compares_the_kernel_with_the_disk_and_with_what_lies_below() {
        let mut machine = Machine::healthy();
        machine.status.devices[0].queue.write_cache = through();
        let one = found(&machine, "FW026").unwrap();
        insta::assert_snapshot!(one.evidence[0], @"sda: queue/write_cache is 'write through', the \
            disk's cache_type is 'write back'");
        insta::assert_snapshot!(one.remedy, @"floodwall apply sda.write_cache=write-back");
        // Believed of a disk that says the same, or says nothing.
        machine.status.devices[0].queue.device_cache = through();
        assert_eq!(found(&machine, "FW026"), None);
        machine.status.devices[0].queue.device_cache = Reading::Absent("nvme".into());
        assert_eq!(found(&machine, "FW026"), None);
        let mut stacked = machine.stacked("dm-0", vec![machine.leaf("sdz")]);
        stacked.queue.write_cache = through();
        machine.status.devices.push(stacked);
        insta::assert_snapshot!(found(&machine, "FW026").unwrap().evidence[0], @"\
            dm-0: queue/write_cache is 'write through', but sdz below has a volatile cache \
            ('write back')");
    }

    #[test]
    fn fw027_knows_controllers_by_their_models() {
        let mut machine = Machine::healthy();
        machine.status.devices[0].model = Reading::Value("DELL PERC H730P Mini".into());
        assert_eq!(found(&machine, "FW027").unwrap().remedy, "perccli64 /c0/bbu show");
        machine.status.devices[0].queue.write_cache = through();
        assert_eq!(found(&machine, "FW027"), None);
    }

    #[test]
    fn fw028_asks_for_the_option_and_the_cache() {
        let mut machine = Machine::healthy();
        machine.status.devices[0].mounts[0].options.push("barrier=0".into());
        let one = found(&machine, "FW028").unwrap();
        insta::assert_snapshot!(one.evidence[0], @"/mnt/sda: mounted with barrier=0, and sda has a \
            volatile cache ('write back')");
        insta::assert_snapshot!(one.remedy, @"edit /etc/fstab (/mnt/sda: barrier=1 instead of \
            barrier=0), then systemctl daemon-reload && systemctl reload /mnt/sda");
        machine.status.devices[0].queue.write_cache = through();
        machine.status.devices[0].queue.device_cache = through();
        assert_eq!(found(&machine, "FW028"), None);
    }
}
