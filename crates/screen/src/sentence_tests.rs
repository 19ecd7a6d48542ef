//! Sentences of machines that a test makes up.

use floodwall_model::frame::{Machine, Waits};
use floodwall_model::workload::Workload;

use super::*;
use crate::theme::Colours;

const LOOK: Look = Look { colours: Colours::None, ascii: false };

fn told(sentence: Sentence) -> String {
    let spans = sentence.said.into_iter().chain(sentence.more);
    spans.map(|span| span.content.replace('\u{a0}', " ")).collect()
}

fn said(frame: &Frame) -> String {
    told(of_machine(frame, None, LOOK))
}

fn disk(name: &str, verdict: Verdict) -> Disk {
    Disk {
        name: name.into(),
        verdict,
        backlog_bytes: Some(1_500_000_000),
        drain_bytes_per_s: Some(120_000_000),
        drain_from: DrainSource::Seen,
        drain_ms: Some(12_500),
        hard_limit_ms: Some(26_100),
        ..Disk::default()
    }
}

fn process(pid: u32, name: &str, disk: &str) -> Process {
    let workload = Workload { unit: Some(format!("{name}.service")), ..Workload::default() };
    Process { pid, name: name.into(), workload, disk: Some(disk.into()), ..Process::default() }
}

fn victim(pid: u32, slowest_us: u64) -> Process {
    let waits = Waits { call: "fsync".into(), max_us: slowest_us, ..Waits::default() };
    Process { is_victim: true, waits: vec![waits], ..process(pid, "postgres", "sda") }
}

fn flood(pid: u32, bytes: u64) -> Process {
    Process { is_flood: true, dirtied_bytes: Some(bytes), ..process(pid, "cp", "sda") }
}

fn machine(verdict: Verdict, processes: Vec<Process>) -> Frame {
    Frame { window_ms: 500, disks: vec![disk("sda", verdict)], processes, ..Frame::default() }
}

#[test]
fn a_stall_names_the_slowest_victim_and_the_heaviest_flood() {
    let mut frame = machine(
        Verdict::Stalling,
        vec![
            victim(812, 3_200_000),
            victim(9, 70_000),
            flood(7, 1_000_000),
            flood(4_711, 200_000_000),
        ],
    );
    insta::assert_snapshot!(said(&frame), @"● postgres (812, postgres.service) has waited up to \
        3.20 s for fsync on sda, because ▲ cp (4711, cp.service) dirties 400 MB/s (one more 2.00 \
        MB/s) and sda drains 120 MB/s: 12.5 s of backlog. One more process waits.");
    frame.disks.push(disk("sdb", Verdict::Stalling));
    frame.processes.retain(|process| process.pid != 9);
    assert!(said(&frame).ends_with("Another disk stalls."));
}

#[test]
fn a_cause_is_claimed_only_where_backlog_or_flood_explain_the_wait() {
    let mut frame = machine(Verdict::Stalling, vec![victim(812, 3_200_000), flood(7, 10_000_000)]);
    (frame.disks[0].drain_ms, frame.disks[0].backlog_bytes) = (Some(40), Some(4_800_000));
    assert!(said(&frame).contains(", while ▲ cp"), "{}", said(&frame));
    frame.processes[0].waits[0].max_us = 80_000;
    assert!(said(&frame).contains(", because ▲ cp"), "twice what is drained");
}

#[test]
fn a_stall_without_a_flood_is_of_what_was_written_earlier_or_of_the_disk() {
    let mut frame = machine(Verdict::Stalling, vec![victim(812, 3_200_000)]);
    insta::assert_snapshot!(said(&frame), @"● postgres (812, postgres.service) has waited up to \
        3.20 s for fsync on sda, because of what was written earlier: 12.5 s of backlog. Who wrote \
        it was not seen.");
    frame.disks[0].drain_ms = Some(30);
    insta::assert_snapshot!(said(&frame), @"● postgres (812, postgres.service) has waited up to \
        3.20 s for fsync on sda, and no flood of buffered writes is the cause. The disk itself is \
        slow, or busy with reads or direct writes.");
    // By the kernel's estimate alone: a stick drains far less than the 100 MB/s that begin it.
    (frame.disks[0].drain_from, frame.disks[0].drain_ms) = (DrainSource::KernelEstimate, Some(440));
    frame.disks[0].backlog_bytes = Some(44_000_000);
    insta::assert_snapshot!(said(&frame), @"● postgres (812, postgres.service) has waited up to \
        3.20 s for fsync on sda, and nothing was seen to flood it: 44.0 MB are waiting. Whether \
        they are the cause is not known.");
    frame.processes.clear();
    insta::assert_snapshot!(said(&frame), @"A process waits long for sda, and which one is not \
        known.");
}

/// One that has ended, and wrote 99 % of the backlog.
fn author() -> Process {
    Process { backlog_percent: Some(99.0), ..process(4_711, "dd", "sda") }
}

