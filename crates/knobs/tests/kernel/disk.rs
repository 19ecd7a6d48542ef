//! A loop device with its queue and bdi knobs. Dropping it restores its knobs and removes it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use floodwall_host::SysRoot;
use floodwall_knobs::Device;
use floodwall_testing::disk::{Loop, Saved, read};
use floodwall_testing::said;

/// In the order in which they are put back: an elevator resets what follows.
const QUEUE: [&str; 10] = [
    "scheduler",
    "nr_requests",
    "async_depth",
    "max_sectors_kb",
    "rotational",
    "write_cache",
    "read_ahead_kb",
    "wbt_lat_usec",
    "rq_affinity",
    "nomerges",
];
const BDI: [&str; 3] = ["strict_limit", "min_ratio_fine", "max_ratio_fine"];
const VM: [&str; 6] = [
    "dirty_bytes",
    "dirty_ratio",
    "dirty_background_bytes",
    "dirty_background_ratio",
    "dirty_expire_centisecs",
    "dirty_writeback_centisecs",
];

pub(crate) struct Disk {
    pub(crate) device: Device,
    _found: Saved,
    attached: Loop,
    /// The backing file and the journal are in here.
    directory: tempfile::TempDir,
}

impl Disk {
    pub(crate) fn new() -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(said("a directory"))?;
        let attached = Loop::over(&directory.path().join("disk"), 64)?;
        let root = SysRoot::live().map_err(said("root"))?;
        let device = Device::find(&root, attached.node()).map_err(said("device"))?;
        Ok(Self { _found: Saved::of(files(&device)), device, attached, directory })
    }

    /// To the kernel it is another disk.
    pub(crate) fn attach_again(&mut self) -> Result<(), String> {
        self.attached.attach_again()
    }

    /// `/dev/loop0`.
    pub(crate) fn node(&self) -> &str {
        self.attached.node()
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("journal")
    }

    /// A setting by the name that its knob has here: Linux 7 has mq-deadline's async_depth in the
    /// queue.
    pub(crate) fn spelled<'a>(&self, setting: &'a str) -> &'a str {
        match setting.strip_prefix("iosched.") {
            Some(queues)
                if queues.starts_with("async_depth")
                    && self.queue().join("async_depth").exists() =>
            {
                queues
            }
            _ => setting,
        }
    }

    fn queue(&self) -> PathBuf {
        format!("/sys/dev/block/{}/queue", self.device.number).into()
    }

    /// A knob's file: `queue/nr_requests`, `bdi/strict_limit`.
    fn file(&self, knob: &str) -> PathBuf {
        match knob.strip_prefix("bdi/") {
            Some(file) => format!("/sys/class/bdi/{}/{file}", self.device.number).into(),
            None => format!("/sys/dev/block/{}/{knob}", self.device.number).into(),
        }
    }

    /// Writes one of the device's knobs by hand, as an administrator would.
    pub(crate) fn set(&self, knob: &str, value: &str) -> Result<(), String> {
        fs::write(self.file(knob), value).map_err(|e| format!("{knob} = {value}: {e}"))
    }

    pub(crate) fn get(&self, knob: &str) -> String {
        read(&self.file(knob))
    }

    /// Every knob of the device as it reads, and the machine's, which nothing here may change.
    pub(crate) fn all(&self) -> BTreeMap<PathBuf, String> {
        let tunables = fs::read_dir(self.queue().join("iosched"));
        let tunables = tunables.into_iter().flatten().flatten().map(|file| file.path());
        let machine = VM.map(|name| Path::new("/proc/sys/vm").join(name));
        let paths = files(&self.device).into_iter().filter(|path| path.exists());
        let paths = paths.chain(tunables).chain(machine);
        paths.map(|path| (path.clone(), read(&path))).collect()
    }
}

fn files(device: &Device) -> Vec<PathBuf> {
    let number = &device.number;
    let queue = QUEUE.map(|name| format!("/sys/dev/block/{number}/queue/{name}").into());
    let bdi = BDI.map(|name| format!("/sys/class/bdi/{number}/{name}").into());
    queue.into_iter().chain(bdi).collect()
}
