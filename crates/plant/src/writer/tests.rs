//! Lanes over a captured tree whose writes can be kept waiting, or refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::mpsc;

use floodwall_host::SysRoot;
use floodwall_knobs::catalogue::find;
use floodwall_knobs::{Change, Device, KernelFiles, KnobName};
use rustix::io::Errno;

use super::*;
use crate::testing::put;

/// Rules for writes, by file.
#[derive(Default)]
struct Rules {
    /// So many writes say "busy".
    busy: BTreeMap<String, u32>,
    /// Writes wait until they are let go. With an error they fail then.
    stuck: BTreeMap<String, Option<Errno>>,
    /// Files that take no write.
    broken: BTreeSet<String>,
    /// The number of threads inside a write of each file, and the most at once.
    inside: BTreeMap<String, (u32, u32)>,
}

/// The kernel's files, as the rules have them.
#[derive(Clone)]
struct Ruled {
    files: Arc<KernelFiles>,
    rules: Arc<(Mutex<Rules>, Condvar)>,
}

impl Ruled {
    fn rules(&self) -> MutexGuard<'_, Rules> {
        lock(&self.rules.0)
    }

    fn stick(&self, path: &str) {
        self.rules().stuck.insert(path.to_owned(), None);
    }

    /// Lets stuck writes go.
    fn let_go(&self, path: &str, error: Option<Errno>) {
        let mut rules = self.rules();
        rules.stuck.remove(path);
        if let Some(error) = error {
            rules.stuck.insert(path.to_owned(), Some(error));
        }
        drop(rules);
        self.rules.1.notify_all();
    }
}

impl Files for Ruled {
    fn read(&self, path: &str) -> rustix::io::Result<String> {
        self.files.read(path)
    }

    fn list(&self, path: &str) -> Vec<String> {
        self.files.list(path)
    }

    fn link(&self, path: &str) -> rustix::io::Result<String> {
        self.files.link(path)
    }

    fn write(&self, path: &str, value: &str) -> rustix::io::Result<()> {
        let mut rules = self.rules();
        if let Some(left) = rules.busy.get_mut(path).filter(|left| **left > 0) {
            *left -= 1;
            return Err(Errno::BUSY);
        }
        let inside = rules.inside.entry(path.to_owned()).or_default();
        inside.0 += 1;
        inside.1 = inside.1.max(inside.0);
        let is_stuck = |rules: &mut Rules| rules.stuck.get(path) == Some(&None);
        let mut rules = self.rules.1.wait_while(rules, is_stuck).unwrap();
        let broken = rules.broken.contains(path).then_some(Errno::IO);
        let refused = rules.stuck.remove(path).flatten().or(broken);
        let outcome = refused.map_or_else(|| self.files.write(path, value), Err);
        rules.inside.get_mut(path).unwrap().0 -= 1;
        outcome
    }

    fn may_write(&self, path: &str) -> rustix::io::Result<()> {
        self.files.may_write(path)
    }

    fn page_bytes(&self) -> u64 {
        self.files.page_bytes()
    }
}

/// Two disks, `sda` and `sdb`, each a separate unit.
struct Scene {
    directory: tempfile::TempDir,
    files: Ruled,
    writer: Writer,
}

const SDA: &str = "8:0";
const SDB: &str = "8:16";

fn id(number: &str) -> DeviceId {
    number.parse().unwrap()
}

fn device(number: &str) -> Device {
    let name = if number == SDA { "sda" } else { "sdb" };
    Device { number: number.to_owned(), name: name.to_owned(), instance: Some(11) }
}

fn path(number: &str, knob: &str) -> String {
    format!("/sys/dev/block/{number}/queue/{knob}")
}

