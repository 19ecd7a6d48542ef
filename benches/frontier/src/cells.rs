//! The cells: a place (which kernel), a device, a victim.

use std::path::Path;

use floodwall_device::DeviceSpec;
use floodwall_model::{Bytes, Scenario, scenario};
use floodwall_sim::SimOptions;

/// How long a cell is measured.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) rounds: u32,
    pub(crate) measure_s: u32,
}

/// Devices, by their presets' names.
pub(crate) const DEVICES: [&str; 6] =
    ["raid10-bbwc-2010", "hdd-7200", "sata-ssd-worn", "nvme-consumer", "cloud-gp3", "usb-stick"];

/// Victims: a name, and what `--victim` takes. Each is measured in a closed loop and in an open
/// one. Their files are larger than the devices' caches, but for that of `nvme-consumer`: what a
/// cache absorbs says nothing of the device.
const VICTIMS: [(&str, &str); 5] = [
    ("commit-1x4k", "commit,threads=1,block=4KiB,size=1GiB"),
    ("commit-10x16k", "commit,threads=10,block=16KiB,size=1GiB"),
    ("wal", "wal,threads=1,block=8KiB,size=1GiB,sync=fdatasync"),
    ("read", "read,threads=4,block=16KiB,size=1GiB"),
    ("scan", "scan,threads=1,block=256KiB,size=1GiB"),
];

/// The flood: zeros take no memory on a lab device.
pub(crate) const FLOOD: &str = "seq,data=zero";

/// Which kernel is behind a cell. Neither has all levers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// This machine's kernel: every elevator, priorities.
    Host,
    /// A user-mode kernel: cgroup v2 with its io and memory controllers.
    Guest,
}

impl Place {
    pub(crate) const ALL: [Self; 2] = [Self::Guest, Self::Host];
    /// The guest's memory.
    pub(crate) const GUEST_RAM: Bytes = Bytes::gib(8);

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Guest => "guest",
        }
    }

    /// Whether cells can be measured here. Prints the reason if not.
    pub(crate) fn is_here(self) -> bool {
        let (needs, found) = match self {
            Self::Host => ("root and /dev/fuse", Path::new("/dev/fuse").exists()),
            Self::Guest => ("user-mode-linux", Path::new("/usr/bin/linux.uml").exists()),
        };
        if !found {
            eprintln!("left out: it needs {needs}");
        }
        found
    }
}

/// A kernel, a device, a victim and a flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) place: Place,
    pub(crate) device: &'static str,
    victim: &'static str,
    spec: &'static str,
    /// At a third of its rate alone, instead of as fast as it can.
    pub(crate) is_open: bool,
}

/// All of them.
pub(crate) fn all() -> Vec<Cell> {
    let mut cells = Vec::new();
    for place in Place::ALL {
        for device in DEVICES {
            for (victim, spec) in VICTIMS {
                for is_open in [true, false] {
                    cells.push(Cell { place, device, victim, spec, is_open });
                }
            }
        }
    }
    cells
}

impl Cell {
    /// `guest/hdd-7200_wal-open`.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}_{}", self.place.name(), self.device, self.victim())
    }

    /// `wal`, `wal-open`.
    pub(crate) fn victim(&self) -> String {
        format!("{}{}", self.victim, if self.is_open { "-open" } else { "" })
    }

    /// What `--victim` takes.
    pub(crate) fn victim_spec(&self) -> String {
        format!("{}{}", self.spec, if self.is_open { ",rate=33%" } else { "" })
    }

    pub(crate) fn scenario(&self, pace: Pace) -> anyhow::Result<Scenario> {
        let mut s = scenario::parse(&format!(
            "name = \"custom\"\n[[victim]]\nkind = \"read\"\n[timing]\nrounds = {}\n\
             measure = \"{}s\"\n",
            pace.rounds, pace.measure_s
        ))?;
        s.victims = vec![scenario::parse_victim(&self.victim_spec())?];
        s.floods = vec![scenario::parse_flood(FLOOD)?];
        Ok(s)
    }

    /// The simulated twin of the machine.
    pub(crate) fn machine(&self) -> anyhow::Result<SimOptions> {
        let machine = SimOptions { lab: true, ..SimOptions::new(DeviceSpec::preset(self.device)?) };
        Ok(match self.place {
            Place::Host => machine,
            Place::Guest => SimOptions { ram: Place::GUEST_RAM, cpus: 1, ..machine },
        })
    }
}
