//! The report of 2010: commits beside dd on a ten-disk array, kernel 2.6.32.
//!
//! Two machines are compared with it. One is the preset as it ships: it explains dd's 251 MB/s by
//! the path between the card's cache and its disks. The other explains it by dd, which copies 1 KiB
//! at a time: its CPU could do no more, and the disks could. The dd lost 14 % under 15 MB. With a
//! full cache below, as in the preset, it would lose nothing. That figure chose the second machine,
//! and so all figures under 15 MB are neighbours of a fitted one there.

use std::path::Path;

use anyhow::Context;
use floodwall_model::trial::PhaseKind;
use floodwall_model::{Bytes, LatencyCounts, Runner, Scenario, Setting, Trial, scenario};
use floodwall_sim::kernel::Generation;
use floodwall_sim::{SimOptions, SimRunner};
use floodwall_stats::estimate::median;
use floodwall_stats::figures::{PhaseFigures, Reference, summarise};
use published::Experiment;

use crate::cells;
use crate::table::{Basis, Goal, Line, preset_with, table, widen};

const PRESET: &str = "raid10-bbwc-2010";
/// Name, and `vm.dirty_bytes`.
const SETTINGS: [(&str, Option<&str>); 3] =
    [("default", None), ("15 MB", Some("15000000")), ("1 GB", Some("1000000000"))];
/// Threads and block size in KiB.
const VICTIMS: [(u32, u32); 3] = [(10, 16), (1, 16), (1, 4)];
const ROUNDS: u32 = 3;

/// Constants of the machine that are not published.
#[derive(Clone)]
struct Machine {
    /// Whether dd's rates chose it.
    by_dd: bool,
    /// Lines of the preset that are replaced; of one key the last one counts.
    changes: Vec<(&'static str, &'static str)>,
    /// Ticks a second; `None`: the kernel's usual ones.
    hz: Option<u32>,
    /// Cost of the CPU's work, in percent of a machine of today.
    cpu_percent: u32,
    /// Queues and elevators: one, or one for each mirrored pair of the software RAID.
    member_queues: u32,
}

impl Machine {
    /// The preset as it ships.
    fn shipped() -> Self {
        Self { by_dd: false, changes: Vec::new(), hz: None, cpu_percent: 100, member_queues: 1 }
    }

    /// Limited by dd. Between card and disks there are four SAS lanes of 300 MB/s each.
    /// Distributions other than RHEL had 250 ticks a second. At 286 % dd, which reads a KiB and
    /// writes a KiB in two calls, is as fast as published. Two such calls take 4.1 µs then, and
    /// about 2 µs on the lab's machine. The md driver has a queue for each mirrored pair, and the
    /// card's cache stands behind all of them.
    fn by_dd() -> Self {
        let changes = vec![("backing_rate", "\"1200MB/s\"")];
        Self { by_dd: true, changes, hz: Some(250), cpu_percent: 286, member_queues: 5 }
    }

    /// Other values of those constants, one at a time.
    fn others(&self) -> Vec<Self> {
        let with =
            |change| Self { changes: [&self.changes[..], &[change]].concat(), ..self.clone() };
        vec![
            Self { hz: Some(100), ..self.clone() },
            Self { hz: Some(1000), ..self.clone() },
            Self { cpu_percent: self.cpu_percent * 7 / 10, ..self.clone() },
            Self { cpu_percent: self.cpu_percent * 13 / 10, ..self.clone() },
            Self { member_queues: if self.by_dd { 1 } else { 5 }, ..self.clone() },
            with(("backing_rate", if self.by_dd { "\"600MB/s\"" } else { "\"1200MB/s\"" })),
            with(("high", "0.5")),
            with(("destage_depth", "16")),
            with(("average_seek", "\"9.5ms\"")),
        ]
    }
}

struct Cell {
    setting: &'static str,
    dirty_bytes: Option<&'static str>,
    threads: u32,
    block_kib: u32,
}

