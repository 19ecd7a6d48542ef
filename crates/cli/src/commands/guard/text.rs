//! A guard's status and history for people.

use std::time::Duration;

use floodwall_daemon::document::{Device, Entry, Status};
use floodwall_model::calendar::moment;
use floodwall_model::message::first_of;
use floodwall_model::printable::printable;
use floodwall_model::setting::is_priority;
use floodwall_model::units::human_duration;
use floodwall_model::{Bytes, Rate};
use floodwall_report::status::table::{Column, table};

use super::args::Reach;
use super::explain;

/// Names of a kind that are shown; a screen has no more.
const NAMES: usize = 6;
/// The most quiet devices that are shown; a machine may have a thousand.
const FREE: usize = 20;

fn micros(us: f64) -> String {
    human_duration(Duration::from_secs_f64(us.max(0.0) / 1e6))
}

fn seconds(s: f64) -> String {
    human_duration(Duration::from_secs_f64(s.max(0.0)))
}

fn or_dash<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "–".into(), show)
}

/// One line of the history.
pub(super) fn entry(entry: &Entry) -> String {
    format!("{}  {}\n", moment(entry.at_unix_s as u64), printable(&entry.line()))
}

/// The outcome of a pause; `end`: how it ends.
pub(super) fn paused(held: &[String], end: &str, reach: &Reach) -> String {
    match held {
        [] => format!("paused: everything is put back; {end}\n"),
        held => {
            let held = held.join(", ");
            let held = printable(&held);
            let status = reach.command("status");
            format!("paused; still held: {held}; {status} shows when it is back; {end}\n")
        }
    }
}

/// How it stands.
pub(super) fn status(status: &Status, reach: &Reach, width: usize) -> String {
    let mut lines = head(status, reach);
    for paragraph in explain::paragraphs(status, reach) {
        lines.push(String::new());
        lines.extend(paragraph);
    }
    if status.devices.is_empty() {
        lines.push(String::new());
        lines.push("there is no device to steer".into());
    } else {
        lines.push(String::new());
        lines.extend(devices(&status.devices, width));
    }
    for device in &status.devices {
        let told = about(device, status.dry_run);
        if !told.is_empty() {
            lines.push(String::new());
            lines.extend(told);
        }
    }
    let tail = tail(status);
    if !tail.is_empty() {
        lines.push(String::new());
        lines.extend(tail);
    }
    lines.iter().map(|line| printable(line).into_owned() + "\n").collect()
}

fn head(status: &Status, reach: &Reach) -> Vec<String> {
    let mut lines = vec![format!(
        "guard {} (process {}) for {}; looking through {}; {}",
        status.version,
        status.parent_pid,
        seconds(status.uptime_s),
        status.source,
        status
            .config
            .as_ref()
            .map_or_else(|| "no configuration file".into(), |file| format!("configured by {file}")),
    )];
    let goal = match status.p99_us {
        Some(us) => format!(
            "99 of 100 operations (9 of 10 while fewer than 100 end within 8 s) within {}",
            micros(us)
        ),
        None => {
            let assumed = micros(explain::ASSUMED_GOAL_US);
            format!(
                "9 of 10 operations within four times what they take without a flood ({assumed} \
                 until they were seen without one)"
            )
        }
    };
    lines.push(match status.mode.as_str() {
        "balance" => {
            format!("mode balance: the product of the victims' speed and the flood's; goal: {goal}")
        }
        _ => format!("mode protect: the goal first, then the flood; goal: {goal}"),
    });
    if let Some(paused) = &status.paused {
        let back = match paused.held.as_slice() {
            [] => "everything is put back".to_owned(),
            held => format!("still held: {}", held.join(", ")),
        };
        let end = match paused.left_s {
            Some(left) => format!("it resumes in {}", seconds(left)),
            None => format!("{} ends it", reach.command("resume")),
        };
        lines.push(format!("PAUSED: {back}; {end}"));
    }
    if status.source == "sim" {
        lines.push("SIMULATED: no disk of this machine is steered".to_owned());
    }
    if status.dry_run {
        lines.push("DRY RUN: nothing is written; what follows is what it would do".into());
    }
    if status.restarts > 0 {
        lines.push(format!(
            "its worker died {} times and was started again; the log says why",
            status.restarts
        ));
    }
    lines
}

