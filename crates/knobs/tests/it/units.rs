//! Limits of units that systemd manages: set at run time, given back, and never believed where two
//! say otherwise.

use floodwall_knobs::{Change, Device, Fate, Files, Target, plan};
use rustix::io::Errno;

use crate::fake::{GROUP, Kernel, World, change};

const LIMITS: [&str; 2] = ["b:memory.high=100MiB", "b:io.max=wbps=5MB"];

fn kernels(world: &World, file: &str) -> String {
    world.kernel.get(&format!("/sys/fs/cgroup/{GROUP}/{file}"))
}

#[test]
fn a_limit_is_set_at_run_time_and_given_back() {
    let world = World::new();
    let before = world.kernel.all();
    world.apply(&LIMITS).unwrap();
    assert_eq!(kernels(&world, "memory.high"), "104857600");
    assert_eq!(kernels(&world, "io.max"), "8:0 rbps=max wbps=5000000 riops=max wiops=max");
    let view = world.kernel.get(&Kernel::at_run_time("io.max"));
    assert!(view.starts_with("# set at run time: IOWriteBandwidthMax\n"), "{view}");
    let (_, undone) = world.session().rollback(0).unwrap();
    assert!(undone.iter().all(|one| one.closed), "{undone:?}");
    assert_eq!(world.kernel.all(), before);
    // The value first: systemd writes nothing for a device when the drop-in goes.
    assert_eq!(
        world.writes(),
        [
            "memory.high=104857600",
            "io.max=8:0 rbps=max wbps=5000000 riops=max wiops=max",
            "memory.high=1000000000",
            "memory.high=1000000000",
            "io.max=8:0 rbps=max wbps=max riops=max wiops=max",
            "io.max=8:0 rbps=max wbps=max riops=max wiops=max",
        ]
    );
}

#[test]
fn what_was_set_at_run_time_before_is_set_at_run_time_again() {
    let world = World::new();
    world.kernel.write(&Kernel::at_run_time("memory.high"), "500000000").unwrap();
    let before = world.kernel.all();
    world.apply(&LIMITS).unwrap();
    world.session().rollback(0).unwrap();
    assert_eq!(world.kernel.all(), before);
}

#[test]
fn what_the_units_files_say_already_is_not_set() {
    let world = World::new();
    assert_eq!(world.apply(&["b:memory.high=1GB", "b:io.max=wbps=max"]).unwrap().id, None);
    assert!(world.writes().is_empty());
}

#[test]
fn what_a_shell_would_do_is_told() {
    let world = World::new();
    let changes = LIMITS.map(change);
    assert_eq!(
        plan(&changes, &world.kernel).unwrap().writes(),
        [
            "echo 104857600 > /sys/fs/cgroup/system.slice/b.service/memory.high; \
             systemctl set-property --runtime b.service MemoryHigh=104857600",
            "systemctl set-property --runtime b.service IOWriteBandwidthMax=\"/dev/sda 5000000\"",
        ]
    );
}

#[test]
fn the_files_of_a_unit_may_change_meanwhile() {
    let world = World::new();
    world.apply(&["b:memory.high=100MiB"]).unwrap();
    // An administrator edits the unit; what is set at run time goes before it.
    world.kernel.put("/etc/memory.high", "700000000");
    let (_, undone) = world.session().rollback(0).unwrap();
    assert!(undone[0].closed);
    assert_eq!(undone[0].to_string(), format!("{GROUP}:memory.high: 700000000 again"));
    assert_eq!(kernels(&world, "memory.high"), "700000000");
}

#[test]
fn a_unit_that_has_stopped_keeps_its_properties() {
    let world = World::new();
    let before = world.kernel.get(&Kernel::at_run_time("memory.high"));
    world.apply(&["b:memory.high=100MiB"]).unwrap();
    world.kernel.remove(&format!("/sys/fs/cgroup/{GROUP}"));
    let (_, undone) = world.session().rollback(0).unwrap();
    assert!(undone[0].closed, "{undone:?}");
    assert_eq!(world.kernel.get(&Kernel::at_run_time("memory.high")), before);
}

