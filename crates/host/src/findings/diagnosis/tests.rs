//! Staged looks: who is blamed for what, and what is advised.

use std::collections::{BTreeMap, BTreeSet};

use floodwall_model::diagnosis::Wait;
use floodwall_model::status::DrainSource;
use floodwall_model::workload::Workload;

use super::*;
use crate::findings::testing::{Machine, disk};

const DATABASE: &str = "/system.slice/system-postgresql.slice/postgresql@15-main.service";
const BACKUP: &str = "/system.slice/backup.service";
const SDA: DeviceId = DeviceId { major: 8, minor: 0 };
const SDB: DeviceId = DeviceId { major: 8, minor: 16 };

fn waits(pid: u32, name: &str, disk: DeviceId, median_s: f64) -> DiskUser {
    DiskUser {
        pid,
        name: name.to_owned(),
        disk,
        waited_s: 1.8,
        committing_s: 1.8,
        commits: 4,
        waits_for_commits: true,
        median_s: Some(median_s),
        oldest_s: 0.1,
        dirtied_bytes: 64 << 10,
        earlier_bytes: 0,
        group: Reading::Value(DATABASE.to_owned()),
        workload: unit("postgresql@15-main.service"),
    }
}

fn unit(name: &str) -> Workload {
    Workload { unit: Some(name.to_owned()), ..Workload::default() }
}

fn floods(pid: u32, name: &str, disk: DeviceId, bytes_per_s: u64) -> DiskUser {
    DiskUser {
        waited_s: 0.0,
        committing_s: 0.0,
        commits: 0,
        waits_for_commits: true,
        median_s: None,
        oldest_s: 0.0,
        dirtied_bytes: 2 * bytes_per_s,
        earlier_bytes: 0,
        group: Reading::Value(BACKUP.to_owned()),
        workload: unit("backup.service"),
        ..waits(pid, name, disk, 0.0)
    }
}

/// A healthy machine with generous limits, on whose `sda` 3 GiB are waiting.
struct Scene {
    machine: Machine,
    users: Vec<DiskUser>,
    own: Vec<u32>,
    group_memory: BTreeMap<String, u64>,
    limited_groups: BTreeSet<String>,
    guarded: Vec<String>,
    sees_waits: bool,
    waited_percent: Reading<f64>,
}

impl Scene {
    fn new(users: Vec<DiskUser>) -> Self {
        let mut machine = Machine::healthy();
        machine.status.window_s = 2.0;
        machine.limits(4 << 30, 2 << 30);
        if users.iter().any(|user| user.dirtied_bytes > 1 << 20) {
            machine.backlog(3 << 30);
        }
        let waited_percent = Reading::Value(80.0);
        Self {
            machine,
            users,
            own: Vec::new(),
            group_memory: BTreeMap::new(),
            limited_groups: BTreeSet::new(),
            guarded: Vec::new(),
            sees_waits: true,
            waited_percent,
        }
    }

    /// Its disk has no queue that could be shorter.
    fn without_queue(&mut self) {
        self.machine.status.devices[0].queue.nr_requests = Reading::Absent("no queue".to_owned());
    }

    fn about(&self, about: &About) -> Diagnosis {
        let mut diagnosis = None;
        self.looked(|look| diagnosis = Some(diagnose(look, about)));
        diagnosis.unwrap()
    }

