//! A cache's dirty ranges, write by write.

use proptest::prelude::*;

use super::*;

#[test]
fn a_rewrite_takes_no_space_and_keeps_the_older_since() {
    let mut map = DirtyMap::new();
    map.insert(100, 50, 1);
    assert_eq!(map.admit(120, 60, 2, 29), Err(30));
    assert_eq!(map.admit(120, 60, 2, 30), Ok(()));
    assert_eq!(map.bytes(), 80);
    let lost: Vec<_> = map.lost().map(|e| (e.offset, e.len, e.since)).collect();
    assert_eq!(lost, [(100, 50, 1), (150, 30, 2)]);
}

#[test]
fn neighbours_leave_as_one_run_unless_told_not_to() {
    let mut map = DirtyMap::new();
    map.insert(0, 10, 1);
    map.insert(10, 10, 2);
    map.insert(30, 10, 3);
    let one = map.take(0, 100, false).unwrap();
    assert_eq!((one.offset, one.len), (0, 10));
    map.restore();
    let both = map.take(0, 15, true).unwrap();
    assert_eq!((both.len, both.since, map.dirty_bytes()), (15, 1, 15));
    assert_eq!(map.first_in(0, 100), Some(15));
}

#[test]
fn a_rewrite_in_flight_is_dirty_anew() {
    let mut map = DirtyMap::new();
    map.insert(0, 10, 1);
    let run = map.take(0, 10, true).unwrap();
    map.insert(0, 10, 7);
    assert_eq!(map.bytes(), 20);
    map.settle(&run);
    assert_eq!(map.lost().collect::<Vec<_>>(), [LostExtent { offset: 0, len: 10, since: 7 }]);
}

#[test]
fn what_was_in_flight_is_dirty_again_since_its_oldest_write() {
    let mut map = DirtyMap::new();
    map.insert(0, 10, 1);
    map.take(0, 10, true).unwrap();
    map.insert(5, 10, 7);
    map.restore();
    let mut lost: Vec<_> = map.lost().map(|e| (e.offset, e.len, e.since)).collect();
    lost.sort_unstable();
    assert_eq!(lost, [(0, 10, 1), (10, 5, 7)]);
    assert_eq!((map.bytes(), map.dirty_bytes()), (15, 15));
}

#[test]
fn a_write_past_the_cache_leaves_only_what_is_around_it() {
    let mut map = DirtyMap::new();
    map.insert(0, 30, 1);
    map.insert(30, 10, 2);
    let epoch = map.close_epoch();
    map.supersede(10, 10);
    let lost: Vec<_> = map.lost().map(|e| (e.offset, e.len, e.since)).collect();
    assert_eq!(lost, [(0, 10, 1), (20, 10, 1), (30, 10, 2)]);
    assert!(!map.stable_through(epoch));
    map.supersede(0, 40);
    assert_eq!(map.bytes(), 0);
    assert!(map.stable_through(epoch), "nothing is left for a flush to wait for");
}

#[test]
fn a_flush_waits_for_its_epoch_only() {
    let mut map = DirtyMap::new();
    map.insert(0, 10, 1);
    let epoch = map.close_epoch();
    map.insert(50, 10, 2);
    assert!(!map.stable_through(epoch));
    let run = map.take(0, 10, true).unwrap();
    assert!(!map.stable_through(epoch));
    map.settle(&run);
    assert!(map.stable_through(epoch));
    assert_eq!(map.bytes(), 10);
}

proptest! {
    /// Against one byte of bookkeeping per byte of device.
    #[test]
    fn agrees_with_a_byte_by_byte_model(
        steps in prop::collection::vec((0u8..5, 0u64..60, 1u64..20), 1..60)
    ) {
        let mut map = DirtyMap::new();
        let mut since: Vec<Option<u64>> = vec![None; 100];   // dirty since
        let mut flights: Vec<(Run, Vec<(usize, u64)>)> = Vec::new();
        for (version, (kind, offset, len)) in steps.into_iter().enumerate() {
            let version = version as u64 + 1;
            match kind {
                0 | 1 => {
                    let range = offset..offset + len;
                    let fresh = range.filter(|b| since[*b as usize].is_none()).count() as u64;
                    // Sometimes there is no room.
                    if fresh > 0 && version.is_multiple_of(3) {
                        prop_assert_eq!(map.admit(offset, len, version, fresh - 1), Err(fresh));
                    }
                    prop_assert_eq!(map.admit(offset, len, version, fresh), Ok(()));
                    for b in offset..offset + len {
                        since[b as usize].get_or_insert(version);
                    }
                }
                2 => {
                    if let Some(run) = map.take_next(offset, len, true, u64::MAX) {
                        let mut round = (offset..100).chain(0..offset);
                        let first = round.find(|b| since[*b as usize].is_some()).unwrap();
                        prop_assert!(run.offset == first || first == offset && run.offset < first);
                        let bytes = (run.offset..run.offset + run.len)
                            .map(|b| (b as usize, since[b as usize].take().unwrap()))
                            .collect();
                        flights.push((run, bytes));
                    }
                }
                3 => {
                    let flies = |(r, _): &(Run, _)| overlap(r.offset, r.len, offset, len) > 0;
                    if !flights.iter().any(flies) {
                        map.supersede(offset, len);
                        since[offset as usize..(offset + len) as usize].fill(None);
                    }
                }
                _ => if !flights.is_empty() {
                    let (run, _) = flights.remove(offset as usize % flights.len());
                    map.settle(&run);
                }
            }
            let mut expected: Vec<Vec<u64>> =
                since.iter().map(|s| s.iter().copied().collect()).collect();
            for (_, bytes) in &flights {
                for (b, v) in bytes {
                    expected[*b].push(*v);
                }
            }
            let mut found: Vec<Vec<u64>> = vec![Vec::new(); 100];
            for e in map.lost() {
                for b in e.offset..e.offset + e.len {
                    found[b as usize].push(e.since);
                }
            }
            prop_assert_eq!(map.bytes(), found.iter().map(|v| v.len() as u64).sum::<u64>());
            for v in expected.iter_mut().chain(found.iter_mut()) {
                v.sort_unstable();
            }
            prop_assert_eq!(&expected, &found);
            let covered = (offset..offset + len).all(|b| !expected[b as usize].is_empty());
            let touched = (offset..offset + len).any(|b| !expected[b as usize].is_empty());
            prop_assert_eq!(map.covers(offset, len), covered);
            prop_assert_eq!(map.touches(offset, len), touched);
        }
    }
}
