//! Counters of made-up processes.

use std::fs;
use std::io::Write;
use std::path::Path;

use floodwall_host::task::MOST_THREADS;

use super::*;

fn put(dir: &Path, path: &str, text: &str) {
    let path = dir.join(path);
    fs::DirBuilder::new().recursive(true).create(path.parent().unwrap()).unwrap();
    let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    // Cutting a file makes ext4 write it out when it is closed.
    if file.metadata().unwrap().len() > 0 {
        file.set_len(0).unwrap();
    }
    file.write_all(text.as_bytes()).unwrap();
}

fn process(dir: &Path, pid: u32, flags: u64, written: u64) {
    child(dir, pid, 1, flags, written);
}

fn child(dir: &Path, pid: u32, parent: u32, flags: u64, written: u64) {
    stat(dir, pid, parent, flags, 0);
    put(dir, &format!("proc/{pid}/comm"), "x\n");
    self::written(dir, pid, written);
}

fn stat(dir: &Path, pid: u32, parent: u32, flags: u64, children_faults: u64) {
    let text = format!("{pid} (a) b) R {parent} 1 1 0 -1 {flags} 5 {children_faults} 0 0\n");
    put(dir, &format!("proc/{pid}/stat"), &text);
}

fn written(dir: &Path, pid: u32, written: u64) {
    put(dir, &format!("proc/{pid}/io"), &io(written));
}

fn io(written: u64) -> String {
    format!("rchar: 9\nwchar: 7\nread_bytes: 1\nwrite_bytes: {written}\ncancelled_write_bytes: 3\n")
}

/// A parent has waited for a child; its own threads have written this by now, in all and each.
fn waited(dir: &Path, pid: u32, parent: u32, children_faults: u64, all: u64, threads: &[u64]) {
    stat(dir, pid, parent, 0, children_faults);
    written(dir, pid, all);
    for (thread, written) in threads.iter().enumerate() {
        put(dir, &format!("proc/{pid}/task/{}/io", pid as usize + thread), &io(*written));
    }
}

fn gone(dir: &Path, pid: u32) {
    fs::remove_dir_all(dir.join(format!("proc/{pid}"))).unwrap();
}

fn sorted(bytes: &HashMap<u32, u64, Fast>) -> Vec<(u32, u64)> {
    let mut all: Vec<_> = bytes.iter().map(|(pid, bytes)| (*pid, *bytes)).collect();
    all.sort_unstable();
    all
}

/// The bytes that processes dirtied; no bytes are inherited from an unseen child.
fn seen(writers: &mut Writers, root: &SysRoot, also: &[u32]) -> Vec<(u32, u64)> {
    let seen = writers.look(root, also);
    assert_eq!(sorted(&seen.inherited), []);
    sorted(&seen.by_process)
}

#[test]
fn growth_counts_newcomers_count_whole_and_kernel_threads_not() {
    let dir = tempfile::tempdir().unwrap();
    let root = SysRoot::new(dir.path()).unwrap();
    process(dir.path(), 10, 0x40_0000, 5000);
    process(dir.path(), 11, KERNEL_THREAD | 0x40, 5000);
    let mut writers = Writers::default();
    assert_eq!(seen(&mut writers, &root, &[]), []);
    process(dir.path(), 10, 0x40_0000, 9000);
    process(dir.path(), 11, KERNEL_THREAD | 0x40, 9000);
    process(dir.path(), 12, 0, 700);
    assert_eq!(seen(&mut writers, &root, &[]), [(10, 4000), (12, 700)]);
    // 10 ended, and its number was given again.
    process(dir.path(), 10, 0, 100);
    fs::remove_dir_all(dir.path().join("proc/12")).unwrap();
    assert_eq!(seen(&mut writers, &root, &[]), [(10, 100)]);
    assert_eq!(writers.missing(), None);
    assert_eq!(writers.known.len(), 2);
}

