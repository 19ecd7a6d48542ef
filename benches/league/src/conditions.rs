//! Conditions that move: loads that come and go, a device that slows down, two devices of very
//! different speed, an hour of the same, days of anything.

use std::borrow::Cow;
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use floodwall_device::fault::Disturbance;
use floodwall_device::spec::{Fault, FaultKind};
use floodwall_device::{DeviceSpec, Nanos};
use floodwall_guard::State;
use floodwall_model::scenario::{self, parse_flood, parse_victim};
use floodwall_model::{Bytes, Setting};
use floodwall_sim::{PlantDevice, SimOptions};
use published::origin::Origin;
use published::stored::{read, write};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use crate::stage::Stage;

/// Where loads come and go: a disk, an SSD, an array with a cache, a volume over a network.
const DEVICES: [&str; 4] = ["hdd-7200", "sata-ssd", "raid10-bbwc-2010", "cloud-gp3"];
/// Devices of the random days.
const ANY: [&str; 9] = [
    "raid10-bbwc-2010",
    "sas-raid10-2009",
    "hdd-7200",
    "hdd-5400-smr",
    "sata-ssd",
    "sata-ssd-worn",
    "usb-stick",
    "sd-card",
    "cloud-gp3",
];
const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

const DB: &str = "commit,threads=4,block=16KiB,size=512MiB,name=db";
const COPY: &str = "seq,size=6GiB,name=copy";

/// What the figures depend on.
const INPUTS: [&str; 3] = ["law", "simulator", "device-presets"];
/// Where they are kept, in the directory of the guard's data.
const FILE: &str = "conditions.json";

/// The stored figures.
#[derive(Serialize, Deserialize)]
struct Conditions {
    origin: Origin,
    figures: Vec<Figure>,
}

/// A figure of the table.
#[derive(Serialize, Deserialize)]
struct Figure {
    condition: Cow<'static, str>,
    on: String,
    what: Cow<'static, str>,
    goal: Cow<'static, str>,
    measured: String,
    reached: bool,
}

fn options(device: &str) -> anyhow::Result<SimOptions> {
    Ok(SimOptions { ram: Bytes::gib(8), ..SimOptions::new(DeviceSpec::preset(device)?) })
}

fn part(options: SimOptions, victims: &[&str], floods: &[&str]) -> anyhow::Result<PlantDevice> {
    let name = scenario::builtin_names().next().unwrap_or_default();
    let mut s = scenario::builtin(name).context("there is no built-in scenario")??;
    s.victims = victims.iter().map(|v| parse_victim(v)).collect::<Result<_, _>>()?;
    s.floods = floods.iter().map(|f| parse_flood(f)).collect::<Result<_, _>>()?;
    Ok(PlantDevice { options, scenario: s })
}

fn one(device: &str, guarded: bool) -> anyhow::Result<Stage> {
    Stage::new(vec![part(options(device)?, &[DB], &[COPY])?], &Setting::default(), guarded)
}

fn worst(all: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    all.map(|s| s.unwrap_or(f64::INFINITY)).reduce(f64::max).filter(|s| s.is_finite())
}

fn within(measured: Option<f64>, most: f64) -> (String, bool) {
    let text = measured.map_or("never".to_owned(), |s| format!("{s:.2} s"));
    (text, measured.is_some_and(|s| s <= most))
}

/// Runs all conditions and keeps the figures; those of a part of a month are only printed.
pub(crate) fn run(
    data: &Path,
    first_day: u64,
    days: u64,
    jobs: Option<usize>,
    root: &Path,
) -> anyhow::Result<()> {
    let origin = Origin::now(root, &INPUTS)?;
    let figures = figures(first_day, days, jobs)?;
    if first_day > 0 {
        println!("{}", section(&figures));
        return Ok(());
    }
    write(&data.join(FILE), &Conditions { origin, figures })
}

