//! A guard's status in sentences, for an administrator at night. Each paragraph names the victims
//! with their wait and goal, the flood, the guard's answer to it, the flood's share, and the
//! command that ends the answer.
//!
//! ```text
//! Status ─▶ one paragraph for each busy device, one for all others ─▶ lines of 80 characters
//! ```

use std::time::Duration;

use floodwall_daemon::document::{Device, HeldKnob, Paused, Status};
use floodwall_daemon::{BACKLOG, SPARED, UNKNOWN_GOAL};
use floodwall_model::setting::is_priority;
use floodwall_model::units::human_duration;
use floodwall_model::{Bytes, Rate};
use floodwall_report::numbers::percent;
use floodwall_report::status::table::wrap;

use super::args::Reach;

/// A terminal of the least width.
const WIDTH: usize = 80;
/// Lines after the first of a paragraph.
const INDENT: &str = "  ";
/// Names in a sentence; the lists below the table have more.
const NAMES: usize = 2;
/// Knobs in a sentence.
const KNOBS: usize = 3;
/// Quiet devices that are named.
const QUIET: usize = 3;

/// The limits of a paced group.
const IO_MAX: &str = ":io.max";
const HIGH: &str = ":memory.high";
const UNMEASURED: &str =
    "The guard is about to measure the disk again; until then everything is as you have it.";
/// The law's goal until victims were seen without a flood; it may be stricter behind the shortest
/// queue.
pub(super) const ASSUMED_GOAL_US: f64 = UNKNOWN_GOAL.as_micros() as f64;
/// Stands for a blank at which no line ends.
const BOUND: &str = "\u{a0}";

/// The paragraphs, in lines of at most 80 characters without control characters.
pub(super) fn paragraphs(status: &Status, reach: &Reach) -> Vec<Vec<String>> {
    let (busy, quiet): (Vec<&Device>, Vec<&Device>) =
        status.devices.iter().partition(|d| is_busy(d));
    let mut all: Vec<String> =
        busy.into_iter().map(|device| about(device, status, reach)).collect();
    all.extend(quiet_ones(&quiet, status, reach));
    if !status.left_alone.is_empty() {
        all.push(
            "The guard leaves some knobs alone, whatever is said above: see the list below."
                .to_owned(),
        );
    }
    all.iter().map(|text| folded(text)).collect()
}

fn is_busy(d: &Device) -> bool {
    d.state != "free" || !(d.victims.is_empty() && d.floods.is_empty() && d.held.is_empty())
}

/// Since it was paused.
fn is_unmeasured(d: &Device) -> bool {
    d.backlog_bytes.is_none()
}

fn folded(text: &str) -> Vec<String> {
    let lines = wrap(text, WIDTH - INDENT.len()).into_iter().enumerate();
    let indented =
        |(n, line): (usize, String)| if n == 0 { line } else { format!("{INDENT}{line}") };
    lines.map(indented).map(|line| line.replace(BOUND, " ")).collect()
}

/// A text that stays on one line, unless it is longer than one.
fn bound(text: &str) -> String {
    let fits = text.chars().count() <= WIDTH - INDENT.len();
    if fits { text.replace(' ', BOUND) } else { text.to_owned() }
}

fn figure(value: impl std::fmt::Display) -> String {
    bound(&value.to_string())
}

/// Devices without floods. The guard looks at their victims for one second in eight only.
fn quiet_ones(quiet: &[&Device], status: &Status, reach: &Reach) -> Option<String> {
    if status.paused.is_some() && quiet.len() < status.devices.len() {
        return None; // The others have said it.
    }
    let names = listed(quiet.iter().map(|d| d.name.as_str()), quiet.len(), QUIET)?;
    Some(match &status.paused {
        Some(paused) => format!("{names}: {}", as_paused(paused, reach)),
        None if quiet.iter().any(|d| is_unmeasured(d)) => format!("{names}: {UNMEASURED}"),
        None => format!("{names}: nothing floods. Everything is as you have it."),
    })
}

/// `a, b and 3 more`; `None` of nothing.
fn listed<'a>(names: impl Iterator<Item = &'a str>, count: usize, most: usize) -> Option<String> {
    let shown: Vec<&str> = names.take(most).collect();
    let more = count - shown.len();
    match shown.split_last() {
        None => None,
        Some(_) if more > 0 => Some(format!("{} and {more} more", shown.join(", "))),
        Some((one, [])) => Some((*one).to_owned()),
        Some((last, first)) => Some(format!("{} and {last}", first.join(", "))),
    }
}

