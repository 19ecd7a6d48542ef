//! What people read, for each verdict.

use floodwall_model::diagnosis::{Disk, Flood, Outlook, Process, Victim, Wait, Whole, Written};
use floodwall_model::status::{Drain, DrainSource};
use floodwall_model::workload::Workload;
use floodwall_model::{DeviceId, Reading};

use super::*;

const GIB: u64 = 1 << 30;

fn process(pid: u32, name: &str, unit: &str) -> Process {
    let unit = (!unit.is_empty()).then(|| unit.to_owned());
    Process { pid, name: name.to_owned(), workload: Workload { unit, ..Workload::default() } }
}

fn drain(rate: f64, from: DrainSource, waiting: u64) -> Drain {
    Drain {
        rate_bytes_per_s: Reading::Value(rate),
        from,
        now_s: Reading::Value(waiting as f64 / rate),
        hard_limit_s: Reading::Value(39.0),
        background_limit_s: Reading::Value(19.5),
    }
}

fn unmeasured() -> Drain {
    let why = "it was not backlogged during the window, and the kernel has never measured it (its \
        estimate is still the first guess, 100 MB/s)";
    let absent = || Reading::Absent(why.to_owned());
    Drain {
        rate_bytes_per_s: absent(),
        from: DrainSource::Unknown,
        now_s: absent(),
        hard_limit_s: absent(),
        background_limit_s: absent(),
    }
}

fn flood() -> Flood {
    Flood {
        process: process(4810, "cp", "backup.service"),
        dirtied_bytes_per_s: 193e6,
        earlier_bytes: None,
    }
}

fn victim(median_s: Option<f64>, oldest_s: f64) -> Victim {
    let process = process(4711, "postgres", "postgresql.service");
    Victim { process, waits_for: Wait::Commits, median_s, oldest_s }
}

fn disk() -> Disk {
    let waiting = 16 * GIB / 5;
    Disk {
        verdict: Verdict::Stalling,
        name: "sda".to_owned(),
        id: DeviceId { major: 8, minor: 0 },
        mounts: vec!["/var/lib/postgresql".to_owned()],
        backlog_bytes: Reading::Value(waiting),
        is_backlogged: true,
        drain: drain(121e6, DrainSource::Seen, waiting),
        victims: vec![victim(Some(0.457), 0.3)],
        floods: vec![flood()],
    }
}

fn action(what: &str, command: &str, price: &str) -> Action {
    let command = (!command.is_empty()).then(|| command.to_owned());
    let price = price.to_owned();
    Action { what: what.to_owned(), command, settings: Vec::new(), gain: None, price }
}

/// A machine with these disks, the first the worst.
fn diagnosis(disks: Vec<Disk>) -> Diagnosis {
    let verdict = disks.first().map_or(Verdict::Quiet, |disk| disk.verdict);
    Diagnosis {
        verdict,
        window_s: 2.0,
        source: "bpf",
        about: None,
        disks,
        outlook: Some(Outlook {
            name: "sda".to_owned(),
            limit_bytes: 47 * GIB / 10,
            drain: drain(121e6, DrainSource::KernelEstimate, 0),
            limit_s: Reading::Value(41.7),
        }),
        machine: Whole {
            backlog_bytes: Reading::Value(16 * GIB / 5),
            waited_percent: Reading::Value(87.4),
            written: vec![Written { name: "sda".to_owned(), bytes_per_s: 121e6 }],
        },
        actions: Vec::new(),
        actions_need_root: false,
        unseen: Vec::new(),
        root_would_add: Vec::new(),
    }
}

fn stalling() -> Diagnosis {
    let mut diagnosis = diagnosis(vec![disk()]);
    let pace = action(
        "pace backup.service",
        "floodwall apply --for 10m unit:backup.service:sda.io.max=wbps=60.5MB \
         unit:backup.service:memory.high=238MiB",
        "backup.service, with all its processes, writes at most 60.5 MB/s (half of what sda \
         drains), and is slowed where it needs more memory",
    );
    diagnosis.actions = vec![
        Action {
            settings: vec!["unit:backup.service:memory.high=238MiB".to_owned()],
            gain: Some("half of the disk is free for others".to_owned()),
            ..pace
        },
        action("do nothing", "", "it lasts as long as the flood does, and 28.4 s longer"),
    ];
    diagnosis
}

/// The text, which has no character beyond ASCII and no line that is too long.
fn shown(diagnosis: &Diagnosis, width: usize) -> String {
    let text = text(diagnosis, Style { color: false, width });
    assert!(text.is_ascii(), "{text}");
    assert!(text.lines().all(|line| line.len() <= width), "{text}");
    text
}

