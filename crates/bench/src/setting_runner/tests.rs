//! On a captured machine, with a runner that records the settings in force.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;

use floodwall_host::settings_in_force;
use floodwall_knobs::journal::{DiskStore, JournalError};
use floodwall_knobs::{Hold, InTheWay, KernelFiles, Session, SystemClock, Who, journal};
use floodwall_model::{DeviceId, scenario};
use floodwall_testing::tree::put;

use super::*;

const DISK: DeviceId = DeviceId { major: 8, minor: 0 };

/// One disk with an elevator and limits at their defaults, as files.
struct Machine {
    dir: tempfile::TempDir,
    root: SysRoot,
}

impl Machine {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let queue = "sys/devices/sda/queue";
        for (path, text) in [
            ("proc/sys/vm/dirty_bytes", "0"),
            ("proc/sys/vm/dirty_ratio", "20"),
            ("proc/sys/vm/dirty_background_bytes", "0"),
            ("proc/sys/vm/dirty_background_ratio", "10"),
            ("proc/sys/kernel/osrelease", "6.18.0"),
            ("proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555"),
            (
                "proc/vmstat",
                "nr_free_pages 3000000\nnr_inactive_file 0\nnr_active_file 0\nnr_dirty 0\n\
                 nr_writeback 0\nnr_dirty_threshold 600000",
            ),
            ("sys/devices/sda/dev", "8:0"),
            ("sys/devices/sda/diskseq", "11"),
            ("sys/devices/sda/uevent", "DEVNAME=sda"),
            (&format!("{queue}/nr_requests"), "256"),
            (&format!("{queue}/max_sectors_kb"), "1280"),
            ("sys/class/bdi/8:0/max_ratio", "100"),
        ] {
            write(&dir.path().join(path), text);
        }
        for link in ["sys/dev/block/8:0", "sys/class/block/sda"] {
            put(&dir.path().join(link), "->../../devices/sda");
        }
        let root = SysRoot::new(dir.path()).unwrap();
        Self { dir, root }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    fn limits(&self) -> [String; 2] {
        ["dirty_bytes", "dirty_ratio"].map(|f| {
            fs::read_to_string(self.path(&format!("proc/sys/vm/{f}"))).unwrap().trim().to_owned()
        })
    }

    fn nr_requests(&self) -> String {
        fs::read_to_string(self.path("sys/devices/sda/queue/nr_requests"))
            .unwrap()
            .trim()
            .to_owned()
    }

    fn runner(&self, does: fn(&Self) -> Result<(), RunnerError>) -> SettingRunner<Fake<'_>> {
        let fake = Fake { machine: self, does, seen: Vec::new() };
        let device = Device::find(&self.root, "sda").unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        SettingRunner::open(fake, &self.root, &self.path("journal"), Some(device), nobody, stop)
            .unwrap()
            .0
    }
}

/// Where there is no process to ask.
fn nobody(held: &InTheWay) -> Result<(), String> {
    Err(format!("{} is held by {}, which does not answer", held.labels.join(", "), held.by))
}

fn write(path: &Path, text: &str) {
    put(path, &format!("{text}\n"));
}

/// A runner that records the settings in force while it runs.
struct Fake<'a> {
    machine: &'a Machine,
    does: fn(&Machine) -> Result<(), RunnerError>,
    seen: Vec<Setting>,
}

impl InForce for Fake<'_> {
    fn reread(&mut self) -> Setting {
        settings_in_force(&self.machine.root, Some(DISK), Some("8:0")).setting
    }
}

impl Runner for Fake<'_> {
    fn run(
        &mut self,
        _: &Scenario,
        setting: &Setting,
        round: u32,
        _: &mut dyn Watch,
    ) -> Result<Trial, RunnerError> {
        let mut seen = self.reread();
        // The inner runner gets the victims' priority.
        seen.0.extend(setting.0.clone());
        self.seen.push(seen.clone());
        (self.does)(self.machine)?;
        Ok(Trial { setting: Setting::default(), round, phases: Vec::new() })
    }
}