impl Scene {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path().join("tree");
        for number in [SDA, SDB] {
            for (file, value) in [
                ("diskseq", "11"),
                ("dev", number),
                ("queue/scheduler", "[none]"),
                ("queue/nr_requests", "256"),
                ("queue/nomerges", "0"),
            ] {
                put(&tree, &format!("sys/dev/block/{number}/{file}"), value);
            }
        }
        let files = Arc::new(KernelFiles::new(&SysRoot::new(&tree).unwrap()).unwrap());
        let files = Ruled { files, rules: Arc::default() };
        let who =
            Who { pid: 7, pid_start_ticks: 7, socket: None, uid: 0, command: "a test".to_owned() };
        let journal = directory.path().canonicalize().unwrap().join("journal");
        let (writer, _) =
            Writer::open(files.clone(), journal, who, "a test", Duration::ZERO).unwrap();
        writer.set_units([SDA, SDB].map(|number| (number.to_owned(), id(number))).into());
        Self { directory, files, writer }
    }

    /// A write in the lane of a unit.
    fn write_as(
        &self,
        unit: &str,
        number: &str,
        knob: &str,
        value: &str,
    ) -> Result<(), PlantError> {
        let write =
            KnobWrite { device: Some(id(unit)), knob: knob.to_owned(), value: value.to_owned() };
        let target = Target::Device(device(number));
        let change = Change { knob: find(knob).unwrap(), target, value: value.to_owned() };
        self.writer.write(write, vec![change])
    }

    fn write(&self, number: &str, knob: &str, value: &str) -> Result<(), PlantError> {
        self.write_as(number, number, knob, value)
    }

    fn get(&self, number: &str, knob: &str) -> String {
        let path =
            self.directory.path().join("tree").join(path(number, knob).trim_start_matches('/'));
        fs::read_to_string(path).unwrap().trim().to_owned()
    }

    fn settle(&self) {
        assert!(self.writer.shared.wait_idle(Instant::now() + LONG), "it never ends");
    }

    /// Waits until a thread is inside a write of a file.
    fn inside(&self, path: &str) {
        let is_inside = || self.files.rules().inside.get(path).is_some_and(|inside| inside.0 > 0);
        until("a write", is_inside);
    }
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < end, "{what} does not come about");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Asks for a knob of a device; gives those that wait.
fn ask(scene: &Scene, number: &str, knob: &str) -> Vec<KnobName> {
    let device = Some(number.to_owned());
    let name = KnobName { device: device.clone(), knob: knob.to_owned() };
    scene.writer.yield_knobs(&[(name, device)].into()).into_iter().collect()
}

#[test]
fn a_knob_that_is_asked_for_goes_back_and_is_left_alone_from_then_on() {
    let scene = Scene::new();
    scene.write(SDA, "nr_requests", "8").unwrap();
    scene.write(SDA, "nomerges", "2").unwrap();
    scene.settle();
    assert_eq!(ask(&scene, SDA, "nr_requests"), []);
    assert_eq!(scene.get(SDA, "nr_requests"), "256");
    assert_eq!(ask(&scene, SDB, "nr_requests"), [], "it was never held");
    match scene.write(SDA, "nr_requests", "4") {
        Err(PlantError::Refused { why, .. }) => {
            assert!(why.contains("another command has asked for it"), "{why}")
        }
        other => panic!("{other:?}"),
    }
    // The one that has asked sets it; the other knobs are steered on.
    put(
        &scene.directory.path().join("tree"),
        path(SDA, "nr_requests").trim_start_matches('/'),
        "64",
    );
    scene.write(SDA, "nomerges", "1").unwrap();
    scene.settle();
    let closed = scene.writer.close(LONG);
    assert!(closed.is_complete() && closed.left_alone.is_empty(), "{closed:?}");
    assert_eq!(
        (scene.get(SDA, "nr_requests"), scene.get(SDA, "nomerges")),
        ("64".into(), "0".into())
    );
}

#[test]
fn a_knob_whose_queue_has_to_run_dry_is_yielded_after_that() {
    let scene = Scene::new();
    scene.write(SDA, "nr_requests", "8").unwrap();
    scene.settle();
    let file = path(SDA, "nr_requests");
    scene.files.rules().busy.insert(file.clone(), u32::MAX);
    for _ in 0..2 {
        assert_eq!(ask(&scene, SDA, "nr_requests").len(), 1);
    }
    assert_eq!(scene.get(SDA, "nr_requests"), "8");
    scene.files.rules().busy.clear();
    until("it is yielded", || ask(&scene, SDA, "nr_requests").is_empty());
    assert_eq!(scene.get(SDA, "nr_requests"), "256");
    assert!(scene.write(SDA, "nr_requests", "4").is_err());
}

/// After this a test hangs.
const LONG: Duration = Duration::from_secs(30);

#[test]
fn a_busy_file_keeps_its_lane_alone_waiting() {
    let scene = Scene::new();
    let file = path(SDA, "nr_requests");
    scene.files.rules().busy.insert(file.clone(), u32::MAX);
    scene.write(SDA, "nr_requests", "8").unwrap();
    scene.write(SDB, "nr_requests", "16").unwrap();
    until("the other one's write", || scene.get(SDB, "nr_requests") == "16");
    // More often than one write tries by itself.
    until("many attempts", || scene.files.rules().busy[&file] < u32::MAX - 60);
    assert!(scene.writer.is_changing(id(SDA)));
    assert_eq!(scene.get(SDA, "nr_requests"), "256");
    scene.files.rules().busy.clear();
    scene.settle();
    assert_eq!(scene.get(SDA, "nr_requests"), "8");
    assert_eq!(scene.writer.take_events(), []);
    assert!(scene.writer.give_back(LONG).is_complete());
    assert_eq!(
        (scene.get(SDA, "nr_requests").as_str(), scene.get(SDB, "nr_requests").as_str()),
        ("256", "256")
    );
}

