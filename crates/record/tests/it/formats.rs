//! Recordings of other versions.

use std::fs;
use std::path::Path;

use floodwall_model::frame::Frame;
use floodwall_record::{FORMAT, Limits, RecordError, Recording, Writer};

use super::{DAY_MS, MIDNIGHT_MS, frame, moments, read, record};

/// Stored by the first version that had this format. They are never written again: a later version
/// has to read them.
const FORMATS: [&str; 1] = ["format-1"];

#[test]
fn older_formats_are_read() {
    assert_eq!(FORMATS.len(), FORMAT as usize, "store a recording of the new format");
    for format in FORMATS {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recordings");
        let directory = directory.join(format);
        let expected = fs::read_to_string(directory.join("frames.jsonl")).unwrap();
        let expected: Vec<Frame> =
            expected.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(expected.len() > 3);
        assert_eq!(read(&directory), expected, "{format}");
    }
}

/// As the first bytes of an index are in every format: magic, format, CRC-32 of both.
fn header(format: u32) -> Vec<u8> {
    let mut bytes = b"FWRECORD".to_vec();
    bytes.extend(format.to_le_bytes());
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

#[test]
fn a_newer_format_is_refused_with_a_sentence_and_other_days_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let at = [0, 1, 2].map(|day| MIDNIGHT_MS + day * DAY_MS);
    record(dir.path(), &at.map(frame));
    let index = dir.path().join("2026-11-28.index");
    let newer = [header(FORMAT + 1), vec![7; 100]].concat();
    fs::write(&index, &newer).unwrap();
    let mut recording = Recording::open(dir.path()).unwrap();
    let read: Vec<_> = recording.between(0, u64::MAX).collect();
    let [Ok(first), Err(error), Ok(last)] = &read[..] else { panic!("{read:?}") };
    assert_eq!((first.at_unix_ms, last.at_unix_ms), (at[0], at[2]));
    let expected = format!(
        "'{}' was written by a newer version of floodwall (format 2, this one reads up to 1); \
         update floodwall, or move the file away",
        index.display()
    );
    assert_eq!(error.to_string(), expected);
    assert_eq!(recording.last_frame().unwrap(), Some(frame(at[2])));
    assert_eq!(recording.previous_frame().unwrap(), Some(frame(at[0])));
    // Nothing is written over it.
    let mut writer = Writer::open(dir.path(), Limits::default()).unwrap();
    let error = writer.append(&frame(at[1])).unwrap_err();
    assert!(matches!(error, RecordError::Newer { format: 2, .. }), "{error}");
    assert_eq!(fs::read(&index).unwrap(), newer);
    let _ = writer.append(&frame(at[2] + 1)).unwrap();
    fs::remove_file(&index).unwrap();
    assert_eq!(moments(dir.path()), [at[0], at[2], at[2] + 1]);
}