#[test]
fn a_stall_and_what_can_be_done() {
    insta::assert_snapshot!("stalling_80", shown(&stalling(), 80));
    insta::assert_snapshot!("stalling_100", shown(&stalling(), 100));
}

#[test]
fn a_document_for_programs() {
    insta::assert_snapshot!("stalling_json", json(&stalling()).unwrap());
}

#[test]
fn several_victims_floods_and_disks() {
    let mut first = disk();
    first.victims = vec![victim(Some(0.2), 1.4), victim(None, 0.9), victim(None, 0.2)];
    let process = process(1, "rsync", "");
    let other = Flood { process, dirtied_bytes_per_s: 20e6, earlier_bytes: None };
    first.floods = vec![flood(), other.clone()];
    first.mounts = ["/", "/home", "/srv"].map(str::to_owned).to_vec();
    let second = Disk {
        verdict: Verdict::Flooding,
        name: "sdb".to_owned(),
        victims: Vec::new(),
        floods: vec![other],
        ..disk()
    };
    insta::assert_snapshot!(shown(&diagnosis(vec![first, second]), 80), @"
    postgres (pid 4711, postgresql.service) waits 200 ms for its commits, and now
    for one for 1.40 s or longer, on sda (/, /home, ...), because cp (pid 4810,
    backup.service) dirties 193 MB/s, rsync (pid 1) dirties 20.0 MB/s, and sda
    drains 121 MB/s: 3.44 GB are waiting, 28.4 s worth. 2 more processes wait, too.

    Also: rsync (pid 1) dirties 20.0 MB/s on sdb (/var/lib/postgresql).
    ");
}

#[test]
fn a_commit_that_has_not_ended() {
    let mut stuck = disk();
    stuck.victims = vec![victim(None, 2.3)];
    insta::assert_snapshot!(shown(&diagnosis(vec![stuck]), 80), @"
    postgres (pid 4711, postgresql.service) has waited 2.30 s or longer for a commit
    on sda (/var/lib/postgresql), because cp (pid 4810, backup.service) dirties 193
    MB/s and sda drains 121 MB/s: 3.44 GB are waiting, 28.4 s worth.
    ");
}

#[test]
fn a_process_with_threads_that_flood() {
    let mut own = disk();
    own.floods[0].process = own.victims[0].process.clone();
    let said = shown(&diagnosis(vec![own]), 100).replace('\n', " ");
    assert!(said.contains("because other threads of it dirty 193 MB/s and sda drains"), "{said}");
}

#[test]
fn what_was_written_earlier() {
    let earlier = Disk { floods: Vec::new(), ..disk() };
    insta::assert_snapshot!(shown(&diagnosis(vec![earlier]), 80), @"
    postgres (pid 4711, postgresql.service) waits 457 ms for its commits on sda
    (/var/lib/postgresql), because of what was written earlier: 3.44 GB are waiting,
    28.4 s worth, and sda drains 121 MB/s. Who wrote it was not seen.
    ");
    // Nothing was written in the look: how long it takes is not known.
    let mut stuck = Disk { floods: Vec::new(), ..disk() };
    stuck.drain.rate_bytes_per_s = Reading::Value(0.0);
    stuck.drain.now_s = Reading::Absent("nothing was written during the window".into());
    let said = shown(&diagnosis(vec![stuck]), 100).replace('\n', " ");
    assert!(said.contains("earlier: 3.44 GB are waiting, and sda drains 0 B/s."), "{said}");
}

#[test]
fn a_flood_that_waits_for_its_own_data_is_told_by_what_it_wrote() {
    let mut own = disk();
    own.floods[0].earlier_bytes = Some(1_073_741_824);
    let said = shown(&diagnosis(vec![own]), 200).replace('\n', " ");
    let part = "because cp (pid 4810, backup.service) wrote 1.07 GB and sda drains 121 MB/s";
    assert!(said.contains(part), "{said}");
}

#[test]
fn a_backlog_alone() {
    let verdict = Verdict::Flooding;
    let alone = Disk { verdict, victims: Vec::new(), floods: Vec::new(), ..disk() };
    let told = Diagnosis { verdict, ..diagnosis(vec![alone]) };
    insta::assert_snapshot!(sentences::paragraph(&told), @"Nothing waits long for sda \
        (/var/lib/postgresql) now, and nothing floods it, but 3.44 GB are waiting, 28.4 s worth: \
        sda drains 121 MB/s. Who wrote it was not seen. A commit there may have to wait up to 28.4 \
        s.");
}

#[test]
fn a_wait_without_a_flood() {
    let mut alone = Disk { floods: Vec::new(), ..disk() };
    (alone.backlog_bytes, alone.is_backlogged) = (Reading::Value(0), false);
    alone.drain.now_s = Reading::Value(0.0);
    insta::assert_snapshot!(shown(&diagnosis(vec![alone.clone()]), 80), @"
    postgres (pid 4711, postgresql.service) waits 457 ms for its commits on sda
    (/var/lib/postgresql), and no flood of buffered writes is the cause: 0 B are
    waiting. The disk itself is slow, or busy with reads or direct writes.
    ");
    // The kernel's estimate can't show that there is no flood.
    (alone.backlog_bytes, alone.drain) =
        (Reading::Value(44_300_000), drain(100e6, DrainSource::KernelEstimate, 44_300_000));
    insta::assert_snapshot!(shown(&diagnosis(vec![alone.clone()]), 80), @"
    postgres (pid 4711, postgresql.service) waits 457 ms for its commits on sda
    (/var/lib/postgresql). Nothing was seen to flood it in this look. 44.3 MB are
    waiting, and sda drains about 100 MB/s (the kernel's estimate from earlier
    writes). Whether they are the cause is not known.
    ");
    // Nobody knows how much is waiting.
    alone.backlog_bytes = Reading::Absent("no mounted filesystem is on it".into());
    alone.mounts.clear();
    insta::assert_snapshot!(shown(&diagnosis(vec![alone]), 80), @"
    postgres (pid 4711, postgresql.service) waits 457 ms for its commits on sda.
    Nothing was seen to dirty much for it, and how much is waiting is not known. The
    disk is slow, busy with reads or direct writes, or flooded by a program that was
    not seen.
    ");
}

#[test]
fn a_flood_alone() {
    let alone = Disk { verdict: Verdict::Flooding, victims: Vec::new(), ..disk() };
    insta::assert_snapshot!(shown(&diagnosis(vec![alone.clone()]), 80), @"
    cp (pid 4810, backup.service) dirties 193 MB/s on sda (/var/lib/postgresql), and
    sda drains 121 MB/s: 3.44 GB are waiting, 28.4 s worth. Nothing waits long for
    it now. A commit there may have to wait up to 28.4 s.
    ");
    let unknown = Disk { drain: unmeasured(), ..alone };
    insta::assert_snapshot!(shown(&diagnosis(vec![unknown]), 80), @"
    cp (pid 4810, backup.service) dirties 193 MB/s on sda (/var/lib/postgresql), and
    how fast sda drains is not known (sda was never seen busy): 3.44 GB are waiting.
    Nothing waits long for it now.
    ");
}

#[test]
fn nothing_is_wrong() {
    let mut quiet = diagnosis(Vec::new());
    quiet.actions =
        vec![action("run the guard, for when a flood comes", "floodwall guard", "none")];
    insta::assert_snapshot!(shown(&quiet, 80), @"
    In 2.00 s no process waited long for a disk, and no disk was written to faster
    than it drains. If a flood came, 5.05 GB could wait to be written to sda. How
    long that takes was not seen: sda drains about 121 MB/s (the kernel's estimate
    from earlier writes).

    What can be done:
      run the guard, for when a flood comes
          floodwall guard
          price: none
    ");
    quiet.actions.clear();
    quiet.about = Some("/srv".to_owned());
    quiet.outlook = quiet.outlook.map(|outlook| Outlook {
        drain: unmeasured(),
        limit_s: Reading::Absent(String::new()),
        ..outlook
    });
    insta::assert_snapshot!(shown(&quiet, 80), @"
    In 2.00 s no process waited long for a disk or flooded one. This is about /srv
    alone. If a flood came, 5.05 GB could wait to be written to sda. How long that
    takes is not known: sda was never seen busy.
    ");
}

#[test]
fn without_root() {
    let mut blind =
        diagnosis(vec![Disk { verdict: Verdict::Flooding, victims: Vec::new(), ..disk() }]);
    blind.verdict = Verdict::Unknown;
    blind.source = "proc";
    blind.unseen = vec!["that needs root".to_owned()];
    blind.root_would_add = vec!["who waits for a disk, and how long".to_owned()];
    insta::assert_snapshot!(shown(&blind, 80), @"
    It can't be told who waits for a disk: that needs root. /proc tells: 3.44 GB are
    dirty or under writeback on the machine; some process waited for I/O 87 % of
    2.00 s; sda writes 121 MB/s; cp (pid 4810, backup.service) dirties 193 MB/s on
    sda (/var/lib/postgresql).

    Root would add: who waits for a disk, and how long.
    ");
}

#[test]
fn a_flood_that_the_disk_keeps_up_with_is_no_cause() {
    let mut disk = disk();
    disk.floods[0].dirtied_bytes_per_s = 31e6;
    (disk.backlog_bytes, disk.is_backlogged) = (Reading::Value(0), false);
    disk.drain.now_s = Reading::Value(0.0);
    let said = shown(&diagnosis(vec![disk]), 100).replace('\n', " ");
    assert!(said.contains("while cp (pid 4810, backup.service) dirties 31.0 MB/s and"), "{said}");
    assert!(!said.contains("because"), "{said}");
}

#[test]
fn a_container_and_a_pod_are_named_before_their_scope() {
    let mut disk = disk();
    let scope = |name: &str| Some(format!("{name}-0123.scope"));
    disk.victims[0].process.workload = Workload {
        unit: scope("cri-containerd"),
        container: Some("db".to_owned()),
        pod: Some("shop/web-0".to_owned()),
    };
    let container = Some("nightly".to_owned());
    disk.floods[0].process.workload = Workload { unit: scope("docker"), container, pod: None };
    let diagnosis = diagnosis(vec![disk]);
    let said = shown(&diagnosis, 100).replace('\n', " ");
    assert!(said.contains("postgres (pid 4711, shop/web-0:db) waits 457 ms"), "{said}");
    assert!(said.contains("because cp (pid 4810, nightly) dirties"), "{said}");
    let written: serde_json::Value = serde_json::to_value(&diagnosis.disks[0].victims[0]).unwrap();
    let part = |name: &str| written[name].as_str();
    assert_eq!(part("unit"), Some("cri-containerd-0123.scope"));
    assert_eq!((part("container"), part("pod")), (Some("db"), Some("shop/web-0")));
}

#[test]
fn a_command_can_be_copied_whatever_its_length() {
    let scope =
        format!("unit:docker-{}.scope:sda.io.max=wbps=60.5MB", "0123456789abcdef".repeat(4));
    let command = format!("floodwall apply --for 10m {scope} 'a b.service:memory.high=238MiB'");
    let mut diagnosis = stalling();
    diagnosis.actions = vec![action("pace it", &command, "none")];
    for width in [40, 80, 100] {
        let text = text(&diagnosis, Style { color: false, width });
        let joined = text.replace(" \\\n      ", " ");
        assert!(joined.contains(&format!("\n      {command}\n")), "{text}");
    }
}

#[test]
fn only_the_first_name_is_coloured_and_names_do_nothing_to_a_terminal() {
    let mut diagnosis = stalling();
    let style = Style { color: true, width: 80 };
    let coloured = text(&diagnosis, style);
    assert!(coloured.starts_with("\u{1b}[31mpostgres\u{1b}[0m (pid 4711"), "{coloured}");
    assert_eq!(coloured.matches('\u{1b}').count(), 2);
    diagnosis.disks[0].victims[0].process.name = "\u{1b}[2J".to_owned();
    assert!(!text(&diagnosis, Style { color: false, width: 80 }).contains('\u{1b}'));
}

#[test]
fn a_guess_is_shown_without_its_command_and_end() {
    let diagnosis = stalling();
    insta::assert_snapshot!(guess(&diagnosis.actions[0], Style { color: false, width: 80 }), @"
    First guess: pace backup.service
          gain: half of the disk is free for others
          price: backup.service, with all its processes, writes at most 60.5 MB/s
          (half of what sda drains), and is slowed where it needs more memory
    ");
    let listed = actions(&diagnosis.actions, Style { color: false, width: 80 });
    assert!(listed.contains("floodwall apply") && listed.contains("after ten minutes"), "{listed}");
    assert_eq!(listed.matches("after ten minutes").count(), 1, "doing nothing is not undone");
}

#[test]
fn what_a_change_gained_is_told_by_what_was_seen() {
    let told = |before: &Disk, wait: Option<f64>, after: Option<&Drain>| {
        gained(before, wait, after, Style { color: false, width: 95 })
    };
    let before = disk();
    let after = drain(66.6e6, DrainSource::Seen, 0);
    insta::assert_snapshot!(told(&before, Some(0.0427), Some(&after)), @"
    postgres (pid 4711, postgresql.service) waited 457 ms for its commits before, and 42.7 ms now.
    sda drained 121 MB/s before, and drains 66.6 MB/s now.
    ");
    let ended = told(&before, None, Some(&drain(66.6e6, DrainSource::KernelEstimate, 0)));
    insta::assert_snapshot!(ended, @"
    postgres (pid 4711, postgresql.service) waited 457 ms for its commits before, and waits for
    none now.
    ");
    let nobody = Disk { victims: Vec::new(), ..before };
    assert_eq!(told(&nobody, None, None), "");
}