pub(crate) fn section(published: &Path) -> anyhow::Result<String> {
    let published = Experiment::read(published, "adaptec_raid10_2010")?;
    let ranged = |machine: &Machine| -> anyhow::Result<Vec<Line>> {
        let mut lines = lines(&published, machine)?;
        let others = machine.others();
        let others = others.iter().map(|other| self::lines(&published, other));
        widen(&mut lines, &others.collect::<anyhow::Result<Vec<_>>>()?);
        Ok(lines)
    };
    Ok(format!(
        "### Ten-disk array with a protected cache, 2010\n\n\
         Kernel 2.6.32, 6 GiB of RAM, xfs; 10 GiB file, {ROUNDS} rounds of 30 s. The goal is \
         rates within 25 %, latencies within a factor of 10. Published averages and counts of one \
         thread follow from its published rates, so the table leaves them out.\n\n\
         *Range*, with one change at a time: 100 to 1,000 ticks a second; CPU 30 % faster and \
         slower; one queue or five; the rate between card and disks (502 or 600, and 1,200 MB/s); \
         the card's cache written back from a tenth or half full; 8 or 16 writes at a time; seeks \
         of 8.5 or 9.5 ms.\n\n\
         #### The preset as it ships\n\n`{PRESET}`: what passes between card and disks limits \
         dd.\n\n{}\n\
         #### A machine that dd limits\n\nThe same with 1,200 MB/s between card and disks, 250 \
         ticks a second, a CPU at 286 % of today's cost, a queue for each mirrored pair. These \
         values were chosen so that dd reaches its 251 and 216 MB/s. So figures at 15 MB are no \
         predictions.\n\n{}",
        table("published", &ranged(&Machine::shipped())?),
        table("published", &ranged(&Machine::by_dd())?),
    ))
}

/// All figures that were published, of one machine.
fn lines(published: &Experiment, machine: &Machine) -> anyhow::Result<Vec<Line>> {
    let cells: Vec<Cell> = SETTINGS
        .into_iter()
        .flat_map(|(setting, dirty_bytes)| {
            VICTIMS.into_iter().map(move |(threads, block_kib)| Cell {
                setting,
                dirty_bytes,
                threads,
                block_kib,
            })
        })
        .collect();
    let by_dd = machine.by_dd;
    let found = cells::all(&cells, |cell| {
        let trials = trials(cell, machine)?;
        Ok((summarise(&trials, Reference::InForce), trials))
    })?;
    let mut lines = Vec::new();
    for (cell, (summary, _)) in cells.iter().zip(&found) {
        let both = [("idle", &summary.victim), ("beside dd", &summary.both)];
        both.into_iter().for_each(|(what, figures)| {
            lines.extend(iops_line(published, cell, what, figures.as_ref(), by_dd));
        });
    }
    for (cell, (_, trials)) in cells.iter().zip(&found) {
        lines.extend(latency_lines(published, cell, trials, by_dd));
    }
    for (cell, (summary, _)) in cells.iter().zip(&found) {
        let key = match (cell.setting, (cell.threads, cell.block_kib) == VICTIMS[0]) {
            ("default", true) => "sequential.default_mb_s",
            ("15 MB", true) => "sequential.dirty_bytes_15MB_mb_s",
            _ => continue,
        };
        let fitted = cell.setting == "default" || by_dd;
        lines.push(Line {
            what: format!("dd alone, {}, MB/s", cell.setting),
            expected: Some(published.number(key)?),
            simulated: summary.flood.as_ref().and_then(|f| f.flood_bytes_per_s).map(|b| b / 1e6),
            goal: Goal::Within(0.25),
            basis: if fitted { Basis::Fitted } else { Basis::Predicted },
            range: None,
            doubt: None,
        });
    }
    Ok(lines)
}

fn trials(cell: &Cell, machine: &Machine) -> anyhow::Result<Vec<Trial>> {
    let text = format!(
        "name = \"2010\"\n[[victim]]\nkind = \"commit\"\nthreads = {}\nblock = \"{}KiB\"\n\
         size = \"10GiB\"\n\
         [[flood]]\nname = \"dd\"\nkind = \"seq\"\nblock = \"1KiB\"\nsize = \"20977328128B\"\n\
         data = \"zero\"\n\
         [timing]\nrounds = {ROUNDS}\nmeasure = \"30s\"\nwarmup_max = \"60s\"\nsettle = \"5s\"\n\
         device_cache = \"384MiB\"\n",
        cell.threads, cell.block_kib
    );
    let scenario: Scenario = scenario::parse(&text).context("the scenario")?;
    let options = SimOptions {
        generation: Generation::K2_6_32,
        ram: Bytes::gib(6),
        cpus: 4,
        cpu_percent: machine.cpu_percent,
        hz: machine.hz,
        member_queues: machine.member_queues,
        ..SimOptions::new(preset_with(PRESET, &machine.changes)?)
    };
    let setting: Setting = cell
        .dirty_bytes
        .map(|bytes| ("vm.dirty_bytes".to_owned(), bytes.to_owned()))
        .into_iter()
        .collect();
    let mut runner = SimRunner::new(options);
    (1..=ROUNDS).map(|round| Ok(runner.run(&scenario, &setting, round, &mut ())?)).collect()
}

