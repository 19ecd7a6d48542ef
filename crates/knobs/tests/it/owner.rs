//! Owners of holds: processes that have been killed and are still inside a write, and processes
//! that /proc does not show.

use floodwall_knobs::journal::{Begin, Store, Transaction, log};
use floodwall_knobs::owner::{self, Life};
use floodwall_knobs::{ApplyError, Fate, Files, Hold, HoldError, Intention, Session};
use rustix::io::Errno;

use crate::fake::{QUEUE, World, change};

const GUARD: u32 = 8;
/// The kernel's path of the file of `sda.nr_requests`.
const NR_REQUESTS: &str = "/sys/devices/pci0000:00/ata1/block/sda/queue/nr_requests";

fn guard(world: &World) -> Session<'_> {
    world.session_of(GUARD, "floodwall guard")
}

/// A world in which a process steers three knobs of a queue and two of its backing device.
fn steered(world: &World) -> Hold {
    world.process(GUARD, 'S', 2);
    let (mut hold, _) = guard(world).hold("a guard").unwrap();
    for text in ["max_sectors_kb=128", "bdi.max_ratio_fine=30000", "bdi.strict_limit=1"] {
        guard(world).write(&mut hold, &change(text)).unwrap().unwrap();
    }
    hold
}

/// … and whose write of the queue depth is under way.
fn at_a_write() -> (World, Hold) {
    let world = World::new();
    let mut hold = steered(&world);
    let prepared = guard(&world).prepare(&mut hold, &change("nr_requests=8")).unwrap().unwrap();
    drop(prepared);
    (world, hold)
}

fn life(world: &World, begin: &Begin) -> Life {
    owner::life(&world.kernel, &world.store, begin).unwrap()
}

fn begin(world: &World) -> Begin {
    transaction(world).begin
}

fn transaction(world: &World) -> Transaction {
    log(&world.store).unwrap().remove(0).transaction.unwrap()
}

