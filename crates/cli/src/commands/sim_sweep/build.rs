//! Which build of floodwall this is, so that results of two builds are never mixed in one table.
//!
//! A version does not tell: between two releases the model changes, and a build for another
//! processor or C library may round a logarithm differently.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::Context;

/// The executable that runs, also where its file was replaced meanwhile.
const SELF: &str = "/proc/self/exe";
const PRIME: u64 = 0x0000_0100_0000_01b3;
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// The version and a digest of the executable.
///
/// # Errors
/// If `/proc` is not mounted.
pub(super) fn identity() -> anyhow::Result<String> {
    let digest = digest(Path::new(SELF))
        .with_context(|| format!("can't read '{SELF}' to tell which build this is"))?;
    Ok(format!("{}+{digest:016x}", super::VERSION))
}

/// FNV-1a over words of 64 bits instead of bytes: each step is a bijection, so that one changed
/// word always changes it.
fn digest(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let mut digest = BASIS;
    let mut block = Vec::with_capacity(1 << 20);
    loop {
        block.clear();
        if file.by_ref().take(1 << 20).read_to_end(&mut block)? == 0 {
            return Ok(digest);
        }
        for bytes in block.chunks(8) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            digest = (digest ^ u64::from_le_bytes(word)).wrapping_mul(PRIME);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_changed_byte_is_another_build() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        let mut bytes = vec![7u8; (1 << 20) + 13];
        let of = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            digest(&path).unwrap()
        };
        let first = of(&bytes);
        assert_eq!(of(&bytes), first);
        for at in [0, 1 << 19, (1 << 20) + 12] {
            bytes[at] ^= 0x80;
            assert_ne!(of(&bytes), first);
            bytes[at] ^= 0x80;
        }
        assert_eq!(identity().unwrap(), identity().unwrap());
    }
}
