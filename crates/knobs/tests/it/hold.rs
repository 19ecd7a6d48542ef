//! Holds: written again and again, yielded to other changes, given back, and left behind by a
//! process that is gone.

use floodwall_knobs::catalogue::find;
use floodwall_knobs::journal::{Closing, Phase, Record, Store, Transaction, is_alive, log};
use floodwall_knobs::{
    ApplyError, Device, Files, Hold, HoldError, Intention, Session, StepError, Target,
};
use rustix::io::Errno;

use crate::fake::{GROUP, World, change, sda};

/// The process that steers.
const GUARD: u32 = 8;

/// A world in which a process steers; nothing is saved yet.
fn steered() -> (World, Hold) {
    let world = World::new();
    world.process(GUARD, 'S', 1);
    let (hold, _) = guard(&world).hold("a guard").unwrap();
    (world, hold)
}

fn guard(world: &World) -> Session<'_> {
    world.session_of(GUARD, "floodwall guard")
}

fn write(world: &World, hold: &mut Hold, text: &str) -> Result<bool, HoldError> {
    guard(world).write(hold, &change(text)).map(|written| written.is_some())
}

fn ahead(world: &World, hold: &mut Hold, knobs: &[&str]) {
    let cells: Vec<_> =
        knobs.iter().map(|name| (find(name).unwrap(), Target::Device(sda()))).collect();
    guard(world).save(hold, &cells).unwrap();
}

fn transaction(world: &World, id: u64) -> Transaction {
    let all = log(&world.store).unwrap().into_iter().filter_map(|logged| logged.transaction.ok());
    let mut all = all.filter(|t| t.begin.id == id);
    all.next().unwrap()
}

#[test]
fn what_is_written_again_and_again_is_put_back_in_the_end() {
    let (world, mut hold) = steered();
    let original = world.kernel.all();
    world.kernel.write("/sys/dev/block/8:0/queue/iosched/async_depth", "50").unwrap();
    let own = world.kernel.all();
    assert_ne!(own, original);
    for requests in [8, 16, 4, 64, 8] {
        assert!(write(&world, &mut hold, &format!("nr_requests={requests}")).unwrap());
        assert_eq!(world.kernel.queue("nr_requests"), requests.to_string());
    }
    assert!(!write(&world, &mut hold, "nr_requests=8").unwrap(), "it holds that already");
    write(&world, &mut hold, "max_sectors_kb=128").unwrap();
    assert_eq!(world.kernel.queue("read_ahead_kb"), "64", "kept beside it");
    write(&world, &mut hold, "bdi.max_ratio_fine=30000").unwrap();
    write(&world, &mut hold, "bdi.strict_limit=1").unwrap();
    let held: Vec<String> = hold.held().iter().map(|cell| cell.label.clone()).collect();
    assert_eq!(
        held,
        [
            "sda.nr_requests",
            "sda.iosched.async_depth",
            "sda.max_sectors_kb",
            "sda.bdi.max_ratio_fine",
            "sda.bdi.strict_limit"
        ]
    );
    // One alone: with it comes back what it had changed.
    write(&world, &mut hold, "nr_requests=256").unwrap();
    assert_eq!(
        (
            world.kernel.queue("nr_requests").as_str(),
            world.kernel.queue("iosched/async_depth").as_str()
        ),
        ("256", "50")
    );
    assert_eq!(hold.held().len(), 3);
    let undone = guard(&world).close(&mut hold);
    assert!(undone.is_complete() && undone.closed, "{undone}");
    assert_eq!(world.kernel.all(), own);
    assert_eq!(transaction(&world, 1).phase(), Phase::Closed(Closing::Undone));
}

