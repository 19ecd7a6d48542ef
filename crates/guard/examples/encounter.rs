//! One encounter of ten committing threads and a copy on each modelled device, with and without the
//! guard.
//!
//! ```text
//! cargo run --release -p floodwall-guard --example encounter [balance] [victim=SPEC] [PRESET…]
//!     a row each; every preset but null if none is named
//! cargo run --release -p floodwall-guard --example encounter [balance] [victim=SPEC] log PRESET
//!     every decision and every write
//! ```
//!
//! The victim (10 threads, 16 KiB, fsync) runs from the first second on, the copy from the tenth. A
//! minute later the victim leaves. The run ends twenty seconds after that. *Kept* is the victim's
//! rate in that minute, without its first two seconds, as a share of its rate alone. The rate alone
//! is that of the five seconds before the copy. *Dead* are seconds with less than a tenth of the
//! rate alone.

// A program for people: it reads its arguments and prints.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

use std::error::Error;
use std::time::Duration;

use floodwall_device::{DeviceSpec, preset_names};
use floodwall_guard::{Config, Guard, Mode, State};
use floodwall_model::plant::{KnobWrite, Knobs, Observation, Plant, PlantError};
use floodwall_model::scenario::{self, parse_flood, parse_victim};
use floodwall_model::{Bytes, Setting};
use floodwall_sim::plant::Happening;
use floodwall_sim::{PlantDevice, SimOptions, SimPlant};

const TICK: Duration = Duration::from_millis(250);
/// The copy joins, the victim leaves, the end; in seconds.
const MEET: u64 = 10;
const LEAVE: u64 = 70;
const END: u64 = 90;

/// The figures of a run.
#[derive(Default)]
struct Figures {
    alone: f64,
    kept: f64,
    dead: usize,
    flood_mb_per_s: f64,
    protected_s: Option<f64>,
    freed_s: Option<f64>,
    writes: usize,
}

/// Keeps the guard's last observation.
struct Tap {
    plant: SimPlant,
    seen: Observation,
}

impl Plant for Tap {
    fn knobs(&mut self) -> Result<Knobs, PlantError> {
        self.plant.knobs()
    }

    fn observe(&mut self) -> Result<Observation, PlantError> {
        self.seen = self.plant.observe()?;
        Ok(self.seen.clone())
    }

    fn write(&mut self, write: &KnobWrite) -> Result<(), PlantError> {
        self.plant.write(write)
    }
}

/// What victims do, as `--victim` takes it.
const VICTIM: &str = "commit,threads=10,block=16KiB,size=512MiB";

fn plant(device: &str, victim: &str) -> Result<SimPlant, Box<dyn Error>> {
    let mut scenario = scenario::builtin("copy-vs-database").ok_or("no scenario")??;
    scenario.victims = vec![parse_victim(&format!("{victim},name=db"))?];
    scenario.floods = vec![parse_flood("seq,size=8GiB,name=copy")?];
    let options = SimOptions { ram: Bytes::gib(8), ..SimOptions::new(DeviceSpec::preset(device)?) };
    let mut plant = SimPlant::new(vec![PlantDevice { options, scenario }], &Setting::default())?;
    for (at, happening) in [
        (1, Happening::Start("db".into())),
        (MEET, Happening::Start("copy".into())),
        (LEAVE, Happening::Stop("db".into())),
    ] {
        plant.schedule(Duration::from_secs(at), happening)?;
    }
    Ok(plant)
}

fn run(
    device: &str,
    victim: &str,
    mode: Option<Mode>,
    log: bool,
) -> Result<Figures, Box<dyn Error>> {
    let mut tap = Tap { plant: plant(device, victim)?, seen: Observation::default() };
    let mut guard = Guard::new(Config { mode: mode.unwrap_or_default(), ..Config::default() });
    let mut figures = Figures::default();
    let mut seconds: Vec<(u64, u64)> = Vec::new();
    while tap.plant.now() < Duration::from_secs(END) {
        let mut second = (0, 0);
        for _ in 0..4 {
            tap.plant.advance(TICK);
            if mode.is_some() {
                let report = guard.tick(&mut tap)?;
                figures.writes += report.writes.len();
                for d in &report.decisions {
                    let at = d.at.as_secs_f64();
                    if d.to == State::Protect && figures.protected_s.is_none() {
                        figures.protected_s = Some(at - MEET as f64);
                    }
                    if d.to == State::Free && at > LEAVE as f64 && figures.freed_s.is_none() {
                        figures.freed_s = Some(at - LEAVE as f64);
                    }
                    if log {
                        println!("{at:7.2} s  {} → {} ({}): {}", d.from, d.to, d.level, d.why);
                    }
                }
                if log {
                    report.writes.iter().for_each(|write| println!("           {write}"));
                    report.left_alone.iter().for_each(|error| println!("           {error}"));
                }
            } else {
                tap.observe()?;
            }
            for actor in tap.seen.devices.iter().flat_map(|d| &d.actors) {
                second.0 += actor.operations();
                second.1 += if actor.who == "copy" { actor.dirtied_bytes } else { 0 };
            }
        }
        seconds.push(second);
    }
    let mean = |from: u64, to: u64| {
        let part = &seconds[from as usize..to as usize];
        part.iter().map(|s| s.0).sum::<u64>() as f64 / part.len() as f64
    };
    figures.alone = mean(MEET - 5, MEET);
    figures.kept = mean(MEET + 2, LEAVE) / figures.alone;
    let both = &seconds[MEET as usize + 2..LEAVE as usize];
    figures.dead = both.iter().filter(|s| (s.0 as f64) < 0.1 * figures.alone).count();
    figures.flood_mb_per_s = both.iter().map(|s| s.1).sum::<u64>() as f64 / both.len() as f64 / 1e6;
    Ok(figures)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mode = match arguments.first() {
        Some(first) if first == Mode::Balance.name() => {
            arguments.remove(0);
            Mode::Balance
        }
        _ => Mode::Protect,
    };
    let victim = match arguments.first().and_then(|first| first.strip_prefix("victim=")) {
        Some(_) => arguments.remove(0).split_off("victim=".len()),
        None => VICTIM.to_owned(),
    };
    if let [log, device] = arguments.as_slice()
        && log == "log"
    {
        run(device, &victim, Some(mode), true)?;
        return Ok(());
    }
    let all: Vec<&str> = preset_names().filter(|name| *name != "null").collect();
    let named: Vec<&str> = arguments.iter().map(String::as_str).collect();
    println!(
        "| device | alone IOPS | kept, dead s, flood MB/s: default | guard | protected after | \
         free after | writes |"
    );
    println!("|---|---|---|---|---|---|---|");
    for device in if named.is_empty() { all } else { named } {
        let (default, guard) =
            (run(device, &victim, None, false)?, run(device, &victim, Some(mode), false)?);
        let seconds = |s: Option<f64>| s.map_or("–".to_owned(), |s| format!("{s:.2} s"));
        println!(
            "| {device} | {:.0} | {:.2}, {}, {:.0} | {:.2}, {}, {:.0} | {} | {} | {} |",
            default.alone,
            default.kept,
            default.dead,
            default.flood_mb_per_s,
            guard.kept,
            guard.dead,
            guard.flood_mb_per_s,
            seconds(guard.protected_s),
            seconds(guard.freed_s),
            guard.writes
        );
    }
    Ok(())
}
