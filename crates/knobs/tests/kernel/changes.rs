//! The kernel's treatment of written values.

use floodwall_host::SysRoot;
use floodwall_knobs::journal::{DiskStore, boot_id};
use floodwall_knobs::{
    Applied, ApplyError, Change, KernelFiles, Session, SystemClock, Undone, Who,
};
use floodwall_testing::equal;

use crate::Body;
use crate::disk::Disk;

pub(crate) const TESTS: &[(&str, Body)] = &[
    ("values_that_the_kernel_adjusts_are_told", adjusted),
    ("a_refused_value_puts_everything_back", refused),
    ("max_bytes_is_kept_as_a_share", max_bytes),
    ("another_disk_under_the_same_number_is_not_written", another_disk),
    ("throttling_follows_the_elevator_and_back", throttling),
];

pub(crate) fn session<T>(
    disk: &Disk,
    act: impl FnOnce(&Session<'_>, &SysRoot) -> T,
) -> Result<T, String> {
    let root = SysRoot::live().map_err(|e| e.to_string())?;
    let files = KernelFiles::new(&root).map_err(|e| e.to_string())?;
    let who = Who::this_process(&files);
    let store = DiskStore::open(&disk.journal(), &who.describe()).map_err(|e| e.to_string())?;
    let boot_id = boot_id(&files);
    Ok(act(&Session { files: &files, store: &store, clock: &SystemClock, who, boot_id }, &root))
}

pub(crate) fn apply(disk: &Disk, texts: &[&str]) -> Result<Result<Applied, ApplyError>, String> {
    session(disk, |session, root| {
        let changes: Vec<Change> = texts
            .iter()
            .map(|text| Change::parse(root, Some(&disk.device), text).unwrap())
            .collect();
        session.apply(&changes, "a test")
    })
}

pub(crate) fn rollback(disk: &Disk) -> Result<Vec<Undone>, String> {
    session(disk, |session, _| session.rollback(0))?
        .map(|(_, undone)| undone)
        .map_err(|e| e.to_string())
}

fn adjusted() -> Result<(), String> {
    let disk = Disk::new()?;
    let original = disk.all();
    let applied =
        apply(&disk, &["nr_requests=2", "read_ahead_kb=5"])?.map_err(|e| e.to_string())?;
    equal(applied.adjusted.len(), 2)?;
    equal(
        (disk.get("queue/nr_requests"), disk.get("queue/read_ahead_kb")),
        ("4".into(), "4".into()),
    )?;
    rollback(&disk)?;
    equal(disk.all(), original)
}

fn refused() -> Result<(), String> {
    let disk = Disk::new()?;
    let original = disk.all();
    let error = match apply(&disk, &["scheduler=bfq", "max_sectors_kb=64", "nr_requests=5000"])? {
        Ok(applied) => return Err(format!("{applied:?}")),
        Err(e) => e.to_string(),
    };
    equal(error.ends_with("everything is as before"), true)?;
    equal(disk.all(), original)
}

fn max_bytes() -> Result<(), String> {
    let disk = Disk::new()?;
    let original = disk.all();
    apply(&disk, &["bdi.max_bytes=100MiB", "bdi.strict_limit=1"])?.map_err(|e| e.to_string())?;
    let share: u64 = disk.get("bdi/max_ratio_fine").parse().map_err(|_| "no share".to_owned())?;
    // The kernel's own conversion back: the threshold moves with free memory, by far less than a
    // tenth in this time.
    let bytes: u64 = disk.get("bdi/max_bytes").parse().map_err(|_| "no bytes".to_owned())?;
    equal(share > 0 && bytes.abs_diff(100 << 20) < 10 << 20, true)?;
    rollback(&disk)?;
    equal(disk.all(), original)
}

fn another_disk() -> Result<(), String> {
    let mut disk = Disk::new()?;
    disk.set("queue/nr_requests", "64")?;
    apply(&disk, &["nr_requests=8"])?.map_err(|e| e.to_string())?;
    disk.attach_again()?;
    let undone = rollback(&disk)?;
    let told = undone.iter().map(ToString::to_string).collect::<String>();
    equal(told.contains("is another disk now") || told.contains("is gone"), true)?;
    equal(disk.get("queue/nr_requests"), "8".to_owned())
}

fn throttling() -> Result<(), String> {
    let disk = Disk::new()?;
    // Set by hand it would survive bfq; a loop device may come to us that way.
    let by_hand = {
        disk.set("queue/scheduler", "bfq")?;
        let by_hand = disk.get("queue/wbt_lat_usec") != "0";
        disk.set("queue/scheduler", "mq-deadline")?;
        by_hand
    };
    let original = disk.all();
    apply(&disk, &["scheduler=bfq"])?.map_err(|e| e.to_string())?;
    equal(disk.get("queue/wbt_lat_usec") == "0", !by_hand)?;
    // The same number as before: switched on all the same.
    apply(&disk, &["wbt_lat_usec=2000"])?.map_err(|e| e.to_string())?;
    equal(disk.get("queue/wbt_lat_usec"), "2000".to_owned())?;
    rollback(&disk)?;
    equal(disk.all(), original)
}