#[test]
fn a_child_keeps_what_its_parent_inherits() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let root = SysRoot::new(dir).unwrap();
    // The first process, a shell of it, a shell of that, and the command that it runs.
    process(dir, 1, 0, 0);
    process(dir, 10, 0, 100);
    child(dir, 11, 10, 0, 0);
    child(dir, 12, 11, 0, 7000);
    let mut writers = Writers::default();
    assert_eq!(seen(&mut writers, &root, &[]), []);
    written(dir, 12, 9000);
    assert_eq!(seen(&mut writers, &root, &[]), [(12, 2000)]);
    // 12 wrote 500 more, and ended; 11 has waited for it. 7000 were there before the first look.
    gone(dir, 12);
    waited(dir, 11, 10, 40, 9500, &[0]);
    assert_eq!(seen(&mut writers, &root, &[]), [(12, 500)]);
    // 11 has another child, and both end at once. 10 has written one byte itself.
    child(dir, 13, 11, 0, 40);
    assert_eq!(seen(&mut writers, &root, &[]), [(13, 40)]);
    gone(dir, 11);
    gone(dir, 13);
    waited(dir, 10, 1, 90, 100 + 9500 + 40 + 1, &[101]);
    assert_eq!(seen(&mut writers, &root, &[]), [(10, 1)]);
    // An orphan's parent is the first process.
    child(dir, 14, 10, 0, 600);
    assert_eq!(seen(&mut writers, &root, &[]), [(14, 600)]);
    gone(dir, 10);
    child(dir, 14, 1, 0, 600);
    waited(dir, 1, 0, 95, 9641, &[0]);
    assert_eq!(seen(&mut writers, &root, &[]), []);
    gone(dir, 14);
    waited(dir, 1, 0, 99, 9641 + 600, &[0]);
    assert_eq!(seen(&mut writers, &root, &[]), []);
    // No process waited for 16: its parent's bytes count all the same.
    child(dir, 16, 1, 0, 50);
    assert_eq!(seen(&mut writers, &root, &[]), [(16, 50)]);
    gone(dir, 16);
    assert_eq!(seen(&mut writers, &root, &[]), []);
    written(dir, 1, 9641 + 600 + 20);
    assert_eq!(seen(&mut writers, &root, &[]), [(1, 20)]);
}

#[test]
fn a_parent_does_not_write_what_a_child_wrote_that_was_never_seen() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let root = SysRoot::new(dir).unwrap();
    process(dir, 10, 0, 700);
    // It has waited for others before the first look.
    waited(dir, 11, 1, 30, 50_000, &[3000]);
    let mut writers = Writers::default();
    assert_eq!(seen(&mut writers, &root, &[]), []);
    // Each waits for a child that came and went between two looks, and writes little itself.
    waited(dir, 10, 1, 25, 700 + 9_000_000 + 5, &[705]);
    waited(dir, 11, 1, 60, 50_000 + 8_000_000 + 7, &[3007]);
    // So does a newcomer.
    waited(dir, 12, 1, 20, 4_000_000 + 9, &[9]);
    let looked = writers.look(&root, &[]);
    assert_eq!(sorted(&looked.by_process), [(10, 5), (11, 7), (12, 9)]);
    assert_eq!(sorted(&looked.inherited), [(10, 9_000_000), (11, 8_000_000), (12, 4_000_000)]);
    // A child that wrote nothing takes nothing away from its parent.
    waited(dir, 10, 1, 45, 9_000_705 + 600, &[1305]);
    assert_eq!(seen(&mut writers, &root, &[]), [(10, 600)]);
}

#[test]
fn a_thread_that_ended_still_counts_for_its_process() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let root = SysRoot::new(dir).unwrap();
    waited(dir, 10, 1, 30, 1000, &[400, 600]);
    let mut writers = Writers::default();
    assert_eq!(seen(&mut writers, &root, &[]), []);
    // The second thread wrote 5000 and ended; no child has.
    gone(dir, 10);
    waited(dir, 10, 1, 30, 6000, &[400]);
    assert_eq!(seen(&mut writers, &root, &[]), [(10, 5000)]);
}

#[test]
fn of_too_many_threads_only_growth_without_a_child_counts() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let root = SysRoot::new(dir).unwrap();
    process(dir, 10, 0, 0);
    let mut writers = Writers::default();
    assert_eq!(seen(&mut writers, &root, &[]), []);
    waited(dir, 10, 1, 0, 900, &[3; MOST_THREADS + 1]);
    assert_eq!(seen(&mut writers, &root, &[]), [(10, 900)]);
    waited(dir, 10, 1, 1, 1000, &[]);
    assert_eq!(sorted(&writers.look(&root, &[]).inherited), [(10, 100)]);
}

