//! The remedies of findings: commands that don't cause the next finding.

use floodwall_model::printable::shell_word as word;
use floodwall_model::status::{Device, Machine, Status};

use super::kernel;
use super::view::{FLUSHER_CHUNK_BYTES, HARD_DELAY_S, LONG_DRAIN_S, prefix, rate, speed, writable};

/// Two of the flusher's chunks: with less, writers stop again and again.
const LEAST_BYTES: u64 = 2 * FLUSHER_CHUNK_BYTES;
/// A floor for a device's share, in parts per million: what kernels from 6.13 on give by themselves
/// (mm/page-writeback.c).
const FLOOR_PPM: u64 = 10_000;

/// How well a limit of one device works on this kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shares {
    /// It holds as it is.
    Hold,
    /// After idleness it is near zero unless a minimum is kept (6.8 to 6.12).
    NeedFloor,
    /// The kernel has no such limit, or scales it wrongly and may round it to zero (6.2 to 6.7).
    Useless,
}

fn shares(status: &Status, device: &Device) -> Shares {
    let version = kernel::version(&status.machine);
    if device.limits.strict_limit.value().is_none()
        || version.is_some_and(|version| version <= (6, 7))
    {
        Shares::Useless
    } else if version.is_some_and(|version| version <= (6, 12)) {
        Shares::NeedFloor
    } else {
        Shares::Hold
    }
}

/// Applies settings.
pub(super) fn apply(settings: &[String]) -> String {
    format!("floodwall apply {}", settings.join(" "))
}

/// Settings that give a device its own limit, of at least two chunks; `None` where this kernel
/// can't, or the machine's limit leaves no room.
pub(super) fn own_share(
    status: &Status,
    device: &Device,
    hard: u64,
    wanted: u64,
) -> Option<String> {
    let bytes = wanted.max(LEAST_BYTES);
    let shares = shares(status, device);
    if shares == Shares::Useless || bytes >= hard {
        return None;
    }
    let mebibytes = bytes.div_ceil(1 << 20);
    let name = prefix(device);
    let ppm =
        u64::try_from(u128::from(bytes) * 1_000_000 / u128::from(hard.max(1))).unwrap_or(u64::MAX);
    let floor = match shares {
        Shares::NeedFloor => {
            format!("{name}.bdi.min_ratio_fine={} ", (ppm / 4).clamp(1, FLOOR_PPM))
        }
        _ => String::new(),
    };
    Some(format!("{name}.bdi.max_bytes={mebibytes}MiB {floor}{name}.bdi.strict_limit=1"))
}

/// Sizes the limits for devices by their rates, and applies them.
///
/// With several devices the limit is the sum of their limits, and each gets its share of it. Where
/// shares don't hold, the limit may be no more than the slowest device drains in [`LONG_DRAIN_S`].
///
/// A rate that is only estimated is measured: the kernel's estimate is a tenth of the truth after
/// small writes.
pub(super) fn size_and_apply(status: &Status, devices: &[&Device]) -> String {
    let mut known: Vec<(&Device, f64)> =
        devices.iter().filter_map(|d| Some((*d, rate(d)?))).collect();
    known.sort_by(|a, b| a.1.total_cmp(&b.1));
    let sum: f64 = known.iter().map(|(_, rate)| rate).sum();
    let slowest = known.first().map_or(0.0, |(_, rate)| *rate);
    let hold = known.iter().all(|(device, _)| shares(status, device) == Shares::Hold);
    let argument = |rate: f64| speed(rate).replace(' ', "");
    let named = |(device, rate): &(&Device, f64)| match is_estimate(device) {
        true => format!("--device {}", place(device)),
        false => format!("--rate {}={}", prefix(device), argument(*rate)),
    };
    let (rates, total, is_measured) = if hold || known.len() < 2 {
        let is_measured = known.iter().any(|(device, _)| is_estimate(device));
        (known.iter().map(named).collect::<Vec<_>>().join(" "), sum, is_measured)
    } else if let Some(first) = known.first().filter(|(device, _)| is_estimate(device)) {
        (named(first), slowest, true)
    } else {
        // Rounded to three digits, so a little less.
        let total = sum.min(slowest * LONG_DRAIN_S / HARD_DELAY_S * 0.99);
        (format!("--rate {}", argument(total)), total, false)
    };
    let least_s = LEAST_BYTES as f64 * known.len() as f64 / total.max(1.0);
    let delay = if least_s > HARD_DELAY_S && !is_measured {
        format!(" --hard-delay {}s", least_s.ceil())
    } else {
        String::new()
    };
    format!("floodwall size {rates}{delay} --toml > limits.toml && floodwall apply limits.toml")
}