#[test]
fn a_unit_that_is_gone_has_nothing_to_be_put_back() {
    let world = World::new();
    world.apply(&["b:memory.high=100MiB"]).unwrap();
    world.kernel.remove(&format!("/sys/fs/cgroup/{GROUP}"));
    world.kernel.unreadable.borrow_mut().insert(Kernel::at_run_time("memory.high"), Errno::SRCH);
    let (_, undone) = world.session().rollback(0).unwrap();
    assert!(undone[0].closed);
    assert_eq!(
        undone[0].to_string(),
        format!("{GROUP}:memory.high: gone (systemd does not know b.service any more)")
    );
}

#[test]
fn the_limit_of_a_device_that_is_gone_is_taken_back() {
    let world = World::new();
    let view = Kernel::at_run_time("io.max");
    world.apply(&["b:io.max=wbps=5MB"]).unwrap();
    // The kernel has no line any more, and systemd knows no number for the device's path.
    world.kernel.remove("/sys/dev/block/8:0");
    world.kernel.put(&format!("/sys/fs/cgroup/{GROUP}/io.max"), "");
    world.kernel.put(&view, "# set at run time: IOWriteBandwidthMax\n");
    let (_, undone) = world.session().rollback(0).unwrap();
    assert!(undone[0].closed, "{undone:?}");
    assert!(
        world.kernel.get(&view).starts_with("# set by the unit's files"),
        "{}",
        world.kernel.get(&view)
    );
}

#[test]
fn the_limit_of_a_device_that_is_gone_stays_beside_another_ones() {
    let world = World::new();
    let view = Kernel::at_run_time("io.max");
    world.apply(&["b:io.max=wbps=5MB"]).unwrap();
    world.kernel.remove("/sys/dev/block/8:0");
    world.kernel.put(
        &view,
        "# set at run time: IOWriteBandwidthMax\n8:16 rbps=max wbps=7 riops=max wiops=max\n",
    );
    let (_, undone) = world.session().rollback(0).unwrap();
    assert!(matches!(undone[0].entries[0].1, Fate::Vanished { .. }), "{undone:?}");
    assert!(world.kernel.get(&view).contains("8:16"));
}

#[test]
fn a_systemd_that_does_not_answer_leaves_the_change_open() {
    let world = World::new();
    let path = Kernel::at_run_time("memory.high");
    world.apply(&["b:memory.high=100MiB"]).unwrap();
    world.kernel.unreadable.borrow_mut().insert(path.clone(), Errno::TIMEDOUT);
    let (_, undone) = world.session().rollback(0).unwrap();
    assert!(
        matches!(&undone[0].entries[0].1, Fate::Failed { why } if why.contains("did not answer"))
    );
    world.kernel.unreadable.borrow_mut().clear();
    let recovery = world.session().recover().unwrap();
    assert!(recovery.undone[0].closed, "{recovery:?}");
    assert_eq!(kernels(&world, "memory.high"), "1000000000");
    // Before a change: nothing is changed.
    world.kernel.unreadable.borrow_mut().insert(path, Errno::TIMEDOUT);
    let error = world.apply(&["b:memory.high=100MiB"]).unwrap_err().to_string();
    assert!(error.contains("systemd did not answer within 30 s"), "{error}");
}

#[test]
fn a_value_that_was_written_past_systemd_is_not_changed() {
    let world = World::new();
    world.kernel.put(&format!("/sys/fs/cgroup/{GROUP}/memory.high"), "5000000");
    let error = world.apply(&["b:memory.high=100MiB"]).unwrap_err().to_string();
    assert!(
        error.contains("holds 5000000 and systemd's properties of b.service say 1000000000"),
        "{error}"
    );
    // Whole pages of a size that is not a multiple of one are the same.
    world.kernel.unit_says("memory.high", "1000000001");
    world.kernel.put(&format!("/sys/fs/cgroup/{GROUP}/memory.high"), "999997440");
    world.apply(&["b:memory.high=100MiB"]).unwrap();
}