#[test]
fn a_file_that_stays_busy_is_given_up_when_everything_is_put_back() {
    let scene = Scene::new();
    scene.files.rules().busy.insert(path(SDA, "nr_requests"), u32::MAX);
    scene.write(SDA, "nr_requests", "8").unwrap();
    assert!(scene.writer.give_back(LONG).is_complete(), "nothing was written");
    assert_eq!(scene.get(SDA, "nr_requests"), "256");
}

#[test]
fn a_write_that_fails_late_is_told_once_and_to_its_unit_alone() {
    let scene = Scene::new();
    let file = path(SDA, "nr_requests");
    scene.files.stick(&file);
    scene.write(SDA, "nr_requests", "8").unwrap();
    scene.files.let_go(&file, Some(Errno::INVAL));
    scene.settle();
    assert!(scene.writer.take_failures(id(SDB)).is_empty());
    let failures = scene.writer.take_failures(id(SDA));
    assert!(
        matches!(failures.as_slice(), [(write, PlantError::Refused { .. })] if write.value == "8"),
        "{failures:?}"
    );
    assert!(scene.writer.take_failures(id(SDA)).is_empty());
    assert!(matches!(scene.writer.take_events().as_slice(), [Event::Failed(_)]));
    assert_eq!(scene.get(SDA, "nr_requests"), "256");
}

/// A unit of two queues: the second refuses a write, and then the first refuses to go back.
#[test]
fn a_queue_that_can_not_go_back_is_told_stays_held_and_is_put_back_later() {
    let scene = Scene::new();
    let (first, second) = (path(SDA, "nr_requests"), path(SDB, "nr_requests"));
    scene.files.stick(&second);
    let change = |number: &str| {
        let target = Target::Device(device(number));
        Change { knob: find("nr_requests").unwrap(), target, value: "8".to_owned() }
    };
    let write =
        KnobWrite { device: Some(id(SDA)), knob: "nr_requests".to_owned(), value: "8".to_owned() };
    scene.writer.write(write, vec![change(SDA), change(SDB)]).unwrap();
    scene.inside(&second);
    assert_eq!(scene.get(SDA, "nr_requests"), "8");
    // The write back, and the attempt to undo that one.
    scene.files.rules().broken.insert(first.clone());
    scene.files.let_go(&second, Some(Errno::INVAL));
    scene.settle();
    let events = scene.writer.take_events();
    let [
        Event::NotBack(PlantError::Refused { write: back, why }),
        Event::Failed(PlantError::Refused { write, .. }),
    ] = events.as_slice()
    else {
        panic!("{events:?}")
    };
    assert_eq!(
        (back.device, back.value.as_str(), write.value.as_str()),
        (Some(id(SDA)), "256", "8")
    );
    assert!(why.contains("another queue of its unit refused") && why.contains("error 5"), "{why}");
    assert_eq!(
        (scene.get(SDA, "nr_requests"), scene.get(SDB, "nr_requests")),
        ("8".into(), "256".into())
    );
    let held: Vec<String> = scene.writer.held().into_iter().map(|held| held.label).collect();
    assert_eq!(held, ["sda.nr_requests"]);
    scene.files.rules().broken.clear();
    assert_eq!(scene.writer.give_back(LONG).restored, ["sda.nr_requests: 256 again"]);
    assert_eq!(scene.get(SDA, "nr_requests"), "256");
}

#[test]
fn a_stuck_lane_keeps_no_other_from_being_given_back() {
    let scene = Scene::new();
    let file = path(SDA, "nr_requests");
    scene.write(SDA, "nomerges", "2").unwrap();
    scene.write(SDB, "nr_requests", "16").unwrap();
    scene.files.stick(&file);
    scene.write(SDA, "nr_requests", "8").unwrap();
    scene.inside(&file);
    let closed = scene.writer.give_back(Duration::from_secs(2));
    assert_eq!(scene.get(SDB, "nr_requests"), "256");
    assert_eq!(scene.get(SDA, "nomerges"), "2", "behind what is stuck");
    assert_eq!(closed.restored, ["sdb.nr_requests: 256 again"]);
    assert_eq!(
        closed.failed,
        [
            "sda.nomerges: the device does not let it be written",
            "sda.nr_requests: the device does not let it be written"
        ]
    );
    scene.files.let_go(&file, None);
    scene.settle();
    // The knobs are put back once the stuck write is over, although late.
    assert_eq!(
        (scene.get(SDA, "nr_requests").as_str(), scene.get(SDA, "nomerges").as_str()),
        ("256", "0")
    );
    assert!(scene.writer.close(LONG).is_complete());
}