/// The section of the stored figures, and their origin; `None` without any.
pub(crate) fn stored(data: &Path) -> anyhow::Result<Option<(&'static str, String, Origin)>> {
    let stored: Option<Conditions> = read(&data.join(FILE))?;
    Ok(stored.map(|c| ("league-guard-conditions", section(&c.figures), c.origin)))
}

fn figures(first_day: u64, days: u64, jobs: Option<usize>) -> anyhow::Result<Vec<Figure>> {
    type Condition = fn(&str) -> anyhow::Result<Vec<Figure>>;
    let mut work: Vec<(Condition, &str)> = Vec::new();
    for device in DEVICES {
        for condition in
            [flood_comes_and_goes as Condition, victim_comes_and_goes, slows_down, alone]
        {
            work.push((condition, device));
        }
    }
    work.push((steady, "hdd-7200"));
    work.push((steady, "cloud-gp3"));
    work.push((two_devices, "usb-stick"));
    if first_day > 0 {
        work.clear();
    }
    let next = AtomicU64::new(0);
    let found: Mutex<Vec<(usize, anyhow::Result<Vec<Figure>>)>> = Mutex::new(Vec::new());
    let month: Mutex<Vec<anyhow::Result<Day>>> = Mutex::new(Vec::new());
    let jobs = jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if let Some((condition, device)) = work.get(i as usize) {
                        let figures = condition(device);
                        eprintln!("condition {} of {}", i + 1, work.len());
                        found
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push((i as usize, figures));
                    } else if i < work.len() as u64 + days {
                        let day = day(first_day + i - work.len() as u64);
                        eprintln!("day {} of {days}", i + 1 - work.len() as u64);
                        month.lock().unwrap_or_else(PoisonError::into_inner).push(day);
                    } else {
                        break;
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(i, _)| *i);
    let mut figures = Vec::new();
    for (_, f) in found {
        figures.extend(f?);
    }
    let month = month.into_inner().unwrap_or_else(PoisonError::into_inner);
    figures.extend(of_month(month.into_iter().collect::<anyhow::Result<_>>()?));
    // Figures of one condition stand together.
    let order: Vec<Cow<'static, str>> = figures.iter().map(|f| f.condition.clone()).collect();
    figures.sort_by_key(|f| order.iter().position(|c| *c == f.condition));
    Ok(figures)
}

/// The table.
fn section(figures: &[Figure]) -> String {
    let reached = figures.iter().filter(|f| f.reached).count();
    let mut out = format!(
        "{reached} of {} figures are reached; 8 GiB of RAM, 4 threads that commit 16 KiB, a \
         copy.\n\n| condition | device | figure | goal | measured | |\n|---|---|---|---|---|---|\n",
        figures.len()
    );
    for f in figures {
        let verdict = if f.reached { "reached" } else { "**not reached**" };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {verdict} |",
            f.condition, f.on, f.what, f.goal, f.measured
        );
    }
    out
}

/// The victim is there all the time, the flood three times for half a minute.
fn flood_comes_and_goes(device: &str) -> anyhow::Result<Vec<Figure>> {
    let mut stage = one(device, true)?;
    stage.start(0, "db")?;
    let meets: Vec<u64> = (0..3).map(|k| 15 + 90 * k).collect();
    for meet in &meets {
        stage.start(*meet, "copy")?;
        stage.stop(meet + 30, "copy")?;
    }
    stage.until(300)?;
    let (alone, _) = stage.rate("db", 5, 15);
    let protected = worst(meets.iter().map(|m| stage.entered(State::Protect, *m)));
    let dead: usize = meets.iter().map(|m| stage.dead("db", alone, m + 2, m + 30)).sum();
    let (protected, in_time) = within(protected, 1.0);
    let condition = "the flood comes and goes";
    let figure = figure_of(condition, device);
    Ok(vec![
        figure("protected after the flood has come", "1 s", protected, in_time),
        figure("dead seconds after the first two, of 84", "0", dead.to_string(), dead == 0),
    ])
}