#[test]
fn what_was_saved_ahead_is_not_synced_again_and_untouched_cells_are_nobodys_business() {
    let (world, mut hold) = steered();
    ahead(
        &world,
        &mut hold,
        &["scheduler", "nr_requests", "max_sectors_kb", "bdi.strict_limit", "wbt_lat_usec"],
    );
    let records = |world: &World| {
        let bytes = world.store.read("000001.jsonl").unwrap();
        String::from_utf8(bytes)
            .unwrap()
            .lines()
            .map(|line| line.contains("\"save\""))
            .collect::<Vec<_>>()
    };
    write(&world, &mut hold, "nr_requests=8").unwrap();
    write(&world, &mut hold, "max_sectors_kb=128").unwrap();
    assert_eq!(records(&world).iter().filter(|save| **save).count(), 1);
    // Never written by the hold: an administrator's business alone.
    world.kernel.write("/sys/class/bdi/8:0/strict_limit", "1").unwrap();
    let undone = guard(&world).close(&mut hold);
    assert_eq!(
        undone.to_string(),
        "sda.nr_requests: 256 again\nsda.iosched.async_depth: 256 again\n\
         sda.max_sectors_kb: 1280 again"
    );
    assert_eq!(world.kernel.bdi("strict_limit"), "1");
}

#[test]
fn recovery_leaves_a_living_process_alone_and_undoes_what_a_dead_one_left() {
    let (world, mut hold) = steered();
    let original = world.kernel.all();
    write(&world, &mut hold, "nr_requests=8").unwrap();
    let (recovery, undone) = world.session().rollback(0).unwrap();
    assert!(recovery.is_empty() && undone.is_empty());
    assert_eq!(world.kernel.queue("nr_requests"), "8");
    // A zombie whose other threads may still be inside a write.
    world.process(GUARD, 'Z', 2);
    assert!(world.session().recover().unwrap().is_empty());
    // The same number, started at another time.
    let begin =
        floodwall_knobs::journal::Begin { pid_start_ticks: 2, ..transaction(&world, 1).begin };
    assert!(is_alive(&world.kernel, &world.store, &begin).unwrap(), "marked");
    world.store.marked.set(false);
    assert!(!is_alive(&world.kernel, &world.store, &begin).unwrap());
    world.process(GUARD, 'Z', 1);
    let recovery = world.session().recover().unwrap();
    assert_eq!(recovery.undone.len(), 1);
    assert_eq!(world.kernel.all(), original);
    assert!(world.session().recover().unwrap().is_empty());
}

#[test]
fn another_boot_has_forgotten_everything() {
    let (world, mut hold) = steered();
    write(&world, &mut hold, "nr_requests=8").unwrap();
    *world.boot.borrow_mut() = "boot-2".to_owned();
    let before = world.writes();
    let recovery = world.session().recover().unwrap();
    assert_eq!((recovery.earlier_boots, world.writes()), (vec![1], before));
    assert_eq!(world.kernel.queue("nr_requests"), "8", "as that boot has it");
    assert_eq!(transaction(&world, 1).phase(), Phase::Closed(Closing::EarlierBoot));
}

#[test]
fn a_second_process_does_not_steer() {
    let (world, _hold) = steered();
    let error = world.session().hold("another").unwrap_err().to_string();
    assert_eq!(error, "settings are steered by pid 8 (floodwall guard) already; stop that first");
    world.process(GUARD, 'S', 0);
    assert_eq!(world.session().hold("another").unwrap().0.id(), 2);
}

#[test]
fn a_knob_that_somebody_else_has_set_is_theirs_for_ever() {
    let (world, mut hold) = steered();
    write(&world, &mut hold, "nr_requests=8").unwrap();
    write(&world, &mut hold, "max_sectors_kb=128").unwrap();
    world.kernel.write("/sys/dev/block/8:0/queue/nr_requests", "32").unwrap();
    let error = write(&world, &mut hold, "nr_requests=4").unwrap_err();
    assert_eq!(
        error.to_string(),
        "sda.nr_requests is left alone: it reads 32, which somebody else has set"
    );
    // Even if it reads a value that the hold wrote before.
    world.kernel.write("/sys/dev/block/8:0/queue/nr_requests", "8").unwrap();
    assert!(matches!(write(&world, &mut hold, "nr_requests=4"), Err(HoldError::Theirs { .. })));
    // The other knobs are steered on, and put back when the process is gone.
    write(&world, &mut hold, "max_sectors_kb=64").unwrap();
    world.process(GUARD, 'S', 0);
    world.session().recover().unwrap();
    assert_eq!(
        (world.kernel.queue("nr_requests"), world.kernel.queue("max_sectors_kb")),
        ("8".into(), "1280".into())
    );
}