#[test]
fn a_controller_is_enabled_by_the_first_property() {
    let world = World::new();
    let group = format!("/sys/fs/cgroup/{GROUP}");
    world.kernel.remove(&format!("{group}/io.max"));
    let error = world.apply(&["b:io.max=wbps=5MB"]).unwrap_err().to_string();
    // The group has the controller, and the kernel no such file.
    assert!(error.contains("is not there"), "{error}");
    world.kernel.put(&format!("{group}/cgroup.controllers"), "memory");
    world.kernel.put("/sys/fs/cgroup/cgroup.controllers", "memory pids");
    assert!(world.apply(&["b:io.max=wbps=5MB"]).is_err());
    world.kernel.put("/sys/fs/cgroup/cgroup.controllers", "io memory pids");
    world.apply(&["b:io.max=wbps=5MB"]).unwrap();
    assert_eq!(kernels(&world, "io.max"), "8:0 rbps=max wbps=5000000 riops=max wiops=max");
}

#[test]
fn a_drop_in_that_would_win_at_the_next_reload_is_told() {
    let world = World::new();
    let refused = |path: &str, text: &str| {
        world.kernel.put(path, text);
        let error = world.apply(&["b:memory.high=100MiB"]).err().map(|error| error.to_string());
        world.kernel.remove(path);
        error
    };
    let high = "[Service]\nMemoryHigh = 1G";
    let dir = "/etc/systemd/system/b.service.d";
    for path in [
        &format!("{dir}/override.conf"),
        "/etc/systemd/system.control/b.service.d/50-MemoryHigh.conf",
    ] {
        let error = refused(path, high).unwrap();
        let why = format!(
            "{path} sets MemoryHigh=, which would be in force again at the next daemon-reload"
        );
        assert!(error.contains(&why), "{error}");
    }
    // Those are read before Floodwall's, or don't set the property.
    assert_eq!(refused(&format!("{dir}/49-floodwall.conf"), high), None);
    world.session().rollback(0).unwrap();
    assert_eq!(refused(&format!("{dir}/override.conf"), "[Service]\nMemoryMax=1G"), None);
}

/// A limit of another disk.
fn on_sdb(text: &str) -> Change {
    let mut change = change(text);
    let sdb = Device { number: "8:16".to_owned(), name: "sdb".to_owned(), instance: None };
    if let Target::Group { device, .. } = &mut change.target {
        *device = Some(sdb);
    }
    change
}

const OF_SDB: &str = "8:16 rbps=max wbps=7000000 riops=max wiops=max";

#[test]
fn one_device_of_a_unit_is_limited_at_run_time() {
    let world = World::new();
    let both = [change("b:io.max=wbps=5MB"), on_sdb("b:io.max=wbps=7MB")];
    let why = plan(&both, &world.kernel).unwrap_err().to_string();
    assert!(why.contains("the limits of all devices of b.service in one drop-in"), "{why}");
    // One that the other device has already: by the unit's files, or by a change that stands.
    world.kernel.unit_says("io.max", OF_SDB);
    let why = world.apply(&["b:io.max=wbps=5MB"]).unwrap_err().to_string();
    assert!(why.contains("and device 8:16 is one"), "{why}");
    world.kernel.unit_says("io.max", "");
    world.apply(&["b:io.max=wbps=5MB"]).unwrap();
    assert!(
        plan(&both[1..], &world.kernel).unwrap_err().to_string().contains("and device 8:0 is one")
    );
}

#[test]
fn another_devices_limit_that_was_set_meanwhile_stays() {
    let world = World::new();
    world.apply(&["b:io.max=wbps=5MB"]).unwrap();
    world.kernel.write(&Kernel::at_run_time("io.max"), OF_SDB).unwrap();
    let (_, undone) = world.session().rollback(0).unwrap();
    assert!(undone[0].closed, "{undone:?}");
    assert_eq!(kernels(&world, "io.max"), OF_SDB);
    assert!(world.kernel.get(&Kernel::at_run_time("io.max")).ends_with(OF_SDB));
}

#[test]
fn keys_that_are_set_at_run_time_one_after_another_are_refused() {
    let world = World::new();
    world.apply(&["b:io.max=wbps=5MB"]).unwrap();
    world.apply(&["b:io.max=wbps=4MB"]).unwrap();
    let why = world.apply(&["b:io.max=rbps=5MB"]).unwrap_err().to_string();
    assert!(why.contains("(IOWriteBandwidthMax), and IOReadBandwidthMax= is not one"), "{why}");
}

