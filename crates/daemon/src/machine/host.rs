//! This host as a machine: the plant of `floodwall_plant`, opened by the settings, and its news in
//! words.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use floodwall_model::DeviceId;
use floodwall_model::plant::PlantError;
use floodwall_plant::{
    DeviceIdentity, Event, HostPlant, KnobName, Options, SourceKind, Which, Yielded, mount_points,
};

use crate::config::Settings;
use crate::document::{HeldKnob, LeftOut};
use crate::error::DaemonError;
use crate::log::Priority;
use crate::machine::{Held, Left, Machine};

/// How long putting everything back may take at the end: a queue changes its length only when it
/// has run dry. A slower write stays open in the journal. The worker then ends with an error, and
/// its parent tries again.
const PATIENCE: Duration = Duration::from_secs(45);

/// How long a pause's answer waits for what is being put back: most queues take milliseconds, and
/// the worker has to give signs of life.
const SETTLE: Duration = Duration::from_millis(500);

/// Opens sensors and journal.
///
/// # Errors
/// A missing requirement, and what works without it; a name that is not a device.
pub(crate) fn open_host(settings: &Settings) -> Result<HostPlant, DaemonError> {
    let devices = if settings.devices.is_empty() {
        Which::All
    } else {
        Which::Named(settings.devices.clone())
    };
    let options = Options {
        devices,
        mounted: settings.mounted.clone(),
        exclude: settings.exclude.clone(),
        source: settings.source_kind(),
        dry_run: settings.dry_run,
        socket: std::path::absolute(&settings.socket).ok(),
        ..Options::new(&settings.journal, "floodwall guard")
    };
    let plant = HostPlant::open(&options).map_err(|e| {
        if e.is_missing_requirement() {
            let without =
                "floodwall guard --sim hdd-7200 works without root, and floodwall status shows \
                 what there is";
            DaemonError::Missing(format!("can't guard this machine: {e}; {without}"))
        } else {
            e.into()
        }
    })?;
    if plant.source() == SourceKind::Proc {
        // Why the better sources can't be used; what /proc does not tell follows from that.
        let through = plant.blind().iter().filter(|blind| blind.what.starts_with("through "));
        let why: Vec<String> = through.map(ToString::to_string).collect();
        let why = format!(
            "can't see who waits on this machine, so there is nothing to steer by: {}; floodwall \
             guard --sim hdd-7200, status and apply work without",
            why.join("; ")
        );
        return Err(DaemonError::Missing(why));
    }
    Ok(plant)
}

impl Machine for HostPlant {
    fn wait(&mut self, time: Duration, stop: &AtomicBool) -> Result<(), PlantError> {
        HostPlant::wait(self, time, stop)
    }

    fn name(&self, id: DeviceId) -> String {
        HostPlant::name(self, id)
    }

    fn named(&self) -> Option<String> {
        let Which::Named(asked) = self.which() else { return None };
        let is_name = |name: &String| self.units().iter().any(|unit| unit.name == *name);
        if asked.iter().all(is_name) {
            return None;
        }
        let units = self.units().iter().map(|unit| format!("{} ({})", unit.name, unit.id));
        let units: Vec<String> = units.collect();
        let mounts = mount_points(asked);
        let asked: Vec<String> = asked
            .iter()
            .map(|name| match mounts.get(name) {
                Some(mount) => {
                    format!("{name} (of the filesystem mounted at '{}')", mount.display())
                }
                None => name.clone(),
            })
            .collect();
        Some(format!("asked for {}, it steers {}", asked.join(", "), units.join(", ")))
    }

    fn source(&self) -> &'static str {
        HostPlant::source(self).name()
    }

    fn blind(&self) -> Vec<String> {
        HostPlant::blind(self).iter().map(ToString::to_string).collect()
    }

    fn left_out(&self) -> Vec<LeftOut> {
        let entry = |left: floodwall_plant::LeftOut| LeftOut { name: left.what, why: left.why };
        HostPlant::left_out(self).into_iter().map(entry).collect()
    }

    fn lost_events(&self) -> u64 {
        HostPlant::lost_events(self)
    }

    fn arrived(&mut self) -> Vec<(DeviceId, Result<DeviceIdentity, String>)> {
        self.take_arrived()
    }

    fn news(&mut self) -> Vec<(Priority, String)> {
        let recovered = self.take_recovered().into_iter().map(|line| (Priority::Notice, line));
        let line = |event| match event {
            Event::Came { name, .. } => (Priority::Info, format!("{name} has come")),
            Event::Gone { name, .. } => (Priority::Info, format!("{name} has gone")),
            Event::Failed(error) => {
                (Priority::Warning, format!("{error}: the value before is in force"))
            }
            Event::NotBack(error) => (
                Priority::Warning,
                format!("{error}: another value is in force (floodwall guard status)"),
            ),
            Event::Waiting { holder } => {
                (Priority::Warning, format!("writes wait: {holder} is changing settings"))
            }
        };
        recovered.chain(self.take_events().into_iter().map(line)).collect()
    }

    fn held(&self) -> Vec<Held> {
        let held = |held: floodwall_plant::HeldKnob| {
            let (device, knob) = self.place(&held);
            Held {
                device,
                label: held.label,
                knob: HeldKnob { knob, value: held.now, own: Some(held.own) },
            }
        };
        HostPlant::held(self).into_iter().map(held).collect()
    }

    fn still_held(&self) -> Vec<Held> {
        let begin = Instant::now();
        loop {
            let held = Machine::held(self);
            if held.is_empty() || begin.elapsed() >= SETTLE {
                return held;
            }
            std::thread::sleep(SETTLE / 20);
        }
    }

    fn yield_knobs(&mut self, knobs: &[KnobName]) -> Result<Yielded, String> {
        Ok(HostPlant::yield_knobs(self, knobs))
    }

    fn paces_itself(&mut self, pid: u32, device: DeviceId) -> Result<DeviceId, String> {
        let unit = HostPlant::paces_itself(self, pid, device);
        unit.ok_or_else(|| format!("this guard does not steer {device}"))
    }

    fn close(self: Box<Self>) -> Left {
        let closed = HostPlant::close(*self, PATIENCE);
        Left { alone: closed.left_alone, failed: closed.failed }
    }
}