#[test]
fn what_an_administrator_sets_while_nothing_is_held_is_what_comes_back() {
    let (world, mut hold) = steered();
    ahead(&world, &mut hold, &["nr_requests"]);
    world.kernel.write("/sys/dev/block/8:0/queue/nr_requests", "64").unwrap();
    write(&world, &mut hold, "nr_requests=8").unwrap();
    write(&world, &mut hold, "nr_requests=64").unwrap();
    world.kernel.write("/sys/dev/block/8:0/queue/nr_requests", "100").unwrap();
    write(&world, &mut hold, "nr_requests=8").unwrap();
    world.process(GUARD, 'S', 0);
    world.session().recover().unwrap();
    assert_eq!(world.kernel.queue("nr_requests"), "100");
}

/// Has the guard yield what is in the way of a change, and makes it.
fn ask_and_apply(world: &World, hold: &mut Hold, text: &str) -> floodwall_knobs::Applied {
    assert!(world.ask(&guard(world), hold, Intention::Apply(&[change(text)])), "{text}");
    world.apply(&[text]).unwrap()
}

#[test]
fn an_applied_value_wins_and_is_put_back_to_the_administrators() {
    for (text, value) in [("nr_requests=64", "64"), ("nr_requests=8", "8")] {
        let (world, mut hold) = steered();
        let original = world.kernel.all();
        write(&world, &mut hold, "nr_requests=8").unwrap();
        write(&world, &mut hold, "max_sectors_kb=128").unwrap();
        // Not without asking.
        let before = (world.kernel.all(), world.store.files.borrow().clone());
        let error = world.apply(&[text]).unwrap_err();
        assert!(matches!(error, ApplyError::Steered { .. }) && !error.lacks_privilege());
        assert_eq!(
            error.to_string(),
            "nothing was changed: sda.nr_requests is held by pid 8 (floodwall guard); pause or \
             stop that first"
        );
        assert_eq!((world.kernel.all(), world.store.files.borrow().clone()), before);
        let asked = world.session().in_the_way(Intention::Apply(&[change(text)])).unwrap().unwrap();
        assert_eq!(
            asked.labels,
            ["sda.nr_requests", "sda.iosched.async_depth"],
            "and what it moved"
        );
        assert_eq!(asked.socket, Some("/run/guard.sock".into()));
        assert_eq!(asked.knobs[0].to_string(), "8:0 nr_requests");
        let applied = ask_and_apply(&world, &mut hold, text);
        assert_eq!(applied.id, Some(2));
        assert_eq!(
            applied.plan.entries[0].old.as_ref().unwrap().value,
            "256",
            "the administrator's"
        );
        assert_eq!(world.kernel.queue("nr_requests"), value);
        let error = write(&world, &mut hold, "nr_requests=4").unwrap_err().to_string();
        assert_eq!(error, "sda.nr_requests is left alone: another command has asked for it");
        // The process goes on with its remaining knobs, and ends.
        write(&world, &mut hold, "max_sectors_kb=64").unwrap();
        let undone = guard(&world).close(&mut hold);
        assert!(undone.closed);
        assert_eq!(
            undone.to_string(),
            "sda.max_sectors_kb: 1280 again",
            "the change tells of its own"
        );
        assert_eq!(
            (
                world.kernel.queue("nr_requests").as_str(),
                world.kernel.queue("max_sectors_kb").as_str()
            ),
            (value, "1280")
        );
        let (_, undone) = world.session().rollback(0).unwrap();
        assert_eq!(undone.len(), 1);
        assert_eq!(world.kernel.all(), original, "{text}");
    }
}

