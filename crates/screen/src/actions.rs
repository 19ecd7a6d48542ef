//! Actions: each is a command of floodwall's that the journal can undo, asked before it is run.
//!
//! ```text
//! frame, what is selected ─▶ Offer: a question with the exact command | why there is none
//! ```
//!
//! A flood's group is limited as `floodwall why` offers it, and refused where it does not.

use floodwall_model::control_group::{PACED_SHARE, is_in, paced, place, unit};
use floodwall_model::frame::{Disk, Frame, Process};
use floodwall_model::printable::{printable, shell_word};

use crate::figures::{per_second, rate};
use crate::who::{floods, name, on, victims};

/// How long a change lasts: long enough to see what it does.
const TIME: &str = "10m";

/// A question before a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// The question.
    pub(crate) title: String,
    /// What the command does, and its price. Safe to show.
    pub(crate) text: String,
    /// The arguments of floodwall.
    pub(crate) arguments: Vec<String>,
}

impl Question {
    /// The command line as it can be typed. It is safe to show: [`Offer`] has no other.
    pub(crate) fn command_line(&self) -> String {
        let words: Vec<String> = self.arguments.iter().map(|word| shell_word(word)).collect();
        format!("floodwall {}", words.join(" "))
    }
}

/// What an action comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// A command that can be run.
    Ask(Question),
    /// Why no command can be offered.
    Refuse(String),
}

impl Offer {
    fn ask(title: String, text: String, arguments: &[&str], settings: Vec<String>) -> Self {
        let arguments = arguments.iter().map(|word| (*word).to_owned()).chain(settings);
        let question = Question { title, text, arguments: arguments.collect() };
        let line = question.command_line();
        if printable(&line) != line {
            return Self::refuse("the name of the control group can't be typed");
        }
        Self::Ask(question)
    }

    fn refuse(why: impl Into<String>) -> Self {
        Self::Refuse(why.into())
    }
}

/// Pauses the guard, or has a paused one go on.
pub(crate) fn guard(frame: &Frame) -> Offer {
    let Some(guard) = &frame.guard else {
        return Offer::refuse("no guard runs here; 'floodwall guard' starts one");
    };
    if guard.paused_s.is_some() {
        let text = "It steers its disks again at the next flood that makes a process wait.";
        return Offer::ask("Resume the guard?".into(), text.into(), &["guard", "resume"], vec![]);
    }
    let text = "It puts everything back and does nothing. It resumes by itself after ten minutes, \
                or with 'floodwall guard resume'.";
    let arguments = ["guard", "pause", "--for", TIME];
    Offer::ask("Pause the guard?".into(), text.into(), &arguments, vec![])
}

/// Holds a flood's control group to half of what the disk drains: of the chosen process, else of
/// the heaviest flood.
pub(crate) fn limit(frame: &Frame, chosen: Option<&Process>) -> Offer {
    let heaviest = || {
        let floods = frame.disks.iter().flat_map(|disk| floods(frame, &disk.name));
        floods.max_by_key(|flood| flood.dirtied_bytes)
    };
    let on_its_disk = |process: &Process| {
        process.disk.as_deref().and_then(|disk| floods(frame, disk).into_iter().next())
    };
    let Some(flood) = chosen
        .filter(|process| process.is_flood)
        .or_else(|| chosen.and_then(on_its_disk))
        .or_else(heaviest)
    else {
        return Offer::refuse("no process floods a disk now");
    };
    match limited(frame, flood) {
        Ok(offer) => offer,
        Err(why) => Offer::refuse(format!("no limit for {}: {why}", name(flood))),
    }
}

fn limited(frame: &Frame, flood: &Process) -> Result<Offer, String> {
    let disk = disk_of(frame, flood).ok_or("its disk is not known")?;
    let shown = printable(&disk.name).into_owned();
    if is_steered(frame, disk) {
        return Err(format!("the guard steers {shown}; pause it first (p), or leave it to it"));
    }
    let group = flood.group.as_ref().ok_or("its control group is not known")?;
    if group.path.is_empty() {
        return Err("it runs in the root group, which can't be limited".into());
    }
    if group.is_limited {
        return Err("its group has a limit already, and this one may be looser".into());
    }
    let used = group.memory_bytes.ok_or("how much memory its group uses is not known")?;
    let drains =
        disk.drain_bytes_per_s.ok_or_else(|| format!("how fast {shown} drains is not known"))?;
    let is_inside = |process: &Process| {
        process.group.as_ref().is_some_and(|other| is_in(&other.path, &group.path))
    };
    let all = || frame.processes.iter();
    if let Some(victim) = all().find(|process| process.is_victim && is_inside(process)) {
        return Err(format!("{} waits in the same group", name(victim)));
    }
    let others = floods(frame, &disk.name).into_iter().filter(|flood| !is_inside(flood));
    let others = others.fold(0, |sum: u64, flood| {
        sum.saturating_add(per_second(flood.dirtied_bytes.unwrap_or(0), frame.window_ms))
    });
    if others as f64 > (1.0 - PACED_SHARE) * drains as f64 {
        return Err(format!("floods of other groups fill the rest of {shown}"));
    }
    let settings = paced(&group.path, &disk.name, drains as f64, used, dirty_share(frame));
    let whose = printable(unit(&group.path).unwrap_or(&group.path)).into_owned();
    let most = rate((PACED_SHARE * drains as f64) as u64);
    let text = format!(
        "{whose}, with all its processes, writes at most {most} to {shown}, half of what it \
         drains, and is slowed where it needs more memory. Undone by itself after ten minutes, or \
         with 'floodwall rollback'."
    );
    Ok(Offer::ask(format!("Limit {whose}?"), text, &["apply", "--for", TIME, "--yes"], settings))
}