/// Whether a device's rate is the kernel's estimate, and can be measured.
pub(super) fn is_estimate(device: &Device) -> bool {
    !device.drain.from.is_seen() && writable(device)
}

/// A device as `floodwall size --device` takes it: a disk by its name, another filesystem by a
/// directory.
fn place(device: &Device) -> String {
    if device.id.major != 0 { device.name.clone() } else { directory(device) }
}

/// A directory on a device that can be written, for a shell.
pub(super) fn directory(device: &Device) -> String {
    let mount = device.mounts.iter().find(|mount| !mount.read_only);
    mount.map_or_else(|| "DIR".to_owned(), |mount| word(&mount.mountpoint))
}

/// Adds an argument to the kernel's command line, as the distribution has it done.
pub(super) fn kernel_argument(machine: &Machine, argument: &str) -> String {
    // A container has another distribution than its host, and the host's kernel.
    let own = machine.distribution_ids.value().filter(|_| machine.container.value().is_none());
    let ids = own.map_or(&[][..], Vec::as_slice);
    let is = |names: &[&str]| ids.iter().any(|id| names.contains(&id.as_str()));
    if is(&["debian", "ubuntu"]) {
        format!(
            "add {argument} to GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub and \
             reboot"
        )
    } else if is(&["fedora", "rhel", "centos"]) {
        format!("grubby --update-kernel=ALL --args={argument}   # then reboot")
    } else {
        format!("add {argument} to the kernel's command line, and reboot")
    }
}