#[test]
fn what_is_not_in_the_way_is_not_asked_for() {
    let (world, mut hold) = steered();
    write(&world, &mut hold, "nr_requests=8").unwrap();
    let asked = |texts: &[&str]| {
        let changes: Vec<_> = texts.iter().map(|text| change(text)).collect();
        world.session().in_the_way(Intention::Apply(&changes)).unwrap().map(|asked| asked.labels)
    };
    assert_eq!(asked(&["vm.dirty_expire_centisecs=100", "max_sectors_kb=512"]), None);
    world.apply(&["vm.dirty_expire_centisecs=100", "max_sectors_kb=512"]).unwrap();
    assert_eq!(asked(&["scheduler=kyber"]).unwrap()[0], "sda.nr_requests", "an elevator resets it");
    assert_eq!(world.session().in_the_way(Intention::Rollback(0)).unwrap(), None);
    write(&world, &mut hold, "nr_requests=256").unwrap();
    write(&world, &mut hold, "scheduler=bfq").unwrap();
    // A tunable comes and goes with its elevator.
    assert!(asked(&["iosched.fifo_batch=1"]).unwrap().contains(&"sda.scheduler".to_owned()));
    assert!(asked(&["nr_requests=64"]).unwrap().contains(&"sda.scheduler".to_owned()));
    world.process(GUARD, 'S', 0);
    assert_eq!(asked(&["nr_requests=64"]), None, "nobody is there to be asked");
}

#[test]
fn a_change_is_rolled_back_below_a_hold_once_that_has_yielded() {
    let (world, mut hold) = steered();
    let original = world.kernel.all();
    world.apply(&["nr_requests=64", "vm.dirty_expire_centisecs=100"]).unwrap();
    write(&world, &mut hold, "nr_requests=8").unwrap();
    // Without asking, only knobs without a holder are put back.
    let (_, undone) = world.session().rollback(0).unwrap();
    assert!(undone[0].waits() && !undone[0].closed, "{undone:?}");
    assert!(
        undone[0].to_string().contains(
            "sda.nr_requests: not put back yet (pid 8 (floodwall guard) holds it; pause or stop \
             that first)"
        ),
        "{undone:?}"
    );
    assert_eq!(
        (
            world.kernel.queue("nr_requests").as_str(),
            world.kernel.vm("dirty_expire_centisecs").as_str()
        ),
        ("8", "3000")
    );
    assert!(world.ask(&guard(&world), &mut hold, Intention::RollbackOne(2)));
    assert_eq!(world.kernel.queue("nr_requests"), "64", "as the change has it");
    let (recovery, _) = world.session().rollback(0).unwrap();
    assert!(recovery.undone[0].to_string().contains("sda.nr_requests: 256 again"), "{recovery:?}");
    assert_eq!(world.kernel.all(), original);
    assert!(matches!(
        write(&world, &mut hold, "nr_requests=4"),
        Err(HoldError::Theirs { asked: true, .. })
    ));
    assert!(guard(&world).close(&mut hold).closed);
    assert_eq!(world.kernel.all(), original);
}

#[test]
fn a_hold_on_top_of_a_change_comes_off_first_when_both_are_left_behind() {
    let (world, mut hold) = steered();
    let original = world.kernel.all();
    // Cut short after its first write to the queue.
    world.kernel.fuse.arm(Some(4));
    assert!(world.apply(&["nr_requests=64", "max_sectors_kb=512"]).is_err());
    world.kernel.fuse.arm(None);
    assert_eq!(world.kernel.queue("nr_requests"), "64");
    write(&world, &mut hold, "nr_requests=8").unwrap();
    world.process(GUARD, 'S', 0);
    world.session().recover().unwrap();
    assert_eq!(world.kernel.all(), original);
}

#[test]
fn what_is_being_written_at_this_moment_is_yielded_when_the_write_is_over() {
    let (world, mut hold) = steered();
    let original = world.kernel.all();
    let prepared = guard(&world).prepare(&mut hold, &change("nr_requests=8")).unwrap().unwrap();
    let is_it = |knob: &floodwall_knobs::catalogue::Knob, _: &Target| knob.name == "nr_requests";
    let early = guard(&world).yield_cells(&mut hold, is_it);
    assert!(matches!(early, Err(HoldError::Held { .. })), "{early:?}");
    assert!(matches!(world.apply(&["nr_requests=64"]), Err(ApplyError::Steered { .. })));
    let performed = prepared.perform(&world.kernel, &world.kernel);
    guard(&world).finish(&mut hold, prepared, performed).unwrap();
    ask_and_apply(&world, &mut hold, "nr_requests=64");
    // Killed, it leaves nothing to be put back.
    world.process(GUARD, 'S', 0);
    assert_eq!(world.session().recover().unwrap().undone[0].to_string(), "nothing to put back");
    world.session().rollback(0).unwrap();
    assert_eq!(world.kernel.all(), original);
}