#[test]
fn all_but_the_stuck_queue_of_a_killed_process_comes_back_at_once_and_that_when_the_write_is_over()
{
    let (world, _hold) = at_a_write();
    let original = World::new().kernel.all();
    world.killed_inside(GUARD, NR_REQUESTS);
    world.kernel.stuck.borrow_mut().push(QUEUE.to_owned());
    assert!(matches!(life(&world, &begin(&world)), Life::Ending(_)));
    let recovery = world.session().recover().unwrap();
    let [undone] = recovery.undone.as_slice() else { panic!("{recovery:?}") };
    insta::assert_snapshot!(undone.to_string(), @"
    sda.max_sectors_kb: not put back yet (pid 8 (floodwall guard) has been killed and is still \
    inside a write)
    sda.bdi.max_ratio_fine: 1000000 again
    sda.bdi.strict_limit: 0 again
    sda.nr_requests: not put back yet (pid 8 (floodwall guard) has been killed and is still inside \
    a write)
    sda.iosched.async_depth: not put back yet (pid 8 (floodwall guard) has been killed and is \
    still inside a write)
    ");
    assert!(!undone.closed && !undone.is_complete() && undone.waits() && !undone.has_failed());
    assert!(recovery.incomplete().is_some() && recovery.failed().is_none());
    assert_eq!(
        (world.kernel.bdi("max_ratio_fine"), world.kernel.bdi("strict_limit")),
        ("1000000".into(), "0".into())
    );
    // As often as one likes, without a further record.
    let length = world.store.length("000001.jsonl").unwrap();
    assert_eq!(world.session().recover().unwrap().undone.len(), 1);
    assert_eq!(world.store.length("000001.jsonl").unwrap(), length);
    // The write gets through, and the thread ends.
    world.kernel.stuck.borrow_mut().clear();
    world.kernel.write(&format!("{QUEUE}/nr_requests"), "8").unwrap();
    world.process(GUARD, 'Z', 1);
    let recovery = world.session().recover().unwrap();
    assert!(recovery.incomplete().is_none() && recovery.undone[0].closed, "{recovery:?}");
    assert_eq!(world.kernel.all(), original);
    assert!(world.session().recover().unwrap().is_empty());
}

#[test]
fn beside_a_stuck_queue_the_rest_of_the_machine_is_changed_and_rolled_back() {
    let (world, _hold) = at_a_write();
    world.killed_inside(GUARD, NR_REQUESTS);
    world.kernel.stuck.borrow_mut().push(QUEUE.to_owned());
    world.apply(&["vm.dirty_expire_centisecs=100", "bdi.max_ratio_fine=200000"]).unwrap();
    // Neither the knob itself nor another one of its queue, saved or not.
    for text in ["nr_requests=64", "rq_affinity=2", "scheduler=bfq", "iosched.fifo_batch=1"] {
        let error = world.apply(&[text]).unwrap_err();
        assert!(
            matches!(error, ApplyError::Occupied { .. }) && !error.lacks_privilege(),
            "{error}"
        );
    }
    insta::assert_snapshot!(world.apply(&["nr_requests=64"]).unwrap_err().to_string(), @"nothing \
        was changed: sda.nr_requests can't be set, because pid 8 (floodwall guard) has been killed \
        and is still inside a write to its queue; try again when the device has let go of it");
    let error = world.session().hold("another").unwrap_err();
    assert!(matches!(error, HoldError::Ending { id: 1, .. }), "{error}");
    let (recovery, undone) = world.session().rollback(0).unwrap();
    assert!(recovery.undone[0].waits() && undone[0].is_complete(), "{recovery:?} {undone:?}");
    assert_eq!(world.kernel.vm("dirty_expire_centisecs"), "3000");
    assert_eq!(world.kernel.bdi("max_ratio_fine"), "1000000");
}

#[test]
fn a_change_below_a_stuck_queue_is_rolled_back_when_the_write_is_over() {
    let world = World::new();
    let original = world.kernel.all();
    world.apply(&["rq_affinity=2", "nomerges=2"]).unwrap();
    let mut hold = {
        world.process(GUARD, 'S', 2);
        guard(&world).hold("a guard").unwrap().0
    };
    guard(&world).write(&mut hold, &change("nr_requests=8")).unwrap();
    world.killed_inside(GUARD, NR_REQUESTS);
    world.kernel.stuck.borrow_mut().push(QUEUE.to_owned());
    let (_, undone) = world.session().rollback(0).unwrap();
    assert!(matches!(&undone[0].entries[0].1, Fate::Waits { .. }), "{undone:?}");
    assert!(!undone[0].is_complete());
    world.kernel.stuck.borrow_mut().clear();
    world.process(GUARD, 'S', 0);
    let (recovery, _) = world.session().rollback(0).unwrap();
    let [hold, change] = recovery.undone.as_slice() else { panic!("{recovery:?}") };
    assert!(hold.closed && change.closed);
    assert_eq!(world.kernel.all(), original);
}

#[test]
fn what_a_killed_process_puts_back_without_a_word_in_the_journal_is_not_touched_either() {
    let (world, mut hold) = at_a_write();
    let performed = world.kernel.write(&format!("{QUEUE}/nr_requests"), "8");
    performed.unwrap();
    // No room for the announcement of the way back.
    world.store.space.set(Some(0));
    let index = hold.held().iter().find(|cell| cell.label == "sda.max_sectors_kb").unwrap().index;
    let _prepared = guard(&world).prepare_back(&mut hold, index).unwrap().unwrap();
    assert!(!transaction(&world).is_under_way(index), "the journal does not know of it");
    world.killed_inside(GUARD, "/sys/devices/virtual/block/sda/queue/max_sectors_kb");
    world.kernel.stuck.borrow_mut().push(QUEUE.to_owned());
    let recovery = world.session().recover().unwrap();
    assert!(recovery.undone[0].waits());
    assert_eq!(world.kernel.bdi("strict_limit"), "0");
}

#[test]
fn a_write_whose_outcome_was_not_noted_is_put_back_if_nobody_is_inside_it() {
    let (world, _hold) = at_a_write();
    let original = World::new().kernel.all();
    world.kernel.write(&format!("{QUEUE}/nr_requests"), "8").unwrap();
    // The journal has it under way; the thread that is left is at something else.
    world.killed_inside(GUARD, "/var/lib/floodwall/journal/000001.jsonl");
    let recovery = world.session().recover().unwrap();
    assert!(recovery.incomplete().is_none() && recovery.undone[0].closed, "{recovery:?}");
    assert_eq!(world.kernel.all(), original);
}

#[test]
fn nothing_is_touched_as_long_as_it_is_not_known_what_a_killed_process_is_inside_of() {
    let (world, _hold) = at_a_write();
    let syscall = format!("/proc/{GUARD}/task/{}/syscall", GUARD + 1);
    let fd = format!("/proc/{GUARD}/task/{}/fd/5", GUARD + 1);
    let waits = || {
        let before = world.writes();
        let recovery = world.session().recover().unwrap();
        assert_eq!(
            recovery.undone[0]
                .entries
                .iter()
                .filter(|(_, fate)| matches!(fate, Fate::Waits { .. }))
                .count(),
            5
        );
        assert_eq!(world.writes(), before);
    };
    world.killed_inside(GUARD, NR_REQUESTS);
    world.kernel.put(&syscall, "running");
    waits();
    world.killed_inside(GUARD, NR_REQUESTS);
    for path in [&syscall, &fd] {
        world.kernel.unreadable.borrow_mut().insert(path.clone(), Errno::ACCESS);
        waits();
        world.kernel.unreadable.borrow_mut().clear();
    }
    world.kernel.remove(&syscall);
    waits();
    // A kernel file that the hold knows nothing of.
    world.killed_inside(GUARD, "/sys/fs/cgroup/a.slice/io.max");
    waits();
    // Outside of a system call, or inside one that is not about a file, it writes nothing.
    for call in ["-1 0x7ffe 0x7f18", "202 0x7f1700000000 0x80"] {
        world.killed_inside(GUARD, NR_REQUESTS);
        world.kernel.put(&syscall, call);
        let Life::Ending(_) = life(&world, &begin(&world)) else { panic!("{call}") };
    }
    assert!(world.session().recover().unwrap().undone[0].closed);
}

#[test]
fn a_process_lives_as_long_as_one_of_its_threads_comes_back_from_the_kernel() {
    let (world, _hold) = at_a_write();
    let lives = || life(&world, &begin(&world)) == Life::Lives;
    // At a write, and not killed.
    world.thread(GUARD, GUARD + 1, 'D', false);
    assert!(lives());
    // Its leader has ended, as pthread_exit(3) does it.
    world.process(GUARD, 'Z', 2);
    assert!(lives());
    // Its leader has been killed alone: another thread has called execve(2) meanwhile.
    world.thread(GUARD, GUARD, 'D', true);
    assert!(lives());
    // A process that can't be looked at is not known to be gone.
    let status = format!("/proc/{GUARD}/task/{GUARD}/status");
    world.process(GUARD, 'Z', 1);
    world.kernel.unreadable.borrow_mut().insert(status, Errno::ACCESS);
    assert!(lives());
    world.kernel.unreadable.borrow_mut().clear();
    world.kernel.remove(&format!("/proc/{GUARD}/task"));
    assert!(lives(), "a list that can't be read");
    world.process(GUARD, 'Z', 1);
    assert_eq!(life(&world, &begin(&world)), Life::Gone);
    // A thread on its way out (PF_EXITING), whose SIGKILL is not pending any more.
    world.thread(GUARD, GUARD + 1, 'R', false);
    let stat = |flags: &str| format!("9 (a) R 1 1 1 0 -1 {flags} 5 6 7 8");
    world.kernel.put(&format!("/proc/{GUARD}/task/{}/stat", GUARD + 1), &stat("4194304"));
    assert!(lives());
    world.kernel.put(&format!("/proc/{GUARD}/task/{}/stat", GUARD + 1), &stat("4194308"));
    assert_eq!(life(&world, &begin(&world)), Life::Gone);
    world.kernel.remove(&format!("/proc/{GUARD}/task/{}", GUARD + 1));
    world.process(GUARD, 'S', 0);
    assert_eq!(life(&world, &begin(&world)), Life::Gone);
}

#[test]
fn a_process_that_proc_does_not_show_lives_as_long_as_the_journal_is_marked() {
    let world = World::new();
    let original = world.kernel.all();
    let _hold = steered(&world);
    // A container of another PID namespace: no process has that number, or another one has.
    for stat in [None, Some("8 (other) S 1 8 8 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0")] {
        world.kernel.remove("/proc/8/");
        if let Some(stat) = stat {
            world.kernel.put("/proc/8/stat", stat);
        }
        assert_eq!(life(&world, &begin(&world)), Life::Lives);
        assert!(world.session().recover().unwrap().is_empty());
        assert!(matches!(world.apply(&["max_sectors_kb=64"]), Err(ApplyError::Steered { .. })));
        assert!(matches!(world.session().hold("another"), Err(HoldError::Steered { id: 1, .. })));
        assert!(
            world
                .session()
                .in_the_way(Intention::Apply(&[change("max_sectors_kb=64")]))
                .unwrap()
                .is_some()
        );
    }
    // The kernel has removed the mark: it is gone, wherever it was.
    world.store.marked.set(false);
    assert_eq!(life(&world, &begin(&world)), Life::Gone);
    assert!(world.session().recover().unwrap().undone[0].closed);
    assert_eq!(world.kernel.all(), original);
}

#[test]
fn a_mark_that_another_process_has_keeps_a_process_from_steering() {
    let world = World::new();
    world.store.marked.set(true);
    assert!(matches!(world.session().hold("a guard"), Err(HoldError::Marked)));
    assert!(world.store.files.borrow().is_empty());
}
