use std::collections::HashSet;

use super::super::plan::JobFile;
use super::*;

fn plan(lens: &[u64], block: u64) -> JobPlan {
    let file = |len: &u64| JobFile { path: "x".into(), from: 0, len: *len };
    JobPlan::new(lens.iter().map(file).collect(), block)
}

/// All of a pass.
fn pass(order: &mut Order<'_>) -> Vec<Op> {
    order.begin_pass();
    let mut ops = Vec::new();
    loop {
        let next = order.sync().or_else(|| {
            let is_write = order.direction();
            order.next(is_write)
        });
        match next {
            Some(op) => {
                order.ended(op.kind);
                ops.push(op);
            }
            None => return ops,
        }
    }
}

#[test]
fn files_take_turns_and_so_do_syncs() {
    let mut plan = plan(&[12, 12], 4);
    plan.sync_every = 1;
    let ops: Vec<(Kind, usize, u64)> =
        pass(&mut Order::new(&plan)).iter().map(|op| (op.kind, op.file, op.offset)).collect();
    // As strace(1) shows it of fio: --size=24k --bs=4k --nrfiles=2 --fsync=1.
    use Kind::{Sync, Write};
    let wanted =
        [(Write, 0, 0), (Sync, 1, 0), (Write, 0, 4), (Sync, 1, 0), (Write, 0, 8), (Sync, 1, 0)];
    assert_eq!(ops[..6], wanted);
    assert_eq!(ops.len(), 11, "none after the last write");
}

#[test]
fn syncs_follow_every_request_after_the_nth_write() {
    let mut plan = plan(&[4096 * 256], 4096);
    let syncs = |plan: &JobPlan| {
        pass(&mut Order::new(plan)).iter().filter(|op| op.kind != Kind::Write).count()
    };
    for (every, wanted) in [(1, 255), (3, 85), (4, 63), (1000, 0)] {
        plan.sync_every = every;
        assert_eq!(syncs(&plan), wanted, "{every}");
    }
    // 2,300 bytes do not fill the last block: a sync comes before the end is seen.
    (plan.block, plan.sync_every, plan.sync_data_every) = ([2300; 2], 0, 1);
    plan.files[0].len = 1 << 20;
    assert_eq!(syncs(&plan), 455);
}

#[test]
fn at_random_each_block_comes_once() {
    let mut plan = plan(&[10 * 4096 + 7, 3 * 4096], 4096);
    plan.is_random = true;
    let mut order = Order::new(&plan);
    let places = |ops: &[Op]| ops.iter().map(|op| (op.file, op.offset / 4096)).collect::<Vec<_>>();
    let (first, second) = (places(&pass(&mut order)), places(&pass(&mut order)));
    let wanted: HashSet<(usize, u64)> =
        (0..10).map(|n| (0, n)).chain((0..3).map(|n| (1, n))).collect();
    assert_eq!((first.len(), second.len()), (13, 13));
    assert_eq!(first.iter().copied().collect::<HashSet<_>>(), wanted);
    assert_eq!(second.iter().copied().collect::<HashSet<_>>(), wanted);
    assert_ne!(first, second);
    assert_eq!(places(&pass(&mut Order::new(&plan))), first, "the same seed");
}

#[test]
fn permutations_are_complete_and_not_in_order() {
    for count in [1, 2, 3, 7, 64, 1000, 4097] {
        let all: Vec<u64> = (0..count).map(|n| permuted(n, count, 99)).collect();
        assert_eq!(all.iter().copied().collect::<HashSet<_>>().len() as u64, count);
        let rising = all.windows(2).filter(|pair| pair[0] < pair[1]).count() as f64;
        assert!(count < 64 || (rising / count as f64 - 0.5).abs() < 0.15, "{count}: {rising}");
    }
}

#[test]
fn a_mix_ends_with_the_bytes_of_the_files_or_those_asked_for() {
    let mut plan = plan(&[1 << 20], 4096);
    (plan.reads, plan.read_percent) = (true, 75);
    let ops = pass(&mut Order::new(&plan));
    let reads = ops.iter().filter(|op| op.kind == Kind::Read).count();
    assert_eq!(ops.len(), 256);
    assert!((170..215).contains(&reads), "{reads}");
    plan.bytes = Some(40 * 4096);
    let mut order = Order::new(&plan);
    assert_eq!((pass(&mut order).len(), order.is_complete()), (40, true));
    (plan.bytes, plan.requests) = (None, Some(7));
    assert_eq!(pass(&mut Order::new(&plan)).len(), 7);
}
