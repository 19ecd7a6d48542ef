//! What the controller remembers of devices: looked up when one comes, kept when an encounter ends.
//! A device without a kept drain rate begins with the one that others found on its model.

use std::fs;
use std::io::ErrorKind;
use std::time::Duration;

use floodwall_guard::Learnt;
use floodwall_hwdb::{Database, INSTALLED};
use floodwall_model::Reading;
use floodwall_model::units::{Rate, human_duration};
use floodwall_plant::DeviceIdentity;

use super::{Controller, Now};
use crate::learnt::{Found, Store};
use crate::log::Priority;

/// Seconds of a day.
const DAY: f64 = 86_400.0;

impl Controller {
    /// Opens the store. A simulated machine has none.
    pub(super) fn open_store(&mut self, now: Now) {
        if self.settings.sim.is_none() {
            let (store, said) = Store::open(&self.settings.journal);
            self.store = Some(store);
            said.into_iter().for_each(|why| self.say(now, Priority::Warning, why));
            let file = match fs::read_to_string(INSTALLED) {
                Ok(text) => Reading::Value(text),
                Err(e) if e.kind() == ErrorKind::NotFound => Reading::Absent(e.to_string()),
                Err(e) => Reading::Unreadable(e.to_string()),
            };
            let (others, problems) = Database::installed(&file);
            self.others = others;
            for problem in problems {
                self.say(now, Priority::Warning, format!("'{INSTALLED}': {problem}"));
            }
        }
    }

    /// Looks up devices that have come.
    pub(super) fn recall(&mut self, now: Now) {
        for (id, identity) in self.plant.machine.arrived() {
            let found = match (&identity, &mut self.store) {
                (Ok(identity), Some(store)) => store.find(identity, now.unix_s),
                _ => Found::Nothing,
            };
            let guess = identity.as_ref().ok().and_then(|identity| self.first_guess(identity));
            self.identities.insert(id, identity);
            let name = self.plant.machine.name(id);
            let (mut learnt, since) = match found {
                Found::Nothing => (Learnt::default(), Duration::ZERO),
                Found::Learnt(learnt, since) => (*learnt, since),
                Found::Dropped(why) => {
                    let said = format!("{name}: it is learnt anew, because {why}");
                    self.say(now, Priority::Notice, said);
                    (Learnt::default(), Duration::ZERO)
                }
            };
            if let Some((rate, from)) = guess.filter(|_| learnt.drain_bytes_per_s.is_none()) {
                learnt.guessed_drain_bytes_per_s = Some(rate);
                let said = format!("{name}: the first guess of its drain rate is {from}");
                self.say(now, Priority::Info, said);
            }
            if !learnt.is_empty() {
                self.guard.learn(id, learnt, since);
            }
        }
    }

    /// The drain rate that others found on such a disk, and its origin in words.
    fn first_guess(&self, identity: &DeviceIdentity) -> Option<(f64, String)> {
        let model = identity.model.as_deref()?;
        let entry = self.others.find(model, &identity.firmware, identity.size_bytes)?;
        let rate = entry.drain_bytes_per_s?;
        let origin = if entry.is_modelled() { "a model of" } else { "other machines with" };
        Some((rate, format!("{}, from {origin} {}", Rate(rate), entry.model)))
    }

    /// Keeps what was learnt of devices until now. A dry run keeps nothing, because it sees no
    /// effect of the levels that it decides on.
    pub(super) fn remember(&mut self, now: Now) {
        let Some(store) = self.store.as_mut().filter(|_| !self.settings.dry_run) else { return };
        let mut refused = Vec::new();
        for (id, learnt) in self.guard.learnt().filter(|(_, learnt)| !learnt.is_empty()) {
            match self.identities.get(&id) {
                Some(Ok(identity)) => {
                    store.put(self.plant.machine.name(id), identity, now.unix_s, learnt)
                }
                Some(Err(why)) => refused.push((id, why.clone())),
                None => {}
            }
        }
        for (id, why) in refused {
            let name = self.plant.machine.name(id);
            self.say(
                now,
                Priority::Info,
                format!("{name}: what was learnt of it is not kept: {why}"),
            );
            self.identities.remove(&id);
        }
    }

    /// Has the store written if it is due, but not in a dry run.
    pub(super) fn tend_store(&mut self, now: Now) {
        let store = self.store.as_mut().filter(|_| !self.settings.dry_run);
        let said = store.and_then(|store| store.tend(now.instant));
        said.into_iter().for_each(|why| self.say(now, Priority::Warning, why));
    }
}