fn devices(devices: &[Device], width: usize) -> Vec<String> {
    let columns = [
        Column::words("DEVICE", 30),
        Column::words("STATE", 30),
        Column::figures("FOR", 30).rank(3),
        Column::words("LEVERS", 30),
        Column::figures("PRESSURE", 30).rank(2),
        Column::figures("GOAL", 30),
        Column::figures("ALONE", 30).rank(4),
        Column::figures("DRAINS", 30).rank(1),
        Column::figures("BACKLOG", 30),
    ];
    let mut free = 0;
    let shown = devices.iter().filter(|d| {
        let is_free = d.state == "free" && d.held.is_empty();
        free += usize::from(is_free);
        !is_free || free <= FREE
    });
    let rows: Vec<Vec<String>> = shown
        .map(|d| {
            vec![
                d.name.clone(),
                d.state.clone(),
                seconds(d.since_s),
                d.levers.clone().unwrap_or_else(|| "–".into()),
                or_dash(d.pressure, |p| format!("{p:.2}")),
                micros(d.goal_us),
                or_dash(d.base_us, micros),
                or_dash(d.drain_bytes_per_s, |rate| Rate(rate).to_string()),
                or_dash(d.backlog_bytes, |bytes| Bytes(bytes).to_string()),
            ]
        })
        .collect();
    let mut lines = table(&columns, &rows, width);
    if free > FREE {
        lines.push(format!("and {} more that are free; --json has them all", free - FREE));
    }
    lines
}

/// A device's victims and floods, the guard's actions on it and their reasons; empty without any.
fn about(device: &Device, dry_run: bool) -> Vec<String> {
    let [raises, holds] =
        if dry_run { ["would raise:", "would hold:"] } else { ["raised:", "holds: "] };
    let mut lines = Vec::new();
    if !device.victims.is_empty() {
        lines.push(format!("  waits:  {}", first_of(&device.victims, NAMES)));
    }
    if !device.floods.is_empty() {
        let name = |flood: &String| match device.paced.contains(flood) {
            true => format!("{flood} paces itself"),
            false => flood.clone(),
        };
        let floods: Vec<String> = device.floods.iter().map(name).collect();
        lines.push(format!("  floods: {}", first_of(&floods, NAMES)));
    }
    if !device.raised.is_empty() {
        lines.push(format!("  {raises} {}", first_of(&device.raised, NAMES)));
    }
    let own = |own: &Option<String>| {
        own.as_ref().map_or_else(String::new, |own| format!(" (yours: {own})"))
    };
    let held: Vec<String> = device
        .held
        .iter()
        .filter(|held| held.is_changed() && !is_priority(&held.knob))
        .map(|h| format!("{} {}{}", h.knob, h.value, own(&h.own)))
        .collect();
    if !held.is_empty() {
        lines.push(format!("  {holds} {}", held.join(", ")));
    }
    if let Some(known) = &device.known {
        lines.push(format!("  known:  {known}"));
    }
    if device.goal_unmet {
        lines.push(if dry_run {
            "  victims wait for more than the goal, and nothing is done about it".into()
        } else {
            "  no lever meets the goal; the best that there is is in force".into()
        });
    }
    if let Some(last) = &device.last {
        lines.push(format!(
            "  last:   {}, {}",
            moment(last.at_unix_s as u64),
            Entry { device: None, ..last.clone() }.line()
        ));
    }
    if !lines.is_empty() {
        lines.insert(0, device.name.clone());
    }
    lines
}

fn tail(status: &Status) -> Vec<String> {
    let mut lines = Vec::new();
    for left in &status.left_alone {
        let whose = left.device.as_ref().map_or_else(String::new, |d| format!("{d} "));
        let knob = left.knob.as_deref().unwrap_or("a knob");
        lines.push(format!("left alone: {whose}{knob}: {}", left.why));
    }
    lines.extend(status.left_out.iter().map(|l| format!("not steered: {}: {}", l.name, l.why)));
    lines.extend(status.blind.iter().map(|blind| format!("can't see {blind}")));
    let counts = &status.counts;
    let looks = counts.ticks.count;
    let mean = if looks == 0 { 0.0 } else { counts.ticks.sum_s / looks as f64 };
    lines.push(format!(
        "{} decisions, {} knob writes{}; looked {looks} times, {} on average and {} at most; {} \
         events lost",
        counts.decisions,
        counts.knob_writes,
        if status.dry_run { " that would have been made" } else { "" },
        seconds(mean),
        seconds(counts.ticks.longest_s),
        counts.lost_events,
    ));
    lines
}

