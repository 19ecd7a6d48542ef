//! A paragraph of each state.

use super::*;

fn held(knob: &str, value: &str, own: &str) -> HeldKnob {
    HeldKnob { knob: knob.into(), value: value.into(), own: Some(own.into()) }
}

/// A database and a copy on one disk.
fn disk(state: &str, pressure: f64, held: Vec<HeldKnob>) -> Device {
    Device {
        name: "sda".into(),
        state: state.into(),
        goal_us: 20_000.0,
        pressure: Some(pressure),
        base_us: Some(5_000.0),
        drain_bytes_per_s: Some(1e8),
        backlog_bytes: Some(0),
        victims: vec!["postgres (41)".into()],
        floods: vec!["rsync (93)".into()],
        held,
        ..Device::default()
    }
}

fn paced(pressure: f64) -> Device {
    let group = "system.slice/backup.service";
    let max = "rbps=max wbps=max riops=max wiops=max";
    let limits = vec![
        held(&format!("{group}:io.max"), "rbps=max wbps=31500000 riops=max wiops=max", max),
        held(&format!("{group}:memory.high"), "300023808", "max"),
    ];
    disk("pace", pressure, limits)
}

fn short() -> Device {
    let queue = vec![held("nr_requests", "4", "64"), held("max_sectors_kb", "128", "1280")];
    Device { flood_bytes_per_s: Some(3.6e7), ..disk("protect", 0.8, queue) }
}

fn raised() -> Device {
    let mut knobs = short().held;
    knobs.extend([held("scheduler", "bfq", "mq-deadline"), held("pid:41.ioprio", "be/0", "none")]);
    Device {
        raised: vec!["postgres (41)".into(), "ext4's journal".into()],
        ..disk("protect", 0.8, knobs)
    }
}

fn status(devices: Vec<Device>) -> Status {
    Status { devices, mode: "protect".into(), ..Status::default() }
}

fn said(status: &Status) -> String {
    let lines: Vec<String> =
        paragraphs(status, &Reach { socket: None }).into_iter().flatten().collect();
    for line in &lines {
        assert!(line.chars().count() <= WIDTH && *line == line.trim_end(), "{line:?}");
    }
    lines.join("\n")
}