fn scenario() -> Scenario {
    scenario::builtin("copy-vs-database").unwrap().unwrap()
}

fn setting(pairs: &[(&str, &str)]) -> Setting {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn wanted() -> Setting {
    setting(&[
        ("nr_requests", "8"),
        ("vm.dirty_background_bytes", "16777216"),
        ("vm.dirty_bytes", "67108864"),
    ])
}

#[test]
fn a_setting_is_in_force_during_the_trial_and_gone_after_it() {
    let machine = Machine::new();
    let mut runner = machine.runner(|_| Ok(()));
    let trial = runner.run(&scenario(), &wanted(), 1, &mut ()).unwrap();
    for (knob, value) in &wanted().0 {
        assert_eq!(runner.inner().seen[0].get(knob), Some(value.as_str()), "in force: {knob}");
        assert_eq!(trial.setting.get(knob), Some(value.as_str()), "read back: {knob}");
    }
    assert_eq!(machine.limits(), ["0", "20"]);
    assert_eq!(machine.nr_requests(), "256");
    // An empty setting writes nothing and reports the present values.
    let trial = runner.run(&scenario(), &Setting::default(), 2, &mut ()).unwrap();
    for (knob, default) in [
        ("vm.dirty_ratio", "20"),
        ("vm.dirty_background_ratio", "10"),
        ("vm.dirty_bytes", "0"),
        ("vm.dirty_background_bytes", "0"),
    ] {
        assert_eq!(trial.setting.get(knob), Some(default));
    }
    assert!(runner.close().1.is_ok());
}

#[test]
fn the_victims_priority_is_the_inner_runners_and_no_kernel_file() {
    let machine = Machine::new();
    let mut runner = machine.runner(|_| Ok(()));
    let setting = setting(&[("nr_requests", "8"), ("victim.ioprio", "be/0")]);
    let trial = runner.run(&scenario(), &setting, 1, &mut ()).unwrap();
    for (knob, value) in &setting.0 {
        assert_eq!(runner.inner().seen[0].get(knob), Some(value.as_str()), "in force: {knob}");
        assert_eq!(trial.setting.get(knob), Some(value.as_str()), "told: {knob}");
    }
    let plan = runner.check(&setting).unwrap();
    assert_eq!(plan.entries.len(), 1, "{plan}");
    assert_eq!(machine.nr_requests(), "256");
}

#[test]
fn a_knob_that_is_kept_in_another_unit_is_not_told_in_that() {
    let machine = Machine::new();
    write(&machine.path("sys/class/bdi/8:0/max_ratio_fine"), "1000000");
    let mut runner = machine.runner(|_| Ok(()));
    let setting = setting(&[("bdi.max_bytes", "134217728"), ("nr_requests", "8")]);
    let trial = runner.run(&scenario(), &setting, 1, &mut ()).unwrap();
    assert_eq!(
        (trial.setting.get("bdi.max_bytes"), trial.setting.get("nr_requests")),
        (None, Some("8"))
    );
    assert_ne!(trial.setting.get("bdi.max_ratio_fine"), Some("1000000"));
}

#[test]
fn a_failing_trial_is_followed_by_the_roll_back() {
    let machine = Machine::new();
    let mut runner = machine.runner(|_| {
        Err(RunnerError { source: "the disk is full".into(), partial: None, interrupted: false })
    });
    let error = runner.run(&scenario(), &wanted(), 1, &mut ()).unwrap_err();
    assert_eq!(error.to_string(), "the disk is full");
    assert_eq!(
        (machine.limits(), machine.nr_requests()),
        (["0", "20"].map(Into::into), "256".into())
    );
}

#[test]
fn a_panic_is_followed_by_the_roll_back() {
    let machine = Machine::new();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut runner = machine.runner(|_| panic!("out of luck"));
        let _ = runner.run(&scenario(), &wanted(), 1, &mut ());
    }));
    assert!(panicked.is_err());
    assert_eq!(machine.nr_requests(), "256");
}

