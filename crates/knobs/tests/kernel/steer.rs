//! A process that steers and an administrator beside it, on the real kernel; and the state after a
//! new boot.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use floodwall_host::SysRoot;
use floodwall_knobs::journal::{Closing, DiskStore, Phase, boot_id, log};
use floodwall_knobs::{KernelFiles, Session, SystemClock, Who};
use floodwall_testing::disk::read;
use floodwall_testing::process::{Process, done, output, text, told};
use floodwall_testing::{ensure, equal, said, until};

use crate::child::HOLD;
use crate::disk::Disk;
use crate::kill::{disk, go_through, same, start};
use crate::{Body, CHILD};

pub(crate) const TESTS: &[(&str, Body)] = &[
    ("an_administrator_beside_a_process_that_steers", beside),
    ("a_process_that_steers_is_left_alone_until_it_is_dead", left_alone),
    ("a_new_boot_closes_a_hold_without_a_write", new_boot),
    ("a_process_that_steers_is_known_to_live_in_another_pid_namespace", from_elsewhere),
    ("a_process_that_steers_in_another_pid_namespace_is_known_to_live", elsewhere),
];

/// A process that holds some knobs by now.
fn holding(disk: &Disk) -> Result<Process, String> {
    is_holding(disk, start(disk, "never", &[HOLD]))
}

fn is_holding(disk: &Disk, mut process: Process) -> Result<Process, String> {
    process.says("stopped").map_err(said("it does not hold anything"))?;
    expect(disk, "queue/nr_requests", "16")?;
    expect(disk, "bdi/strict_limit", "1")?;
    Ok(process)
}

fn expect(disk: &Disk, knob: &str, value: &str) -> Result<(), String> {
    let found = disk.get(knob);
    ensure(found == value, || format!("{knob} reads {found}, not {value}"))
}

/// Has a process yield a knob.
fn yields(process: &mut Process, knob: &str) -> Result<(), String> {
    let stdin = process.0.stdin.as_mut().ok_or("no stdin")?;
    writeln!(stdin, "{knob}").map_err(|e| e.to_string())?;
    process.says("yielded").map_err(|e| format!("it does not yield {knob}: {e}"))
}

fn ends_well(mut process: Process) -> Result<(), String> {
    drop(process.0.stdin.take());
    let status = process.0.wait().map_err(|e| e.to_string())?;
    ensure(status.success(), "it could not put everything back")
}

fn beside() -> Result<(), String> {
    let disk = disk()?;
    let original = disk.all();
    go_through(&disk, &["max_sectors_kb=256"])?;
    let mut process = holding(&disk)?;
    ensure(go_through(&disk, &["nr_requests=64"]).is_err(), "it was not asked")?;
    expect(&disk, "queue/nr_requests", "16")?;
    yields(&mut process, "nr_requests")?;
    expect(&disk, "queue/nr_requests", "100")?;
    // One knob that was held, and one that was not.
    go_through(&disk, &["nr_requests=64", "nomerges=2"])?;
    expect(&disk, "queue/nr_requests", "64")?;
    expect(&disk, "queue/max_sectors_kb", "128")?;
    // By hand, past Floodwall.
    disk.set("bdi/max_ratio_fine", "123456")?;
    yields(&mut process, "max_sectors_kb")?;
    expect(&disk, "queue/max_sectors_kb", "256")?;
    go_through(&disk, &["rollback"])?;
    expect(&disk, "queue/nr_requests", "100")?;
    expect(&disk, "queue/max_sectors_kb", "512")?;
    ends_well(process)?;
    expect(&disk, "bdi/max_ratio_fine", "123456")?;
    disk.set("bdi/max_ratio_fine", "250000")?;
    same(&disk, &original, "all is over")
}