#[test]
fn a_paced_unit() {
    insta::assert_snapshot!(said(&status(vec![paced(0.62)])), @r"
    sda: postgres (41) waits 12.4 ms for a commit or a read, within the goal of
      20.0 ms; without a flood the median is 5.00 ms. rsync (93) floods the disk
      from unit backup.service, so the guard holds that unit to 31.5 MB/s, 32 % of
      the 100 MB/s that the disk drains now. Nothing else is changed, and the unit
      gets its own limits back by itself, 3 s after the flood or the wait has ended.
      Not wanted? 'floodwall guard pause --for 10m' gives everything back at once; a
      longer p99 (guard.toml, --p99) leaves the flood more.
    ");
}

#[test]
fn a_command_names_a_socket_that_is_not_the_usual_one() {
    let told = |socket: &str| {
        let reach = Reach { socket: Some(socket.into()) };
        paragraphs(&status(vec![short()]), &reach).concat().join(" ")
    };
    let text = told("/run/a.sock");
    assert!(text.contains("'floodwall guard pause --for 10m --socket /run/a.sock'"), "{text}");
    let text = told("/run/my guard");
    assert!(text.contains("pause --for 10m --socket '/run/my guard''"), "{text}");
    // A command that is longer than a line is broken at a blank, not inside the path.
    let long = format!("/run/{}/guard.sock", "a".repeat(50));
    assert!(told(&long).contains(&format!("{long}'")));
}

#[test]
fn a_flood_that_is_not_paced() {
    let why = "its control group holds a victim, too".to_owned();
    let device = Device { unpaced: Some(why), ..short() };
    insta::assert_snapshot!(said(&status(vec![device])), @r"
    sda: postgres (41) waits 16.0 ms for a commit or a read, within the goal of
      20.0 ms; without a flood the median is 5.00 ms. rsync (93) floods the disk, so
      the guard keeps the queue short (nr_requests 4 instead of 64 and
      max_sectors_kb 128 instead of 1280). The flood can't be held to a rate: its
      control group holds a victim, too. The flood still gets 36.0 MB/s of the
      100 MB/s that the disk drains now. The guard puts everything back by itself,
      3 s after the flood or the wait has ended. Not wanted?
      'floodwall guard pause --for 10m' gives everything back at once; a longer p99
      or mode balance (guard.toml, --p99, --mode) leaves the flood more.
    ");
}

#[test]
fn a_pace_while_little_is_known() {
    let device = Device { pressure: None, base_us: None, drain_bytes_per_s: None, ..paced(0.0) };
    insta::assert_snapshot!(said(&status(vec![device])), @r"
    sda: postgres (41) waits for commits or reads; how long is not measured yet
      (fewer than five have ended since the guard's last step, or within 8 s), and
      none is known to be stuck. The goal is 20.0 ms, estimated until victims were
      seen without a flood. rsync (93) floods the disk from unit backup.service, so
      the guard holds that unit to 31.5 MB/s, as long as it is not known what the
      disk drains. Nothing else is changed, and the unit gets its own limits back by
      itself, 3 s after the flood or the wait has ended. Not wanted?
      'floodwall guard pause --for 10m' gives everything back at once; a longer p99
      (guard.toml, --p99) leaves the flood more.
    ");
    let assumed =
        Device { pressure: Some(0.5), base_us: None, goal_us: ASSUMED_GOAL_US, ..paced(0.0) };
    insta::assert_snapshot!(waits(&assumed), @"
postgres (41) waits 25.0 ms for a commit or a read, within the goal of 50.0 ms, assumed until \
victims were seen without a flood.
    ");
    let given = Device { goal_is_given: true, ..assumed };
    insta::assert_snapshot!(waits(&given), @"postgres (41) waits 25.0 ms for a commit or a read, \
        within the goal of 50.0 ms.");
    let little = Device { floods: Vec::new(), ..paced(0.5) };
    insta::assert_snapshot!(said(&status(vec![little])), @r"
    sda: postgres (41) waits 10.0 ms for a commit or a read, within the goal of
      20.0 ms; without a flood the median is 5.00 ms. The unit backup.service has
      flooded the disk, so the guard holds it to 31.5 MB/s, 32 % of the 100 MB/s
      that the disk drains now. Nothing else is changed, and the unit gets its own
      limits back by itself, 3 s after the flood or the wait has ended. Not wanted?
      'floodwall guard pause --for 10m' gives everything back at once; a longer p99
      (guard.toml, --p99) leaves the flood more.
    ");
    let just = Device { held: Vec::new(), drain_bytes_per_s: Some(1e6), ..paced(1.4) };
    insta::assert_snapshot!(said(&status(vec![just])), @r"
    sda: postgres (41) waits 28.0 ms for a commit or a read, longer than the goal
      of 20.0 ms; without a flood the median is 5.00 ms. rsync (93) floods the disk,
      so the guard is about to hold its unit to a rate. Nothing else is changed, and
      the unit gets its own limits back by itself, 3 s after the flood or the wait
      has ended. Not wanted? 'floodwall guard pause --for 10m' gives everything back
      at once; a longer p99 (guard.toml, --p99) leaves the flood more.
    ");
}

#[test]
fn a_pace_that_is_not_enough() {
    let device = Device { goal_unmet: true, ..paced(1.8) };
    insta::assert_snapshot!(said(&status(vec![device])), @r"
    sda: postgres (41) waits 36.0 ms for a commit or a read, longer than the goal
      of 20.0 ms; without a flood the median is 5.00 ms. rsync (93) floods the disk
      from unit backup.service, so the guard holds that unit to 31.5 MB/s, 32 % of
      the 100 MB/s that the disk drains now. Nothing that the guard can do keeps the
      goal: the best that it has found stays, and goes back by itself, 3 s after the
      flood or the wait has ended. To keep the goal:
      'systemctl stop backup.service'; to let the flood go on unhindered:
      'floodwall guard pause --for 10m'.
    ");
}

#[test]
fn a_short_queue() {
    insta::assert_snapshot!(said(&status(vec![short()])), @r"
    sda: postgres (41) waits 16.0 ms for a commit or a read, within the goal of
      20.0 ms; without a flood the median is 5.00 ms. rsync (93) floods the disk, so
      the guard keeps the queue short (nr_requests 4 instead of 64 and
      max_sectors_kb 128 instead of 1280). The flood still gets 36.0 MB/s of the
      100 MB/s that the disk drains now. The guard puts everything back by itself,
      3 s after the flood or the wait has ended. Not wanted?
      'floodwall guard pause --for 10m' gives everything back at once; a longer p99
      or mode balance (guard.toml, --p99, --mode) leaves the flood more.
    ");
    let unmet = Device { goal_unmet: true, pressure: Some(3.0), ..short() };
    insta::assert_snapshot!(said(&status(vec![unmet])), @r"
    sda: postgres (41) waits 60.0 ms for a commit or a read, longer than the goal
      of 20.0 ms; without a flood the median is 5.00 ms. rsync (93) floods the disk,
      so the guard keeps the queue short (nr_requests 4 instead of 64 and
      max_sectors_kb 128 instead of 1280). Nothing that the guard can do keeps the
      goal: the best that it has found stays, and goes back by itself, 3 s after the
      flood or the wait has ended. To keep the goal: stop the flood; to let the
      flood go on unhindered: 'floodwall guard pause --for 10m'.
    ");
}

#[test]
fn a_backlog_that_a_flood_has_left() {
    let left = |bytes, drain| Device {
        floods: Vec::new(),
        backlog_bytes: Some(bytes),
        drain_bytes_per_s: drain,
        ..short()
    };
    insta::assert_snapshot!(said(&status(vec![left(3 << 30, Some(13.7e6))])), @r"
    sda: postgres (41) waits 16.0 ms for a commit or a read, within the goal of
      20.0 ms; without a flood the median is 5.00 ms. No process is seen to flood
      the disk now; 3 GiB still wait to be written, about 3 min 55 s at 13.7 MB/s.
      The guard keeps the queue short (nr_requests 4 instead of 64 and
      max_sectors_kb 128 instead of 1280). The guard puts everything back by itself,
      3 s after the backlog is written or the wait has ended. Not wanted?
      'floodwall guard pause --for 10m' gives everything back at once; a longer p99
      or mode balance (guard.toml, --p99, --mode) leaves the flood more.
    ");
    insta::assert_snapshot!(said(&status(vec![left(3 << 30, None)])), @r"
    sda: postgres (41) waits 16.0 ms for a commit or a read, within the goal of
      20.0 ms; without a flood the median is 5.00 ms. No process is seen to flood
      the disk now; 3 GiB still wait to be written. The guard keeps the queue short
      (nr_requests 4 instead of 64 and max_sectors_kb 128 instead of 1280). The
      guard puts everything back by itself, 3 s after the backlog is written or the
      wait has ended. Not wanted? 'floodwall guard pause --for 10m' gives everything
      back at once; a longer p99 or mode balance (guard.toml, --p99, --mode) leaves
      the flood more.
    ");
    insta::assert_snapshot!(said(&status(vec![left(1 << 20, Some(13.7e6))])), @r"
    sda: postgres (41) waits 16.0 ms for a commit or a read, within the goal of
      20.0 ms; without a flood the median is 5.00 ms. A flood pauses or has ended;
      the guard keeps the queue short (nr_requests 4 instead of 64 and
      max_sectors_kb 128 instead of 1280). The flood still gets its part of the
      13.7 MB/s that the disk drains now. The guard puts everything back by itself,
      3 s after the flood or the wait has ended. Not wanted?
      'floodwall guard pause --for 10m' gives everything back at once; a longer p99
      or mode balance (guard.toml, --p99, --mode) leaves the flood more.
    ");
}

#[test]
fn raised_victims_and_tries() {
    insta::assert_snapshot!(said(&status(vec![raised()])), @r"
    sda: postgres (41) waits 16.0 ms for a commit or a read, within the goal of
      20.0 ms; without a flood the median is 5.00 ms. rsync (93) floods the disk, so
      the guard steers the queue (nr_requests 4 instead of 64, max_sectors_kb 128
      instead of 1280 and scheduler bfq instead of mq-deadline) and gives
      postgres (41) and ext4's journal a higher I/O priority. The flood still gets
      its part of the 100 MB/s that the disk drains now. The guard puts everything
      back by itself, 3 s after the flood or the wait has ended. Not wanted?
      'floodwall guard pause --for 10m' gives everything back at once; a longer p99
      or mode balance (guard.toml, --p99, --mode) leaves the flood more.
    ");
    let mut first = raised();
    first.held[1].value = "1280".into();
    first.held.insert(2, held("iosched.async_depth", "4", "not there"));
    insta::assert_snapshot!(said(&status(vec![first])), @r"
    sda: postgres (41) waits 16.0 ms for a commit or a read, within the goal of
      20.0 ms; without a flood the median is 5.00 ms. rsync (93) floods the disk, so
      the guard steers the queue (nr_requests 4 instead of 64 and scheduler bfq
      instead of mq-deadline) and gives postgres (41) and ext4's journal a higher
      I/O priority. The flood still gets its part of the 100 MB/s that the disk
      drains now. The guard puts everything back by itself, 3 s after the flood or
      the wait has ended. Not wanted? 'floodwall guard pause --for 10m' gives
      everything back at once; a longer p99 or mode balance (guard.toml, --p99,
      --mode) leaves the flood more.
    ");
    let tries = Device { state: "probe".into(), pressure: Some(1.2), ..raised() };
    let balance = Status { mode: "balance".into(), ..status(vec![tries]) };
    insta::assert_snapshot!(said(&balance), @r"
    sda: postgres (41) waits 24.0 ms for a commit or a read, longer than the goal
      of 20.0 ms; without a flood the median is 5.00 ms. rsync (93) floods the disk,
      so the guard steers the queue (nr_requests 4 instead of 64, max_sectors_kb 128
      instead of 1280 and scheduler bfq instead of mq-deadline), gives postgres (41)
      and ext4's journal a higher I/O priority and tries other settings, a few
      seconds each, to keep the best. The flood still gets its part of the 100 MB/s
      that the disk drains now. The guard puts everything back by itself, 3 s after
      the flood or the wait has ended. Not wanted? 'floodwall guard pause --for 10m'
      gives everything back at once; a longer p99 (guard.toml, --p99) leaves the
      flood more.
    ");
}

#[test]
fn a_dry_run() {
    let dry = |device| said(&Status { dry_run: true, ..status(vec![device]) });
    insta::assert_snapshot!(dry(paced(2.5)), @r"
    sda: postgres (41) waits 50.0 ms for a commit or a read, longer than the goal
      of 20.0 ms; without a flood the median is 5.00 ms. rsync (93) floods the disk
      from unit backup.service, so the guard would hold that unit to 31.5 MB/s, 32 %
      of the 100 MB/s that the disk drains now. This is a dry run: nothing is
      written, and the wait is what it is without a guard. Without --dry-run
      (dry_run in guard.toml) the guard does it.
    ");
    insta::assert_snapshot!(dry(raised()), @r"
    sda: postgres (41) waits 16.0 ms for a commit or a read, within the goal of
      20.0 ms; without a flood the median is 5.00 ms. rsync (93) floods the disk, so
      the guard would steer the queue (nr_requests 4 instead of 64, max_sectors_kb
      128 instead of 1280 and scheduler bfq instead of mq-deadline) and would give
      postgres (41) and ext4's journal a higher I/O priority. This is a dry run:
      nothing is written, and the wait is what it is without a guard. Without
      --dry-run (dry_run in guard.toml) the guard does it.
    ");
}

#[test]
fn a_pause() {
    let paused = |left_s, held: &[&str], devices| {
        let held = held.iter().map(|knob| (*knob).to_owned()).collect();
        said(&Status { paused: Some(Paused { left_s, held }), ..status(devices) })
    };
    let device = Device { state: "free".into(), held: Vec::new(), ..paced(0.7) };
    insta::assert_snapshot!(paused(Some(540.0), &[], vec![device.clone(), quiet(2)]), @r"
    sda: rsync (93) floods the disk, and postgres (41) waits for the disk. The
      guard is paused and does not measure the disk: everything is as you have it.
      It goes on by itself in 9 min 0 s, at once with 'floodwall guard resume'.
    ");
    let alone = Device { floods: Vec::new(), ..device.clone() };
    insta::assert_snapshot!(paused(None, &[], vec![alone]), @r"
    sda: postgres (41) waits for the disk. The guard is paused and does not
      measure the disk: everything is as you have it. It goes on with
      'floodwall guard resume', not by itself.
    ");
    insta::assert_snapshot!(paused(None, &[], vec![quiet(1), quiet(2)]), @r"
    sd1 and sd2: The guard is paused and does not measure the disk: everything is
      as you have it. It goes on with 'floodwall guard resume', not by itself.
    ");
    let resumed = Device { backlog_bytes: None, ..quiet(1) };
    insta::assert_snapshot!(said(&status(vec![resumed])), @r"
    sd1: The guard is about to measure the disk again; until then everything is as
      you have it.
    ");
    insta::assert_snapshot!(paused(None, &["sda.nr_requests 8 (yours: 64)"], vec![device]), @r"
    sda: rsync (93) floods the disk, and postgres (41) waits for the disk. The
      guard is paused and does not measure the disk: the held knobs are being put
      back. It goes on with 'floodwall guard resume', not by itself.
    ");
}

fn quiet(n: u32) -> Device {
    Device {
        name: format!("sd{n}"),
        state: "free".into(),
        backlog_bytes: Some(0),
        ..Device::default()
    }
}

#[test]
fn free_and_watch() {
    insta::assert_snapshot!(said(&status((1..=5).map(quiet).collect())), @r"
    sd1, sd2, sd3 and 2 more: nothing floods. Everything is as you have it.
    ");
    insta::assert_snapshot!(said(&status(vec![quiet(1)])), @"sd1: nothing floods. Everything is as \
        you have it.");
    let watch = disk("watch", 0.4, Vec::new());
    let alone = Device { state: "free".into(), floods: Vec::new(), ..watch.clone() };
    let copy = Device { state: "free".into(), victims: Vec::new(), ..watch.clone() };
    insta::assert_snapshot!(said(&status(vec![watch])), @r"
    sda: postgres (41) waits 8.00 ms for a commit or a read, within the goal of
      20.0 ms; without a flood the median is 5.00 ms. rsync (93) floods the disk,
      and harms nobody yet: everything is as you have it. The guard acts by itself
      once the wait or the backlog grows too long.
    ");
    insta::assert_snapshot!(said(&status(vec![alone])), @r"
    sda: postgres (41) waits 8.00 ms for a commit or a read, within the goal of
      20.0 ms; without a flood the median is 5.00 ms. Nothing floods it, and
      everything is as you have it.
    ");
    let late = disk("watch", 1.4, Vec::new());
    insta::assert_snapshot!(said(&status(vec![late])), @r"
    sda: postgres (41) waits 28.0 ms for a commit or a read, longer than the goal
      of 20.0 ms; without a flood the median is 5.00 ms. rsync (93) floods the disk,
      and the guard is about to act; everything is as you have it still.
    ");
    insta::assert_snapshot!(said(&status(vec![copy])), @r"
    sda: Nobody waits for the disk at this moment. rsync (93) floods the disk and
      may have all of it: everything is as you have it.
    ");
    insta::assert_snapshot!(said(&Status::default()), @"");
}

#[test]
fn what_is_given_back() {
    let last = Device {
        state: "recover".into(),
        floods: Vec::new(),
        held: vec![held("scheduler", "bfq", "bfq")],
        ..short()
    };
    insta::assert_snapshot!(said(&status(vec![last])), @"sda: The flood or the wait has ended. \
        Everything is as you have it again.");
    let gone = Device { state: "recover".into(), floods: Vec::new(), ..short() };
    insta::assert_snapshot!(said(&status(vec![gone])), @r"
    sda: The flood or the wait has ended. The guard is giving back nr_requests and
      max_sectors_kb by itself; a queue has to run dry before it is changed.
    ");
}

#[test]
fn many_processes_and_other_groups() {
    let mut device = paced(0.5);
    device.victims = (0..9).map(|n| format!("postgres ({n})")).collect();
    device.floods.push("tar (94)".into());
    device.held[0].knob = "tenants/blue:io.max".into();
    insta::assert_snapshot!(said(&status(vec![device])), @r"
    sda: postgres (0), postgres (1) and 7 more wait 10.0 ms for a commit or a
      read, within the goal of 20.0 ms; without a flood the median is 5.00 ms.
      rsync (93) and tar (94) flood the disk from control group tenants/blue, so the
      guard holds that control group to 31.5 MB/s, 32 % of the 100 MB/s that the
      disk drains now. Nothing else is changed, and the unit gets its own limits
      back by itself, 3 s after the flood or the wait has ended. Not wanted?
      'floodwall guard pause --for 10m' gives everything back at once; a longer p99
      (guard.toml, --p99) leaves the flood more.
    ");
}

#[test]
fn names_do_not_leave_their_paragraph() {
    let mut device = paced(0.5);
    device.victims = vec!["\u{1b}[2J\nsda: all is well (41)".into()];
    let text = said(&status(vec![device]));
    assert!(text.starts_with(r"sda: \u{1b}[2J\u{a}sda: all is well (41) waits"), "{text}");
}

#[test]
fn a_flood_that_paces_itself_is_spared() {
    let device = disk("watch", 0.8, Vec::new());
    let device = Device { paced: device.floods.clone(), ..device };
    let text = said(&status(vec![device.clone()])).replace("\n  ", " ");
    assert!(
        text.ends_with(
            "rsync (93) floods the disk and paces itself, so everything is as you have it. The \
             guard acts by itself if victims miss their goal for 10.0 s."
        ),
        "{text}"
    );
    // Another one does not.
    let floods = vec!["dd (7)".to_owned(), "rsync (93)".to_owned()];
    let text = said(&status(vec![Device { floods, ..device }])).replace("\n  ", " ");
    assert!(text.contains("dd (7) and rsync (93) flood the disk, and harms nobody yet"), "{text}");
}