fn processes(names: &[String]) -> Option<String> {
    let bound: Vec<String> = names.iter().take(NAMES).map(|name| bound(name)).collect();
    listed(bound.iter().map(String::as_str), names.len(), NAMES)
}

/// A verb in the third person.
fn verb(names: &[String], one: &'static str, several: &'static str) -> &'static str {
    if names.len() == 1 { one } else { several }
}

fn micros(us: f64) -> String {
    figure(human_duration(Duration::from_secs_f64(us.max(0.0) / 1e6)))
}

fn about(d: &Device, status: &Status, reach: &Reach) -> String {
    let said = match (&status.paused, d.state.as_str()) {
        (Some(paused), _) => both(d).into_iter().chain([as_paused(paused, reach)]).collect(),
        (None, "pace") => paced(d, status, reach),
        (None, "protect" | "probe") => protected(d, status, reach),
        (None, "recover") => returning(d),
        (None, "free") if is_unmeasured(d) => vec![UNMEASURED.to_owned()],
        (None, "free") if !d.held.is_empty() => returning(d),
        (None, _) => vec![waits(d), harmless(d)],
    };
    format!("{}: {}", d.name, said.join(" "))
}

/// The victims, their wait and the goal.
fn waits(d: &Device) -> String {
    let Some(who) = processes(&d.victims) else {
        return "Nobody waits for the disk at this moment.".to_owned();
    };
    let goal = micros(d.goal_us);
    let long = match d.pressure {
        // Either they commit and read that seldom, or the last step was a moment ago. None was seen
        // to be under way for much longer than the goal.
        None => {
            let verb = verb(&d.victims, "waits", "wait");
            format!(
                "{who} {verb} for commits or reads; how long is not measured yet (fewer than five \
                 have ended since the guard's last step, or within 8 s), and none is known to be \
                 stuck. The goal is {goal}"
            )
        }
        Some(pressure) => {
            let wait = micros(pressure * d.goal_us);
            let verb = verb(&d.victims, "waits", "wait");
            let which = if pressure > 1.0 { "longer than" } else { "within" };
            format!("{who} {verb} {wait} for a commit or a read, {which} the goal of {goal}")
        }
    };
    match d.base_us {
        Some(base) => format!("{long}; without a flood the median is {}.", micros(base)),
        None if d.goal_is_given => format!("{long}."),
        None if d.goal_us == ASSUMED_GOAL_US => {
            format!("{long}, assumed until victims were seen without a flood.")
        }
        None => format!("{long}, estimated until victims were seen without a flood."),
    }
}

/// Victims and floods without figures, which a paused guard does not measure. It sees processes
/// that wait or flood, but may not see all of them.
fn both(d: &Device) -> Option<String> {
    let waits =
        processes(&d.victims).map(|who| format!("{who} {}", verb(&d.victims, "waits", "wait")));
    match (waits, floods(d)) {
        (Some(waits), Some(floods)) => Some(format!("{floods}, and {waits} for the disk.")),
        (Some(waits), None) => Some(format!("{waits} for the disk.")),
        (None, floods) => floods.map(|floods| format!("{floods}.")),
    }
}

fn floods(d: &Device) -> Option<String> {
    let itself = match paces_itself(d) {
        true => verb(&d.floods, " and paces itself", " and pace themselves"),
        false => "",
    };
    let floods = verb(&d.floods, "floods", "flood");
    processes(&d.floods).map(|who| format!("{who} {floods} the disk{itself}"))
}

/// Whether all floods pace themselves.
fn paces_itself(d: &Device) -> bool {
    !d.floods.is_empty() && d.floods.iter().all(|flood| d.paced.contains(flood))
}

fn as_paused(paused: &Paused, reach: &Reach) -> String {
    let back = match paused.held.as_slice() {
        [] => "everything is as you have it",
        _ => "the held knobs are being put back",
    };
    let resume = bound(&reach.command("resume"));
    let end = match paused.left_s {
        Some(left) => {
            let left = figure(human_duration(Duration::from_secs_f64(left.max(0.0))));
            format!("It goes on by itself in {left}, at once with {resume}.")
        }
        None => format!("It goes on with {resume}, not by itself."),
    };
    format!("The guard is paused and does not measure the disk: {back}. {end}")
}