#[cfg(test)]
mod tests {
    use floodwall_daemon::document::{Counts, HeldKnob, LeftAlone, LeftOut, Paused};

    use super::*;

    const USUAL: Reach = Reach { socket: None };

    fn document() -> Status {
        let sda = Device {
            name: "sda".into(),
            id: "8:0".into(),
            state: "protect".into(),
            since_s: 12.0,
            queue_level: 4,
            levers: Some("bfq, 4 requests".into()),
            goal_us: 20_000.0,
            pressure: Some(0.81),
            base_us: Some(5_000.0),
            drain_bytes_per_s: Some(1e8),
            backlog_bytes: Some(812_000_000),
            victims: vec!["postgres (41)".into()],
            floods: (0..8).map(|n| format!("cp ({n})")).collect(),
            held: [
                ("nr_requests", "4", "64"),
                ("read_ahead_kb", "2560", "2560"),
                ("pid:41.ioprio", "be/0", "none"),
            ]
            .map(|(knob, value, own)| HeldKnob {
                knob: knob.into(),
                value: value.into(),
                own: Some(own.into()),
            })
            .to_vec(),
            raised: vec!["postgres (41)".into(), "ext4's journal".into()],
            goal_unmet: true,
            known: Some("drains 121 MB/s, learnt 3 days ago".into()),
            last: Some(Entry {
                at_unix_s: 1e9,
                device: Some("sda".into()),
                from: Some("watch".into()),
                to: Some("protect".into()),
                levers: Some("bfq, 4 requests".into()),
                writes: vec!["nr_requests 64 → 4".into()],
                pretended: false,
                why: "victims wait 3.1 × the goal of 20.0 ms".into(),
                ..Entry::default()
            }),
            ..Device::default()
        };
        let sdb = Device {
            name: "sdb".into(),
            state: "free".into(),
            goal_us: 50_000.0,
            backlog_bytes: Some(0),
            ..Device::default()
        };
        let mut counts = Counts { decisions: 2, knob_writes: 2, ..Counts::default() };
        counts.ticks.add(0.000_4);
        Status {
            version: "0.1.0".into(),
            parent_pid: 4711,
            uptime_s: 4000.0,
            source: "perf".into(),
            devices: vec![sda, sdb],
            left_out: vec![LeftOut { name: "nfs at '/srv'".into(), why: "no queue".into() }],
            left_alone: vec![LeftAlone {
                device: Some("sdb".into()),
                knob: Some("nr_requests".into()),
                why: "somebody else has written 32".into(),
            }],
            counts,
            ..Status::default()
        }
    }

