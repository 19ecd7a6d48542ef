//! The controller over a machine that the test can inspect.

use floodwall_guard::Unpaced;
use floodwall_plant::KnobName;

use super::*;
use crate::config::Flags;
use crate::document::{HeldKnob, Status};
use crate::machine::Unjournaled;
use crate::worker::fake::{DISK, Fake, flood, victim};

struct Bench {
    fake: Fake,
    controller: Controller,
    now: Now,
}

impl Bench {
    fn new(args: &Flags) -> Self {
        let fake = Fake::disk();
        let settings = Settings { file: None, ..Settings::read(args).unwrap() };
        let now = Now { instant: Instant::now(), unix_s: 1e9 };
        let origin = Origin { started: now.instant, parent_pid: 7, restarts: 2 };
        let machine = Box::new(Unjournaled::new(fake.clone(), settings.dry_run));
        Self { controller: Controller::new(now, machine, settings, origin), fake, now }
    }

    fn open_machine(&mut self) {
        let machine = Unjournaled::new(self.fake.clone(), self.controller.settings().dry_run);
        self.controller.open_machine(Box::new(machine));
    }

    fn ticks(&mut self, n: u32) {
        for _ in 0..n {
            self.now.instant += Duration::from_millis(250);
            self.now.unix_s += 0.25;
            self.controller.tick(self.now).unwrap();
        }
    }

    fn meet(&self) {
        self.fake.0.lock().unwrap().actors = vec![victim(), flood()];
    }

    fn part(&self) {
        self.fake.0.lock().unwrap().actors.clear();
    }

    fn knob(&self, name: &str) -> String {
        self.fake.0.lock().unwrap().knobs.devices[&DISK].get(name).unwrap().to_owned()
    }

    fn ask(&mut self, request: Request) -> Reply {
        match self.controller.answer(self.now, Question::Request(request), &mut |_| ()).unwrap() {
            Answer::Reply(reply) => reply,
            Answer::Text(_) => panic!(),
        }
    }

