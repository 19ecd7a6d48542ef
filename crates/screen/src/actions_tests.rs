//! What actions ask, and what they refuse.

use floodwall_model::frame::{Group, Guard, GuardedDisk, Machine, Queue};

use super::*;

const BACKUP: &str = "system.slice/backup.service";
const SESSION: &str = "user.slice/user-0.slice/session-3.scope";
const DATABASE: &str = "system.slice/system-postgresql.slice/postgresql@15-main.service";

fn group(path: &str) -> Option<Group> {
    Some(Group { path: path.into(), memory_bytes: Some(10 << 20), is_limited: false })
}

/// A backup floods sda, and a database waits.
fn frame() -> Frame {
    let on_sda = Process { disk: Some("sda".into()), ..Process::default() };
    Frame {
        window_ms: 1000,
        machine: Machine {
            ram_bytes: Some(16 << 30),
            hard_limit_bytes: Some(3 << 30),
            ..Machine::default()
        },
        disks: vec![Disk {
            name: "sda".into(),
            drain_bytes_per_s: Some(120_000_000),
            queue: Queue { scheduler: Some("bfq".into()), ..Queue::default() },
            ..Disk::default()
        }],
        processes: vec![
            Process {
                pid: 812,
                name: "postgres".into(),
                is_victim: true,
                oldest_us: 3_200_000,
                group: group(DATABASE),
                ..on_sda.clone()
            },
            Process {
                pid: 4_711,
                name: "cp".into(),
                is_flood: true,
                dirtied_bytes: Some(400_000_000),
                group: group(BACKUP),
                ..on_sda
            },
        ],
        ..Frame::default()
    }
}

fn line(offer: Offer) -> String {
    match offer {
        Offer::Ask(question) => question.command_line(),
        Offer::Refuse(why) => why,
    }
}

#[test]
fn a_flood_is_held_to_half_of_the_disk() {
    let frame = frame();
    let expected = "floodwall apply --for 10m --yes unit:backup.service:sda.io.max=wbps=60.0MB \
                    unit:backup.service:memory.high=236MiB";
    for chosen in [None, Some(&frame.processes[0]), Some(&frame.processes[1])] {
        assert_eq!(line(limit(&frame, chosen)), expected);
    }
    let Offer::Ask(question) = limit(&frame, None) else { panic!("refused") };
    assert_eq!(question.title, "Limit backup.service?");
    assert!(question.text.contains("writes at most 60.0 MB/s to sda"), "{}", question.text);
}

#[test]
fn a_limit_is_refused_where_why_does_not_offer_it() {
    let refused = |change: &dyn Fn(&mut Frame)| {
        let mut frame = frame();
        change(&mut frame);
        line(limit(&frame, None))
    };
    let flood = |change: fn(&mut Process)| move |frame: &mut Frame| change(&mut frame.processes[1]);
    let whose = "no limit for cp (4711): ";
    for (change, why) in [
        (&flood(|cp| cp.group = None) as &dyn Fn(&mut Frame), "its control group is not known"),
        (&flood(|cp| cp.group = group("")), "it runs in the root group, which can't be limited"),
        (&flood(|cp| cp.group = group(DATABASE)), "postgres (812) waits in the same group"),
        (&flood(|cp| cp.group = group("system.slice")), "postgres (812) waits in the same group"),
        (&flood(|cp| cp.disk = None), ""),
        (
            &flood(|cp| {
                if let Some(group) = &mut cp.group {
                    group.is_limited = true;
                }
            }),
            "its group has a limit already, and this one may be looser",
        ),
        (
            &flood(|cp| {
                if let Some(group) = &mut cp.group {
                    group.memory_bytes = None;
                }
            }),
            "how much memory its group uses is not known",
        ),
        (&|frame| frame.disks[0].drain_bytes_per_s = None, "how fast sda drains is not known"),
        (
            &|frame| steer(frame, false),
            "the guard steers sda; pause it first (p), or leave it to it",
        ),
        (
            &|frame| {
                let other = Process { pid: 5, group: group(SESSION), ..frame.processes[1].clone() };
                frame.processes.insert(0, other);
            },
            "floods of other groups fill the rest of sda",
        ),
    ] {
        let told = refused(change);
        match why {
            "" => assert_eq!(told, "no process floods a disk now"),
            why => assert_eq!(told, format!("{whose}{why}")),
        }
    }
    assert!(refused(&|frame| steer(frame, true)).starts_with("floodwall apply"), "a dry run");
}

fn steer(frame: &mut Frame, dry_run: bool) {
    let disk = GuardedDisk { name: "sda".into(), ..GuardedDisk::default() };
    frame.guard = Some(Guard { dry_run, disks: vec![disk], ..Guard::default() });
}

#[test]
fn a_name_that_can_not_be_typed_is_in_no_command() {
    let mut frame = frame();
    frame.processes[1].group = group("system.slice/a\u{1b}b.service");
    assert_eq!(line(limit(&frame, None)), "the name of the control group can't be typed");
    frame.processes[1].group = group(r"system.slice/dev-x\x2dy.service");
    assert!(line(limit(&frame, None)).contains(r"'unit:dev-x\x2dy.service:sda.io.max="));
}

#[test]
fn a_victim_is_raised_with_its_unit_unless_a_flood_is_in_it() {
    let mut frame = frame();
    let raised = |frame: &Frame| line(raise(frame, None));
    let unit = "floodwall apply --for 10m --yes unit:postgresql@15-main.service:ioprio=be/0";
    let one = "floodwall apply --for 10m --yes pid:812.ioprio=be/0";
    assert_eq!(raised(&frame), unit);
    frame.processes[1].group = group(DATABASE);
    assert_eq!(raised(&frame), one);
    frame.processes[1].group = group(BACKUP);
    frame.processes[0].group = group(SESSION);
    assert_eq!(raised(&frame), one, "a session is more than the victim");
    frame.disks[0].queue.scheduler = Some("none".into());
    let why = "no priority for postgres (812): the elevator of sda is none; only bfq heeds it \
               ('floodwall explain bfq')";
    assert_eq!(raised(&frame), why);
    frame.processes.clear();
    assert_eq!(raised(&frame), "no process waits long for a disk now");
}

#[test]
fn a_guard_is_paused_or_resumed() {
    let mut frame = frame();
    assert_eq!(line(guard(&frame)), "no guard runs here; 'floodwall guard' starts one");
    steer(&mut frame, false);
    assert_eq!(line(guard(&frame)), "floodwall guard pause --for 10m");
    frame.guard.as_mut().unwrap().paused_s = Some(0);
    assert_eq!(line(guard(&frame)), "floodwall guard resume");
}