/// Figures of one condition on one device: the name, the goal, the measured value, whether it
/// reaches the goal.
fn figure_of(
    condition: &'static str,
    on: &str,
) -> impl Fn(&'static str, &'static str, String, bool) -> Figure {
    move |what, goal, measured, reached| Figure {
        condition: condition.into(),
        on: on.to_owned(),
        what: what.into(),
        goal: goal.into(),
        measured,
        reached,
    }
}

/// The flood is there all the time, the victim three times for half a minute.
fn victim_comes_and_goes(device: &str) -> anyhow::Result<Vec<Figure>> {
    let run = |guarded| -> anyhow::Result<(Stage, Vec<u64>)> {
        let mut stage = one(device, guarded)?;
        stage.start(0, "copy")?;
        let meets: Vec<u64> = (0..3).map(|k| 20 + 60 * k).collect();
        for meet in &meets {
            stage.start(*meet, "db")?;
            stage.stop(meet + 30, "db")?;
        }
        stage.until(200)?;
        Ok((stage, meets))
    };
    let ((mut with, meets), (without, _)) = (run(true)?, run(false)?);
    let protected = worst(meets.iter().map(|m| with.entered(State::Protect, *m)));
    let freed = worst(meets.iter().map(|m| with.entered(State::Free, m + 30)));
    let later =
        |stage: &Stage| meets.iter().map(|m| stage.rate("copy", m + 40, m + 60).1).sum::<f64>();
    let flood = later(&with) / later(&without).max(1.0);
    let own = with.is_as_it_was()?;
    let ((protected, in_time), (freed, free_in_time)) =
        (within(protected, 1.0), within(freed, 10.0));
    let condition = "the victim comes and goes";
    let figure = figure_of(condition, device);
    Ok(vec![
        figure("protected after the victim has come", "1 s", protected, in_time),
        figure("free after it has gone", "10 s", freed, free_in_time),
        figure(
            "flood afterwards, of the default's",
            "95 %",
            format!("{:.0} %", flood * 100.0),
            flood >= 0.95,
        ),
        figure(
            "knobs at the end",
            "as before",
            if own { "as before" } else { "changed" }.into(),
            own,
        ),
    ])
}

/// Ten times slower for a minute, while both are there.
fn slows_down(device: &str) -> anyhow::Result<Vec<Figure>> {
    let (from, to) = (60, 120);
    let mut slow = options(device)?;
    let kind = FaultKind::Clock(Disturbance::Slow {
        factor_permille: 10_000,
        from: Nanos::from_secs(from),
        to: Nanos::from_secs(to),
    });
    slow.device.faults.push(Fault { member: None, kind });
    let mut stage = Stage::new(vec![part(slow, &[DB], &[COPY])?], &Setting::default(), true)?;
    stage.start(0, "db")?;
    stage.start(15, "copy")?;
    stage.until(from)?;
    let before = stage.drain_bytes_per_s();
    stage.until(from + 5)?;
    let after = stage.drain_bytes_per_s();
    stage.until(to + 60)?;
    let ratio = after.zip(before).map_or(f64::NAN, |(a, b)| a / b);
    let (alone, _) = stage.rate("db", 5, 15);
    let dead = stage.dead("db", alone / 10.0, from + 2, to);
    let (kept, later) = (stage.rate("db", 30, from).0, stage.rate("db", to + 30, to + 60).0);
    let condition = "ten times slower for a minute";
    let figure = figure_of(condition, device);
    let share = later / kept.max(1e-9);
    Ok(vec![
        figure(
            "drain rate known after 5 s, of that before",
            "under 30 %",
            format!("{:.0} %", ratio * 100.0),
            ratio < 0.3,
        ),
        figure(
            "dead seconds after the first two, of 58, of the slow device's own",
            "0",
            dead.to_string(),
            dead == 0,
        ),
        figure(
            "victim half a minute after it is over, of that before",
            "90 %",
            format!("{:.0} %", share * 100.0),
            share >= 0.9,
        ),
    ])
}