/// Raises the I/O priority of a victim: of the chosen process, else of the slowest victim.
pub(crate) fn raise(frame: &Frame, chosen: Option<&Process>) -> Offer {
    let slowest = || {
        let victims = frame.disks.iter().flat_map(|disk| victims(frame, &disk.name));
        victims.max_by_key(|victim| victim.wait_rank())
    };
    let Some(victim) = chosen.filter(|process| crate::who::waits(process)).or_else(slowest) else {
        return Offer::refuse("no process waits long for a disk now");
    };
    match raised(frame, victim) {
        Ok(offer) => offer,
        Err(why) => Offer::refuse(format!("no priority for {}: {why}", name(victim))),
    }
}

fn raised(frame: &Frame, victim: &Process) -> Result<Offer, String> {
    if victim.pid == 0 {
        return Err("it stands for many".into());
    }
    let disk = disk_of(frame, victim).ok_or("its disk is not known")?;
    let shown = printable(&disk.name).into_owned();
    match disk.queue.scheduler.as_deref() {
        Some("bfq") => {}
        Some(other) => {
            let other = printable(other);
            return Err(format!(
                "the elevator of {shown} is {other}; only bfq heeds it ('floodwall explain bfq')"
            ));
        }
        None => return Err(format!("the elevator of {shown} is not known")),
    }
    if is_steered(frame, disk) {
        return Err(format!("the guard steers {shown} and raises victims itself"));
    }
    // Of a unit of the system's all processes go first, unless one of them floods.
    let group = victim.group.as_ref().filter(|group| {
        let is_inside = |process: &&Process| {
            process.group.as_ref().is_some_and(|other| is_in(&other.path, &group.path))
        };
        !on(frame, &disk.name).filter(|process| process.is_flood).any(|flood| is_inside(&flood))
    });
    let place = group.map(|group| place(&group.path)).filter(|place| place.starts_with("unit:"));
    let (whose, setting) = match place {
        Some(place) => {
            let whose = place.trim_start_matches("unit:").to_owned();
            (format!("all of {}", printable(&whose)), format!("{place}:ioprio=be/0"))
        }
        None => (name(victim), format!("pid:{}.ioprio=be/0", victim.pid)),
    };
    let text = format!(
        "bfq serves the requests of {whose} on {shown} first. On ext4 raise its journal as well: \
         {shown}.journal.ioprio=be/0. Undone by itself after ten minutes, or with 'floodwall \
         rollback'."
    );
    let arguments = ["apply", "--for", TIME, "--yes"];
    Ok(Offer::ask(format!("Raise {whose}?"), text, &arguments, vec![setting]))
}

fn disk_of<'a>(frame: &'a Frame, process: &Process) -> Option<&'a Disk> {
    frame.disks.iter().find(|disk| process.disk.as_ref() == Some(&disk.name))
}

/// Whether a guard that writes steers a disk now: a change beside it would be in its way.
fn is_steered(frame: &Frame, disk: &Disk) -> bool {
    frame.guard.as_ref().is_some_and(|guard| {
        !guard.dry_run
            && guard.paused_s.is_none()
            && guard.disks.iter().any(|guarded| guarded.name == disk.name)
    })
}

/// The hard limit's share of all RAM: rather too small, because not all RAM may be dirty.
fn dirty_share(frame: &Frame) -> Option<f64> {
    let ram = frame.machine.ram_bytes.filter(|bytes| *bytes > 0)?;
    Some(frame.machine.hard_limit_bytes? as f64 / ram as f64)
}

#[cfg(test)]
#[path = "actions_tests.rs"]
mod tests;
