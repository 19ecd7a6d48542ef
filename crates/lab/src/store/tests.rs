use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const KIB: u64 = 1024;

fn store(memory: u64) -> Store {
    Store::new(memory, Beyond::NoSpace)
}

fn read(store: &Store, offset: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0xee; len];
    store.read(offset, &mut out).unwrap();
    if let Some(slice) = store.slice(offset, len) {
        assert_eq!(slice, out, "slice and read disagree");
    }
    out
}

#[test]
fn zeros_cost_nothing_and_discard_gives_memory_back() {
    let mut store = store(1 << 20);
    store.write(0, &[0; 1 << 20], None).unwrap();
    assert_eq!(store.usage().memory_bytes, 0);
    store.write(0, &[7; 1 << 20], None).unwrap();
    assert_eq!(store.usage().memory_bytes, 1 << 20);
    store.write(8192, &[0; 8192], None).unwrap();
    assert_eq!(store.usage().memory_bytes, (1 << 20) - 8192);
    store.discard(0, 1 << 40).unwrap();
    assert_eq!(store.usage().memory_bytes, 0);
    assert!(store.map.is_empty());
    assert_eq!(read(&store, 4096, 8192), [0; 8192]);
}

#[test]
fn beyond_the_limit_there_is_no_space_or_the_file() {
    let mut bounded = store(8 * KIB);
    bounded.write(0, &[1; 8192], None).unwrap();
    assert!(matches!(bounded.write(1 << 30, &[1; 4096], None), Err(StoreError::Full)));
    bounded.write(0, &[2; 8192], None).unwrap();
    bounded.discard(0, 4096).unwrap();
    bounded.write(1 << 30, &[3; 4096], None).unwrap();

    let mut spilling = Store::new(8 * KIB, Beyond::Spill(tempfile::tempfile().unwrap()));
    for page in 0..10u8 {
        spilling.write(u64::from(page) * 4096, &[page + 1; 4096], Some(u64::from(page))).unwrap();
    }
    spilling.write(9 * 4096 + 512, &[99; 512], None).unwrap();
    assert_eq!((spilling.usage().memory_bytes, spilling.usage().spilled_bytes), (8192, 8 * 4096));
    for page in 0..9u8 {
        assert_eq!(read(&spilling, u64::from(page) * 4096, 4096), [page + 1; 4096]);
    }
    assert_eq!(read(&spilling, 9 * 4096 + 510, 4), [10, 10, 99, 99]);
    spilling.discard(0, 10 * 4096).unwrap();
    assert_eq!(spilling.usage().spilled_bytes, 0);
}

#[test]
fn contents_come_before_undo_when_memory_is_short() {
    let mut store = store(8 * KIB);
    store.write(0, &[1; 4096], Some(1)).unwrap();
    store.write(0, &[2; 4096], Some(2)).unwrap();
    // Both frames are used: the page's new and its old content. The new page takes the latter.
    store.write(4096, &[3; 4096], Some(3)).unwrap();
    assert_eq!(store.usage().undo_dropped, 2);
    let undone = store.roll_back(&Gone::new([(0, 4096, 2)], BTreeSet::new())).unwrap();
    assert_eq!(
        (undone, read(&store, 0, 1)),
        (0, vec![2]),
        "a dropped entry lets the write survive"
    );
}

#[test]
fn a_power_cut_takes_what_is_not_stable_sector_by_sector() {
    let mut store = store(1 << 20);
    store.write(0, &[1; 8192], Some(1)).unwrap();
    store.forget_below(2);
    store.write(0, &[2; 4096], Some(2)).unwrap();
    store.write(512, &[3; 1024], Some(3)).unwrap();
    store.write(4096, &[4; 4096], Some(4)).unwrap();
    // Lost: version 3 in its second sector only, and all of page 1 (in flight).
    let undone = store.roll_back(&Gone::new([(1024, 512, 3)], BTreeSet::from([4]))).unwrap();
    assert_eq!(undone, 512 + 4096);
    assert_eq!(read(&store, 0, 512), [2; 512]);
    assert_eq!(read(&store, 512, 512), [3; 512]);
    assert_eq!(read(&store, 1024, 3072), [2; 3072]);
    assert_eq!(read(&store, 4096, 4096), [1; 4096]);
    assert_eq!((store.usage().undo_bytes, store.usage().memory_bytes), (0, 8192));
}