#[test]
fn an_elevator_that_was_switched_for_a_while_comes_back_with_its_tunables() {
    let (world, mut hold) = steered();
    for (file, value) in
        [("iosched/fifo_batch", "4"), ("nr_requests", "100"), ("wbt_lat_usec", "5000")]
    {
        world.kernel.write(&format!("/sys/dev/block/8:0/queue/{file}"), value).unwrap();
    }
    let own = world.kernel.all();
    ahead(&world, &mut hold, &["scheduler", "nr_requests", "wbt_lat_usec"]);
    for _ in 0..2 {
        write(&world, &mut hold, "scheduler=bfq").unwrap();
        write(&world, &mut hold, "nr_requests=8").unwrap();
        write(&world, &mut hold, "iosched.low_latency=0").unwrap();
        assert_eq!(world.kernel.queue("iosched/low_latency"), "0");
        write(&world, &mut hold, "scheduler=mq-deadline").unwrap();
        assert_eq!(world.kernel.all(), own);
        assert_eq!(hold.held(), []);
    }
    write(&world, &mut hold, "scheduler=bfq").unwrap();
    write(&world, &mut hold, "iosched.low_latency=0").unwrap();
    world.process(GUARD, 'S', 0);
    let recovery = world.session().recover().unwrap();
    assert!(recovery.incomplete().is_none(), "{recovery:?}");
    assert_eq!(world.kernel.all(), own);
}

#[test]
fn a_refused_value_leaves_the_one_before() {
    let (world, mut hold) = steered();
    write(&world, &mut hold, "nr_requests=8").unwrap();
    let error = write(&world, &mut hold, "nr_requests=9000").unwrap_err();
    assert!(matches!(error, HoldError::Step(_)), "{error}");
    assert_eq!(world.kernel.queue("nr_requests"), "8");
    // It is settled: others may have it.
    ask_and_apply(&world, &mut hold, "nr_requests=64");
    let error = write(&world, &mut hold, "bdi.max_ratio_fine=0").map(drop);
    assert!(error.is_ok(), "not strict");
    let error = write(&world, &mut hold, "bdi.strict_limit=1").unwrap_err();
    assert!(error.to_string().contains("stops every writer"), "{error}");
    assert!(matches!(write(&world, &mut hold, "iosched.low_latency=0"), Err(HoldError::Plan(_))));
}

#[test]
fn a_busy_file_is_tried_again_and_one_that_stays_so_leaves_the_value_before() {
    let (world, mut hold) = steered();
    write(&world, &mut hold, "nr_requests=8").unwrap();
    world.kernel.busy.set(3);
    write(&world, &mut hold, "nr_requests=16").unwrap();
    assert_eq!((world.kernel.queue("nr_requests"), world.kernel.slept.get()), ("16".into(), 3));
    world.kernel.busy.set(60);
    let error = write(&world, &mut hold, "nr_requests=4").unwrap_err();
    assert!(
        matches!(&error, HoldError::Step(_)) && error.to_string().contains("stayed busy"),
        "{error}"
    );
    assert_eq!(world.kernel.queue("nr_requests"), "16");
    // Nothing is under way any more: others may have it, or undo it.
    let at = hold.held()[0].index;
    assert!(!transaction(&world, 1).is_under_way(at));
    world.kernel.busy.set(0);
    world.process(GUARD, 'S', 0);
    world.session().recover().unwrap();
    assert_eq!(world.kernel.all(), World::new().kernel.all());
}