#[test]
fn devices_that_are_grouped_anew_get_back_what_they_had() {
    let scene = Scene::new();
    let file = path(SDA, "nr_requests");
    scene.write(SDB, "nr_requests", "16").unwrap();
    scene.write(SDA, "nomerges", "2").unwrap();
    scene.files.stick(&file);
    scene.write(SDA, "nr_requests", "8").unwrap();
    scene.inside(&file);
    // From here on the device belongs to the other one's unit.
    scene.writer.set_units([SDA, SDB].map(|number| (number.to_owned(), id(SDB))).into());
    scene.writer.put_back(id(SDA), &[device(SDA)]);
    scene.files.let_go(&file, None);
    scene.settle();
    assert_eq!(
        (scene.get(SDA, "nr_requests").as_str(), scene.get(SDA, "nomerges").as_str()),
        ("256", "0")
    );
    assert_eq!(scene.get(SDB, "nr_requests"), "16", "nobody's business");
    assert_eq!(scene.writer.units_held(), [id(SDB)].into());
}

#[test]
fn two_lanes_are_never_inside_a_write_to_one_device() {
    let scene = Scene::new();
    let file = path(SDA, "nr_requests");
    scene.files.stick(&file);
    scene.write(SDA, "nr_requests", "8").unwrap();
    scene.inside(&file);
    scene.writer.set_units([SDA, SDB].map(|number| (number.to_owned(), id(SDB))).into());
    let (done, waits) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| done.send(scene.write_as(SDB, SDA, "nr_requests", "4")).unwrap());
        // It returns after a moment; it is in its lane by then.
        waits.recv_timeout(LONG).unwrap().unwrap();
    });
    assert_eq!(scene.files.rules().inside[&file], (1, 1));
    scene.files.let_go(&file, None);
    scene.settle();
    assert_eq!(
        (scene.files.rules().inside[&file], scene.get(SDA, "nr_requests").as_str()),
        ((0, 1), "4")
    );
    assert!(scene.writer.close(LONG).is_complete());
    assert_eq!(scene.get(SDA, "nr_requests"), "256");
}

#[test]
fn a_limit_that_reclaims_memory_keeps_no_other_waiting_and_goes_with_its_group() {
    let scene = Scene::new();
    let tree = scene.directory.path().join("tree");
    let group = "sys/fs/cgroup/backup.service";
    let unlimited = "8:0 rbps=max wbps=max riops=max wiops=max";
    put(&tree, &format!("{group}/io.max"), unlimited);
    put(&tree, &format!("{group}/memory.high"), "max");
    put(&tree, &format!("{group}/memory.current"), "4096");
    put(&tree, &format!("{group}/memory.stat"), "file 0\nshmem 0");
    let write = |knob: &str, value: &str| {
        let write = KnobWrite {
            device: Some(id(SDA)),
            knob: format!("backup.service:{knob}"),
            value: value.to_owned(),
        };
        let of_device = (knob == "io.max").then(|| device(SDA));
        let target = Target::group("backup.service", of_device).unwrap();
        scene.writer.write(
            write,
            vec![Change { knob: find(knob).unwrap(), target, value: value.to_owned() }],
        )
    };
    let reads =
        |file: &str| fs::read_to_string(tree.join(group).join(file)).unwrap().trim().to_owned();
    let high = format!("/{group}/memory.high");
    scene.files.stick(&high);
    write("memory.high", "268435456").unwrap();
    scene.inside(&high);
    write("io.max", "wbps=50000000").unwrap();
    assert_eq!(reads("io.max"), "8:0 rbps=max wbps=50000000 riops=max wiops=max");
    assert!(!scene.writer.is_changing(id(SDA)), "the queue is not being changed");
    scene.files.let_go(&high, None);
    scene.settle();
    let held = scene.writer.held();
    let owners = held.iter().map(|held| held.owner.clone().unwrap()).collect::<Vec<_>>();
    assert_eq!(owners, ["/backup.service/memory.high", "/backup.service/io.max"]);
    assert!(scene.writer.units_held().is_empty());
    let closed = scene.writer.give_back(LONG);
    assert!(closed.is_complete(), "{closed:?}");
    assert_eq!((reads("io.max").as_str(), reads("memory.high").as_str()), (unlimited, "max"));

    write("io.max", "wbps=60000000").unwrap();
    fs::remove_dir_all(tree.join(group)).unwrap();
    scene.writer.put_back_limits(&[Some("/backup.service/io.max".to_owned())]);
    scene.settle();
    assert_eq!((scene.writer.held(), scene.writer.take_events()), (vec![], vec![]));
    assert!(scene.writer.close(LONG).is_complete());
}