#[test]
fn a_write_in_flight_does_not_take_a_newer_one_with_it() {
    let mut store = store(1 << 20);
    store.write(0, &[1; 4096], Some(1)).unwrap();
    store.write(0, &[2; 4096], Some(2)).unwrap();
    store.roll_back(&Gone::new([], BTreeSet::from([1]))).unwrap();
    assert_eq!(read(&store, 0, 4096), [2; 4096]);
}

/// One step of a random history. Offsets and lengths are in sectors.
#[derive(Clone, Debug)]
enum Step {
    Write(u64, u64, u8),
    Zero(u64, u64),
    Discard(u64, u64),
    Stable(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = (0u64..40, 1u64..24);
    let step = prop_oneof![
        4 => (range.clone(), 0u8..4).prop_map(|((o, l), b)| Step::Write(o, l, b)),
        1 => range.clone().prop_map(|(o, l)| Step::Zero(o, l)),
        1 => range.prop_map(|(o, l)| Step::Discard(o, l)),
        1 => (0u64..5).prop_map(Step::Stable),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    /// Against a plain array, one value a sector, with its full history.
    #[test]
    fn agrees_with_an_array(history in steps(), spill in any::<bool>(), since_back in 0u64..6) {
        let sectors = 64usize;
        let (memory, beyond) = if spill {
            (16 * KIB, Beyond::Spill(tempfile::tempfile().unwrap()))
        } else {
            (1 << 20, Beyond::NoSpace)
        };
        let mut store = Store::new(memory, beyond);
        let base = (1 << 21) - 16 * KIB; // across two leaves
        // Per sector: (version, value) of every write still volatile, on top of the stable value.
        let mut model: Vec<(u8, Vec<(u64, u8)>)> = vec![(0, Vec::new()); sectors];
        let mut version = 0;
        for step in &history {
            version += 1;
            match *step {
                Step::Write(o, l, b) => {
                    let data = vec![b; (l * 512) as usize];
                    store.write(base + o * 512, &data, Some(version)).unwrap();
                    for s in o..o + l { model[s as usize].1.push((version, b)); }
                }
                Step::Zero(o, l) => {
                    store.zero(base + o * 512, l * 512, Some(version)).unwrap();
                    for s in o..o + l { model[s as usize].1.push((version, 0)); }
                }
                Step::Discard(o, l) => {
                    // Everything becomes stable first: what a discard leaves behind after a power
                    // cut is undefined.
                    store.forget_below(version);
                    for m in &mut model {
                        if let Some((_, b)) = m.1.last() { *m = (*b, Vec::new()); }
                    }
                    store.discard(base + o * 512, l * 512).unwrap();
                    for s in o..o + l { model[s as usize] = (0, Vec::new()); }
                }
                Step::Stable(back) => {
                    let below = version.saturating_sub(back);
                    store.forget_below(below);
                    for m in &mut model {
                        while m.1.first().is_some_and(|w| w.0 < below) { m.0 = m.1.remove(0).1; }
                    }
                }
            }
            let all = read(&store, base, sectors * 512);
            for (s, m) in model.iter().enumerate() {
                let expected = m.1.last().map_or(m.0, |w| w.1);
                prop_assert!(all[s * 512..][..512].iter().all(|b| *b == expected), "sector {s}");
            }
        }
        // Everything from a version on is lost in the upper half of the device, nothing in the
        // lower.
        let since = version.saturating_sub(since_back);
        let half = sectors as u64 / 2;
        let gone = Gone::new([(base + half * 512, half * 512, since)], BTreeSet::new());
        store.roll_back(&gone).unwrap();
        let all = read(&store, base, sectors * 512);
        for (s, m) in model.iter().enumerate() {
            let survives = |w: &&(u64, u8)| s < half as usize || w.0 < since;
            let expected = m.1.iter().rfind(survives).map_or(m.0, |w| w.1);
            let sector = &all[s * 512..][..512];
            prop_assert!(sector.iter().all(|b| *b == expected), "sector {s} after the cut");
        }
        prop_assert_eq!(store.usage().undo_bytes, 0);
    }
}
