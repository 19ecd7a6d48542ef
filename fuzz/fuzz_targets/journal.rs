//! A journal as a crash may have left it: the input as it is, and its lines as records with a right
//! checksum. The whole lines of a journal that is read are read alike by themselves.

#![no_main]

use floodwall_knobs::journal::{Record, Transaction};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    let text = String::from_utf8_lossy(bytes);
    let records = text.lines().filter_map(|line| serde_json::from_str::<Record>(line).ok());
    let journal: String = records.map(|record| record.line()).collect();
    read(journal.as_bytes());
});

fn read(bytes: &[u8]) {
    if let Ok((_, whole)) = Transaction::parse(bytes) {
        let whole = usize::try_from(whole).expect("no longer than the input");
        assert!(Transaction::parse(&bytes[..whole]).is_ok());
    }
}