fn left_alone() -> Result<(), String> {
    let disk = disk()?;
    let original = disk.all();
    let mut process = holding(&disk)?;
    go_through(&disk, &["rollback"])?;
    expect(&disk, "queue/nr_requests", "16")?;
    process.0.kill().map_err(|e| e.to_string())?;
    // It is a zombie until its parent waits for it, so it counts as dead.
    let state = format!("/proc/{}/stat", process.0.id());
    let is_dead = || read(state.as_ref()).contains(") Z ");
    until(Duration::from_secs(10), "its death", is_dead)?;
    go_through(&disk, &["rollback"])?;
    same(&disk, &original, "its process is dead")?;
    drop(process);
    let process = holding(&disk)?;
    ends_well(process)?;
    same(&disk, &original, "it has ended")
}

/// A command that runs this binary in a new PID namespace with its own /proc.
fn in_namespace(disk: &Disk, what: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
        .arg(std::env::current_exe().unwrap())
        .args([CHILD, &disk.journal().to_string_lossy(), &disk.device.name, "never"])
        .args(what);
    command
}

fn is_refused(disk: &Disk, what: &str) -> Result<(), String> {
    let output = output(&mut in_namespace(disk, &[what]))?;
    let refused = text(&output.stderr).trim_end().ends_with("stop that first");
    ensure(!output.status.success() && refused, || format!("{what}: {}", told(&output)))
}

fn from_elsewhere() -> Result<(), String> {
    let disk = disk()?;
    let original = disk.all();
    let mut process = holding(&disk)?;
    let roll_back = || done(&mut in_namespace(&disk, &["rollback"])).map(drop);
    for what in ["nr_requests=64", HOLD] {
        is_refused(&disk, what)?;
    }
    roll_back()?;
    expect(&disk, "queue/nr_requests", "16")?;
    expect(&disk, "bdi/strict_limit", "1")?;
    process.0.kill().and_then(|()| process.0.wait()).map_err(|e| e.to_string())?;
    roll_back()?;
    same(&disk, &original, "its process is dead")
}

fn elsewhere() -> Result<(), String> {
    let disk = disk()?;
    let original = disk.all();
    let child = in_namespace(&disk, &[HOLD]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let process = is_holding(&disk, Process(child.map_err(|e| e.to_string())?))?;
    go_through(&disk, &["rollback"])?;
    expect(&disk, "queue/nr_requests", "16")?;
    // Another container sees neither of them.
    is_refused(&disk, "nr_requests=64")?;
    // Its namespace ends with it, a moment after the process that made it.
    drop(process);
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let rolled_back = go_through(&disk, &["rollback"]);
        // Its stdin was closed a moment before: it may have begun to put things back itself.
        match rolled_back.and_then(|()| same(&disk, &original, "its namespace is gone")) {
            Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
            other => return other,
        }
    }
}

fn new_boot() -> Result<(), String> {
    let disk = disk()?;
    let mut process = holding(&disk)?;
    process.0.kill().and_then(|()| process.0.wait()).map_err(|e| e.to_string())?;
    let left = disk.all();
    let root = SysRoot::live().map_err(|e| e.to_string())?;
    let files = KernelFiles::new(&root).map_err(|e| e.to_string())?;
    let who = Who::this_process(&files);
    let journal = disk.journal();
    let store = DiskStore::open(Path::new(&journal), "test").map_err(|e| e.to_string())?;
    let boot_id = format!("not {}", boot_id(&files));
    let session = Session { files: &files, store: &store, clock: &SystemClock, who, boot_id };
    let recovery = session.recover().map_err(|e| e.to_string())?;
    let only_closed = recovery.earlier_boots == [1] && recovery.undone.is_empty();
    ensure(only_closed, || format!("{recovery:?}"))?;
    same(&disk, &left, "a new boot has its own values")?;
    let logged = log(&store).map_err(|e| e.to_string())?;
    let phase = logged.first().and_then(|one| one.transaction.as_ref().ok()).map(|t| t.phase());
    equal(phase, Some(Phase::Closed(Closing::EarlierBoot)))
}