/// The settings are the administrator's.
fn harmless(d: &Device) -> String {
    match floods(d) {
        None => "Nothing floods it, and everything is as you have it.".to_owned(),
        Some(floods) if paces_itself(d) => format!(
            "{floods}, so everything is as you have it. The guard acts by itself if victims miss \
             their goal for {}.",
            figure(human_duration(SPARED))
        ),
        Some(floods) if d.victims.is_empty() => {
            format!("{floods} and may have all of it: everything is as you have it.")
        }
        Some(floods) if d.pressure.is_some_and(|pressure| pressure > 1.0) => {
            format!("{floods}, and the guard is about to act; everything is as you have it still.")
        }
        Some(floods) => format!(
            "{floods}, and harms nobody yet: everything is as you have it. The guard acts by \
             itself once the wait or the backlog grows too long."
        ),
    }
}

/// The flood's unit has a pace.
fn paced(d: &Device, status: &Status, reach: &Reach) -> Vec<String> {
    let held = d.held.iter().find_map(pace).map(|(group, rate)| (kind(group), rate));
    let holds = if status.dry_run { "would hold" } else { "holds" };
    let flood = match (held, floods(d)) {
        (None, _) => flood(d, "is about to hold its unit to a rate"),
        (Some(((kind, name), rate)), Some(floods)) => format!(
            "{floods} from {kind} {name}, so the guard {holds} that {kind} to {}, {}.",
            figure(Rate(rate)),
            share(d, rate)
        ),
        // Held back, it may write too little to be seen as one.
        (Some(((kind, name), rate)), None) => format!(
            "The {kind} {name} has flooded the disk, so the guard {holds} it to {}, {}.",
            figure(Rate(rate)),
            share(d, rate)
        ),
    };
    vec![waits(d), flood, undone(d, status), unwanted(d, status, reach)]
}

/// A flood and what the guard does about it.
fn flood(d: &Device, does: &str) -> String {
    match floods(d) {
        Some(floods) => format!("{floods}, so the guard {does}."),
        None => match waiting(d) {
            Some(waiting) => {
                format!("No process is seen to flood the disk now; {waiting}. The guard {does}.")
            }
            None => format!("A flood pauses or has ended; the guard {does}."),
        },
    }
}

/// What a flood that has ended has left to be written, and for how long.
fn waiting(d: &Device) -> Option<String> {
    let bytes = d.backlog_bytes.filter(|bytes| *bytes >= BACKLOG && d.floods.is_empty())?;
    let left = figure(Bytes(bytes));
    Some(match d.drain_bytes_per_s.filter(|drain| *drain > 0.0) {
        Some(drain) => {
            let time = figure(human_duration(Duration::from_secs_f64(bytes as f64 / drain)));
            format!("{left} still wait to be written, about {time} at {}", figure(Rate(drain)))
        }
        None => format!("{left} still wait to be written"),
    })
}

/// The group and the rate of a held `GROUP:io.max`.
fn pace(held: &HeldKnob) -> Option<(&str, f64)> {
    let group = held.knob.strip_suffix(IO_MAX)?;
    let rate = held.value.split(' ').find_map(|pair| pair.strip_prefix("wbps=")?.parse().ok())?;
    Some((group, rate))
}

/// What a control group is, and its name: systemd's units by their own.
fn kind(group: &str) -> (&'static str, &str) {
    let last = group.rsplit('/').next().unwrap_or(group);
    let is_unit = [".service", ".scope", ".slice"].iter().any(|end| last.ends_with(end));
    if is_unit { ("unit", last) } else { ("control group", group) }
}

fn share(d: &Device, rate: f64) -> String {
    match d.drain_bytes_per_s {
        Some(drain) if rate <= drain => {
            let share = bound(&format!("{} %", percent(rate / drain)));
            format!("{share} of the {} that the disk drains now", figure(Rate(drain)))
        }
        Some(drain) => format!("no less than the disk drains now ({})", figure(Rate(drain))),
        None => "as long as it is not known what the disk drains".to_owned(),
    }
}

/// The queue is steered, or victims are raised.
fn protected(d: &Device, status: &Status, reach: &Reach) -> Vec<String> {
    let [keeps, steers, gives] = match status.dry_run {
        true => ["would keep", "would steer", "would give"],
        false => ["keeps", "steers", "gives"],
    };
    let knobs: Vec<&HeldKnob> =
        d.held.iter().filter(|held| is_of_queue(held) && is_told(held)).collect();
    let is_short =
        knobs.iter().all(|held| matches!(held.knob.as_str(), "nr_requests" | "max_sectors_kb"));
    let mut does = Vec::new();
    let value = |held: &&HeldKnob| {
        let own = held.own.as_ref().map_or_else(String::new, |own| format!(" instead of {own}"));
        format!("{} {}{own}", held.knob, held.value)
    };
    let values: Vec<String> = knobs.iter().map(value).collect();
    if let Some(values) = listed(values.iter().map(String::as_str), values.len(), KNOBS) {
        let queue = if is_short {
            format!("{keeps} the queue short")
        } else {
            format!("{steers} the queue")
        };
        does.push(format!("{queue} ({values})"));
    }
    if let Some(who) = processes(&d.raised) {
        does.push(format!("{gives} {who} a higher I/O priority"));
    }
    if d.state == "probe" && !status.dry_run {
        does.push("tries other settings, a few seconds each, to keep the best".to_owned());
    }
    let does = listed(does.iter().map(String::as_str), does.len(), does.len());
    let does = does.unwrap_or_else(|| "looks on for a moment".to_owned());
    let told = [waits(d), flood(d, &does)].into_iter().chain(unpaced(d));
    told.chain([undone(d, status), unwanted(d, status, reach)]).collect()
}