    fn status(&mut self) -> Status {
        match self.ask(Request::Status) {
            Reply::Status(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    fn log(&mut self) -> String {
        self.controller.take_said().into_iter().map(|(_, line)| line + "\n").collect()
    }
}

#[test]
fn an_encounter_is_told_with_what_was_written_and_why() {
    let mut bench = Bench::new(&Flags::default());
    bench.ticks(4);
    assert_eq!(bench.status().devices[0].state, "free");
    bench.meet();
    bench.ticks(8);
    let status = bench.status();
    let disk = &status.devices[0];
    assert_eq!((disk.name.as_str(), disk.state.as_str()), ("sda", "protect"));
    assert_eq!(disk.victims, ["postgres (41)"]);
    assert_eq!(disk.floods, ["cp (42)"]);
    assert_eq!(disk.unpaced.as_deref(), Some(Unpaced::NoGroup.to_string()).as_deref());
    assert_eq!(disk.flood_bytes_per_s, Some(0.0));
    let held = disk.held.iter().find(|h| h.knob == "nr_requests").unwrap();
    assert_eq!((held.own.as_deref(), &held.value), (Some("64"), &bench.knob("nr_requests")));
    assert_eq!(status.counts.knob_writes, bench.fake.0.lock().unwrap().writes.len() as u64);
    assert_eq!((status.counts.lost_events, status.restarts, status.parent_pid), (7, 2, 7));
    let log = bench.log();
    assert!(
        log.contains("sda: ") && log.contains("wrote ") && log.contains("nr_requests 64 → "),
        "{log}"
    );
    assert!(log.contains("victims wait "), "{log}");
    let Reply::History(history) = bench.ask(Request::History { last: Some(1) }) else { panic!() };
    assert_eq!(history.len(), 1);
    // The decision that begins to protect names victims and floods; no other one does.
    let Reply::History(history) = bench.ask(Request::History { last: None }) else { panic!() };
    let named: Vec<_> = history.iter().filter(|entry| !entry.victims.is_empty()).collect();
    let [begin] = named[..] else { panic!("{history:?}") };
    assert_eq!((begin.to.as_deref(), &begin.floods), (Some("protect"), &disk.floods));
}

#[test]
fn what_a_flood_writes_is_the_rate_of_about_a_second() {
    let mut flooded = Flooded::default();
    assert_eq!(flooded.bytes_per_s(), None);
    let tick = Duration::from_millis(250);
    (0..40).for_each(|_| flooded.add(1_000_000, tick));
    (0..8).for_each(|_| flooded.add(10_000_000, tick));
    let rate = flooded.bytes_per_s().unwrap();
    assert!((32e6..40e6).contains(&rate), "{rate} two seconds after 4 MB/s have become 40");
    // Bytes of an unknown time tell no rate.
    flooded.add(1 << 40, Duration::ZERO);
    assert_eq!(flooded.bytes_per_s(), None);
}

#[test]
fn a_pause_puts_everything_back_and_ends_by_itself() {
    let mut bench = Bench::new(&Flags::default());
    bench.ticks(2);
    bench.meet();
    bench.ticks(8);
    assert_ne!(bench.knob("nr_requests"), "64");
    assert_eq!(
        bench.ask(Request::Pause { seconds: Some(10.0) }),
        Reply::Paused(Paused { left_s: Some(10.0), held: vec![] })
    );
    assert_eq!(
        (bench.knob("nr_requests"), bench.knob("max_sectors_kb")),
        ("64".into(), "1280".into())
    );
    bench.ticks(38);
    assert_eq!(bench.knob("nr_requests"), "64");
    let status = bench.status();
    let disk = &status.devices[0];
    assert_eq!((disk.pressure, disk.drain_bytes_per_s, disk.backlog_bytes), (None, None, None));
    let last = disk.last.as_ref().unwrap();
    assert_eq!(last.line(), "sda: paused for 10.0 s: everything goes back");
    assert_eq!(status.paused, Some(Paused { left_s: Some(0.5), held: vec![] }));
    assert_eq!((status.devices[0].state.as_str(), status.devices[0].held.len()), ("free", 0));
    bench.ticks(8);
    let status = bench.status();
    assert_eq!(status.paused, None);
    assert!(status.devices[0].backlog_bytes.is_some(), "{status:?}");
    assert_ne!(bench.knob("nr_requests"), "64");
    assert!(bench.log().contains("resumed: the pause is over"));
    bench.ask(Request::Pause { seconds: None });
    bench.ticks(1000);
    assert_eq!(bench.knob("nr_requests"), "64");
    assert_eq!(bench.ask(Request::Resume), Reply::Resumed { was_paused: true });
    let disk = bench.status().devices.remove(0);
    assert_eq!(disk.backlog_bytes, None, "nothing was measured yet");
    assert_eq!(disk.last.unwrap().line(), "sda: resumed: it was told to");
    assert_eq!(bench.ask(Request::Resume), Reply::Resumed { was_paused: false });
}

#[test]
fn who_is_present_is_named_during_a_pause_too_and_not_of_a_device_that_is_gone() {
    let mut bench = Bench::new(&Flags::default());
    bench.ticks(2);
    bench.ask(Request::Pause { seconds: None });
    bench.meet();
    bench.ticks(2);
    let who = |bench: &mut Bench| {
        let disk = bench.status().devices.remove(0);
        (disk.victims, disk.floods)
    };
    let both = (vec!["postgres (41)".to_owned()], vec!["cp (42)".to_owned()]);
    assert_eq!(who(&mut bench), both);
    bench.part();
    bench.ticks(11);
    assert_eq!(who(&mut bench), both, "for three seconds");
    bench.ticks(1);
    assert_eq!(who(&mut bench), (vec![], vec![]));
    bench.ask(Request::Resume);
    bench.meet();
    bench.ticks(2);
    assert_eq!(who(&mut bench), both);
    bench.fake.0.lock().unwrap().devices.clear();
    bench.ticks(1);
    assert_eq!(who(&mut bench), (vec![], vec![]));
}

#[test]
fn a_knob_that_is_asked_for_goes_back_and_is_left_alone_while_the_rest_is_steered_on() {
    let mut bench = Bench::new(&Flags::default());
    bench.ticks(2);
    bench.meet();
    bench.ticks(8);
    assert_ne!(
        (bench.knob("nr_requests"), bench.knob("max_sectors_kb")),
        ("64".into(), "1280".into())
    );
    let name = KnobName { device: Some("8:0".into()), knob: "nr_requests".into() };
    let asked = Request::Yield { knobs: vec![name.clone()] };
    bench.fake.0.lock().unwrap().slow = true;
    let waiting = Reply::Yielded { back: vec![], waiting: vec![name.clone()] };
    assert_eq!(bench.ask(asked.clone()), waiting);
    bench.fake.0.lock().unwrap().slow = false;
    assert_eq!(bench.ask(asked), Reply::Yielded { back: vec![name], waiting: vec![] });
    assert_eq!(bench.knob("nr_requests"), "64");
    let put = |value: &str| {
        let mut inside = bench.fake.0.lock().unwrap();
        inside.knobs.devices.get_mut(&DISK).unwrap().0.insert("nr_requests".into(), value.into());
    };
    put("40");
    bench.ticks(80);
    let status = bench.status();
    assert!(
        status.devices[0].held.iter().all(|held| held.knob != "nr_requests"),
        "{:?}",
        status.devices
    );
    let left = LeftAlone {
        device: Some("sda".into()),
        knob: Some("nr_requests".into()),
        why: "another command has asked for it; restart the guard to have it steered again".into(),
    };
    assert_eq!(status.left_alone, [left], "once");
    let levers = status.devices[0].levers.as_ref().unwrap();
    assert!(levers.contains("KiB") && !levers.contains("requests"), "{levers}");
    assert!(
        bench
            .log()
            .contains("sda.nr_requests: another command has asked for it: left alone from now on")
    );
    bench.part();
    bench.ticks(60);
    assert_eq!(
        (bench.knob("nr_requests"), bench.knob("max_sectors_kb")),
        ("40".into(), "1280".into())
    );
}

#[test]
fn a_dry_run_decides_the_same_and_writes_nothing() {
    let mut bench = Bench::new(&Flags { dry_run: true, ..Flags::default() });
    bench.ticks(2);
    bench.meet();
    bench.ticks(200);
    bench.part();
    bench.ticks(40);
    assert_eq!(bench.fake.0.lock().unwrap().writes, []);
    let log = bench.log();
    assert!(
        log.contains("would write ")
            && log.contains("nr_requests 64 → ")
            && !log.contains("wrote "),
        "{log}"
    );
}

#[test]
fn another_configuration_is_in_force_at_once_and_a_dry_run_begins_with_nothing_held() {
    let mut bench = Bench::new(&Flags::default());
    bench.ticks(2);
    bench.meet();
    bench.ticks(8);
    assert_ne!(bench.knob("nr_requests"), "64");
    let dry = Settings {
        p99: Some(Duration::from_millis(9)),
        dry_run: true,
        ..bench.controller.settings().clone()
    };
    assert!(
        bench.controller.configure(bench.now, dry).unwrap(),
        "a machine that writes is opened anew"
    );
    bench.controller.close_machine(bench.now);
    assert_eq!(bench.knob("nr_requests"), "64");
    bench.open_machine();
    bench.ticks(8);
    assert_eq!(bench.knob("nr_requests"), "64");
    let status = bench.status();
    assert_eq!((status.dry_run, status.devices[0].goal_us), (true, 9000.0));
    let wet = Settings { dry_run: false, ..bench.controller.settings().clone() };
    assert!(bench.controller.configure(bench.now, wet).unwrap(), "and one that does not, too");
    bench.controller.close_machine(bench.now);
    bench.open_machine();
    bench.ticks(8);
    assert_ne!(bench.knob("nr_requests"), "64");
    let goal =
        Settings { p99: Some(Duration::from_millis(8)), ..bench.controller.settings().clone() };
    assert!(!bench.controller.configure(bench.now, goal).unwrap());
    let old = bench.controller.settings().clone();
    let other = Settings { devices: vec!["sdb".into()], ..old.clone() };
    assert!(bench.controller.configure(bench.now, other).unwrap());
    bench.controller.close_machine(bench.now);
    assert!(
        bench.controller.configure(bench.now, old).unwrap(),
        "after a machine that can't be opened"
    );
}

#[test]
fn a_goal_that_can_not_be_met_is_said_once() {
    let mut bench = Bench::new(&Flags { p99: Some("2ms".into()), ..Flags::default() });
    bench.meet();
    bench.ticks(100);
    assert!(!bench.log().contains("can't be met"));
    bench.ticks(800);
    assert_eq!(bench.log().matches("the goal of 2.00 ms can't be met").count(), 1);
    assert!(bench.status().devices[0].goal_unmet);
    bench.part();
    bench.ticks(60);
    assert!(!bench.status().devices[0].goal_unmet);
}

#[test]
fn the_history_is_as_long_as_it_was_told() {
    let mut bench = Bench::new(&Flags { history: Some(3), ..Flags::default() });
    for n in 0..10 {
        bench.controller.say(bench.now, Priority::Info, format!("{n}"));
    }
    let Reply::History(history) = bench.ask(Request::History { last: None }) else { panic!() };
    assert_eq!(history.iter().map(|e| e.why.as_str()).collect::<Vec<_>>(), ["7", "8", "9"]);
}

#[test]
fn it_is_idle_while_nobody_waits_and_nobody_floods() {
    let mut bench = Bench::new(&Flags::default());
    bench.fake.0.lock().unwrap().clean = true;
    bench.ticks(4);
    assert!(bench.controller.is_idle());
    for actor in [victim(), flood()] {
        bench.fake.0.lock().unwrap().actors = vec![actor];
        bench.ticks(2);
        assert!(!bench.controller.is_idle());
        bench.part();
        bench.ticks(20);
        assert!(bench.controller.is_idle());
    }
}

#[test]
fn what_could_not_be_put_back_is_counted_to_the_end() {
    let bench = Bench::new(&Flags::default());
    let (said, not_put_back) = bench.controller.close(bench.now);
    assert_eq!(not_put_back, 0, "somebody else's value is no failure");
    assert_eq!(said, [(Priority::Warning, "left as it is: sdb.nr_requests".to_owned())]);

    let mut bench = Bench::new(&Flags::default());
    bench.fake.0.lock().unwrap().stuck = vec!["sda.nr_requests: busy".into()];
    bench.controller.close_machine(bench.now);
    bench.controller.open_machine(Box::new(Fake::disk()));
    let (said, not_put_back) = bench.controller.close(bench.now);
    assert_eq!(not_put_back, 1, "of the machine before");
    assert!(
        said.contains(&(Priority::Error, "could not be put back: sda.nr_requests: busy".into())),
        "{said:?}"
    );
}

#[test]
fn an_answer_has_a_thousand_entries_at_most() {
    let mut bench = Bench::new(&Flags { history: Some(5000), ..Flags::default() });
    for n in 0..3000 {
        bench.controller.say(bench.now, Priority::Info, format!("{n}"));
    }
    for last in [None, Some(2000)] {
        let Reply::History(history) = bench.ask(Request::History { last }) else { panic!() };
        assert_eq!(
            (history.len(), history[0].why.as_str(), history[999].why.as_str()),
            (1000, "2000", "2999")
        );
    }
}

#[test]
fn the_parent_knows_of_a_pause_before_it_begins_and_what_is_still_held_is_answered() {
    let mut bench = Bench::new(&Flags::default());
    bench.controller.open_machine(Box::new(bench.fake.clone()));
    bench.ticks(2);
    bench.meet();
    bench.ticks(8);
    let knob = HeldKnob { knob: "nr_requests".into(), value: "8".into(), own: Some("64".into()) };
    let late = Held { device: Some(DISK), label: "sda.nr_requests".into(), knob };
    bench.fake.0.lock().unwrap().held = vec![late];
    let fake = bench.fake.clone();
    let mut told = None;
    let mut parent = |pause| {
        let in_force =
            fake.0.lock().unwrap().knobs.devices[&DISK].get("nr_requests").unwrap().to_owned();
        told = Some((pause, in_force));
    };
    let pause = Question::Request(Request::Pause { seconds: None });
    let Answer::Reply(reply) = bench.controller.answer(bench.now, pause, &mut parent).unwrap()
    else {
        panic!()
    };
    let (pause, in_force) = told.unwrap();
    assert_eq!(pause, Pause::Endless);
    assert_ne!(in_force, "64", "told before anything was written");
    assert_eq!(bench.knob("nr_requests"), "64");
    let held = vec!["sda.nr_requests 8 (yours: 64)".to_owned()];
    assert_eq!(reply, Reply::Paused(Paused { left_s: None, held: held.clone() }));
    assert!(bench.log().contains("still held: sda.nr_requests 8 (yours: 64)"));
    assert_eq!(bench.status().paused, Some(Paused { left_s: None, held }));
    assert!(bench.controller.pause_changed());
    bench.controller.pause_is_told();
    assert!(!bench.controller.pause_changed());
}

#[test]
fn a_flood_that_paces_itself_is_named_and_told_who_waits() {
    let mut bench = Bench::new(&Flags::default());
    bench.meet();
    let paced = |device: &str| Request::Paced { device: device.into(), pid: 42 };
    bench.ticks(1);
    let Reply::Beside(beside) = bench.ask(paced("8:0")) else { panic!() };
    assert_eq!(beside.victims, ["postgres (41)"]);
    assert!(matches!(bench.ask(paced("8:16")), Reply::Error(_)));
    assert!(matches!(bench.ask(paced("sda")), Reply::Error(_)));
    let mut bench = Bench::new(&Flags::default());
    bench.meet();
    bench.ask(paced("8:0"));
    bench.ticks(8);
    let disk = bench.status().devices.remove(0);
    assert_eq!((disk.state.as_str(), disk.paced), ("watch", vec!["cp (42)".to_owned()]));
    let last = disk.last.unwrap();
    assert_eq!((last.floods, last.why.contains("paces itself")), (vec!["cp (42)".into()], true));
    // The victims of this machine miss their goal all the time.
    bench.ticks(40);
    let disk = bench.status().devices.remove(0);
    assert_eq!((disk.state.as_str(), disk.paced), ("protect", Vec::new()));
    let Reply::Beside(beside) = bench.ask(paced("8:0")) else { panic!() };
    assert!(beside.levers.is_some() && beside.wait_us.is_some(), "{beside:?}");
}
