//! Hashes: a name for a submission, and a name for the machine that wrote it.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// Hexadecimal digits of the name of a machine: 64 bits, so that a million machines get a million
/// names.
const SOURCE_DIGITS: usize = 16;
/// The key that makes the name another one than other programs derive (machine-id(5) asks for one).
const SOURCE_KEY: &[u8] = b"floodwall hwdb source 1\n";

/// The SHA-256 of a file's bytes in hexadecimal, as sha256sum(1) prints it.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A name for the installation that `/etc/machine-id` identifies. It does not lead back to the
/// identifier. `None` for a text without one.
#[must_use]
pub fn source_of(machine_id: &str) -> Option<String> {
    let id = machine_id.trim();
    if id.len() != 32 || !id.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mut name = digest(&[SOURCE_KEY, id.to_ascii_lowercase().as_bytes()].concat());
    name.truncate(SOURCE_DIGITS);
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_what_sha256sum_prints() {
        // printf abc | sha256sum
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest(b"abc"), abc);
    }

    #[test]
    fn a_source_is_named_by_its_machine_alone() {
        let id = "0123456789abcdef0123456789abcdef\n";
        let source = source_of(id).unwrap();
        assert_eq!(source, source_of(id.trim()).unwrap());
        assert_ne!(Some(&source), source_of("1123456789abcdef0123456789abcdef").as_ref());
        assert!(!id.contains(&source));
        for text in ["", "uninitialized\n", "0123456789abcdef0123456789abcdeg"] {
            assert_eq!(source_of(text), None);
        }
    }
}