/// An hour without floods, and one without victims.
fn alone(device: &str) -> anyhow::Result<Vec<Figure>> {
    let condition = "an hour alone";
    let mut figures = Vec::new();
    for (load, what) in [("db", "writes without floods"), ("copy", "writes without victims")] {
        // Operations cost the simulator time: a victim that commits now and then stands for one
        // that always does.
        let victim = "commit,threads=1,block=16KiB,size=512MiB,rate=20/s,name=db";
        let parts = vec![part(options(device)?, &[victim], &[COPY])?];
        let mut stage = Stage::new(parts, &Setting::default(), true)?;
        stage.keeps_seconds = false;
        stage.start(0, load)?;
        stage.until(HOUR)?;
        let writes = stage.writes.len();
        figures.push(Figure {
            condition: condition.into(),
            on: device.to_owned(),
            what: what.into(),
            goal: "0".into(),
            measured: writes.to_string(),
            reached: writes == 0,
        });
    }
    Ok(figures)
}

/// Both, and nothing changes.
fn steady(device: &str) -> anyhow::Result<Vec<Figure>> {
    let victim = "commit,threads=1,block=16KiB,size=512MiB,name=db";
    let parts = vec![part(options(device)?, &[victim], &[COPY])?];
    let mut stage = Stage::new(parts, &Setting::default(), true)?;
    stage.keeps_seconds = false;
    stage.start(0, "db")?;
    stage.start(15, "copy")?;
    stage.until(600 + HOUR)?;
    let settled = Duration::from_secs(600);
    let writes = stage.writes.iter().filter(|(at, _)| *at >= settled).count();
    Ok(vec![Figure {
        condition: "an hour of the same".into(),
        on: device.to_owned(),
        what: "writes after the first ten minutes".into(),
        goal: "under 10".into(),
        measured: writes.to_string(),
        reached: writes < 10,
    }])
}

/// A flood on a slow device beside a database and a copy on a fast one, and then only the copy.
fn two_devices(slow: &str) -> anyhow::Result<Vec<Figure>> {
    struct Rates {
        db: f64,
        /// The fast one's copy in its first three seconds and half a minute later.
        first: f64,
        copy: f64,
        slow: f64,
    }
    let run = |guarded, stick: bool, db: bool| -> anyhow::Result<Rates> {
        let parts = vec![
            part(options("nvme-datacenter")?, &[DB], &[COPY])?,
            part(options(slow)?, &[], &["seq,size=6GiB,name=stick"])?,
        ];
        let mut stage = Stage::new(parts, &Setting::default(), guarded)?;
        if stick {
            stage.start(0, "stick")?;
        }
        if db {
            stage.start(0, "db")?;
        }
        // The page cache is full of what the slow one has not written.
        stage.start(30, "copy")?;
        stage.until(60)?;
        Ok(Rates {
            db: stage.rate("db", 40, 60).0,
            first: stage.rate("copy", 30, 33).1,
            copy: stage.rate("copy", 40, 60).1,
            slow: stage.rate("stick", 40, 60).1,
        })
    };
    let figure = |what: &'static str, measured: f64, goal: &'static str, least: f64| Figure {
        condition: "two devices".into(),
        on: format!("nvme-datacenter, {slow}"),
        what: what.into(),
        goal: goal.into(),
        measured: format!("{:.0} %", measured * 100.0),
        reached: measured >= least,
    };
    let alone = run(false, false, false)?;
    let db_alone = run(true, false, true)?.db;
    let default = run(false, true, false)?;
    let guard = run(true, true, false)?;
    let db = run(true, true, true)?.db;
    Ok(vec![
        figure(
            "the fast one's copy in its first 3 s under the default, of that without the slow \
             one's flood",
            default.first / alone.first,
            "–",
            0.0,
        ),
        figure("the same with the guard", guard.first / alone.first, "90 %", 0.9),
        figure("the fast one's copy later with the guard", guard.copy / alone.copy, "90 %", 0.9),
        figure(
            "the slow one's flood with the guard, of that under the default",
            guard.slow / default.slow,
            "90 %",
            0.9,
        ),
        figure(
            "the fast one's victim beside its copy with the guard, of that without the slow one's \
             flood",
            db / db_alone,
            "90 %",
            0.9,
        ),
    ])
}