#[test]
fn a_value_that_can_not_be_brought_back_is_told_and_stays_held() {
    let (world, mut hold) = steered();
    write(&world, &mut hold, "nr_requests=8").unwrap();
    let nr_requests = change("nr_requests=16");
    let prepared = guard(&world).prepare(&mut hold, &nr_requests).unwrap().unwrap();
    prepared.perform(&world.kernel, &world.kernel).unwrap();
    // The value is in force, although the write reports a failure, and the device takes nothing
    // more.
    let path = "/sys/dev/block/8:0/queue/nr_requests".to_owned();
    world.kernel.refuses.borrow_mut().insert(path, Errno::IO);
    let failed = Err(StepError::Cancelled);
    let error = guard(&world).finish(&mut hold, prepared, failed).unwrap_err();
    assert!(matches!(error.root(), HoldError::Step(StepError::Cancelled)), "{error}");
    assert_eq!(
        error.to_string(),
        "stopped on request; sda.nr_requests can't be brought back to 8 either: \
         the kernel refused sda.nr_requests = 8: Input/output error (os error 5)"
    );
    assert_eq!(world.kernel.queue("nr_requests"), "16");
    // The hold remembers it: when the device takes writes again, it gets the saved value back.
    world.kernel.refuses.borrow_mut().clear();
    assert_eq!(hold.held()[0].now.as_ref().unwrap().value, "16");
    assert!(guard(&world).close(&mut hold).is_complete());
    assert_eq!(world.kernel.queue("nr_requests"), "256");
}

#[test]
fn a_full_disk_keeps_nothing_in_force_that_is_not_in_the_journal() {
    let (world, mut hold) = steered();
    let original = world.kernel.all();
    ahead(&world, &mut hold, &["nr_requests"]);
    // No room for the intent.
    world.store.space.set(Some(10));
    assert!(matches!(write(&world, &mut hold, "nr_requests=8"), Err(HoldError::Journal(_))));
    assert_eq!(world.kernel.all(), original);
    // Room for the intent alone: what was written is taken back.
    world.store.space.set(Some(200));
    assert!(write(&world, &mut hold, "nr_requests=8").is_err());
    assert_eq!(world.kernel.queue("nr_requests"), "256");
    world.store.space.set(None);
    write(&world, &mut hold, "nr_requests=8").unwrap();
    // Putting back needs no room, and is noted when there is.
    let records = |world: &World| world.store.read("000001.jsonl").unwrap().len();
    world.store.space.set(Some(0));
    let before = records(&world);
    write(&world, &mut hold, "nr_requests=256").unwrap();
    assert_eq!((world.kernel.all(), records(&world)), (original.clone(), before));
    assert!(hold.held().is_empty());
    assert!(matches!(write(&world, &mut hold, "nr_requests=8"), Err(HoldError::Journal(_))));
    world.store.space.set(None);
    write(&world, &mut hold, "nr_requests=8").unwrap();
    assert!(records(&world) > before);
    let index = hold.held()[0].index;
    world.store.space.set(Some(0));
    let prepared = guard(&world).prepare_back(&mut hold, index).unwrap().unwrap();
    assert!(prepared.is_back());
    let performed = prepared.perform(&world.kernel, &world.kernel);
    guard(&world).finish(&mut hold, prepared, performed).unwrap();
    assert!(hold.held().is_empty());
    world.store.space.set(None);
    ahead(&world, &mut hold, &["max_sectors_kb"]);
    assert!(
        floodwall_knobs::hold::held(&transaction(&world, 1)).is_empty(),
        "it is in the journal by now"
    );
    write(&world, &mut hold, "nr_requests=8").unwrap();
    world.store.space.set(Some(0));
    assert!(guard(&world).close(&mut hold).is_complete());
    assert_eq!(world.kernel.all(), original);
}