/// Figures under 15 MB are neighbours of dd's 216 MB/s where that chose the machine.
fn basis(cell: &Cell, idle: bool, by_dd: bool) -> Basis {
    if idle || (by_dd && cell.setting == "15 MB") { Basis::Neighbour } else { Basis::Predicted }
}

fn iops_line(
    published: &Experiment,
    cell: &Cell,
    what: &str,
    figures: Option<&PhaseFigures>,
    by_dd: bool,
) -> Option<Line> {
    let idle = what == "idle";
    let key = match (idle, cell.setting) {
        // It has no setting: it is shown once for each victim.
        (true, "default") => "idle_iops",
        (false, "default") => "flood_default_iops",
        (false, "15 MB") => "flood_dirty_bytes_15MB_iops",
        (false, _) => "flood_dirty_bytes_1GB_iops",
        (true, _) => return None,
    };
    Some(Line {
        what: format!("{} × {} KiB, {what}, {}, IOPS", cell.threads, cell.block_kib, cell.setting),
        expected: Some(published.of_victim(cell.threads, cell.block_kib, key)?),
        simulated: figures.and_then(|f| f.iops),
        goal: Goal::Within(0.25),
        // Both idle rates chose the card's destage depth.
        basis: if idle { Basis::Fitted } else { basis(cell, idle, by_dd) },
        range: None,
        doubt: None,
    })
}

/// The three reports that were published in full: of each figure the middle one of the rounds.
fn latency_lines(published: &Experiment, cell: &Cell, trials: &[Trial], by_dd: bool) -> Vec<Line> {
    let reports: &[(&str, PhaseKind)] = match cell.setting {
        "15 MB" => &[
            ("idle_dirty_bytes_15MB", PhaseKind::Victim),
            ("flood_dirty_bytes_15MB", PhaseKind::Both),
        ],
        "1 GB" => &[("flood_dirty_bytes_1GB", PhaseKind::Both)],
        _ => &[],
    };
    let mut lines = Vec::new();
    for (report, phase) in reports {
        let idle = *phase == PhaseKind::Victim;
        for (figure, fraction) in [("min_ms", 0.0), ("p95_ms", 0.95), ("max_ms", 1.0)] {
            let expected = published.of_report(cell.threads, cell.block_kib, report, figure);
            if expected.is_none() {
                continue;
            }
            let of = |trial: &Trial| {
                commits(trial, *phase).nearest_rank_ns(fraction).map(|ns| ns as f64 / 1e6)
            };
            let rounds: Vec<f64> = trials.iter().filter_map(of).collect();
            let what = if idle { "idle" } else { "beside dd" };
            let name = figure.trim_end_matches("_ms");
            lines.push(Line {
                what: format!(
                    "{} × {} KiB, {what}, {}, {name}, ms",
                    cell.threads, cell.block_kib, cell.setting
                ),
                expected,
                simulated: median(rounds),
                goal: Goal::Factor(10.0),
                // The shortest commit of an idle array chose the cache's latency.
                basis: if idle && figure == "min_ms" {
                    Basis::Fitted
                } else {
                    basis(cell, idle, by_dd)
                },
                range: None,
                doubt: None,
            });
        }
    }
    lines
}

/// The latencies of a phase's commits in one round.
fn commits(trial: &Trial, phase: PhaseKind) -> LatencyCounts {
    let mut all = LatencyCounts::default();
    for phase in trial.phases.iter().filter(|p| p.kind == phase) {
        let under_way = std::iter::once(&phase.overrun);
        let ended = phase.intervals.iter().map(|interval| &interval.latencies);
        ended.chain(under_way).for_each(|latencies| all.merge(&latencies.commit));
    }
    all
}
