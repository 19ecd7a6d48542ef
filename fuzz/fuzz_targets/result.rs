//! Stored results. A result that is read can be written, and the text reads as the same result.

#![no_main]

use floodwall_report::schema::Document;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(document) = Document::read(text) {
        if let Ok(json) = document.to_json() {
            let again = Document::read(&json).expect("its own text");
            assert_eq!(again.to_json().ok(), Some(json));
        }
    }
});
