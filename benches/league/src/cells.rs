//! The cells of the league: a device, a victim, how many streams flood it.

use anyhow::Context;
use floodwall_device::DeviceSpec;
use floodwall_model::{LatencyCounts, Scenario, Setting, scenario};
use floodwall_sim::SimOptions;
use floodwall_sim::kernel::Generation;
use floodwall_tune::objective::Reference;
use floodwall_tune::space::{Description, Space};

use crate::random;

/// Devices, by their presets' names.
pub(crate) const DEVICES: [&str; 5] =
    ["raid10-bbwc-2010", "hdd-7200", "sata-ssd-worn", "usb-stick", "cloud-gp3"];

/// Victims: a name and what `--victim` takes.
pub(crate) const VICTIMS: [(&str, &str); 4] = [
    ("commit-1x4k", "commit,threads=1,block=4KiB,size=2GiB"),
    ("commit-10x16k", "commit,threads=10,block=16KiB,size=2GiB"),
    ("read", "read,threads=4,block=16KiB,size=2GiB"),
    ("scan", "scan,threads=1,block=256KiB,size=2GiB"),
];

/// Streams of the flood.
pub(crate) const STREAMS: [u32; 2] = [1, 4];

/// One cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) device: &'static str,
    pub(crate) victim: &'static str,
    spec: &'static str,
    pub(crate) streams: u32,
    /// The seed that the device is drawn with; `None`: a preset.
    pub(crate) drawn: Option<u32>,
    /// Operations a second that the victim asks for, whatever it gets; `None`: as many as it can.
    /// 0 while the rate is not measured yet.
    pub(crate) rate: Option<u32>,
}

/// All of the league, device by device.
pub(crate) fn all() -> Vec<Cell> {
    of(&DEVICES, &STREAMS, None)
}

/// The same with victims that ask for a rate.
pub(crate) fn open_loop() -> Vec<Cell> {
    all().into_iter().map(|cell| cell.at_rate(0)).collect()
}

/// The same victims beside one stream, on devices drawn with each of some seeds.
pub(crate) fn drawn(seeds: impl IntoIterator<Item = u32>) -> Vec<Cell> {
    seeds.into_iter().flat_map(|seed| of(&random::CLASSES, &STREAMS[..1], Some(seed))).collect()
}

/// Ten committing threads beside one stream on every preset that models something.
pub(crate) fn presets() -> Vec<Cell> {
    let devices: Vec<&'static str> =
        floodwall_device::preset_names().filter(|name| *name != "null").collect();
    let mut cells = of(&devices, &STREAMS[..1], None);
    cells.retain(|cell| cell.victim == "commit-10x16k");
    cells
}

fn of(devices: &[&'static str], streams: &[u32], drawn: Option<u32>) -> Vec<Cell> {
    let mut cells = Vec::new();
    for device in devices {
        for (victim, spec) in VICTIMS {
            for streams in streams {
                cells.push(Cell { device, victim, spec, streams: *streams, drawn, rate: None });
            }
        }
    }
    cells
}

impl Cell {
    /// `hdd-7200_commit-1x4k_flood-4`, `drawn-disk-afbd7cd8_read_flood-1`, `…_flood-1_open`.
    pub(crate) fn name(&self) -> String {
        let seed = self.drawn.map_or(String::new(), |seed| format!("-{seed:08x}"));
        let open = if self.rate.is_some() { "_open" } else { "" };
        format!("{}{seed}_{}_flood-{}{open}", self.device, self.victim, self.streams)
    }

    /// The same with a victim that asks for so many operations a second.
    pub(crate) fn at_rate(&self, rate: u32) -> Self {
        Self { rate: Some(rate), ..*self }
    }

    /// The same with a victim that does as much as it can.
    pub(crate) fn closed_loop(&self) -> Self {
        Self { rate: None, ..*self }
    }

    /// What `--victim` takes for it.
    pub(crate) fn victim_spec(&self) -> &'static str {
        self.spec
    }

    /// The default scenario of `floodwall tune` with the cell's victim and flood.
    pub(crate) fn scenario(&self) -> anyhow::Result<Scenario> {
        let name = scenario::builtin_names().next().unwrap_or_default();
        let mut s = scenario::builtin(name).context("there is no built-in scenario")??;
        let rate = self.rate.map_or(String::new(), |rate| format!(",rate={rate}"));
        s.victims = vec![scenario::parse_victim(&(self.spec.to_owned() + &rate))?];
        s.floods = vec![scenario::parse_flood(&format!("seq,streams={}", self.streams))?];
        s.name = self.name();
        s.description = "a cell of the league".into();
        scenario::name_apart(&mut s);
        Ok(s)
    }

    /// The machine of `floodwall tune --sim`.
    pub(crate) fn machine(&self, seed: u64) -> anyhow::Result<SimOptions> {
        let device = match self.drawn {
            Some(draw) => random::spec(self.device, draw)?,
            None => DeviceSpec::preset(self.device)?,
        };
        Ok(SimOptions { seed, ..SimOptions::new(device) })
    }
}

/// What a machine has to choose from without groups, priorities and tunables: the grids of
/// docs/league.md. `floodwall tune --sim` has those as well.
pub(crate) fn space(machine: &SimOptions, in_force: &Setting, reference: &Reference) -> Space {
    let offered = floodwall_sim::eras::parts::offered(machine.generation);
    let names = offered.iter().map(|kind| kind.name().to_owned()).collect();
    let strict_limit = machine.generation == Generation::K6;
    Space::of(&Description::of_machine(in_force, names, machine.ram.0, strict_limit, reference))
}

/// How many points a cell's space has where the device drains so fast.
pub(crate) fn points(cell: &Cell, drain_bytes_per_s: f64) -> anyhow::Result<usize> {
    let machine = cell.machine(1)?;
    let in_force = floodwall_sim::SimRunner::new(machine.clone())
        .check(&cell.scenario()?, &Setting::default())?;
    let reference = Reference {
        iops_alone: 1.0,
        flood_bytes_per_s: 1.0,
        burst_bytes_per_s: None,
        drain_bytes_per_s,
        rated: Vec::new(),
        waits: LatencyCounts::default(),
    };
    Ok(space(&machine, &in_force, &reference).size())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_forty_cells_and_twenty_four_of_drawn_devices_and_each_can_be_run() {
        let (cells, drawn) = (all(), drawn([7]));
        assert_eq!((cells.len(), drawn.len()), (40, 24));
        assert_eq!(drawn[0].name(), "drawn-disk-00000007_commit-1x4k_flood-1");
        for cell in cells.into_iter().chain(drawn) {
            let scenario = cell.scenario().unwrap();
            let runner = floodwall_sim::SimRunner::new(cell.machine(1).unwrap());
            runner
                .check(&scenario, &Setting::default())
                .unwrap_or_else(|e| panic!("{}: {e}", cell.name()));
        }
    }
}