    #[test]
    fn what_it_does_and_why_is_on_one_page() {
        insta::assert_snapshot!(status(&document(), &USUAL, 100), @"
guard 0.1.0 (process 4711) for 1 h 7 min; looking through perf; no configuration file
mode protect: the goal first, then the flood; goal: 9 of 10 operations within four times what they \
take without a flood (50.0 ms until they were seen without one)

sda: postgres (41) waits 16.2 ms for a commit or a read, within the goal of
  20.0 ms; without a flood the median is 5.00 ms. cp (0), cp (1) and 6 more
  flood the disk, so the guard keeps the queue short (nr_requests 4 instead of
  64) and gives postgres (41) and ext4's journal a higher I/O priority. Nothing
  that the guard can do keeps the goal: the best that it has found stays, and
  goes back by itself, 3 s after the flood or the wait has ended. To keep the
  goal: stop the flood; to let the flood go on unhindered:
  'floodwall guard pause --for 10m'.

sdb: nothing floods. Everything is as you have it.

The guard leaves some knobs alone, whatever is said above: see the list below.

DEVICE  STATE       FOR  LEVERS           PRESSURE     GOAL    ALONE    DRAINS  BACKLOG
sda     protect  12.0 s  bfq, 4 requests      0.81  20.0 ms  5.00 ms  100 MB/s   812 MB
sdb     free        0 s  –                       –  50.0 ms        –         –      0 B

sda
  waits:  postgres (41)
  floods: cp (0), cp (1), cp (2), cp (3), cp (4), cp (5) and 2 more
  raised: postgres (41), ext4's journal
  holds:  nr_requests 4 (yours: 64)
  known:  drains 121 MB/s, learnt 3 days ago
  no lever meets the goal; the best that there is is in force
  last:   2001-09-09 01:46:40 UTC, watch → protect (bfq, 4 requests); wrote nr_requests 64 → 4; \
victims wait 3.1 × the goal of 20.0 ms

left alone: sdb nr_requests: somebody else has written 32
not steered: nfs at '/srv': no queue
2 decisions, 2 knob writes; looked 1 times, 400 µs on average and 400 µs at most; 0 events lost
        ");
    }

    #[test]
    fn a_goal_of_the_administrators_is_kept_by_fewer_operations_too() {
        let given = Status { p99_us: Some(20_000.0), ..Status::default() };
        insta::assert_snapshot!(head(&given, &USUAL)[1], @"mode protect: the goal first, then the \
            flood; goal: 99 of 100 operations (9 of 10 while fewer than 100 end within 8 s) \
            within 20.0 ms");
    }

    #[test]
    fn a_pause_and_a_dry_run_are_not_overlooked() {
        let nine_minutes = Paused { left_s: Some(540.0), ..Paused::default() };
        let paused =
            Status { paused: Some(nine_minutes), dry_run: true, restarts: 2, ..document() };
        let text = status(&paused, &USUAL, 100);
        for words in [
            "PAUSED: everything is put back; it resumes in 9 min 0 s",
            "DRY RUN: nothing is written",
            "died 2 times",
            "would hold: nr_requests 4 (yours: 64)",
            "would raise: postgres (41)",
            "nothing is done about it",
            "2 knob writes that would have been made",
        ] {
            assert!(text.contains(words), "{text}");
        }
        for words in ["holds:", "raised:", "is in force"] {
            assert!(!text.contains(words), "{words}: {text}");
        }
        let held = Paused { left_s: None, held: vec!["sda.nr_requests 8 (yours: 64)".into()] };
        let text = status(&Status { paused: Some(held), ..document() }, &USUAL, 100);
        assert!(
            text.contains(
                "PAUSED: still held: sda.nr_requests 8 (yours: 64); 'floodwall guard resume' ends \
                 it"
            ),
            "{text}"
        );
        assert!(status(&Status::default(), &USUAL, 100).contains("there is no device to steer"));
    }

    #[test]
    fn a_process_that_calls_itself_an_escape_sequence_moves_no_cursor() {
        let mut evil = document();
        evil.devices[0].victims = vec!["\x1b]0;root\x07\nsda free\u{9b}2J (41)".into()];
        let text = status(&evil, &USUAL, 100);
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        // The paragraph may have another number of lines; the lists have the same.
        let lists = |text: &str| text.split("DEVICE").nth(1).map(|lists| lists.lines().count());
        assert_eq!(lists(&text), lists(&status(&document(), &USUAL, 100)));
        assert!(text.contains(r"waits:  \u{1b}]0;root\u{7}\u{a}sda free\u{9b}2J (41)"), "{text}");
        let told = entry(&Entry { why: "\x1b[2J".into(), ..Entry::default() });
        assert!(told.ends_with("  \\u{1b}[2J\n"), "{told:?}");
    }

    #[test]
    fn of_a_thousand_devices_those_are_shown_that_something_is_done_about() {
        let mut many: Vec<Device> = (0..1000)
            .map(|n| Device { name: format!("d{n}"), state: "free".into(), ..Device::default() })
            .collect();
        many[900] = Device { name: "d900".into(), ..document().devices[0].clone() };
        let text = status(&Status { devices: many, ..Status::default() }, &USUAL, 100);
        assert!(
            text.contains("d900    protect") && text.contains("and 979 more that are free"),
            "{text}"
        );
        assert!(text.lines().count() < 50, "{text}");
    }
}