#[test]
fn its_file_does_not_grow_for_ever_and_says_the_same_when_it_is_written_anew() {
    let (world, mut hold) = steered();
    let original = world.kernel.all();
    ahead(&world, &mut hold, &["nr_requests", "max_sectors_kb", "bdi.max_ratio_fine"]);
    let mut largest = 0;
    for round in 0..600 {
        write(&world, &mut hold, &format!("nr_requests={}", 4 + round % 60)).unwrap();
        write(&world, &mut hold, "nr_requests=256").unwrap();
        largest = largest.max(world.store.read("000001.jsonl").unwrap().len() as u64);
    }
    assert!(largest < 2 * floodwall_knobs::hold::COMPACT_BYTES, "{largest} bytes");
    // Held all the while: longer, but not without end.
    write(&world, &mut hold, "max_sectors_kb=128").unwrap();
    world.kernel.write("/sys/class/bdi/8:0/max_ratio_fine", "30000").unwrap();
    for round in 0..4_000 {
        write(&world, &mut hold, &format!("nr_requests={}", 4 + round % 60)).unwrap();
    }
    let length = world.store.read("000001.jsonl").unwrap().len();
    assert!(length < (1 << 20) + 4096, "{length} bytes");
    let before = transaction(&world, 1);
    let compacted: String = before.compacted(|_| true).iter().map(Record::line).collect();
    let (after, _) = Transaction::parse(compacted.as_bytes()).unwrap();
    assert_eq!((&after.entries, after.phase()), (&before.entries, Phase::Steering));
    for index in 0..after.entries.len() {
        assert_eq!(after.holds(index), before.holds(index), "{index}");
        assert_eq!(after.yielded(index), before.yielded(index));
    }
    world.process(GUARD, 'S', 0);
    world.session().recover().unwrap();
    world.kernel.write("/sys/class/bdi/8:0/max_ratio_fine", "1000000").unwrap();
    assert_eq!(world.kernel.all(), original);
}

#[test]
fn devices_that_have_gone_are_forgotten_when_its_file_is_written_anew() {
    let (world, mut hold) = steered();
    let old = Device { instance: Some(5), ..sda() };
    // As it was saved while the disk of before was there.
    let cells = [(find("nr_requests").unwrap(), Target::Device(old.clone()))];
    guard(&world).save(&mut hold, &cells).unwrap();
    ahead(&world, &mut hold, &["nr_requests"]);
    let entries = |world: &World| transaction(world, 1).entries.len();
    assert_eq!(entries(&world), 4);
    for round in 0..400 {
        write(&world, &mut hold, &format!("nr_requests={}", 4 + round % 60)).unwrap();
        write(&world, &mut hold, "nr_requests=256").unwrap();
    }
    assert_eq!(entries(&world), 2);
    let entries = transaction(&world, 1).entries;
    let known = |device: Device| {
        let target = Target::Device(device);
        entries.iter().any(|entry| entry.target == target)
    };
    assert!(known(sda()) && !known(old));
    assert!(matches!(write(&world, &mut hold, "nr_requests=8"), Ok(true)));
}

#[test]
fn a_process_that_does_not_know_when_it_started_does_not_steer() {
    let world = World::new();
    let mut session = guard(&world);
    session.who.pid_start_ticks = 0;
    assert!(matches!(session.hold("a guard"), Err(HoldError::NoStartTime)));
    assert!(world.store.files.borrow().is_empty());
}

#[test]
fn the_limits_of_a_control_group_that_has_gone_are_not_held_any_more() {
    let (world, mut hold) = steered();
    let original = world.kernel.all();
    let group = format!("/sys/fs/cgroup/{GROUP}");
    let target = Target::group(GROUP, None).unwrap();
    let limit = |value: &str| floodwall_knobs::Change {
        knob: find("memory.high").unwrap(),
        target: target.clone(),
        value: value.to_owned(),
    };
    guard(&world).write(&mut hold, &limit("200000000")).unwrap();
    assert_eq!(hold.held().len(), 1);
    let files: Vec<(String, String)> = original
        .iter()
        .filter(|(path, _)| path.starts_with(&group))
        .map(|(p, v)| (p.clone(), v.clone()))
        .collect();
    world.kernel.remove(&group);
    let back = guard(&world).write(&mut hold, &limit("1000000000"));
    assert!(matches!(back, Err(HoldError::Gone { .. })), "{back:?}");
    assert!(hold.held().is_empty());
    // The unit runs again, with the limit that its files say.
    for (path, value) in files {
        world.kernel.put(&path, &value);
    }
    guard(&world).write(&mut hold, &limit("300000000")).unwrap();
    assert_eq!(world.kernel.get(&format!("{group}/memory.high")), "300000000");
    assert!(guard(&world).close(&mut hold).is_complete());
    assert_eq!(world.kernel.all(), original);
}
