//! Removable disks as a class: one block of the udev rules for every disk that is plugged in.
//!
//! ```text
//! KNOB=VALUE, default limit ─▶ values ─▶ Persisted::removable ─▶ rules: lines behind MATCHES
//! ```
//!
//! - **USB** is a parent of the disk. The property `ID_BUS` does not tell: a disk in an enclosure
//!   that answers ATA commands has `ata` there (systemd's 60-persistent-storage.rules).
//! - **Removable media** are what the kernel calls removable: card readers and sticks. Optical
//!   drives and floppies are left out.
//! - **An SD card** in a slot of the machine's own is no removable medium to the kernel. Its type
//!   tells it from a soldered eMMC.
//! - **The limit** is kept in bytes. A disk that is plugged in later than the machine's limits are
//!   set gets just that many. The kernel keeps them as a share of the hard limit of that moment.

use floodwall_host::{SysRoot, block};
use floodwall_model::Bytes;

use super::value::Value;
use crate::catalogue::target::Device;
use crate::catalogue::value::{Form, ValueError, check};
use crate::catalogue::{Knob, find};

/// The matches of a udev rule: a disk that fits one of them is removable.
pub(crate) const MATCHES: [&str; 3] = [
    "KERNEL==\"sd*\", SUBSYSTEMS==\"usb\"",
    "KERNEL==\"sd*\", ATTR{removable}==\"1\"",
    "KERNEL==\"mmcblk*\", ATTR{device/type}==\"SD\"",
];
/// The knobs that removable disks may be given.
const KNOBS: [&str; 2] = ["bdi.max_bytes", "scheduler"];
/// About a second of writes for a disk of unknown speed. Half of the sticks and cards drain less
/// than 13 MB/s (docs/guard.md, "An unknown device").
pub const LIMIT_BYTES: u64 = 16 << 20;
/// Two of the flusher's chunks (`MIN_WRITEBACK_PAGES`): with less, writers stop again and again.
const LEAST_BYTES: u64 = 8 << 20;

/// Settings that removable disks can't have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemovableError {
    /// No `=`, or a knob that removable disks do not have here.
    #[error(
        "'{0}' can't be kept for removable disks: they have bdi.max_bytes=SIZE and scheduler=NAME; \
         keep it with another floodwall persist, without --removable"
    )]
    Knob(String),
    /// The value.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// A limit below 8 MiB.
    #[error(
        "bdi.max_bytes={given} is less than two chunks of the kernel's flusher, so every writer \
         would stop again and again; give at least {least}", least = Bytes(LEAST_BYTES)
    )]
    TooSmall {
        /// The size.
        given: Bytes,
    },
    /// A kernel before 6.2.
    #[error(
        "this kernel has no limit of one disk that always holds (Linux 6.2 has one); lower the \
         machine's limits instead: floodwall persist vm.dirty_background_bytes=16MiB \
         vm.dirty_bytes=48MiB; writers to fast disks then wait at 48 MiB too"
    )]
    NoShare,
}

/// The values that removable disks are to have: those of `KNOB=VALUE`, and a strict limit if none
/// is kept.
///
/// # Errors
/// [`RemovableError`] for the first text that can't be kept.
pub fn values(texts: &[String], kept: &[Value]) -> Result<Vec<Value>, RemovableError> {
    let mut values: Vec<Value> = Vec::new();
    for text in texts {
        let unknown = || RemovableError::Knob(text.clone());
        let (name, value) = text.split_once('=').ok_or_else(unknown)?;
        let knob = find(name.trim()).filter(|knob| KNOBS.contains(&knob.name));
        let knob = knob.ok_or_else(unknown)?;
        let value = check(knob, value, Form::Person)?;
        values.retain(|other| other.knob != knob);
        values.push(Value { knob, value });
    }
    let add = |values: &mut Vec<Value>, name: &str, value: u64| {
        let is_there = |knob: &Knob| kept.iter().chain(values.iter()).any(|v| v.knob == knob);
        if let Some(knob) = find(name).filter(|knob| !is_there(knob)) {
            values.push(Value { knob, value: value.to_string() });
        }
    };
    add(&mut values, "bdi.max_bytes", LIMIT_BYTES);
    add(&mut values, "bdi.strict_limit", 1);
    match values.iter().find_map(limit_bytes).filter(|bytes| *bytes < LEAST_BYTES) {
        Some(bytes) => Err(RemovableError::TooSmall { given: Bytes(bytes) }),
        None => Ok(values),
    }
}