#[test]
fn what_can_not_be_set_fails_before_anything_is_written() {
    let machine = Machine::new();
    let mut runner = machine.runner(|_| Ok(()));
    for (setting, part) in [
        (setting(&[("vm.dirty_byte", "1")]), "there is no knob"),
        (setting(&[("nr_requests", "8"), ("iosched.fifo_batch", "1")]), "fifo_batch"),
        (setting(&[("wbt_lat_usec", "0")]), "wbt_lat_usec"),
    ] {
        let error = runner.run(&scenario(), &setting, 1, &mut ()).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert!(runner.check(&setting).is_err());
    }
    assert!(runner.inner().seen.is_empty());
    assert_eq!(machine.nr_requests(), "256");
}

#[test]
fn a_knob_of_a_group_that_the_runner_lacks_does_not_go_to_the_machines_group_of_that_name() {
    let machine = Machine::new();
    let high = machine.path("sys/fs/cgroup/flood/memory.high");
    write(&high, "max\n");
    let mut runner = machine.runner(|_| Ok(()));
    for name in ["flood:memory.high", "victim:memory.high", "flood:sda.io.max"] {
        let value = if name.ends_with("io.max") { "wbps=40000000" } else { "max" };
        let setting = setting(&[(name, value)]);
        assert!(matches!(runner.check(&setting), Err(SettingError::NoGroup { .. })), "{name}");
        assert!(runner.run(&scenario(), &setting, 1, &mut ()).is_err());
    }
    let refused = runner.check(&setting(&[("flood:memory.high", "max")])).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "flood:memory.high can't be set: the benchmark has no control group 'flood' here (its \
         victims and \
         floods have none); leave the knob out"
    );
    assert!(runner.inner().seen.is_empty());
}

#[test]
fn a_change_by_somebody_else_fails_the_trial_and_is_left_alone() {
    let machine = Machine::new();
    let mut runner = machine.runner(|machine| {
        write(&machine.path("sys/devices/sda/queue/max_sectors_kb"), "64");
        Ok(())
    });
    let error = runner.run(&scenario(), &wanted(), 1, &mut ()).unwrap_err();
    assert!(error.to_string().contains("max_sectors_kb: 1280 → 64"), "{error}");
    assert!(error.partial.is_some());
    assert_eq!(machine.nr_requests(), "256");
    assert_eq!(
        fs::read_to_string(machine.path("sys/devices/sda/queue/max_sectors_kb")).unwrap().trim(),
        "64"
    );
}

#[test]
fn what_a_killed_run_left_is_put_back_by_the_next() {
    let machine = Machine::new();
    let mut runner = machine.runner(|_| Ok(()));
    runner.applier.put_in_force(&wanted(), Err("its victims and floods have none"), 10.0).unwrap();
    assert_eq!(machine.nr_requests(), "8");
    // Killed: nothing is put back, and the kernel drops the lock.
    runner.applier.open = None;
    drop(runner);
    assert_eq!(machine.nr_requests(), "8");
    let fake = Fake { machine: &machine, does: |_| Ok(()), seen: Vec::new() };
    let stop = Arc::new(AtomicBool::new(false));
    let (_runner, told) =
        SettingRunner::open(fake, &machine.root, &machine.path("journal"), None, nobody, stop)
            .unwrap();
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("nr_requests"), "{told:?}");
    assert_eq!(
        (machine.limits(), machine.nr_requests()),
        (["0", "20"].map(Into::into), "256".into())
    );
}