#[test]
fn the_author_of_a_backlog_is_named_after_its_end() {
    let mut frame = machine(Verdict::Stalling, vec![victim(812, 3_200_000), author()]);
    insta::assert_snapshot!(said(&frame), @"● postgres (812, postgres.service) has waited up to \
        3.20 s for fsync on sda, because ▲ dd (4711, dd.service) wrote 99 % of the backlog and \
        sda drains 120 MB/s: 12.5 s of backlog.");
    frame.processes.push(flood(7, 1_000_000));
    frame.processes.push(flood(8, 1_000_000));
    insta::assert_snapshot!(said(&frame), @"● postgres (812, postgres.service) has waited up to \
        3.20 s for fsync on sda, because ▲ dd (4711, dd.service) wrote 99 % of the backlog (2 \
        more dirty 4.00 MB/s) and sda drains 120 MB/s: 12.5 s of backlog.");
    frame.processes.truncate(2);
    frame.disks[0].backlog_bytes = Some(0);
    frame.disks[0].drain_ms = Some(0);
    frame.disks[0].peak_backlog_bytes = Some(200_000_000);
    insta::assert_snapshot!(said(&frame), @"● postgres (812, postgres.service) has waited up to \
        3.20 s for fsync on sda, because ▲ dd (4711, dd.service) wrote 99 % of the backlog, \
        which has drained by now.");
    // A backlog that does not explain the wait has no blame.
    (frame.disks[0].backlog_bytes, frame.disks[0].drain_ms) = (Some(8 << 20), Some(70));
    frame.disks[0].peak_backlog_bytes = None;
    assert!(said(&frame).contains("no flood of buffered writes is the cause"), "{}", said(&frame));
    let mut frame = machine(Verdict::Flooding, vec![author()]);
    insta::assert_snapshot!(said(&frame), @"▲ dd (4711, dd.service) wrote 99 % of the backlog of \
        sda, which drains 120 MB/s: 12.5 s of backlog. Nothing waits long for it now.");
    frame.processes.push(flood(7, 1_000_000));
    let part = "of the backlog of sda (one more dirties 2.00 MB/s), which drains 120 MB/s";
    assert!(said(&frame).contains(part), "{}", said(&frame));
    frame.processes.clear();
    frame.disks[0].verdict = Verdict::Quiet;
    insta::assert_snapshot!(said(&frame), @"Nothing waits long for sda now: 12.5 s of backlog. \
        Who wrote it was not seen.");
}

#[test]
fn the_largest_backlog_explains_the_slowest_wait_alone_and_data_that_lies_there_none() {
    let mut frame =
        machine(Verdict::Stalling, vec![victim(812, 3_200_000), author(), victim(9, 200_000)]);
    (frame.disks[0].backlog_bytes, frame.disks[0].drain_ms) = (Some(0), Some(0));
    frame.disks[0].peak_backlog_bytes = Some(400_000_000);
    let of = |frame: &Frame, at: usize| told(of_process(frame, &frame.processes[at], LOOK));
    assert!(of(&frame, 0).contains(", because ▲ dd (4711, dd.service) wrote 99 %"));
    assert!(of(&frame, 2).contains("and no flood of buffered writes"), "{}", of(&frame, 2));
    let mut frame = machine(Verdict::Stalling, vec![victim(812, 150_000), author()]);
    frame.disks[0].drain_from = DrainSource::SeenEarlier;
    frame.disks[0].written_bytes_per_s = Some(29_000_000);
    assert!(of(&frame, 0).contains("and no flood of buffered writes"), "{}", of(&frame, 0));
    frame.disks[0].written_bytes_per_s = Some(30_000_000);
    assert!(of(&frame, 0).contains(", because ▲ dd (4711, dd.service) wrote 99 %"));
}

#[test]
fn the_disk_with_the_most_to_write_comes_first_and_the_kernels_workers_last() {
    let mut frame = machine(Verdict::Flooding, vec![flood(4_711, 200_000_000)]);
    let sda = &mut frame.disks[0];
    (sda.drain_bytes_per_s, sda.drain_ms, sda.backlog_bytes) = (None, None, Some(0));
    let mut sdb = disk("sdb", Verdict::Flooding);
    (sdb.backlog_bytes, sdb.drain_ms) = (Some(2_000_000), Some(18));
    frame.disks.push(sdb);
    let worker = |disk: &str| Process {
        name: "kworker/u8:2-loop8".into(),
        disk: Some(disk.into()),
        ..flood(3, 300_000_000)
    };
    frame.processes.push(worker("sdb"));
    assert!(said(&frame).starts_with("▲ cp (4711, cp.service) dirties 400 MB/s on sda"));
    // 2.00 s at the kernel's first guess, not 12.5 s.
    let sdb = &mut frame.disks[1];
    (sdb.backlog_bytes, sdb.drain_from) = (Some(199_000_000), DrainSource::KernelEstimate);
    assert!(said(&frame).starts_with("▲ cp (4711, cp.service) dirties 400 MB/s on sda"));
    frame.disks[1].backlog_bytes = Some(201_000_000);
    assert!(said(&frame).contains("on sdb"), "{}", said(&frame));
    frame.processes[1] = worker("sda");
    frame.disks.truncate(1);
    assert!(said(&frame).starts_with("▲ cp (4711, cp.service) dirties 400 MB/s (one more"));
}

