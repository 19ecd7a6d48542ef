//! Applying, rolling back, and the state afterwards.

use floodwall_knobs::journal::{CLOSED_KEPT, Phase, Store, log};
use floodwall_knobs::rehearsal::{RehearsedClock, RehearsedFiles, RehearsedStore};
use floodwall_knobs::{ApplyError, Fate, Session};
use rustix::io::Errno;

use crate::fake::{QUEUE, World, change};

const EXPIRE: &str = "/proc/sys/vm/dirty_expire_centisecs";

fn fates(world: &World) -> Vec<String> {
    let (_, undone) = world.session().rollback(0).unwrap();
    undone.iter().map(ToString::to_string).collect()
}

#[test]
fn a_change_is_journalled_with_who_when_and_why_and_undone() {
    let world = World::new();
    let applied = world.apply(&["vm.dirty_bytes=15MB", "vm.dirty_background_bytes=5MB"]).unwrap();
    assert_eq!(applied.id, Some(1));
    insta::assert_snapshot!(applied.plan.to_string(), @"
    vm.dirty_bytes: dirty_ratio 20 -> dirty_bytes 15000000
    vm.dirty_background_bytes: dirty_background_ratio 10 -> dirty_background_bytes 5000000
    ");
    insta::assert_snapshot!(applied.plan.writes().join("\n"), @"
    echo 5000000 > /proc/sys/vm/dirty_background_bytes
    # in steps of at most 10 % each 200 ms while more than 14.3 MiB is dirty, then:
    echo 15000000 > /proc/sys/vm/dirty_bytes
    ");
    let logged = log(&world.store).unwrap();
    let transaction = logged[0].transaction.as_ref().unwrap();
    assert_eq!(transaction.phase(), Phase::Standing);
    assert_eq!(transaction.begin.why, "a test");
    assert_eq!((transaction.begin.pid, transaction.begin.at_unix_s), (7, 1_700_000_000));
    insta::assert_snapshot!(fates(&world).join("\n"), @"
    vm.dirty_bytes: dirty_ratio 20 again
    vm.dirty_background_bytes: dirty_background_ratio 10 again
    ");
}

#[test]
fn what_is_as_asked_for_already_writes_nothing() {
    let world = World::new();
    let applied = world.apply(&["vm.dirty_ratio=20", "scheduler=mq-deadline"]).unwrap();
    assert_eq!(applied.id, None);
    assert_eq!(world.kernel.fuse.burnt.get(), 0);
}

#[test]
fn what_somebody_else_has_changed_is_left_alone_and_told() {
    let world = World::new();
    world.apply(&["vm.dirty_bytes=15MB", "vm.dirty_expire_centisecs=100"]).unwrap();
    world.kernel.put(EXPIRE, "1234");
    insta::assert_snapshot!(fates(&world).join("\n"), @"
    vm.dirty_bytes: dirty_ratio 20 again
    vm.dirty_expire_centisecs: left at 1234, which somebody else has set since (we had set 100)
    ");
    assert_eq!(world.kernel.get(EXPIRE), "1234");
}

#[test]
fn a_change_by_others_between_the_crash_and_the_recovery_is_left_alone() {
    let world = World::new();
    // begin: 2 writes; then intent, write, done for each knob; killed after the first knob is done.
    world.kernel.fuse.arm(Some(2 + 3));
    assert!(
        world
            .apply(&["vm.dirty_expire_centisecs=100", "vm.dirty_writeback_centisecs=100"])
            .is_err()
    );
    assert_eq!(world.kernel.get(EXPIRE), "100");
    world.kernel.fuse.arm(None);
    world.kernel.put(EXPIRE, "1234");
    let recovery = world.session().recover().unwrap();
    assert!(matches!(recovery.undone[0].entries[0].1, Fate::Foreign { .. }), "{recovery:?}");
    assert_eq!(world.kernel.get(EXPIRE), "1234");
}

#[test]
fn what_others_set_below_an_elevator_of_ours_survives_its_switch() {
    let world = World::new();
    world.apply(&["scheduler=kyber"]).unwrap();
    world.kernel.put(&format!("{QUEUE}/nr_requests"), "48");
    insta::assert_snapshot!(fates(&world).join("\n"), @"
    sda.scheduler: mq-deadline again
    sda.nr_requests: left at 48, which somebody else has set since (we had set 256)
    ");
    assert_eq!(world.kernel.queue("nr_requests"), "48");
}

#[test]
fn an_elevator_that_others_have_switched_is_theirs_with_all_that_goes_with_it() {
    let world = World::new();
    world.apply(&["iosched.fifo_batch=4"]).unwrap();
    world.kernel.put(&format!("{QUEUE}/scheduler"), "none mq-deadline [kyber] bfq");
    world.kernel.remove(&format!("{QUEUE}/iosched"));
    let told = fates(&world).join("\n");
    assert!(told.starts_with("sda.iosched.fifo_batch: gone"), "{told}");
    assert_eq!(world.kernel.queue("scheduler"), "none mq-deadline [kyber] bfq");
}

#[test]
fn transactions_stack_and_are_undone_down_to_a_number() {
    let world = World::new();
    for value in ["100", "200", "300"] {
        world.apply(&[&format!("vm.dirty_expire_centisecs={value}")]).unwrap();
    }
    let (_, undone) = world.session().rollback(1).unwrap();
    assert_eq!(undone.iter().map(|u| u.id).collect::<Vec<_>>(), [3, 2]);
    assert_eq!(world.kernel.get(EXPIRE), "100");
    world.apply(&["vm.dirty_expire_centisecs=400"]).unwrap();
    let (_, undone) = world.session().rollback(0).unwrap();
    assert_eq!(undone.iter().map(|u| u.id).collect::<Vec<_>>(), [4, 1]);
    assert_eq!(world.kernel.get(EXPIRE), "3000");
}

#[test]
fn old_closed_journals_are_removed_and_open_ones_never() {
    let world = World::new();
    // Stands under all that follow.
    world.apply(&["vm.dirty_writeback_centisecs=100"]).unwrap();
    for _ in 0..CLOSED_KEPT + 3 {
        world.apply(&["vm.dirty_expire_centisecs=100"]).unwrap();
        world.session().rollback(1).unwrap();
    }
    let id = world.apply(&["vm.dirty_expire_centisecs=200"]).unwrap().id;
    assert_eq!(id, Some(CLOSED_KEPT as u64 + 5), "numbers go on");
    let ids: Vec<u64> =
        log(&world.store).unwrap().into_iter().map(|l| l.transaction.unwrap().begin.id).collect();
    // The one that stands, the newest closed ones, and the one that was just made.
    assert_eq!(ids.len(), 1 + CLOSED_KEPT + 1);
    assert_eq!((ids[0], ids[1]), (1, 5));
    world.session().rollback(0).unwrap();
    assert_eq!(world.kernel.get("/proc/sys/vm/dirty_writeback_centisecs"), "500");
}

#[test]
fn a_kill_while_old_journals_are_removed_loses_nothing() {
    let world = World::new();
    for _ in 0..CLOSED_KEPT + 4 {
        world.apply(&["vm.dirty_expire_centisecs=100"]).unwrap();
        world.session().rollback(0).unwrap();
    }
    let kept = |world: &World| log(&world.store).unwrap().len();
    assert_eq!(kept(&world), CLOSED_KEPT + 1);
    // Killed before the removal of the one that is too many.
    world.kernel.fuse.arm(Some(0));
    assert!(world.apply(&["vm.dirty_expire_centisecs=300"]).is_err());
    world.kernel.fuse.arm(None);
    assert_eq!(kept(&world), CLOSED_KEPT + 1);
    world.apply(&["vm.dirty_expire_centisecs=300"]).unwrap();
    assert_eq!(kept(&world), CLOSED_KEPT + 1);
    world.session().rollback(0).unwrap();
    assert_eq!(world.kernel.get(EXPIRE), "3000");
}

#[test]
fn a_journal_of_an_earlier_boot_is_closed_without_a_write() {
    let world = World::new();
    world.apply(&["vm.dirty_expire_centisecs=100"]).unwrap();
    world.boot.replace("boot-2".into());
    let writes = world.writes().len();
    let recovery = world.session().recover().unwrap();
    assert_eq!(recovery.earlier_boots, [1]);
    assert_eq!(world.writes().len(), writes);
    assert_eq!(world.kernel.get(EXPIRE), "100");
    assert!(world.session().recover().unwrap().is_empty());
}

#[test]
fn journals_that_are_not_to_be_believed_are_kept_aside() {
    let world = World::new();
    world.apply(&["vm.dirty_expire_centisecs=100"]).unwrap();
    world.apply(&["vm.dirty_writeback_centisecs=100"]).unwrap();
    // A changed value, another program's file, nothing at all, a copy under another number.
    let good = world.store.read("000001.jsonl").unwrap();
    let changed = String::from_utf8(good.clone()).unwrap().replace("3000", "9000");
    let mut files = world.store.files.borrow_mut();
    files.insert("000001.jsonl".into(), changed.into_bytes());
    files.insert("000003.jsonl".into(), b"{\"hello\":1}\n".to_vec());
    files.insert("000004.jsonl".into(), Vec::new());
    files.insert("000005.jsonl".into(), good);
    drop(files);
    let (recovery, undone) = world.session().rollback(0).unwrap();
    let aside: Vec<&str> = recovery.set_aside.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(aside, ["000005.jsonl", "000004.jsonl", "000003.jsonl", "000001.jsonl"]);
    assert_eq!(undone.iter().map(|u| u.id).collect::<Vec<_>>(), [2]);
    // Never replayed: the value stays.
    assert_eq!(world.kernel.get(EXPIRE), "100");
    assert!(world.store.names().unwrap().contains(&"000001.jsonl.bad".to_owned()));
    // And their numbers are not given again.
    assert_eq!(world.apply(&["vm.dirty_writeback_centisecs=200"]).unwrap().id, Some(6));
}

#[test]
fn a_full_disk_under_the_journal_changes_nothing() {
    let world = World::new();
    let before = world.kernel.all();
    // Too little for the first record, then for any later one.
    let mut refused = 0;
    for space in (0..2500).step_by(100) {
        world.store.space.set(Some(space));
        if world.apply(&["vm.dirty_bytes=15MB", "scheduler=bfq", "nr_requests=8"]).is_ok() {
            world.store.space.set(None);
            world.session().rollback(0).unwrap();
        } else {
            refused += 1;
        }
        assert_eq!(world.kernel.all(), before, "{space} bytes free");
    }
    assert!(refused > 10, "{refused}");
    world.store.space.set(None);
    world.session().recover().unwrap();
    assert_eq!(world.kernel.all(), before);
}

#[test]
fn files_that_may_not_be_written_are_found_before_the_first_write() {
    for error in [Errno::ACCESS, Errno::ROFS] {
        let world = World::new();
        world.kernel.refuses.borrow_mut().insert(format!("{QUEUE}/nr_requests"), error);
        let refused = world.apply(&["vm.dirty_bytes=15MB", "nr_requests=8"]).unwrap_err();
        assert!(
            matches!(refused, ApplyError::MayNotWrite(_)) && refused.lacks_privilege(),
            "{refused}"
        );
        assert_eq!(world.kernel.fuse.burnt.get(), 0);
    }
}

#[test]
fn a_failure_half_way_rolls_back_what_was_done() {
    let world = World::new();
    let before = world.kernel.all();
    let error =
        world.apply(&["max_sectors_kb=2048", "nr_requests=8", "scheduler=bfq"]).unwrap_err();
    insta::assert_snapshot!(error.to_string(), @"the kernel refused sda.max_sectors_kb = 2048: \
        Invalid argument (os error 22); everything is as before");
    assert_eq!(world.kernel.all(), before);
    assert!(world.session().recover().unwrap().is_empty());
}

#[test]
fn a_device_that_is_gone_or_another_one_is_not_written() {
    let world = World::new();
    world.apply(&["nr_requests=8", "vm.dirty_expire_centisecs=100"]).unwrap();
    world.kernel.put("/sys/dev/block/8:0/diskseq", "12");
    insta::assert_snapshot!(fates(&world).join("\n"), @"
    sda.nr_requests: gone (sda (8:0) is another disk now)
    vm.dirty_expire_centisecs: 3000 again
    sda.iosched.async_depth: gone (sda (8:0) is another disk now)
    ");
    assert_eq!(world.kernel.queue("nr_requests"), "8");
    let world = World::new();
    world.apply(&["nr_requests=8"]).unwrap();
    world.kernel.remove("/sys/dev/block");
    insta::assert_snapshot!(fates(&world).join("\n"), @"
    sda.nr_requests: gone (sda (8:0) is gone)
    sda.iosched.async_depth: gone (sda (8:0) is gone)
    ");
}

#[test]
fn a_value_that_can_not_be_put_back_keeps_its_journal_open() {
    let world = World::new();
    world.apply(&["vm.dirty_expire_centisecs=100"]).unwrap();
    world.kernel.refuses.borrow_mut().insert(EXPIRE.into(), Errno::PERM);
    let (_, undone) = world.session().rollback(0).unwrap();
    assert!(!undone[0].is_complete() && !undone[0].closed);
    // Nothing is piled on top of it.
    let error = world.apply(&["vm.dirty_ratio=30"]).unwrap_err();
    assert!(matches!(error, ApplyError::Unrecovered { id: 1, .. }), "{error}");
    world.kernel.refuses.borrow_mut().clear();
    let recovery = world.session().recover().unwrap();
    assert!(recovery.undone[0].closed);
    assert_eq!(world.kernel.get(EXPIRE), "3000");
}

#[test]
fn the_next_change_recovers_what_a_crash_left_and_says_so() {
    let world = World::new();
    world.kernel.fuse.arm(Some(5));
    assert!(world.apply(&["vm.dirty_expire_centisecs=100", "nr_requests=8"]).is_err());
    world.kernel.fuse.arm(None);
    let applied = world.apply(&["vm.dirty_ratio=30"]).unwrap();
    assert_eq!(applied.recovery.undone.len(), 1);
    assert_eq!(applied.id, Some(2));
    assert_eq!(
        (world.kernel.get(EXPIRE), world.kernel.queue("nr_requests")),
        ("3000".into(), "256".into())
    );
}

#[test]
fn what_is_set_for_a_time_is_put_back_alone_or_by_the_next_session_after_its_end() {
    // The fake clock stands at 1,700,000,000.
    let until = |at: u64| Some(1_700_000_000 + at);
    let world = World::new();
    world.apply(&["vm.dirty_writeback_centisecs=100"]).unwrap();
    let for_a_time = [change("vm.dirty_expire_centisecs=100")];
    let applied = world.session().apply_until(&for_a_time, "a test", until(600)).unwrap();
    world.apply(&["nr_requests=8"]).unwrap();
    let (recovery, undone) = world.session().rollback_one(applied.id.unwrap()).unwrap();
    assert!(recovery.is_empty() && undone.unwrap().closed);
    assert_eq!(
        (world.kernel.get(EXPIRE), world.kernel.queue("nr_requests")),
        ("3000".into(), "8".into())
    );
    assert!(world.session().rollback_one(2).unwrap().1.is_none());

    world.session().apply_until(&for_a_time, "a test", until(0)).unwrap();
    let recovery = world.session().recover().unwrap();
    assert_eq!(recovery.expired.iter().map(|u| u.id).collect::<Vec<_>>(), [4]);
    assert_eq!(
        (world.kernel.get(EXPIRE), world.kernel.queue("nr_requests")),
        ("3000".into(), "8".into())
    );
}

#[test]
fn nothing_is_laid_over_what_is_set_for_a_time() {
    let world = World::new();
    let for_a_time = [change("scheduler=kyber")];
    world.session().apply_until(&for_a_time, "a test", Some(1_700_000_600)).unwrap();
    // The elevator's end would take this one with it.
    let error = world.apply(&["nr_requests=8"]).unwrap_err().to_string();
    assert_eq!(
        error,
        "nothing was changed: sda.nr_requests is set for a time by change 1; floodwall rollback \
         --to 0 ends it"
    );
    // Nothing differs, but it would not stay.
    let error = world.apply(&["scheduler=kyber"]).unwrap_err().to_string();
    assert!(error.contains("sda.scheduler is set for a time by change 1"), "{error}");
    world.apply(&["read_ahead_kb=64"]).unwrap();
    world.session().rollback(0).unwrap();
    world.apply(&["nr_requests=8"]).unwrap();
}

#[test]
fn a_rehearsed_rollback_is_the_real_one_without_its_writes() {
    let world = World::new();
    world.apply(&["vm.dirty_ratio=30", "vm.dirty_expire_centisecs=100"]).unwrap();
    world.apply(&["vm.dirty_bytes=15MB", "vm.dirty_expire_centisecs=200"]).unwrap();
    let before = world.kernel.all();
    let session = world.session();
    let files = RehearsedFiles::new(session.files);
    let (store, clock) = (RehearsedStore(session.store), RehearsedClock(session.clock));
    let who = session.who.clone();
    let rehearsal = Session {
        files: &files,
        store: &store,
        clock: &clock,
        who,
        boot_id: session.boot_id.clone(),
    };
    let (_, rehearsed) = rehearsal.rollback(0).unwrap();
    assert_eq!(world.kernel.all(), before);
    let writes = world.writes().len();
    let (_, undone) = session.rollback(0).unwrap();
    assert_eq!(rehearsed, undone);
    let real = world.writes().split_off(writes);
    let told: Vec<String> = real.iter().map(|write| write.replace('=', " > ")).collect();
    let short = |line: &String| {
        let (value, path) = line.strip_prefix("echo ")?.split_once(" > ")?;
        Some(format!("{} > {value}", path.rsplit('/').next()?))
    };
    assert_eq!(files.writes().iter().filter_map(short).collect::<Vec<_>>(), told);
    assert_eq!(world.kernel.get(EXPIRE), "3000");
}