#[test]
fn a_unit_that_was_reverted_meanwhile_has_its_old_value_again() {
    let world = World::new();
    let before = world.kernel.all();
    world.apply(&LIMITS).unwrap();
    // systemd writes no line of the device; of the size it is as after a kill between two writes.
    world.kernel.revert("io.max");
    world.kernel.revert("memory.high");
    let (_, undone) = world.session().rollback(0).unwrap();
    assert!(undone[0].closed, "{undone:?}");
    assert_eq!(world.kernel.all(), before);
}

#[test]
fn a_value_past_systemd_that_is_not_ours_is_left() {
    let world = World::new();
    world.apply(&["b:io.max=wbps=5MB"]).unwrap();
    world.kernel.revert("io.max");
    let file = format!("/sys/fs/cgroup/{GROUP}/io.max");
    world.kernel.put(&file, "8:0 rbps=max wbps=9 riops=max wiops=max");
    let (_, undone) = world.session().rollback(0).unwrap();
    assert!(matches!(&undone[0].entries[0].1, Fate::Failed { why }
            if why.contains("written past systemd")));
}

#[test]
fn a_property_is_given_back_where_the_controller_is_off() {
    let world = World::new();
    let group = format!("/sys/fs/cgroup/{GROUP}");
    world.apply(&["b:io.max=wbps=5MB"]).unwrap();
    world.kernel.remove(&format!("{group}/io.max"));
    world.kernel.put(&format!("{group}/cgroup.controllers"), "memory");
    world.kernel.put("/sys/fs/cgroup/cgroup.controllers", "io memory pids");
    let (_, undone) = world.session().rollback(0).unwrap();
    assert!(undone[0].closed, "{undone:?}");
    let view = world.kernel.get(&Kernel::at_run_time("io.max"));
    assert!(view.starts_with("# set by the unit's files"), "{view}");
}

#[test]
fn a_systemd_that_falls_silent_is_asked_once() {
    let world = World::new();
    world.apply(&LIMITS).unwrap();
    world.kernel.refuses.borrow_mut().insert(Kernel::at_run_time("memory.high"), Errno::TIMEDOUT);
    let (_, undone) = world.session().rollback(0).unwrap();
    for (_, fate) in &undone[0].entries {
        assert!(matches!(fate, Fate::Failed { why } if why.contains("did not answer")), "{fate:?}");
    }
    assert_eq!(kernels(&world, "io.max"), "8:0 rbps=max wbps=5000000 riops=max wiops=max");
    world.kernel.refuses.borrow_mut().clear();
    assert!(world.session().recover().unwrap().undone[0].closed);
    assert_eq!(kernels(&world, "io.max"), "");
}

#[test]
fn the_weight_that_systemd_works_out_is_not_set() {
    let world = World::new();
    world.kernel.put(&format!("/sys/fs/cgroup/{GROUP}/io.bfq.weight"), "default 100");
    let why = world.apply(&["b:io.bfq.weight=50"]).unwrap_err().to_string();
    assert!(why.contains(&format!("set {GROUP}:io.weight")), "{why}");
}

#[test]
fn a_tighter_limit_of_the_slice_is_told() {
    let world = World::new();
    world.kernel.put("/sys/fs/cgroup/system.slice/memory.high", "60000000");
    let plan = plan(&[change("b:memory.high=100MiB")], &world.kernel).unwrap();
    let note = format!(
        "{GROUP}:memory.high: system.slice above it has a tighter limit, 60 MB, which applies"
    );
    assert_eq!(plan.notes, [note]);
}

#[test]
fn an_error_of_systemd_is_told_and_everything_put_back() {
    let world = World::new();
    let before = world.kernel.all();
    world.kernel.refuses.borrow_mut().insert(Kernel::at_run_time("io.max"), Errno::PERM);
    let error = world.apply(&LIMITS).unwrap_err();
    assert!(error.lacks_privilege(), "{error}");
    assert_eq!(world.kernel.all(), before);
}
