//! Files that were cut or changed: what is whole is read, and a recorder goes on.

use std::fs;
use std::path::{Path, PathBuf};

use floodwall_model::frame::Frame;
use floodwall_record::{Limits, Recording, Writer};
use proptest::prelude::*;

use super::{MIDNIGHT_MS, frame, moments, random, read, record};

/// Bytes of the index's header and of an entry, as docs/record.md has them.
const HEADER: usize = 16;
const ENTRY: usize = 32;

/// A day's files as they were written.
struct Written {
    frames: Vec<Frame>,
    /// Where the bytes of each frame end.
    ends: Vec<usize>,
    /// The first frame of each frame's chunk.
    begins: Vec<usize>,
    data: Vec<u8>,
    index: Vec<u8>,
}

fn data_of(directory: &Path) -> PathBuf {
    directory.join("2026-11-27.frames")
}

fn index_of(directory: &Path) -> PathBuf {
    directory.join("2026-11-27.index")
}

impl Written {
    /// Chunks of so many frames.
    fn new(chunks: &[usize], mut draw: impl FnMut(u64) -> Frame) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (mut frames, mut ends, mut begins) = (Vec::new(), Vec::new(), Vec::new());
        for chunk in chunks {
            let begin = frames.len();
            let mut writer = Writer::open(dir.path(), Limits::default()).unwrap();
            for _ in 0..*chunk {
                let frame = draw(MIDNIGHT_MS + frames.len() as u64);
                let _ = writer.append(&frame).unwrap();
                frames.push(frame);
                ends.push(fs::metadata(data_of(dir.path())).unwrap().len() as usize);
                begins.push(begin);
            }
        }
        let (data, index) = (data_of(dir.path()), index_of(dir.path()));
        Self {
            frames,
            ends,
            begins,
            data: fs::read(data).unwrap(),
            index: fs::read(index).unwrap(),
        }
    }

    /// Stores the files, reads them, appends a frame, and reads again: the frames in `expected` and
    /// then the new one are there.
    fn check(&self, data: &[u8], index: &[u8], expected: impl Fn(usize) -> bool, what: &str) {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        fs::write(data_of(dir.path()), data).unwrap();
        fs::write(index_of(dir.path()), index).unwrap();
        let expected: Vec<Frame> = (0..self.frames.len())
            .filter(|n| expected(*n))
            .map(|n| self.frames[n].clone())
            .collect();
        assert_eq!(read(dir.path()), expected, "{what}");
        let new = frame(MIDNIGHT_MS + 5000);
        record(dir.path(), std::slice::from_ref(&new));
        assert_eq!(read(dir.path()), [expected, vec![new]].concat(), "{what}, appended");
    }

    /// Whether a frame can be read if another one is lost.
    fn is_apart(&self, frame: usize, lost: usize) -> bool {
        frame < lost || self.begins[frame] > lost
    }
}

#[test]
fn a_file_that_is_cut_at_any_byte_has_the_frames_before() {
    let written = Written::new(&[2, 1, 3], frame);
    for at in 0..written.data.len() {
        let is_before = |n: usize| written.ends[n] <= at;
        written.check(&written.data[..at], &written.index, is_before, &format!("data cut at {at}"));
    }
    for at in 0..written.index.len() {
        let is_before = |n: usize| HEADER + (n + 1) * ENTRY <= at;
        written.check(
            &written.data,
            &written.index[..at],
            is_before,
            &format!("index cut at {at}"),
        );
    }
}

#[test]
fn a_changed_byte_costs_the_rest_of_its_chunk_at_most() {
    let written = Written::new(&[2, 1, 3], frame);
    for at in 0..written.data.len() {
        let mut data = written.data.clone();
        data[at] ^= 1 << (at % 8);
        let lost = written.ends.iter().position(|end| at < *end).unwrap();
        let is_apart = |n| written.is_apart(n, lost);
        written.check(&data, &written.index, is_apart, &format!("data changed at {at}"));
    }
    for at in 0..written.index.len() {
        let mut index = written.index.clone();
        index[at] ^= 1 << (at % 8);
        // All frames are there without the header: each entry has its own checksum.
        let is_apart = |n| at < HEADER || written.is_apart(n, (at - HEADER) / ENTRY);
        written.check(&written.data, &index, is_apart, &format!("index changed at {at}"));
    }
}

