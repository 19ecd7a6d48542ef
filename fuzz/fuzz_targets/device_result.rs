//! Submissions of others and `60-floodwall.hwdb`. A submission that is read reads as itself again,
//! and two sources with its figures give a file that is read without a problem.

#![no_main]

use floodwall_hwdb::{Database, Evidence, Submission, digest, merge};
use jiff::civil::date;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let today = date(2026, 11, 28);
    if let Ok(said) = Submission::read(bytes, today) {
        let text = said.to_text();
        assert_eq!(Submission::read(text.as_bytes(), today).as_ref(), Ok(&said));
        let evidence = [1, 2].map(|number| {
            let source = Some(number.to_string().repeat(16));
            let submission = Submission { source, ram_gib: number, ..said.clone() };
            Evidence { hash: digest(submission.to_text().as_bytes()), submission }
        });
        let merged = merge(&evidence).database;
        assert_eq!(Database::read(&merged.to_text()), (merged, vec![]));
    }
    let _ = Database::read(&String::from_utf8_lossy(bytes));
});