/// The bytes of a limit in bytes.
fn limit_bytes(value: &Value) -> Option<u64> {
    (value.knob.name == "bdi.max_bytes").then(|| value.value.parse().ok()).flatten()
}

/// A value as a rule writes it: a limit in bytes is a share of the machine's limit, if that is kept
/// in bytes too. It may be set after the disk has appeared, and the share stays right.
pub(crate) fn written(value: &Value, hard_limit_bytes: Option<u64>) -> Value {
    let share = || {
        let (bytes, hard) = (limit_bytes(value)?, hard_limit_bytes.filter(|hard| *hard > 0)?);
        let ppm = u128::from(bytes) * 1_000_000 / u128::from(hard);
        let knob: &'static Knob = find("bdi.max_ratio_fine")?;
        Some(Value { knob, value: ppm.clamp(1, 1_000_000).to_string() })
    };
    share().unwrap_or_else(|| value.clone())
}

/// Whether a disk fits [`MATCHES`].
pub(crate) fn is_removable(root: &SysRoot, device: &Device) -> bool {
    block::is_removable(root, &device.name, &format!("/sys/dev/block/{}", device.number))
}

/// The removable disks of this moment.
pub(crate) fn plugged_in(root: &SysRoot) -> Vec<Device> {
    let names = root.list("/sys/class/block").into_value().unwrap_or_default();
    let disks =
        names.iter().filter(|name| !root.exists(&format!("/sys/class/block/{name}/partition")));
    let devices = disks.filter_map(|name| Device::find(root, name).ok());
    devices.filter(|device| is_removable(root, device)).collect()
}

/// Whether the kernel knows a limit of one disk that always holds. Every disk has its file then.
pub(crate) fn has_strict_limit(root: &SysRoot) -> bool {
    let disks = root.list("/sys/class/bdi").into_value().unwrap_or_default();
    disks.iter().any(|number| root.exists(&format!("/sys/class/bdi/{number}/strict_limit")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> Result<Vec<String>, String> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let values = values(&texts, &[]).map_err(|e| e.to_string())?;
        Ok(values.iter().map(|value| format!("{}={}", value.knob.name, value.value)).collect())
    }

    #[test]
    fn a_limit_and_an_elevator_may_be_named_and_nothing_else() {
        assert_eq!(of(&[]).unwrap(), ["bdi.max_bytes=16777216", "bdi.strict_limit=1"]);
        assert_eq!(
            of(&["scheduler=bfq", "bdi.max_bytes=64MiB", "bdi.max_bytes=32MiB"]).unwrap(),
            ["scheduler=bfq", "bdi.max_bytes=33554432", "bdi.strict_limit=1"]
        );
        for (text, why) in [
            ("bdi.strict_limit=0", "they have bdi.max_bytes=SIZE and scheduler=NAME"),
            ("sdb.scheduler=bfq", "'sdb.scheduler=bfq' can't be kept"),
            ("bfq", "'bfq' can't be kept"),
            ("bdi.max_bytes=16", "16"),
            ("bdi.max_bytes=4MiB", "give at least 8 MiB"),
        ] {
            let error = of(&[text]).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_limit_is_written_as_a_share_of_a_limit_in_bytes() {
        let values = values(&[], &[]).unwrap();
        assert_eq!(super::values(&[], &values), Ok(Vec::new()), "a kept one stays");
        let shown = |hard: Option<u64>| {
            let written = written(&values[0], hard);
            format!("{}={}", written.knob.name, written.value)
        };
        assert_eq!(shown(None), "bdi.max_bytes=16777216");
        assert_eq!(shown(Some(64 << 20)), "bdi.max_ratio_fine=250000");
        assert_eq!(shown(Some(8 << 20)), "bdi.max_ratio_fine=1000000");
        assert_eq!(written(&values[1], Some(64 << 20)), values[1]);
    }
}