/// What a day came to.
#[derive(Clone, Debug, Default)]
struct Day {
    encounters: usize,
    writes: usize,
    left_alone: usize,
    /// At its end, without victims and floods, the knobs were the administrator's.
    given_back: bool,
    /// The most writes in any hour.
    busiest: usize,
}

/// A day on a device drawn anew. Victims and floods come at any time and stay for up to a minute;
/// the device is slow for a while now and then.
fn day(number: u64) -> anyhow::Result<Day> {
    let mut random = Pcg64Mcg::seed_from_u64(number);
    let mut below = |n: u64| random.next_u64() % n.max(1);
    let device = ANY[below(ANY.len() as u64) as usize];
    let mut options = SimOptions { seed: number, ..options(device)? };
    for _ in 0..below(3) {
        let from = below(DAY);
        let kind = FaultKind::Clock(Disturbance::Slow {
            factor_permille: 1_000 + 1_000 * below(20),
            from: Nanos::from_secs(from),
            to: Nanos::from_secs(from + 1 + below(1800)),
        });
        options.device.faults.push(Fault { member: None, kind });
    }
    let victims = [
        "commit,threads=1,block=4KiB,size=256MiB,name=a",
        "commit,threads=8,block=16KiB,size=256MiB,name=b",
        "read,threads=4,block=16KiB,size=1GiB,name=c",
    ];
    let floods = ["seq,size=2GiB,name=copy", "seq,streams=4,size=2GiB,name=untar"];
    let mut stage = Stage::new(vec![part(options, &victims, &floods)?], &Setting::default(), true)?;
    stage.keeps_seconds = false;
    let mut end = 0;
    while end < DAY - 2 * HOUR {
        // Some come together, others alone.
        let begin = end + below(2 * HOUR);
        for name in ["a", "b", "c", "copy", "untar"] {
            if below(2) == 0 {
                let from = begin + below(20);
                let to = from + 5 + below(55);
                stage.start(from, name)?;
                stage.stop(to, name)?;
                end = end.max(to);
            }
        }
        end = end.max(begin);
    }
    // The last backlog drains before the day ends.
    stage.until(DAY)?;
    let given_back = stage.is_as_it_was()?;
    let mut hours = vec![0; 25];
    for (at, _) in &stage.writes {
        hours[(at.as_secs() / HOUR).min(24) as usize] += 1;
    }
    Ok(Day {
        encounters: stage
            .decisions
            .iter()
            .filter(|d| d.from == State::Watch && d.to == State::Protect)
            .count()
            + stage
                .decisions
                .iter()
                .filter(|d| d.from == State::Free && d.to == State::Protect)
                .count(),
        writes: stage.writes.len(),
        left_alone: stage.left_alone.len(),
        given_back,
        busiest: hours.into_iter().max().unwrap_or(0),
    })
}

fn of_month(days: Vec<Day>) -> Vec<Figure> {
    if days.is_empty() {
        return Vec::new();
    }
    let condition = "days of anything";
    let on = format!("{} days, a device each", days.len());
    let figure = figure_of(condition, &on);
    let sum = |of: fn(&Day) -> usize| days.iter().map(of).sum::<usize>();
    let back = days.iter().filter(|d| d.given_back).count();
    let (encounters, writes, left) =
        (sum(|d| d.encounters), sum(|d| d.writes), sum(|d| d.left_alone));
    vec![
        figure(
            "days that end with every knob as before",
            "all",
            back.to_string(),
            back == days.len(),
        ),
        figure("encounters, writes", "–", format!("{encounters}, {writes}"), true),
        figure(
            "knobs that could not be written or read otherwise",
            "0",
            left.to_string(),
            left == 0,
        ),
        figure(
            "most writes in an hour",
            "–",
            days.iter().map(|d| d.busiest).max().unwrap_or(0).to_string(),
            true,
        ),
    ]
}