/// `drains 121 MB/s, learnt 3 days ago`; `None` if nothing is known.
pub(super) fn words(learnt: &Learnt) -> Option<String> {
    let drain = learnt.drain_bytes_per_s.as_ref();
    let drain =
        drain.map(|drain| format!("drains {}, learnt {}", Rate(drain.value), ago(drain.age_s)));
    let alone = learnt.alone.as_ref().map(|alone| {
        let median = human_duration(
            Duration::try_from_secs_f64(alone.value.median_us / 1e6).unwrap_or_default(),
        );
        format!("victims alone wait {median}, learnt {}", ago(alone.age_s))
    });
    let all: Vec<String> = drain.into_iter().chain(alone).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

fn ago(seconds: f64) -> String {
    let days = (seconds / DAY).round();
    if days >= 2.0 {
        return format!("{days} days ago");
    }
    format!(
        "{} ago",
        human_duration(Duration::try_from_secs_f64(seconds.round()).unwrap_or_default())
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    use floodwall_device::DeviceSpec;
    use floodwall_guard::{Aged, Alone};
    use floodwall_model::plant::{KnobWrite, Knobs, Observation, Plant, PlantError};
    use floodwall_model::scenario::{self, parse_flood, parse_victim};
    use floodwall_model::{Bytes, DeviceId, Setting};
    use floodwall_sim::plant::Happening;
    use floodwall_sim::{PlantDevice, SimOptions, SimPlant};

    use super::super::Origin;
    use super::*;
    use crate::config::{Flags, Settings};
    use crate::machine::{Machine, Unjournaled};

    const TICK: Duration = Duration::from_millis(250);
    const DISK: DeviceId = DeviceId { major: 8, minor: 0 };

    /// A simulated machine in virtual time, whose disk is known by this after a boot.
    struct Simulated {
        plant: SimPlant,
        arrived: Vec<(DeviceId, Result<DeviceIdentity, String>)>,
    }

    impl Plant for Simulated {
        fn knobs(&mut self) -> Result<Knobs, PlantError> {
            self.plant.knobs()
        }

        fn observe(&mut self) -> Result<Observation, PlantError> {
            self.plant.advance(TICK);
            self.plant.observe()
        }

        fn write(&mut self, write: &KnobWrite) -> Result<(), PlantError> {
            self.plant.write(write)
        }
    }

    impl Machine for Simulated {
        fn wait(&mut self, _: Duration, _: &AtomicBool) -> Result<(), PlantError> {
            Ok(())
        }

        fn name(&self, _: DeviceId) -> String {
            "sda".into()
        }

        fn source(&self) -> &'static str {
            "sim"
        }

        fn arrived(&mut self) -> Vec<(DeviceId, Result<DeviceIdentity, String>)> {
            std::mem::take(&mut self.arrived)
        }
    }

    fn serial(firmware: &str) -> Result<DeviceIdentity, String> {
        let known_by = "ENV{ID_SERIAL}=ST2000_Z1".to_owned();
        Ok(DeviceIdentity {
            known_by,
            firmware: firmware.into(),
            size_bytes: 2_000_000_000_000,
            model: Some("ST2000".into()),
        })
    }

    struct Bench {
        controller: Controller,
        now: Now,
    }

    impl Bench {
        /// A guard that is started at a moment. A database comes after a second, a copy after six,
        /// and the database goes after half a minute.
        fn new(
            directory: &Path,
            unix_s: f64,
            dry_run: bool,
            disk: Result<DeviceIdentity, String>,
        ) -> Self {
            let options = SimOptions {
                ram: Bytes::gib(8),
                ..SimOptions::new(DeviceSpec::preset("hdd-7200").unwrap())
            };
            let mut scenario = scenario::builtin("copy-vs-database").unwrap().unwrap();
            scenario.victims =
                vec![parse_victim("commit,threads=10,block=16KiB,size=1GiB,name=db").unwrap()];
            scenario.floods = vec![parse_flood("seq,size=16GiB,name=copy").unwrap()];
            let mut plant =
                SimPlant::new(vec![PlantDevice { options, scenario }], &Setting::default())
                    .unwrap();
            for (at, what) in [
                (1, Happening::Start("db".into())),
                (6, Happening::Start("copy".into())),
                (30, Happening::Stop("db".into())),
            ] {
                plant.schedule(Duration::from_secs(at), what).unwrap();
            }
            let flags = Flags { journal: directory.join("journal"), dry_run, ..Flags::default() };
            let settings = Settings { file: None, ..Settings::read(&flags).unwrap() };
            let now = Now { instant: Instant::now(), unix_s };
            let origin = Origin { started: now.instant, parent_pid: 7, restarts: 0 };
            let machine = Simulated { plant, arrived: vec![(DISK, disk)] };
            let machine: Box<dyn Machine> =
                if dry_run { Box::new(Unjournaled::new(machine, true)) } else { Box::new(machine) };
            Self { controller: Controller::new(now, machine, settings, origin), now }
        }

        fn seconds(&mut self, seconds: u32) {
            for _ in 0..4 * seconds {
                self.now.instant += TICK;
                self.now.unix_s += TICK.as_secs_f64();
                self.controller.tick(self.now).unwrap();
            }
        }

        fn known(&mut self) -> Option<String> {
            self.controller.status(self.now).devices[0].known.clone()
        }

        /// Puts everything back and ends. The log.
        fn end(mut self) -> String {
            self.controller.release(self.now, "stopped").unwrap();
            let (said, _) = self.controller.close(self.now);
            said.into_iter().map(|(_, line)| line + "\n").collect()
        }
    }

    #[test]
    fn what_was_learnt_is_there_at_the_next_start() {
        const NOW: f64 = 1.8e9;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("learnt.json");
        let mut dry = Bench::new(dir.path(), NOW, true, serial("CC43"));
        dry.seconds(50);
        dry.end();
        assert!(!file.exists(), "a dry run keeps nothing");

        let mut first = Bench::new(dir.path(), NOW, false, serial("CC43"));
        first.seconds(1);
        assert_eq!(first.known(), None);
        first.seconds(24);
        assert!(!file.exists(), "the encounter goes on");
        first.seconds(25);
        assert_eq!(first.controller.status(first.now).devices[0].state, "free");
        let known = first.known().unwrap();
        first.end();
        let kept = std::fs::read_to_string(&file).unwrap();
        assert!(kept.contains("ST2000_Z1") && kept.contains("without_readers"), "{kept}");

        let mut second = Bench::new(dir.path(), NOW + 3.0 * DAY, false, serial("CC43"));
        second.seconds(1);
        let again = second.known().unwrap();
        let drains = |text: &str| text.split(", ").next().unwrap().to_owned();
        assert!(again.contains("learnt 3 days ago"), "{again}");
        assert_eq!(drains(&again), drains(&known));
        second.end();

        let mut dry = Bench::new(dir.path(), NOW + 5.0 * DAY, true, serial("CC43"));
        dry.seconds(1);
        assert!(dry.known().unwrap().contains("learnt 5 days ago"), "a dry run reads it");
        dry.end();

        let mut dry = Bench::new(dir.path(), NOW, true, serial("CC44"));
        dry.seconds(50);
        dry.end();
        assert!(std::fs::read_to_string(&file).unwrap().contains("CC43"), "and does not write it");

        let mut new = Bench::new(dir.path(), NOW, false, serial("CC44"));
        new.seconds(1);
        assert_eq!(new.known(), None);
        assert!(new.end().contains("sda: it is learnt anew, because it has another firmware now"));
    }

    #[test]
    fn a_new_disk_begins_with_the_rate_of_others_and_does_not_keep_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = "floodwall:block:name:ST2000:fwrev:CC43:size:2TB\n \
            FLOODWALL_DRAIN_BPS=77000000\n FLOODWALL_EVIDENCE=a+b,n=2,kernel=6.18.5\n";
        let guess =
            "sda: the first guess of its drain rate is 77.0 MB/s, from other machines with ST2000";
        for (firmware, is_guessed) in [("CC43", true), ("CC44", false)] {
            let mut bench = Bench::new(dir.path(), 1.8e9, false, serial(firmware));
            bench.controller.others = Database::installed(&Reading::Value(file.into())).0;
            bench.seconds(3);
            let known = bench.known().unwrap_or_default();
            assert!(!known.contains("drains"), "a guess is not told as learnt: {known}");
            let kept: Vec<_> = bench.controller.guard.learnt().map(|(_, learnt)| learnt).collect();
            assert!(kept.iter().all(|learnt| learnt.drain_bytes_per_s.is_none()), "{kept:?}");
            let log = bench.end();
            assert_eq!(log.contains(guess), is_guessed, "{log}");
        }
    }

    #[test]
    fn a_device_without_an_identity_is_not_kept_and_the_reason_is_said_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut bench = Bench::new(dir.path(), 1.8e9, false, Err("it is a loop device".into()));
        bench.seconds(45);
        let log = bench.end();
        let why = "sda: what was learnt of it is not kept: it is a loop device";
        assert_eq!(log.matches(why).count(), 1, "{log}");
        assert!(!dir.path().join("learnt.json").exists());
    }

    #[test]
    fn what_is_known_is_said_with_its_age() {
        assert_eq!(words(&Learnt::default()), None);
        let drain_bytes_per_s = Some(Aged { value: 121e6, age_s: 3.2 * DAY });
        let drain = Learnt { drain_bytes_per_s, ..Learnt::default() };
        assert_eq!(words(&drain).as_deref(), Some("drains 121 MB/s, learnt 3 days ago"));
        let alone = Alone { median_us: 5_200.0, mean_us: 6_000.0 };
        let both = Learnt { alone: Some(Aged { value: alone, age_s: 90.4 }), ..drain };
        let said =
            "drains 121 MB/s, learnt 3 days ago; victims alone wait 5.20 ms, learnt 90.0 s ago";
        assert_eq!(words(&both).as_deref(), Some(said));
    }
}