#[test]
fn a_process_may_flood_and_wait() {
    let both = Process { is_flood: true, dirtied_bytes: Some(90_000_000), ..victim(5, 900_000) };
    let frame = machine(Verdict::Stalling, vec![both]);
    insta::assert_snapshot!(said(&frame), @"● postgres (5, postgres.service) has waited up to 900 \
        ms for fsync on sda, because other threads of it dirty 180 MB/s and sda drains 120 MB/s: \
        12.5 s of backlog.");
}

#[test]
fn a_flood_alone() {
    let mut frame = machine(Verdict::Flooding, vec![flood(4_711, 200_000_000)]);
    insta::assert_snapshot!(said(&frame), @"▲ cp (4711, cp.service) dirties 400 MB/s on sda, \
        which drains 120 MB/s: 12.5 s of backlog. Nothing waits long for it now.");
    frame.disks[0].drain_from = DrainSource::KernelEstimate;
    assert!(said(&frame).contains("drains about 120 MB/s (the kernel's estimate)"));
    (frame.disks[0].drain_bytes_per_s, frame.disks[0].drain_ms) = (None, None);
    assert!(said(&frame).contains("how fast it drains is not known: 1.50 GB are waiting"));
}

#[test]
fn without_root_it_says_what_is_known() {
    let mut frame = machine(Verdict::Unknown, vec![flood(4_711, 200_000_000)]);
    frame.source = "proc".into();
    frame.root_would_add = vec!["who waits".into()];
    frame.machine = Machine { waited_percent: Some(83.0), ..Machine::default() };
    insta::assert_snapshot!(said(&frame), @"Which process waits for a disk is not seen without \
        root. Some process waited for I/O 83 % of the last 500 ms. ▲ cp (4711, cp.service) \
        dirties 400 MB/s on sda.");
}

#[test]
fn a_quiet_machine_has_a_quiet_sentence() {
    let mut quick = victim(812, 9_000);
    quick.is_victim = false;
    let mut frame = machine(Verdict::Quiet, vec![quick]);
    frame.disks[0].drain_ms = Some(40);
    insta::assert_snapshot!(said(&frame), @"Nothing waits long for a disk, and nothing floods \
        one. The slowest wait of the last 500 ms is 9.00 ms: postgres (812, postgres.service), \
        fsync on sda. If a flood came, 26.1 s of writes could pile up for sda.");
    frame.disks[0].drain_from = DrainSource::KernelEstimate;
    frame.machine.hard_limit_bytes = Some(4_600_000_000);
    assert!(said(&frame).ends_with(
        "If a flood came, 4.60 GB could pile up for sda; how fast it drains under load was not \
         seen yet."
    ));
    frame.disks.clear();
    frame.processes.clear();
    insta::assert_snapshot!(said(&frame), @"Nothing waits long for a disk, and nothing floods \
        one.");
}

#[test]
fn a_backlog_by_an_estimate_is_told_in_bytes() {
    let mut frame = machine(Verdict::Flooding, vec![]);
    frame.disks[0].drain_from = DrainSource::KernelEstimate;
    insta::assert_snapshot!(said(&frame), @"Nothing waits long for sda now: 1.50 GB are waiting. \
        Who wrote it was not seen.");
}

#[test]
fn names_are_safe_and_long_ones_are_cut() {
    let mut victim = victim(812, 3_200_000);
    victim.name = "a\u{1b}[2Jb".into();
    victim.workload.unit = Some("x".repeat(200));
    let frame = machine(Verdict::Stalling, vec![victim]);
    let said = said(&frame);
    assert!(said.contains(r"a\u{1b}[2Jb (812, xxx"), "{said}");
    assert!(said.contains("xxx…)"), "{said}");
}

#[test]
fn a_process_is_told_by_what_it_does() {
    let frame = machine(Verdict::Stalling, vec![victim(812, 3_200_000), flood(7, 90_000_000)]);
    let of = |at: usize| told(of_process(&frame, &frame.processes[at], LOOK));
    insta::assert_snapshot!(of(0), @"● postgres (812, postgres.service) has waited up to 3.20 s \
        for fsync on sda, because ▲ cp (7, cp.service) dirties 180 MB/s and sda drains 120 MB/s: \
        12.5 s of backlog.");
    insta::assert_snapshot!(of(1), @"▲ cp (7, cp.service) dirties 180 MB/s on sda, which drains \
        120 MB/s: 12.5 s of backlog.");
    let idle = told(of_process(&frame, &Process::default(), LOOK));
    assert_eq!(idle, "It neither waited nor wrote in this window.");
}