#[test]
fn of_many_idle_processes_each_has_its_turn_and_who_writes_is_asked_always() {
    let dir = tempfile::tempdir().unwrap();
    let root = SysRoot::new(dir.path()).unwrap();
    let many = 2 * BUDGET as u32 + 10;
    (1..=many).for_each(|pid| process(dir.path(), pid, 0, 10));
    let mut writers = Writers::default();
    writers.look(&root, &[]);
    (1..=many).for_each(|pid| process(dir.path(), pid, 0, 20));
    let first = seen(&mut writers, &root, &[many]);
    assert_eq!(first.len(), BUDGET + 1);
    // Those asked before have nothing new; all others come within two more looks, each once.
    let others = seen(&mut writers, &root, &[]).len() + seen(&mut writers, &root, &[]).len();
    assert_eq!(first.len() + others, many as usize);
    process(dir.path(), 1, 0, 50);
    let _ = writers.look(&root, &[]);
}

#[test]
fn of_thousands_that_write_each_is_counted_whole_and_few_are_asked_at_a_look() {
    let dir = tempfile::tempdir().unwrap();
    process(dir.path(), 1, 0, 0);
    let root = SysRoot::new(dir.path()).unwrap();
    let mut writers = Writers::default();
    writers.look(&root, &[]);
    let many = 3000;
    (2..=many).for_each(|pid| process(dir.path(), pid, 0, 10));
    let mut counted = HashMap::<u32, u64>::new();
    let mut look = |writers: &mut Writers| {
        let looked = writers.look(&root, &[]).by_process;
        looked.into_iter().for_each(|(pid, n)| *counted.entry(pid).or_default() += n);
        assert!(writers.read as usize <= ACTIVE + BUDGET + NEWCOMERS, "{} asked", writers.read);
    };
    for _ in 0..4 {
        look(&mut writers);
    }
    (2..=many).for_each(|pid| written(dir.path(), pid, 30));
    for _ in 0..13 {
        look(&mut writers);
    }
    let wrong: Vec<_> = (2..=many).filter(|pid| counted.get(pid) != Some(&30)).collect();
    assert!(wrong.is_empty(), "{} of {many}, first {:?}", wrong.len(), wrong.first());
}

#[test]
fn a_kernel_that_does_not_count_is_not_an_idle_machine() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "proc/10/comm", "x\n");
    put(dir.path(), "proc/10/stat", "10 (x) S 1 1 1 0 -1 0 0\n");
    let mut writers = Writers::default();
    writers.look(&SysRoot::new(dir.path()).unwrap(), &[]);
    assert!(writers.missing().unwrap().contains("TASK_IO_ACCOUNTING"));
}

fn moves(dir: &Path, pages: u64, kib: u64) {
    let text =
        format!("nr_free_pages 1\nnr_dirtied {pages}\nnr_written 7\npgpgin 9\npgpgout {kib}\n");
    put(dir, "proc/vmstat", &text);
}

#[test]
fn processes_are_asked_once_the_machine_has_moved_a_quarter_of_a_mib() {
    let dir = tempfile::tempdir().unwrap();
    let root = SysRoot::new(dir.path()).unwrap();
    let mut writers = Writers::default();
    let mut skips = |pages: u64, kib: u64| {
        moves(dir.path(), pages, kib);
        let skips = writers.may_skip(&root);
        if !skips {
            writers.look(&root, &[]);
        }
        skips
    };
    let kib = root.page_bytes() / 1024;
    let looks = [(0, 0, false), (0, 0, true), (1, 100, true), (1, 255 - kib, true)];
    // Little by little is much.
    let more = [(1, 256 - kib, false), (1, 511 - kib, true), (1, 512 - kib, false)];
    for (pages, written, expected) in looks.into_iter().chain(more) {
        let skips = skips(10_000 + pages, 500 + written);
        assert_eq!(skips, expected, "{pages} pages and {written} KiB more");
    }
    // Another boot; then a long rest.
    assert!(!skips(5, 5));
    for _ in 0..MOST_SKIPPED {
        assert!(skips(5, 5));
    }
    assert!(!skips(5, 5) && skips(5, 5));
    put(dir.path(), "proc/vmstat", "nr_dirty 1\n");
    assert!(!writers.may_skip(&root), "nothing tells how much it was");
}

#[test]
fn no_look_is_skipped_until_every_process_was_asked() {
    let dir = tempfile::tempdir().unwrap();
    let root = SysRoot::new(dir.path()).unwrap();
    (1..=2 * BUDGET as u32 + 1).for_each(|pid| process(dir.path(), pid, 0, 0));
    let mut writers = Writers::default();
    moves(dir.path(), 5, 5);
    for _ in 0..3 {
        assert!(!writers.may_skip(&root));
        writers.look(&root, &[]);
    }
    assert!(writers.may_skip(&root));
}