#[test]
fn a_stop_while_a_setting_is_applied_puts_it_back() {
    let machine = Machine::new();
    let mut runner = machine.runner(|_| Ok(()));
    runner.applier.clock.0.store(true, Ordering::Relaxed);
    let error = runner.run(&scenario(), &wanted(), 1, &mut ()).unwrap_err();
    assert!(error.interrupted, "{error}");
    assert_eq!(machine.nr_requests(), "256");
}

/// A process that steers the machine, and yields what it is asked for.
struct Guard {
    files: KernelFiles,
    journal: PathBuf,
    hold: Option<Hold>,
}

thread_local! {
    static GUARD: RefCell<Option<Guard>> = const { RefCell::new(None) };
}

/// Does something as the process that steers.
fn as_guard<T>(act: impl FnOnce(&Session<'_>, &mut Option<Hold>) -> T) -> T {
    GUARD.with_borrow_mut(|guard| {
        let Guard { files, journal, hold } = guard.as_mut().unwrap();
        let who = Who { pid_start_ticks: 1, ..Who::this_process(&*files) };
        let store = DiskStore::open(journal, "a guard").unwrap();
        let boot_id = journal::boot_id(&*files);
        act(&Session { files: &*files, store: &store, clock: &SystemClock, who, boot_id }, hold)
    })
}

fn yields(held: &InTheWay) -> Result<(), String> {
    assert_eq!(held.labels, ["sda.nr_requests"]);
    as_guard(|session, hold| {
        let hold = hold.as_mut().unwrap();
        for index in session.order_back(hold, |_, _| true) {
            let prepared = session.prepare_back(hold, index).unwrap().unwrap();
            let performed = prepared.perform(session.files, session.clock);
            session.finish(hold, prepared, performed).unwrap();
        }
        session.yield_cells(hold, |_, _| true).unwrap();
    });
    Ok(())
}

#[test]
fn a_guard_is_asked_for_what_it_holds_and_without_its_answer_nothing_is_tried() {
    let machine = Machine::new();
    let (files, journal) = (KernelFiles::new(&machine.root).unwrap(), machine.path("journal"));
    GUARD.set(Some(Guard { files, journal, hold: None }));
    let device = Device::find(&machine.root, "sda").unwrap();
    as_guard(|session, hold| {
        let change = Change::parse(&machine.root, Some(&device), "nr_requests=16").unwrap();
        let hold = hold.insert(session.hold("a guard").unwrap().0);
        session.write(hold, &change).unwrap();
    });
    let open = |ask: Ask| {
        let fake = Fake { machine: &machine, does: |_| Ok(()), seen: Vec::new() };
        let (stop, device) = (Arc::new(AtomicBool::new(false)), Some(device.clone()));
        SettingRunner::open(fake, &machine.root, &machine.path("journal"), device, ask, stop)
            .unwrap()
            .0
    };
    let error = open(nobody).run(&scenario(), &wanted(), 1, &mut ()).unwrap_err().to_string();
    assert!(error.contains("nothing was changed: sda.nr_requests is held by pid "), "{error}");
    assert_eq!(
        (machine.limits(), machine.nr_requests()),
        (["0", "20"].map(Into::into), "16".into())
    );
    let mut runner = open(yields);
    runner.run(&scenario(), &wanted(), 1, &mut ()).unwrap();
    assert_eq!(runner.inner().seen.len(), 1);
    assert_eq!(runner.inner().seen[0].get("nr_requests"), Some("8"));
    assert_eq!(machine.nr_requests(), "256", "the administrator's, not the guard's");
}

#[test]
fn a_second_run_is_kept_out() {
    let machine = Machine::new();
    let _runner = machine.runner(|_| Ok(()));
    let fake = Fake { machine: &machine, does: |_| Ok(()), seen: Vec::new() };
    let stop = Arc::new(AtomicBool::new(false));
    let second =
        SettingRunner::open(fake, &machine.root, &machine.path("journal"), None, nobody, stop);
    assert!(matches!(second.map(|_| ()), Err(SettingError::Journal(JournalError::Held { .. }))));
}