/// Whether a sentence names a knob: not without a change, nor beside the elevator that brings it.
fn is_told(held: &HeldKnob) -> bool {
    held.is_changed() && !held.is_of_other_elevator()
}

fn is_of_queue(held: &HeldKnob) -> bool {
    !is_priority(&held.knob) && !held.knob.ends_with(IO_MAX) && !held.knob.ends_with(HIGH)
}

/// Why the flood is not held to a rate.
fn unpaced(d: &Device) -> Option<String> {
    let why = d.unpaced.as_ref().filter(|_| !d.floods.is_empty())?;
    Some(format!("The flood can't be held to a rate: {why}."))
}

/// What the flood still gets, and that everything comes back.
fn undone(d: &Device, status: &Status) -> String {
    if status.dry_run {
        return "This is a dry run: nothing is written, and the wait is what it is without a guard."
            .to_owned();
    }
    let is_written_out = d.state != "pace" && waiting(d).is_some();
    let end = match is_written_out {
        true => "by itself, 3\u{a0}s after the backlog is written or the wait has ended",
        false => "by itself, 3\u{a0}s after the flood or the wait has ended",
    };
    if d.goal_unmet {
        return format!(
            "Nothing that the guard can do keeps the goal: the best that it has found stays, and \
             goes back {end}."
        );
    }
    match (d.state.as_str(), d.drain_bytes_per_s) {
        ("pace", _) => {
            format!("Nothing else is changed, and the unit gets its own limits back {end}.")
        }
        (_, Some(drain)) if !is_written_out => {
            let gets = match d.flood_bytes_per_s.filter(|_| !d.floods.is_empty()) {
                Some(rate) if rate < drain => format!("{} of", figure(Rate(rate))),
                Some(_) => "all of".to_owned(),
                None => "its part of".to_owned(),
            };
            format!(
                "The flood still gets {gets} the {} that the disk drains now. The guard puts \
                 everything back {end}.",
                figure(Rate(drain))
            )
        }
        _ => format!("The guard puts everything back {end}."),
    }
}

/// What to do if this is not wanted.
fn unwanted(d: &Device, status: &Status, reach: &Reach) -> String {
    let pause = bound(&reach.command("pause --for 10m"));
    if status.dry_run {
        return "Without --dry-run (dry_run in guard.toml) the guard does it.".to_owned();
    }
    if d.goal_unmet {
        let unit =
            d.held.iter().find_map(pace).map(|(group, _)| kind(group)).filter(|k| k.0 == "unit");
        let stop = match unit {
            Some((_, unit)) => bound(&format!("'systemctl stop {unit}'")),
            None => "stop the flood".to_owned(),
        };
        return format!("To keep the goal: {stop}; to let the flood go on unhindered: {pause}.");
    }
    let more = match (d.state.as_str(), status.mode.as_str()) {
        ("pace", _) | (_, "balance") => "a longer p99 (guard.toml, --p99) leaves",
        _ => "a longer p99 or mode balance (guard.toml, --p99, --mode) leaves",
    };
    format!("Not wanted? {pause} gives everything back at once; {more} the flood more.")
}

/// One of them has gone.
fn returning(d: &Device) -> Vec<String> {
    let held: Vec<&str> = d.held.iter().filter(|h| is_told(h)).map(|h| h.knob.as_str()).collect();
    let back = match listed(held.iter().copied(), held.len(), KNOBS) {
        None => "Everything is as you have it again.".to_owned(),
        Some(held) => {
            format!(
                "The guard is giving back {held} by itself; a queue has to run dry before it is \
                 changed."
            )
        }
    };
    vec!["The flood or the wait has ended.".to_owned(), back]
}

#[cfg(test)]
mod tests;