    fn looked(&self, mut see: impl FnMut(Look<'_>)) {
        see(Look {
            status: &self.machine.status,
            users: &self.users,
            own: &self.own,
            group_memory: &self.group_memory,
            limited_groups: &self.limited_groups,
            guarded: &self.guarded,
            source: if self.sees_waits { "bpf" } else { "proc" },
            is_root: self.sees_waits,
            sees_waits: self.sees_waits,
            waited_percent: &self.waited_percent,
            unseen: &[],
        });
    }

    fn diagnosis(&self) -> Diagnosis {
        self.about(&About::Machine)
    }
}

fn flooded() -> Scene {
    Scene::new(vec![waits(7, "postgres", SDA, 0.457), floods(9, "cp", SDA, 193_000_000)])
}

/// What is advised: each with its command and its price.
fn advice(diagnosis: &Diagnosis) -> String {
    let line = |action: &floodwall_model::diagnosis::Action| {
        let command = action.command.as_deref().unwrap_or("-");
        format!("{}\n  {command}\n  {}", action.what, action.price)
    };
    diagnosis.actions.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_victim_is_stalled_by_a_flood() {
    let diagnosis = flooded().diagnosis();
    assert_eq!(diagnosis.verdict, Verdict::Stalling);
    let [disk] = diagnosis.disks.as_slice() else { panic!("{:?}", diagnosis.disks) };
    assert_eq!((disk.name.as_str(), disk.id), ("sda", SDA));
    let (victim, flood) = (&disk.victims[0], &disk.floods[0]);
    assert_eq!((victim.process.pid, victim.waits_for), (7, Wait::Commits));
    assert_eq!(victim.process.workload.unit.as_deref(), Some("postgresql@15-main.service"));
    assert_eq!(victim.median_s, Some(0.457));
    assert_eq!((flood.process.pid, flood.dirtied_bytes_per_s), (9, 193e6));
    assert_eq!(flood.process.workload.unit.as_deref(), Some("backup.service"));
    assert_eq!(disk.backlog_bytes, Reading::Value(3 << 30));
    insta::assert_snapshot!(advice(&diagnosis));
}

#[test]
fn a_kernel_worker_is_named_after_the_processes_that_wait() {
    let mut scene = flooded();
    // XFS's writeback reads a group's header while a database waits for the same disk.
    scene.users.push(waits(3, "kworker/u8:2-kvfree_rcu_reclaim", SDA, 0.9));
    scene.users.push(waits(8, "redis", SDA, 0.2));
    let diagnosis = scene.diagnosis();
    let named: Vec<u32> = diagnosis.disks[0].victims.iter().map(|v| v.process.pid).collect();
    assert_eq!(named, [7, 8, 3]);
    // Where nothing else waits, it is the victim.
    scene.users.retain(|user| ![7, 8].contains(&user.pid));
    let diagnosis = scene.diagnosis();
    assert_eq!(diagnosis.verdict, Verdict::Stalling);
    assert_eq!(diagnosis.disks[0].victims[0].process.pid, 3);
}

#[test]
fn a_short_wait_beside_a_flood_is_no_stall() {
    let mut scene = flooded();
    (scene.users[0].median_s, scene.users[0].oldest_s) = (Some(0.004), 0.0);
    let diagnosis = scene.diagnosis();
    assert_eq!(diagnosis.verdict, Verdict::Flooding);
    assert_eq!(diagnosis.disks[0].victims, []);
    // Its median says nothing of a commit that is stuck.
    scene.users[0].oldest_s = 1.9;
    assert_eq!(scene.diagnosis().verdict, Verdict::Stalling);
}

#[test]
fn a_backlog_that_takes_half_as_long_as_the_wait_explains_it_beside_a_flood() {
    let mut scene = flooded();
    // It drains 200 MB/s, more than is dirtied.
    scene.users[1].dirtied_bytes = 2 * 110_000_000;
    let is_outrun = |scene: &Scene| scene.diagnosis().disks[0].is_outrun();
    scene.machine.backlog(50_000_000);
    assert!(is_outrun(&scene), "250 ms, beside a wait of 457 ms");
    scene.machine.backlog(40_000_000);
    assert!(!is_outrun(&scene));
    scene.machine.backlog(50_000_000);
    scene.users.truncate(1);
    assert!(!is_outrun(&scene), "nothing floods it");
}

#[test]
fn a_flood_alone_is_told_with_what_it_piles_up() {
    let mut scene = flooded();
    scene.users.remove(0);
    let diagnosis = scene.diagnosis();
    assert_eq!(diagnosis.verdict, Verdict::Flooding);
    assert_eq!((diagnosis.disks[0].victims.len(), diagnosis.disks[0].floods.len()), (0, 1));
    assert!(advice(&diagnosis).contains("unit:backup.service:sda.io.max=wbps=100MB"));
    // What the disk takes at once piles nothing up.
    scene.users[0].dirtied_bytes = 2 * 120_000_000;
    assert_eq!(scene.diagnosis().verdict, Verdict::Flooding, "3 GiB are still waiting");
    scene.machine.backlog(0);
    assert_eq!(scene.diagnosis().verdict, Verdict::Quiet);
}

#[test]
fn a_wait_without_a_flood_has_no_culprit() {
    let scene = Scene::new(vec![waits(7, "postgres", SDA, 0.457)]);
    let diagnosis = scene.diagnosis();
    assert_eq!(diagnosis.verdict, Verdict::Stalling);
    assert_eq!(diagnosis.disks[0].floods, []);
    insta::assert_snapshot!(advice(&diagnosis));
    // What a disk that seeks takes for a commit is no stall, unless much is waiting for it.
    let mut slow = Scene::new(vec![waits(7, "postgres", SDA, 0.07)]);
    slow.users[0].oldest_s = 0.0;
    assert_eq!(slow.diagnosis().verdict, Verdict::Quiet);
    slow.machine.backlog(3 << 30);
    assert_eq!(slow.diagnosis().verdict, Verdict::Stalling);
    assert!(slow.diagnosis().disks[0].is_backlogged && !diagnosis.disks[0].is_backlogged);
    // A backlog that does not move explains a wait, too.
    slow.machine.status.devices[0].drain.now_s = Reading::Absent("nothing was written".into());
    assert!(slow.diagnosis().disks[0].is_backlogged);
}

#[test]
fn nothing_is_wrong_and_the_outlook_is_told() {
    let mut scene = Scene::new(vec![waits(7, "postgres", SDA, 0.002)]);
    scene.users[0].oldest_s = 0.0;
    let diagnosis = scene.diagnosis();
    assert_eq!((diagnosis.verdict, diagnosis.disks.len()), (Verdict::Quiet, 0));
    let outlook = diagnosis.outlook.as_ref().unwrap();
    assert_eq!((outlook.name.as_str(), outlook.limit_bytes), ("sda", 4 << 30));
    assert_eq!(outlook.limit_s, Reading::Value((4u64 << 30) as f64 / 200e6));
    insta::assert_snapshot!(advice(&diagnosis), @"
    run the guard, for when a flood comes
      floodwall guard
      it changes nothing until a process waits, and puts everything back when it ends
    ");
    // Small limits need no protection.
    scene.machine.limits(64 << 20, 16 << 20);
    assert_eq!(scene.diagnosis().actions, []);
}

#[test]
fn the_outlook_of_a_process_is_that_of_its_disks() {
    let mut scene = Scene::new(vec![waits(7, "sqlite3", SDA, 0.002)]);
    scene.users[0].oldest_s = 0.0;
    let leaf = scene.machine.leaf("sda");
    let stacked = scene.machine.stacked("loop8", vec![leaf]);
    scene.users[0].disk = stacked.id;
    scene.machine.status.devices.push(stacked);
    // A flood of another disk would take longer.
    let mut slow = disk("sdb");
    slow.drain.rate_bytes_per_s = Reading::Value(20e6);
    scene.machine.status.devices.push(slow);
    let outlook = |pid| {
        let about = About::Processes { named: "sqlite3".into(), pids: vec![pid] };
        scene.about(&about).outlook.map(|outlook| outlook.name)
    };
    assert_eq!(outlook(7).as_deref(), Some("loop8"));
    assert_eq!(outlook(8), None);
    assert_eq!(scene.diagnosis().outlook.unwrap().name, "sdb");
}

#[test]
fn the_disk_of_the_victim_is_blamed_and_no_other() {
    let mut scene = flooded();
    scene.machine.status.devices.push(disk("sdb"));
    scene.users = vec![
        waits(7, "postgres", SDB, 0.457),
        floods(9, "cp", SDB, 90_000_000),
        floods(11, "dd", SDA, 400_000_000),
    ];
    let diagnosis = scene.diagnosis();
    let named: Vec<_> = diagnosis
        .disks
        .iter()
        .map(|disk| (disk.name.as_str(), disk.verdict, disk.floods[0].process.pid))
        .collect();
    let expected = [("sdb", Verdict::Stalling, 9), ("sda", Verdict::Flooding, 11)];
    assert_eq!(named, expected);
    assert!(advice(&diagnosis).contains("sdb.io.max"), "{}", advice(&diagnosis));
    // Asked about one disk, the other one is not told.
    let about = About::Disks { named: "sda".into(), ids: vec![SDA] };
    let sda = scene.about(&about);
    assert_eq!((sda.verdict, sda.disks.len()), (Verdict::Flooding, 1));
    assert_eq!(sda.outlook.unwrap().name, "sda");
}

#[test]
fn a_flood_of_a_device_on_top_reaches_the_disk_below() {
    let mut scene = flooded();
    let leaf = scene.machine.leaf("sda");
    let stacked = scene.machine.stacked("loop0", vec![leaf]);
    let above = stacked.id;
    scene.machine.status.devices.push(stacked);
    scene.users[1].disk = above;
    let diagnosis = scene.diagnosis();
    assert_eq!(diagnosis.disks[0].name, "sda");
    assert_eq!(diagnosis.disks[0].floods[0].process.pid, 9);
    // The device above has no `io.max` that reaches the disk.
    assert!(!advice(&diagnosis).contains("io.max"), "{}", advice(&diagnosis));
}

#[test]
fn floodwall_is_neither_victim_nor_flood() {
    let mut scene = flooded();
    scene.own = vec![9];
    assert_eq!(scene.diagnosis().disks[0].floods, []);
    scene.own = vec![7];
    assert_eq!(scene.diagnosis().verdict, Verdict::Flooding);
    scene.own = vec![7, 9];
    scene.machine.backlog(0);
    assert_eq!(scene.diagnosis().verdict, Verdict::Quiet);
}

#[test]
fn a_long_backlog_is_told_though_nothing_waits_and_nothing_floods() {
    let mut scene = flooded();
    scene.users.clear();
    let diagnosis = scene.diagnosis();
    let disk = &diagnosis.disks[0];
    assert_eq!((disk.verdict, disk.name.as_str()), (Verdict::Flooding, "sda"));
    assert!(disk.is_backlogged && disk.floods.is_empty());
    scene.machine.backlog(199_000_000);
    assert_eq!(scene.diagnosis().disks, [], "less than a second");
    // At a rate that was not seen three seconds of the kernel's first guess count.
    scene.machine.backlog(299_000_000);
    scene.machine.status.devices[0].drain.from = DrainSource::KernelEstimate;
    assert_eq!(scene.diagnosis().disks, []);
    scene.machine.backlog(300_000_000);
    assert_eq!(scene.diagnosis().disks.len(), 1);
}

#[test]
fn a_flood_that_waits_for_its_own_data_is_no_victim() {
    let mut scene = flooded();
    let own = |oldest_s| DiskUser {
        waited_s: oldest_s,
        committing_s: oldest_s,
        commits: 1,
        oldest_s,
        earlier_bytes: 1_000_000_000,
        ..floods(9, "dd", SDA, 0)
    };
    // At 200 MB/s its own data takes 5 s.
    scene.users[1] = own(10.0);
    let disk = &scene.diagnosis().disks[0];
    assert_eq!((disk.victims.len(), disk.victims[0].process.pid), (1, 7));
    assert_eq!(disk.floods[0].earlier_bytes, Some(1_000_000_000));
    scene.users[1] = own(10.1);
    let disk = &scene.diagnosis().disks[0];
    assert_eq!((disk.victims[0].process.pid, disk.floods.len()), (9, 0));
}

#[test]
fn without_sight_of_waits_only_the_kernels_pressure_can_tell_that_all_is_well() {
    let mut scene = flooded();
    scene.sees_waits = false;
    scene.users.remove(0);
    let blind = scene.diagnosis();
    assert_eq!(blind.verdict, Verdict::Unknown);
    assert_eq!(blind.machine.waited_percent, Reading::Value(80.0));
    // What can be seen is told all the same.
    assert_eq!(blind.disks[0].floods[0].process.pid, 9);
    assert!(blind.actions_need_root && blind.actions.is_empty());
    scene.waited_percent = Reading::Value(0.2);
    assert_eq!(scene.diagnosis().verdict, Verdict::Flooding);
    scene.users.clear();
    scene.machine.backlog(0);
    assert_eq!(scene.diagnosis().verdict, Verdict::Quiet);
    scene.waited_percent = Reading::Absent("psi=0".into());
    assert_eq!(scene.diagnosis().verdict, Verdict::Unknown);
}

#[test]
fn a_process_that_was_asked_for_is_named_first() {
    let mut scene = flooded();
    scene.users.push(waits(8, "redis", SDA, 0.2));
    assert_eq!(scene.diagnosis().disks[0].victims[0].process.pid, 7);
    let of = |pid: u32| About::Processes { named: pid.to_string(), pids: vec![pid] };
    assert_eq!(scene.about(&of(8)).disks[0].victims[0].process.pid, 8);
    // The flood itself: who waits for it is told.
    assert_eq!(scene.about(&of(9)).verdict, Verdict::Stalling);
    // A process that does nothing with disks.
    assert_eq!(scene.about(&of(10)).verdict, Verdict::Quiet);
}

#[test]
fn a_group_with_a_victim_in_it_is_not_paced() {
    let mut scene = flooded();
    // Nor a group above one.
    for group in [DATABASE, "/system.slice"] {
        scene.users[1].group = Reading::Value(group.to_owned());
        assert!(!advice(&scene.diagnosis()).contains("io.max"), "{group}");
    }
    scene.users[1].group = Reading::Value("/".to_owned());
    assert!(!advice(&scene.diagnosis()).contains("io.max"));
    scene.users[1].group = Reading::Value("/user.slice/user-0.slice/session-3.scope".to_owned());
    let path = "user.slice/user-0.slice/session-3.scope:sda.io.max=wbps=100MB";
    assert!(advice(&scene.diagnosis()).contains(path), "{}", advice(&scene.diagnosis()));
    // Version 1 can't charge buffered writes.
    scene.machine.status.machine.cgroup_v1_controllers = vec!["memory".into()];
    assert!(!advice(&scene.diagnosis()).contains("io.max"));
}

#[test]
fn a_copy_between_two_disks_is_paced_where_it_floods() {
    let mut scene = flooded();
    scene.machine.status.devices.push(disk("sdb"));
    // It reads one disk and writes to the other.
    let reads = DiskUser { dirtied_bytes: 0, ..floods(9, "cp", SDA, 0) };
    scene.users = vec![waits(7, "postgres", SDB, 0.457), reads, floods(9, "cp", SDB, 193_000_000)];
    assert!(advice(&scene.diagnosis()).contains("sdb.io.max"), "{}", advice(&scene.diagnosis()));
}

#[test]
fn a_container_is_paced_by_its_name_and_a_unit_in_it_by_its_own() {
    let container = format!("/system.slice/docker-{}.scope", "0123456789abcdef".repeat(4));
    let mut scene = flooded();
    scene.users[1].workload.container = Some("nightly".to_owned());
    let mut paced = |group: &str| {
        scene.users[1].group = Reading::Value(group.to_owned());
        scene.diagnosis().actions[0].clone()
    };
    let action = paced(&container);
    assert_eq!(action.what, "pace nightly");
    assert!(action.price.starts_with("nightly, with all its processes, writes"), "{action:?}");
    let place = format!("unit:{}:sda.io.max=wbps=100MB", container.rsplit('/').next().unwrap());
    assert_eq!(action.settings[0], place);
    let inside = paced(&format!("{container}/system.slice/backup.service"));
    assert_eq!(inside.what, "pace backup.service");
}

#[test]
fn a_group_is_not_paced_beside_its_own_limit_or_another_large_flood() {
    let mut scene = flooded();
    let mut other = floods(10, "rsync", SDA, 90_000_000);
    other.group = Reading::Value("/system.slice/sync.service".to_owned());
    scene.users.push(other);
    // The backup keeps 100 MB/s of 200 MB/s.
    assert!(advice(&scene.diagnosis()).contains("pace backup.service"));
    scene.users[2].dirtied_bytes = 2 * 110_000_000;
    assert!(!advice(&scene.diagnosis()).contains("pace"), "{}", advice(&scene.diagnosis()));
    scene.users.pop();
    scene.limited_groups.insert(BACKUP.trim_matches('/').to_owned());
    assert!(!advice(&scene.diagnosis()).contains("pace"), "{}", advice(&scene.diagnosis()));
}

#[test]
fn a_paced_group_has_room_below_a_small_dirty_limit() {
    let mut scene = flooded();
    let ram = *scene.machine.status.machine.ram_bytes.value().unwrap();
    scene.machine.limits(ram / 64, ram / 128);
    // Two chunks of 4 MiB are a sixty-fourth of it.
    let high = format!("memory.high={}MiB", 64 + 512);
    assert!(advice(&scene.diagnosis()).contains(&high), "{}", advice(&scene.diagnosis()));
}

#[test]
fn a_limit_is_not_advised_where_nothing_floods_or_the_disk_has_one() {
    let mut scene = Scene::new(vec![waits(7, "postgres", SDA, 0.457)]);
    scene.machine.backlog(3 << 30);
    let advised = advice(&scene.diagnosis());
    assert!(!advised.contains("bytes=") && advised.contains("guard --device sda"), "{advised}");
    let mut scene = flooded();
    scene.without_queue();
    assert!(advice(&scene.diagnosis()).contains("sda.bdi.max_bytes"));
    let limits = &mut scene.machine.status.devices[0].limits;
    (limits.strict_limit, limits.max_ratio_percent) = (Reading::Value(true), Reading::Value(5.0));
    assert!(!advice(&scene.diagnosis()).contains("bytes="), "{}", advice(&scene.diagnosis()));
}

#[test]
fn a_paced_group_keeps_the_memory_that_its_processes_use() {
    let mut scene = flooded();
    scene.group_memory.insert(BACKUP.trim_start_matches('/').to_owned(), 500 << 20);
    // Beside three seconds of 100 MB/s.
    let high = format!("unit:backup.service:memory.high={}MiB", 500 + 287);
    assert!(advice(&scene.diagnosis()).contains(&high), "{}", advice(&scene.diagnosis()));
}

#[test]
fn a_process_whose_own_threads_flood_is_not_paced() {
    let mut scene = flooded();
    scene.users[1] = floods(7, "postgres", SDA, 193_000_000);
    scene.users[1].group = Reading::Value(DATABASE.to_owned());
    scene.users[0].commits = 1;
    let diagnosis = scene.diagnosis();
    let disk = &diagnosis.disks[0];
    assert_eq!((disk.victims[0].process.pid, disk.floods[0].process.pid), (7, 7));
    assert!(!advice(&diagnosis).contains("io.max"), "{}", advice(&diagnosis));
}

#[test]
fn a_guard_that_runs_is_asked() {
    let mut scene = flooded();
    scene.guarded = vec!["sdb".to_owned()];
    assert!(advice(&scene.diagnosis()).contains("guard --device sda"), "it steers another disk");
    scene.guarded = vec!["sda".to_owned()];
    let advised = advice(&scene.diagnosis());
    assert!(advised.contains("floodwall guard status"), "{advised}");
    assert!(!advised.contains("guard --device"), "{advised}");
    assert!(!advised.contains("nr_requests"), "the guard has its queue: {advised}");
    let changes = |diagnosis: &Diagnosis| diagnosis.actions.iter().any(|a| !a.settings.is_empty());
    assert!(!changes(&scene.diagnosis()), "in the guard's way");
    scene.guarded.clear();
    assert!(changes(&scene.diagnosis()));
    scene.guarded = vec!["sda".to_owned()];
    scene.users.clear();
    scene.machine.backlog(0);
    assert_eq!(scene.diagnosis().actions, []);
}

#[test]
fn a_pace_or_limit_that_needs_an_unknown_rate_is_not_advised() {
    let mut scene = flooded();
    let drain = &mut scene.machine.status.devices[0].drain;
    drain.rate_bytes_per_s = Reading::Absent("the kernel has never measured it".into());
    drain.from = DrainSource::Unknown;
    drain.now_s = Reading::Absent("the kernel has never measured it".into());
    let diagnosis = scene.diagnosis();
    assert_eq!(diagnosis.verdict, Verdict::Stalling);
    let advised = advice(&diagnosis);
    assert!(advised.starts_with("shorten the queue of sda\n"), "{advised}");
    assert!(advised.contains("sda.nr_requests=8 sda.max_sectors_kb=128"), "{advised}");
    assert!(advised.contains("floodwall guard --device sda"), "{advised}");
    assert!(advised.ends_with("it lasts as long as the flood does"), "{advised}");
    assert!(!advised.contains("io.max") && !advised.contains("bytes="), "{advised}");
}

#[test]
fn a_limit_is_the_machines_where_a_disks_share_does_not_hold() {
    let mut scene = flooded();
    scene.without_queue();
    scene.machine.kernel("6.1.0-25-amd64");
    let limits = "vm.dirty_bytes=287MiB vm.dirty_background_bytes=48MiB";
    let advised = advice(&scene.diagnosis());
    assert!(
        advised.contains(limits) && advised.contains("all writers of the machine"),
        "{advised}"
    );
    // A limit that is as low already is not advised.
    scene.machine.limits(200 << 20, 50 << 20);
    assert!(!advice(&scene.diagnosis()).contains("dirty_bytes"));
}

/// The settings of the first action that applies some, without the others'.
fn settings_of(diagnosis: &Diagnosis, what: &str) -> Option<Vec<String>> {
    let mut actions = diagnosis.actions.iter();
    actions.find(|action| action.what.starts_with(what)).map(|action| action.settings.clone())
}

#[test]
fn a_victim_beside_a_flood_is_helped_by_a_queue_that_drains_in_eight_milliseconds() {
    let mut scene = flooded();
    let shortened = |scene: &Scene| settings_of(&scene.diagnosis(), "shorten the queue of sda");
    let length = |scene: &Scene| {
        let settings = shortened(scene).unwrap();
        let number = |knob: &str| {
            let of = |one: &String| one.strip_prefix(&format!("sda.{knob}=")).map(str::to_owned);
            settings.iter().find_map(of).unwrap().parse::<u64>().unwrap()
        };
        (number("nr_requests"), number("max_sectors_kb"))
    };
    for (rate, wanted) in [
        // Eight at the least, though they take longer.
        (20e6, (8, 128)),
        // 8 × 128 KiB are 1.05 MB: 8.39 ms of 125 MB/s.
        (125e6, (8, 128)),
        (500e6, (31, 128)),
        (2e9, (31, 512)),
    ] {
        scene.machine.status.devices[0].drain.rate_bytes_per_s = Reading::Value(rate);
        // As much a second as the disk drains is a flood of any of them.
        scene.users[1].dirtied_bytes = (2.0 * rate) as u64;
        assert_eq!(length(&scene), wanted, "{rate}");
    }
    let elevator = |scene: &Scene| shortened(scene).unwrap().concat().contains("scheduler");
    assert!(!elevator(&scene), "a fast disk's stays");
    let drains = |scene: &mut Scene, rate: f64| {
        scene.machine.status.devices[0].drain.rate_bytes_per_s = Reading::Value(rate);
        scene.users[1].dirtied_bytes = (2.0 * rate) as u64;
    };
    drains(&mut scene, 500e6);
    assert!(elevator(&scene));
    let settings = shortened(&scene).unwrap();
    assert_eq!(
        (settings[0].as_str(), settings[3].as_str()),
        ("sda.scheduler=bfq", "sda.wbt_lat_usec=0")
    );
    let queue = |scene: &mut Scene, change: &dyn Fn(&mut floodwall_model::status::Queue)| {
        change(&mut scene.machine.status.devices[0].queue);
    };
    queue(&mut scene, &|queue| {
        queue.offered = Reading::Value(vec!["none".to_owned(), "mq-deadline".to_owned()]);
        queue.wbt_lat_us = Reading::Absent("no wbt".to_owned());
    });
    let settings = shortened(&scene).unwrap();
    assert!(
        settings.iter().all(|one| !one.contains("scheduler") && !one.contains("wbt")),
        "in force"
    );
    // Nothing gets longer, and a queue that is short enough stays.
    queue(&mut scene, &|queue| queue.nr_requests = Reading::Value(16));
    drains(&mut scene, 2e9);
    assert_eq!(length(&scene), (16, 512));
    queue(&mut scene, &|queue| queue.max_sectors_kib = Reading::Value(512));
    assert_eq!(shortened(&scene), None);
    queue(&mut scene, &|queue| queue.nr_requests = Reading::Absent("no queue".to_owned()));
    assert_eq!(shortened(&scene), None);
}

#[test]
fn where_no_queue_gets_shorter_the_limit_is_lowered() {
    let mut scene = flooded();
    assert!(settings_of(&scene.diagnosis(), "limit what waits").is_none());
    scene.without_queue();
    let limited = settings_of(&scene.diagnosis(), "limit what waits").unwrap();
    // A queue that is short already is no reason to stop the victim's writes.
    let mut short = flooded();
    let queue = &mut short.machine.status.devices[0].queue;
    (queue.nr_requests, queue.max_sectors_kib) = (Reading::Value(8), Reading::Value(128));
    assert_eq!(settings_of(&short.diagnosis(), "shorten"), None);
    assert_eq!(settings_of(&short.diagnosis(), "limit what waits"), None);
    assert!(limited.iter().any(|one| one == "sda.bdi.strict_limit=1"), "{limited:?}");
    // Without a victim on the disk, it harms none.
    let mut alone = flooded();
    alone.users.remove(0);
    let diagnosis = alone.diagnosis();
    assert_eq!(settings_of(&diagnosis, "shorten"), None);
    assert!(settings_of(&diagnosis, "limit what waits").is_some());
}

#[test]
fn the_queues_of_all_disks_below_are_shortened() {
    let mut scene = flooded();
    let device = &mut scene.machine.status.devices[0];
    let leaf = |name: &str, minor: u32| floodwall_model::status::Leaf {
        name: name.to_owned(),
        id: DeviceId { major: 8, minor },
        model: Reading::Value("Model".to_owned()),
        driver: Reading::Value("sd".to_owned()),
        size_bytes: Reading::Value(1 << 40),
        written_bytes_per_s: Reading::Value(0.0),
        queue: device.queue.clone(),
    };
    device.leaves = vec![leaf("sdx", 160), leaf("sdy", 176)];
    // A mirror: each writes all of it.
    device.drain.rate_bytes_per_s = Reading::Value(500e6);
    device.leaves.iter_mut().for_each(|leaf| leaf.written_bytes_per_s = Reading::Value(500e6));
    scene.users[1].dirtied_bytes = 1_000_000_000;
    let settings = settings_of(&scene.diagnosis(), "shorten the queue of sdx and sdy").unwrap();
    assert_eq!(settings.len(), 8);
    assert!(settings.contains(&"sdx.nr_requests=31".to_owned()), "{settings:?}");
    // Unknown, they share it.
    let leaves = &mut scene.machine.status.devices[0].leaves;
    leaves.iter_mut().for_each(|leaf| leaf.written_bytes_per_s = Reading::Value(0.0));
    let settings = settings_of(&scene.diagnosis(), "shorten the queue of sdx and sdy").unwrap();
    assert!(settings.contains(&"sdx.nr_requests=15".to_owned()), "{settings:?}");
    assert!(settings.contains(&"sdy.scheduler=bfq".to_owned()), "{settings:?}");
}

#[test]
fn a_wait_is_that_of_one_process_on_one_disk() {
    let scene = flooded();
    let wait = |pid, disk| {
        let mut found = None;
        scene.looked(|look| found = wait_of(look, pid, disk));
        found
    };
    assert_eq!(wait(7, SDA), Some(0.457));
    assert_eq!((wait(7, SDB), wait(8, SDA)), (None, None));
    assert_eq!(wait(9, SDA), None, "a flood that commits nothing");
}