/// Changes mount options where their manager keeps them: mountpoint, option now, option wanted.
pub(super) fn fstab(edits: &[(&str, String, String)]) -> String {
    let each: Vec<String> =
        edits.iter().map(|(at, now, wanted)| format!("{at}: {wanted} instead of {now}")).collect();
    // `reload` of a mount unit is a remount with the options of /etc/fstab.
    let mounts: Vec<String> = edits.iter().map(|(at, ..)| word(at)).collect();
    format!(
        "edit /etc/fstab ({}), then systemctl daemon-reload && systemctl reload {}",
        each.join(", "),
        mounts.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use floodwall_model::Reading;
    use floodwall_model::status::DrainSource;

    use super::*;
    use crate::findings::testing::{Machine, disk};

    fn at(name: &str, rate: f64) -> Device {
        let mut device = disk(name);
        device.drain.rate_bytes_per_s = Reading::Value(rate);
        device
    }

    #[test]
    fn limits_are_sized_with_shares_where_they_hold() {
        let mut machine = Machine::healthy();
        let (fast, slow) = (at("sda", 500e6), at("sdb", 20e6));
        let advice = |machine: &Machine| size_and_apply(&machine.status, &[&fast, &slow]);
        insta::assert_snapshot!(advice(&machine), @"floodwall size --rate sdb=20.0MB/s --rate \
            sda=500MB/s --toml > limits.toml && floodwall apply limits.toml");
        machine.kernel("6.8.0-40-generic");
        insta::assert_snapshot!(advice(&machine), @"floodwall size --rate 66.0MB/s --toml > \
            limits.toml && floodwall apply limits.toml");
        let stick = at("sdc", 2e6);
        insta::assert_snapshot!(size_and_apply(&machine.status, &[&stick]), @"floodwall size \
            --rate sdc=2.00MB/s --hard-delay 5s --toml > limits.toml && floodwall apply \
            limits.toml");
    }

    #[test]
    fn a_rate_that_is_only_estimated_is_measured() {
        let mut machine = Machine::healthy();
        let (fast, mut slow) = (at("sda", 500e6), at("sdb", 2e6));
        slow.drain.from = DrainSource::KernelEstimate;
        let advice =
            |machine: &Machine, devices: &[&Device]| size_and_apply(&machine.status, devices);
        insta::assert_snapshot!(advice(&machine, &[&slow]), @"floodwall size --device sdb \
            --toml > limits.toml && floodwall apply limits.toml");
        insta::assert_snapshot!(advice(&machine, &[&fast, &slow]), @"floodwall size --device sdb \
            --rate sda=500MB/s --toml > limits.toml && floodwall apply limits.toml");
        machine.kernel("6.8.0-40-generic");
        insta::assert_snapshot!(advice(&machine, &[&fast, &slow]), @"floodwall size --device sdb \
            --toml > limits.toml && floodwall apply limits.toml");
        let (mut estimated, stick) = (at("sda", 500e6), at("sdc", 1e6));
        estimated.drain.from = DrainSource::KernelEstimate;
        insta::assert_snapshot!(advice(&machine, &[&estimated, &stick]), @"floodwall size --rate \
            3.30MB/s --hard-delay 6s --toml > limits.toml && floodwall apply limits.toml");
        slow.id.major = 0;
        insta::assert_snapshot!(advice(&machine, &[&slow]), @"floodwall size --device /mnt/sdb \
            --toml > limits.toml && floodwall apply limits.toml");
    }

    #[test]
    fn the_kernels_command_line_is_changed_in_the_distributions_way() {
        let mut machine = Machine::healthy();
        let mut advice = |ids: &[&str]| {
            machine.status.machine.distribution_ids =
                Reading::Value(ids.iter().map(|id| (*id).to_owned()).collect());
            kernel_argument(&machine.status.machine, "psi=1")
        };
        let debian = "add psi=1 to GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub and \
                      reboot";
        let fedora = "grubby --update-kernel=ALL --args=psi=1   # then reboot";
        assert_eq!(
            (advice(&["debian"]), advice(&["linuxmint", "ubuntu", "debian"])),
            (debian.to_owned(), debian.to_owned())
        );
        assert_eq!(
            (advice(&["fedora"]), advice(&["rocky", "rhel", "centos", "fedora"])),
            (fedora.to_owned(), fedora.to_owned())
        );
        let other = "add psi=1 to the kernel's command line, and reboot";
        assert_eq!(advice(&["alpine"]), other);
        machine.status.machine.container = Reading::Value("/.dockerenv is there".into());
        machine.status.machine.distribution_ids = Reading::Value(vec!["debian".into()]);
        assert_eq!(kernel_argument(&machine.status.machine, "psi=1"), other);
        machine.status.machine.container = Reading::Absent("none".into());
        machine.status.machine.distribution_ids = Reading::Absent("no file".into());
        assert_eq!(kernel_argument(&machine.status.machine, "psi=1"), other);
    }

    #[test]
    fn a_share_is_advised_as_the_kernel_can_keep_it() {
        let mut machine = Machine::healthy();
        let device = disk("sdb");
        let advice =
            |machine: &Machine, wanted: u64| own_share(&machine.status, &device, 1 << 30, wanted);
        assert_eq!(
            advice(&machine, 64 << 20).as_deref(),
            Some("sdb.bdi.max_bytes=64MiB sdb.bdi.strict_limit=1")
        );
        assert_eq!(
            advice(&machine, 1).as_deref(),
            Some("sdb.bdi.max_bytes=8MiB sdb.bdi.strict_limit=1")
        );
        assert_eq!(advice(&machine, 2 << 30), None);
        machine.kernel("6.8.0-40-generic");
        assert_eq!(
            advice(&machine, 16 << 20).as_deref(),
            Some("sdb.bdi.max_bytes=16MiB sdb.bdi.min_ratio_fine=3906 sdb.bdi.strict_limit=1")
        );
        machine.kernel("6.5.0");
        assert_eq!(advice(&machine, 64 << 20), None);
    }
}
