//! Watching and windows on a fake clock; the output for each captured machine.

use std::cell::Cell;
use std::path::Path;

use floodwall_model::{DeviceId, LatencyCounts};
use floodwall_probe::{Call, DeviceUse, ProcessUse};
use floodwall_testing::tree::{copy, copy_host, host, put};

use super::*;
use crate::commands::cut::CLEAR;

/// Lines of a screen that holds every page.
const LINES: usize = 500;

/// Time passes only in waits; says stop after so many.
struct Fake<'a> {
    now: Cell<Duration>,
    waits_left: Cell<u32>,
    tree: &'a Path,
    /// Files that read differently once time has passed.
    later: Option<PathBuf>,
    /// What a probe saw.
    seen: Option<Snapshot>,
}

impl<'a> Fake<'a> {
    /// A machine whose files stay as they are, and no probe.
    fn new(tree: &'a Path, waits: u32) -> Self {
        Self { now: Cell::default(), waits_left: Cell::new(waits), tree, later: None, seen: None }
    }
}

impl Clock for Fake<'_> {
    fn now(&self) -> Duration {
        self.now.get()
    }

    fn wait(&self, time: Duration) -> bool {
        self.now.set(self.now.get() + time);
        let left = self.waits_left.get();
        self.waits_left.set(left.saturating_sub(1));
        if let Some(later) = &self.later {
            copy(later, self.tree, &|_| false).unwrap();
        }
        left > 0
    }

    fn now_unix_s(&self) -> u64 {
        1_700_000_000
    }

    fn seen(&self) -> Option<(Snapshot, Vec<String>)> {
        Some((self.seen.clone()?, Vec::new()))
    }
}

fn parsed(args: &[&str]) -> StatusArgs {
    #[derive(clap::Parser)]
    struct Wrapped {
        #[command(flatten)]
        args: StatusArgs,
    }
    <Wrapped as clap::Parser>::try_parse_from([&["status"], args].concat()).unwrap().args
}

/// What an empty tree shows.
fn shown(args: &[&str], waits: u32, terminal: bool) -> String {
    let dir = tempfile::tempdir().unwrap();
    let clock = Fake::new(dir.path(), waits);
    let height = terminal.then_some(LINES);
    let screen = Screen { height, style: Style::default(), is_root: false };
    output(args, &clock, screen)
}

/// What a captured machine shows after one second.
fn machine(name: &str, args: &[&str], is_root: bool) -> String {
    let dir = tempfile::tempdir().unwrap();
    copy_host(name, dir.path()).unwrap();
    let later = Some(host(name).join("later"));
    let clock = Fake { later, ..Fake::new(dir.path(), 1) };
    output(args, &clock, Screen { height: None, style: Style::default(), is_root })
}

fn output(args: &[&str], clock: &Fake<'_>, screen: Screen) -> String {
    let root = SysRoot::new(clock.tree).unwrap();
    let mut out = Vec::new();
    show(&parsed(args), &root, clock, &mut out, &|| screen).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn an_empty_tree_is_shown_as_unknown_not_as_zero() {
    let text = shown(&[], 9, true);
    assert!(text.contains("?[1]") && text.contains("/proc/meminfo does not exist"), "{text}");
    assert!(!text.contains(CLEAR));
}

#[test]
fn watching_redraws_on_a_terminal_and_appends_elsewhere() {
    assert_eq!(shown(&["--watch", "2s"], 3, true).matches(CLEAR).count(), 3);
    let file = shown(&["--watch", "2s"], 3, false);
    assert_eq!((file.matches(CLEAR).count(), file.matches("machine").count()), (0, 3));
}

#[test]
fn json_is_one_document_or_one_a_line() {
    let one: serde_json::Value =
        serde_json::from_str(&shown(&["--json", "--seconds", "0.5"], 9, false)).unwrap();
    assert_eq!(one["schema"], "floodwall/status/1");
    assert_eq!(one["window_s"], 0.5);
    assert!(one["machine"]["ram_bytes"]["absent"].is_string());
    let many = shown(&["--json", "--watch", "2s"], 3, false);
    let windows: Vec<f64> = many
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["window_s"].as_f64().unwrap()
        })
        .collect();
    assert_eq!(windows, [1.0, 2.0, 2.0]);
}