#[test]
fn damaged_frames_are_counted_once_with_the_reason() {
    let written = Written::new(&[3, 2], frame);
    let dir = tempfile::tempdir().unwrap();
    let mut data = written.data.clone();
    data[written.ends[0]] ^= 1;
    fs::write(data_of(dir.path()), &data).unwrap();
    fs::write(index_of(dir.path()), &written.index).unwrap();
    let mut recording = Recording::open(dir.path()).unwrap();
    for _ in 0..2 {
        let read: Vec<u64> =
            recording.between(0, u64::MAX).map(|frame| frame.unwrap().at_unix_ms).collect();
        assert_eq!(read, [0, 3, 4].map(|n| MIDNIGHT_MS + n));
        assert_eq!(recording.damage().frames, 2);
    }
    // Backwards as well.
    recording.seek(MIDNIGHT_MS + 3).unwrap();
    assert_eq!(recording.previous_frame().unwrap(), Some(written.frames[0].clone()));
    let damage = recording.damage();
    assert_eq!((damage.frames, damage.why), (2, "a frame before it is damaged"));
}

/// A kill between the two writes leaves a frame without an entry, and a power loss may leave zeros.
#[test]
fn what_has_no_entry_never_was() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), &[1, 2].map(|n| frame(MIDNIGHT_MS + n)));
    for tail in [&b"half a frame"[..], &[0; 100]] {
        let (data, index) = (data_of(dir.path()), index_of(dir.path()));
        let whole = fs::read(&data).unwrap();
        fs::write(&data, [&whole, tail].concat()).unwrap();
        let entries = fs::read(&index).unwrap();
        fs::write(&index, [&entries, &[0; 3 * ENTRY + 5][..]].concat()).unwrap();
        let mut recording = Recording::open(dir.path()).unwrap();
        assert_eq!(recording.between(0, u64::MAX).count(), entries.len() / ENTRY);
        assert_eq!(recording.damage().frames, 0);
        let next = MIDNIGHT_MS + 1000 + tail.len() as u64;
        record(dir.path(), &[frame(next)]);
        assert_eq!(moments(dir.path()).last(), Some(&next));
    }
    let zeros = tempfile::tempdir().unwrap();
    fs::write(data_of(zeros.path()), [0; 4096]).unwrap();
    fs::write(index_of(zeros.path()), [0; 4096]).unwrap();
    record(zeros.path(), &[frame(MIDNIGHT_MS)]);
    assert_eq!(moments(zeros.path()), [MIDNIGHT_MS]);
}

/// Changes to a file: cut, then bytes replaced, removed or added.
#[derive(Clone, Debug)]
struct Change {
    cut: f64,
    at: f64,
    removed: usize,
    added: Vec<u8>,
}

impl Change {
    fn of(&self, bytes: &[u8]) -> Vec<u8> {
        let part = |fraction: f64, length: usize| (fraction * length as f64) as usize;
        let kept = &bytes[..part(self.cut, bytes.len())];
        let at = part(self.at, kept.len());
        let after = (at + self.removed).min(kept.len());
        [&kept[..at], &self.added, &kept[after..]].concat()
    }
}

fn change() -> impl Strategy<Value = Change> {
    let added = proptest::collection::vec(any::<u8>(), 0..80);
    let cut = prop_oneof![Just(1.0), 0.0..=1.0];
    (cut, 0.0..=1.0, 0..80_usize, added).prop_map(|(cut, at, removed, added)| Change {
        cut,
        at,
        removed,
        added,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_changes_leave_frames_that_were_written_in_their_order(
        seed in any::<u64>(), data in change(), index in change()
    ) {
        let mut random = random::Random::new(seed);
        let written = Written::new(&[2, 3, 2], |at| random.frame(at));
        let dir = tempfile::tempdir().unwrap();
        fs::write(data_of(dir.path()), data.of(&written.data)).unwrap();
        fs::write(index_of(dir.path()), index.of(&written.index)).unwrap();
        let check = |read: &[Frame]| {
            let mut rest = written.frames.iter();
            read.iter().all(|frame| rest.any(|one| one == frame))
        };
        prop_assert!(check(&read(dir.path())));
        let new = frame(MIDNIGHT_MS + 5000);
        record(dir.path(), std::slice::from_ref(&new));
        let mut read = read(dir.path());
        prop_assert_eq!(read.pop(), Some(new));
        prop_assert!(check(&read));
    }
}