#[test]
fn windows_have_units_and_limits() {
    assert_eq!(seconds("2"), Ok(Duration::from_secs(2)));
    assert!(window("2").is_err(), "only the option that is called so takes bare seconds");
    assert_eq!(window("250ms"), Ok(Duration::from_millis(250)));
    for wrong in ["0", "2 fortnights", "-1", "2h", "nan"] {
        assert!(window(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn no_line_is_wider_than_a_hundred_columns() {
    for name in ["vm-virtio-ext4", "server-md-crypt-lvm", "container-overlay"] {
        for line in machine(name, &[], false).lines() {
            assert!(line.chars().count() <= 100, "{name}: {line}");
        }
    }
}

#[test]
fn the_mark_alone_is_coloured_and_only_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    copy_host("server-md-crypt-lvm", dir.path()).unwrap();
    let clock = |later| Fake { later, ..Fake::new(dir.path(), 1) };
    let style = Style { color: true, ..Style::default() };
    let coloured = output(&[], &clock(None), Screen { height: Some(LINES), style, is_root: true });
    // Much waits, and at the kernel's estimate for long.
    assert!(coloured.contains("\u{1b}[31m!!\u{1b}[0m  dm-1"), "{coloured}");
    let plain = output(
        &[],
        &clock(None),
        Screen { height: Some(LINES), style: Style::default(), is_root: true },
    );
    assert!(!plain.contains('\u{1b}'));
    let bare = ["31", "33", "0"]
        .iter()
        .fold(coloured, |text, code| text.replace(&format!("\u{1b}[{code}m"), ""));
    assert_eq!(bare, plain);
}

#[test]
fn documents_of_the_captured_machines() {
    for name in ["vm-virtio-ext4", "server-md-crypt-lvm", "container-overlay"] {
        insta::assert_snapshot!(name, machine(name, &["--json"], name != "container-overlay"));
    }
}

/// A process of Floodwall's that looks on.
const GUARD: u32 = 4711;

/// What a probe saw: postgres waits for a disk that rsync floods, beside a guard.
fn flood() -> Snapshot {
    let device = Some(DeviceId { major: 253, minor: 1 });
    let waits = LatencyCounts::from_values([400_000_000]);
    let postgres = ProcessUse {
        pid: 812,
        name: "postgres".into(),
        device,
        calls: [(Call::Fsync, waits)].into(),
        waiting: 1,
        // Longer than the window.
        oldest: Duration::from_secs(5),
        ..ProcessUse::default()
    };
    let dirtied_bytes = Some(118_000_000);
    let rsync = ProcessUse {
        pid: 2441,
        name: "rsync".into(),
        device,
        dirtied_bytes,
        ..ProcessUse::default()
    };
    let guard = ProcessUse { pid: GUARD, name: "floodwall".into(), device, ..rsync.clone() };
    let disk = DeviceUse {
        id: DeviceId { major: 253, minor: 1 },
        name: "dm-1".into(),
        counters: None,
        requests: None,
    };
    Snapshot {
        at: Duration::from_secs(1),
        window: Duration::from_secs(1),
        attached: Duration::from_secs(1),
        sampled_by: None,
        source: SourceKind::Perf,
        lost_events: 0,
        folded_operations: 0,
        unwatched_threads: 0,
        pressure: None,
        devices: vec![disk],
        processes: vec![postgres, rsync, guard],
    }
}

/// What the server shows on a screen while [`flood`] is seen.
fn flooded(args: &[&str], height: Option<usize>, style: Style) -> String {
    let dir = tempfile::tempdir().unwrap();
    copy_host("server-md-crypt-lvm", dir.path()).unwrap();
    let put = |folder: &str, file: &str, text: &str| {
        put(&dir.path().join(folder).join(file), text);
    };
    put("sys/fs/cgroup", "cgroup.controllers", "cpu io memory\n");
    for process in ["proc/812", "proc/2441"] {
        put(process, "cgroup", "0::/system.slice/postgresql.service\n");
    }
    put(&format!("proc/{GUARD}"), "cmdline", "/usr/bin/floodwall\0guard\0");
    let later = Some(host("server-md-crypt-lvm").join("later"));
    let clock = Fake { later, seen: Some(flood()), ..Fake::new(dir.path(), 1) };
    output(args, &clock, Screen { height, style, is_root: true })
}

#[test]
fn a_flood_in_the_group_of_who_waits_is_found() {
    let text = flooded(&["--json"], None, Style::default());
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let findings = document["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["id"] == "FW046").unwrap();
    insta::assert_snapshot!(found["evidence"][0].as_str().unwrap(), @"threads of postgres (812) \
        waited 1.40 s for dm-1 within 1.00 s; rsync (2441) dirties 118 MB/s, and both are in \
        /system.slice/postgresql.service");
}

#[test]
fn who_waits_and_who_writes_is_in_the_document_without_floodwall_itself() {
    let text = flooded(&["--json"], None, Style::default());
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let [waiter] = document["waiters"].as_array().unwrap().as_slice() else { panic!("{text}") };
    assert_eq!((&waiter["pid"], &waiter["device"]), (&812.into(), &"dm-1".into()));
    // 400 ms have ended, and a second of what is under way lies in the window.
    assert_eq!((&waiter["waited_us"], &waiter["waited_percent"]), (&1.4e6.into(), &100.0.into()));
    let [writer] = document["writers"]["top"].as_array().unwrap().as_slice() else {
        panic!("{text}")
    };
    assert_eq!((&writer["pid"], &writer["device"]), (&2441.into(), &"dm-1".into()));
    assert_eq!(writer["throttled_percent"], 0.0);
}

#[test]
fn a_flood_on_screens_of_all_widths() {
    for width in [80, 100, 160] {
        let page = flooded(&[], None, Style { color: false, width });
        let longest = page.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(width), "{width}: {page}");
    }
    // A wider screen has nothing more to show.
    let page = |width| flooded(&[], None, Style { color: false, width });
    assert_eq!(page(160), page(100));
    insta::assert_snapshot!("flood-100", page(100));
    let page = flooded(&[], None, Style { color: true, width: 80 });
    let page = ascii::ascii(&page);
    assert!(page.is_ascii(), "{page}");
    insta::assert_snapshot!("flood-80-ascii-colour", page);
}

#[test]
fn what_is_watched_stays_on_the_screen() {
    let page = flooded(&["--watch", "2s"], Some(24), Style { color: false, width: 80 });
    let lines: Vec<&str> = page.trim_start_matches(CLEAR).lines().collect();
    assert_eq!(lines.len(), 24, "{page}");
    assert!(lines[0].starts_with("postgres") && lines[23].ends_with("do not fit on the screen"));
    // Only once it is over the shell gets a new line.
    assert_eq!(page.matches('\n').count(), 24, "{page}");
    assert!(page.ends_with('\n'));
}

#[test]
fn a_captured_machine() {
    insta::assert_snapshot!(machine("vm-virtio-ext4", &[], true), @"
machine    Linux 6.18.44, up 54 min 38 s, 23.5 GiB of RAM, cgroup v2
now        1.23 GiB dirty, 0 B under writeback
limits     hard 2.56 GiB (vm.dirty_ratio = 20 %): writers stop; background 1.28 GiB
           (vm.dirty_background_ratio = 10 %): the flusher starts
age        dirty data is due after 30.0 s, looked for every 5.00 s
pressure   in the last 10 s some task waited for I/O 0.39 % of the time, every task 0 %

in the last 1.00 s (one process could not be looked at)
  who waited: ?[1]
  WHO WRITES                   DEVICE   dirtied  throttled
  dd (7233)                    ?[1]    209 MB/s       ?[1]
  kworker/u8:3-events_unbound  ?[1]    164 kB/s       ?[1]
  (6841)

devices
  vda  disk, 256 GiB: / (ext4)

   DEVICE    DIRTY  WRITEBACK    WRITES  DRAINS AT  DRAINED IN  HARD LIMIT  BACKGROUND
                                                                        IN          IN
!  vda     1.33 GB        0 B  228 MB/s  ~150 MB/s      8.84 s      18.3 s      9.13 s
  ! takes over 1 s to drain, !! over 10 s or does not drain at all: an fsync may take as long
  ~ the kernel's estimate, may be old

  DEVICE  SCHEDULER    REQUESTS  LARGEST      WBT  CACHE          SHARE  SHARE  STRICT
                                                                    NOW    MAX
  vda     mq-deadline       256    4 MiB  75.0 ms  write back  2.55 GiB  100 %  no

findings
  FW001 warning   the hard limit takes long to drain
                  vda: 2.56 GiB at 150 MB/s (the kernel's estimate) take 18.3 s
            try:  floodwall size --device vda --toml > limits.toml && floodwall apply limits.toml
  FW018 note      a full queue takes long to work off
                  vda: 256 requests of 4 MiB are 1 GiB, at 150 MB/s (the kernel's estimate) 7.15 s;
                  wbt keeps most of it out while reads are slow
            try:  floodwall fix / --tune
  FW021 note      the rotational flag can't be believed
                  vda: rotational=1 from a hypervisor's disk (driver virtio_blk), which says so of
                  any storage; wbt's target is 75000 µs because of it
            try:  floodwall apply vda.rotational=0 vda.wbt_lat_usec=2000   # if the storage is flash
  FW034 note      control groups can't hold buffered writes
                  cgroup.controllers of version 2 lacks memory and io
            try:  add systemd.unified_cgroup_hierarchy=1 to the kernel's command line, and reboot
  floodwall explain FW001 tells what it means and when to ignore it

[1]  absent: the kernel's tracepoints alone tell that
    ");
}

#[test]
fn a_server_with_a_stack_of_devices() {
    insta::assert_snapshot!(machine("server-md-crypt-lvm", &[], true), @"
machine    Linux 5.15.0-91-generic, up 100 days, 62.6 GiB of RAM, cgroup v2
now        6.88 GiB dirty, 264 MiB under writeback
limits     hard 12.4 GiB (vm.dirty_ratio = 20 %): writers stop; background 6.20 GiB
           (vm.dirty_background_ratio = 10 %): the flusher starts
age        dirty data is due after 30.0 s, looked for every 5.00 s
pressure   in the last 10 s some task waited for I/O 41 % of the time, every task 34 %

in the last 1.00 s
  who waited: ?[1]
  WHO WRITES      DEVICE    dirtied  taken back  throttled
  rsync (2441)    ?[1]     118 MB/s       0 B/s       ?[1]
  cp (2507)       ?[1]    61.0 MB/s   20.0 MB/s       ?[1]
  tar (3100)      ?[1]     410 kB/s       0 B/s       ?[1]
  postgres (812)  ?[1]    24.6 kB/s       0 B/s       ?[1]

devices
  sda             disk, Samsung SSD 870, 3.64 TiB: / (ext4 on sda2), /boot/efi (vfat on sda1)
  dm-1            lvm 'vg-srv', 2000 GiB: /srv (xfs), /srv/exports (xfs); dm-1 → dm-0 → md0 → sdb +
                  sdc
  dm-2            lvm 'vg-pg', 1000 GiB: /var/lib/postgresql (ext4); dm-2 → dm-0 → md0 → sdb + sdc
  btrfs-1         btrfs: /backup (btrfs); btrfs-1 → sdd + sde
  loop0           loop over /srv/images/build image.img, 20 GiB: /build (ext4); loop0 → dm-1 → dm-0
                  → md0 → sdb + sdc
  server:/exports/archive
                  nfs4: /mnt/archive copies (nfs4)

    DEVICE            DIRTY  WRITEBACK     WRITES   DRAINS AT  DRAINED IN  HARD LIMIT  BACKGROUND
                                                                                   IN          IN
    sda             1.52 MB        0 B   524 kB/s   ~215 MB/s     7.05 ms      62.0 s      31.0 s
!!  dm-1            6.42 GB     211 MB   126 MB/s    126 MB/s      52.7 s  1 min 46 s      52.9 s
    dm-2             184 kB        0 B  24.6 kB/s  ~98.3 MB/s     1.88 ms  2 min 16 s      67.8 s
    btrfs-1         2.10 MB        0 B      0 B/s        ?[2]        ?[2]        ?[2]        ?[2]
    loop0               0 B        0 B      0 B/s        ?[3]         0 s        ?[3]        ?[3]
!!  server:/export   944 MB    67.1 MB       ?[4]   41.9 MB/s      24.1 s  5 min 18 s  2 min 39 s
    s/archive
  ! takes over 1 s to drain, !! over 10 s or does not drain at all: an fsync may take as long
  ~ the kernel's estimate, may be old

  DEVICE          SCHEDULER    REQUESTS   LARGEST      WBT  CACHE          SHARE  SHARE  STRICT
                                                                             NOW    MAX
  sda             mq-deadline        64  1280 KiB  2.00 ms  write back  2.48 GiB  100 %  ?[5]
  dm-1            none              128  1280 KiB     ?[6]  write back   9728 MB  100 %  ?[5]
  dm-2            none              128  1280 KiB     ?[6]  write back   400 KiB  100 %  ?[5]
  btrfs-1         ?[7]             ?[7]      ?[7]     ?[7]  ?[7]         100 KiB  100 %  ?[5]
  loop0           none              128  1280 KiB  75.0 ms  write back       0 B  100 %  ?[5]
  server:/export  ?[8]             ?[8]      ?[8]     ?[8]  ?[8]         1536 MB  100 %  ?[5]
  s/archive
  sdb             mq-deadline        64  1280 KiB  75.0 ms  write back         -      -  -
  sdc             mq-deadline        64  1280 KiB  75.0 ms  write back         -      -  -
  sdd             mq-deadline        64  1280 KiB  75.0 ms  write back         -      -  -
  sde             mq-deadline        64  1280 KiB  75.0 ms  write back         -      -  -

not counted for any device above
  /var/lib/docker/overlay2/one/merged, /var/lib/docker/overlay2/two/merged (overlay): it is stacked
  on other directories: dirty pages belong to the filesystem below its upper one
  /var/lib/lxcfs (fuse.lxcfs): it is FUSE: writes go straight to its server process, or are held to
  1 % of the limits (fs/fuse/inode.c)

findings
  FW001 critical  the hard limit takes long to drain
                  server:/exports/archive: 12.4 GiB at 41.9 MB/s (seen during the window) take 5 min
                  18 s
                  dm-1: 12.4 GiB at 126 MB/s (seen during the window) take 1 min 46 s
                  dm-2: 12.4 GiB at 98.3 MB/s (the kernel's estimate) take 2 min 16 s
                  and 1 more
            try:  floodwall size --rate 138MB/s --toml > limits.toml && floodwall apply limits.toml
  FW012 warning   what is dirty now takes long to drain
                  dm-1: 6325 MiB wait at 126 MB/s (seen during the window): 52.7 s
                  server:/exports/archive: 964 MiB wait at 41.9 MB/s (seen during the window): 24.1
                  s
            try:  the same as for FW001
  FW013 warning   a slow device shares the limit with a fast one
                  server:/exports/archive drains 41.9 MB/s (seen during the window), sda 215 MB/s;
                  alone it may fill the 12.4 GiB that both share: 5 min 18 s
            try:  floodwall size --rate 0:51=41.9MB/s --toml > limits.toml && floodwall apply
                  limits.toml
  floodwall explain FW001 tells what it means and when to ignore it

[1]  absent: the kernel's tracepoints alone tell that
[2]  absent: it was not backlogged during the window, and the kernel has no estimate of it now
[3]  absent: it was not backlogged during the window, and the kernel has never measured it (its
     estimate is still the first guess, 100 MB/s)
[4]  absent: nfs4 has no block device
[5]  absent: the kernel has no strict_limit to set (it came with Linux 6.2)
[6]  absent: this queue has no wbt_lat_usec: no writeback throttling
[7]  absent: btrfs has no request queue of its own
[8]  absent: nfs4 has no request queue of its own
    ");
}

#[test]
fn a_container_without_privileges() {
    insta::assert_snapshot!(machine("container-overlay", &[], false), @"
machine    Linux 6.1.0-18-cloud-amd64, up 4 days, 7.64 GiB of RAM, cgroup v2
now        24 MiB dirty, 0 B under writeback
limits     hard ?[1] (vm.dirty_bytes = 256 MiB): writers stop; background ?[1]
           (vm.dirty_background_bytes = 64 MiB): the flusher starts
age        dirty data is due after 30.0 s, looked for every 5.00 s
pressure   in the last 10 s some task waited for I/O ?[2] of the time, every task ?[2]

in the last 1.00 s (one process could not be looked at)
  who waited: ?[3]
  WHO WRITES  DEVICE    dirtied  throttled
  app (7)     ?[3]    21.0 MB/s       ?[3]

devices
  nvme0n1  disk, Amazon Elastic Block Store, 466 GiB: /etc/resolv.conf (ext4 on nvme0n1p1),
           /etc/hosts (ext4 on nvme0n1p1), /data (ext4 on nvme0n1p1)
  259:9    xfs: /mnt/detached (xfs); not followed further: 259:9: absent: /sys/dev/block/259:9/dev
           does not exist

  DEVICE   DIRTY  WRITEBACK     WRITES  DRAINS AT  DRAINED IN  HARD LIMIT  BACKGROUND
                                                                       IN          IN
  nvme0n1   ?[4]       ?[4]  21.0 MB/s       ?[4]        ?[4]        ?[1]        ?[1]
  259:9     ?[5]       ?[5]       ?[6]       ?[5]        ?[5]        ?[1]        ?[1]

  DEVICE   SCHEDULER  REQUESTS  LARGEST   WBT  CACHE       SHARE  SHARE  STRICT
                                                             NOW    MAX
  nvme0n1  none           1023  512 KiB   off  write back   ?[4]  100 %  no
  259:9    ?[5]           ?[5]     ?[5]  ?[5]  ?[5]         ?[5]   ?[5]  ?[5]

not counted for any device above
  / (overlay): it is stacked on other directories: dirty pages belong to the filesystem below its
  upper one

findings
  FW035 note      pressure stall information is off
                  /proc/pressure/io does not exist, on 6.1.0-18-cloud-amd64
            try:  add psi=1 to the kernel's command line, and reboot
  floodwall explain FW035 tells what it means and when to ignore it

[1]  unreadable: /proc/vmstat: Is a directory (os error 21)
[2]  absent: /proc/pressure/io does not exist
[3]  absent: the kernel's tracepoints alone tell that
[4]  unreadable: /sys/kernel/debug/bdi/259:0/stats: Is a directory (os error 21); needs root
     (debugfs)
[5]  absent: /sys/dev/block/259:9/dev does not exist
[6]  absent: /proc/diskstats does not list 259:9

root would add: what is dirty for each device and how fast that drains; the writes of one more
                process
  ");
}
