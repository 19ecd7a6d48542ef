//! Compares a copy, read back from the disk, with its source.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use super::error::CopyError;
use super::resident::BLOCK;
use super::source::{BATCH, Source, drop_cached};
use super::work::Work;

/// Compares the first `size` bytes of a copy that is on the disk with its source.
pub(super) fn verify(
    work: &mut Work<'_>,
    source: Arc<OwnedFd>,
    source_path: &Path,
    target: Arc<OwnedFd>,
    path: &Path,
    size: u64,
) -> Result<(), CopyError> {
    // Its pages are clean, so all of them are dropped.
    drop_cached(target.as_fd(), 0, 0);
    let mut source = Source::new(source, source_path.to_owned(), size);
    let mut target = Source::new(target, path.to_owned(), size);
    let each = &mut |bytes| {
        work.moved(bytes, source_path);
        work.admit(bytes, path)
    };
    match first_difference(&mut source, &mut target, 0, size, each)? {
        None => {
            work.summary.verified += 1;
            Ok(())
        }
        Some(offset) => Err(CopyError::Differs {
            source_path: source_path.to_owned(),
            destination: path.to_owned(),
            offset,
        }),
    }
}

/// The first byte from `at` up to `end` in which two files differ. A file that ends before `end`
/// differs there. `each` gets the number of bytes of each batch, and may end the comparison.
pub(super) fn first_difference(
    source: &mut Source,
    target: &mut Source,
    mut at: u64,
    end: u64,
    each: &mut dyn FnMut(u64) -> Result<(), CopyError>,
) -> Result<Option<u64>, CopyError> {
    let mut buffers = [(); 2].map(|()| vec![0u8; usize::try_from(BLOCK).unwrap_or(1 << 20)]);
    while at < end {
        let batch_end = end.min((at + BATCH) / BLOCK * BLOCK);
        let batch = batch_end - at;
        source.ask(at, batch);
        target.ask(at, batch);
        while at < batch_end {
            let len = usize::try_from(Source::chunk(at).min(batch_end - at)).unwrap_or(0);
            let [wanted, found] = &mut buffers;
            let wanted_len = source.read_at(&mut wanted[..len], at)?;
            let found_len = target.read_at(&mut found[..len], at).map_err(of_target)?;
            let (wanted, found) = (&wanted[..wanted_len], &found[..found_len]);
            if wanted != found || wanted_len < len {
                let same = wanted.iter().zip(found).take_while(|(a, b)| a == b).count();
                return Ok(Some(at + same as u64));
            }
            at += len as u64;
        }
        each(batch)?;
    }
    Ok(None)
}

/// Turns a failed read of the copy into a failure of the destination.
fn of_target(error: CopyError) -> CopyError {
    match error {
        CopyError::Source { path, errno, .. } => {
            CopyError::Io { operation: "read back", path, errno }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_first_byte_that_differs_is_found_and_so_is_a_missing_end() {
        let file = |content: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(content).unwrap();
            Source::new(Arc::new(file.into()), "file".into(), content.len() as u64)
        };
        let size = 2 * BATCH + 100;
        let content = vec![7u8; size as usize];
        let mut flipped = content.clone();
        flipped[BATCH as usize + 17] ^= 1;
        for (other, at, difference) in [
            (&content[..], 0, None),
            (&flipped[..], 0, Some(BATCH + 17)),
            (&flipped[..], BATCH + 18, None),
            (&content[..BATCH as usize + 5], 0, Some(BATCH + 5)),
        ] {
            let each = &mut |_| Ok(());
            let found = first_difference(&mut file(&content), &mut file(other), at, size, each);
            assert_eq!(found, Ok(difference));
        }
        let found =
            first_difference(&mut file(&content), &mut file(&content), 0, size, &mut |_| {
                Err(CopyError::Interrupted)
            });
        assert_eq!(found, Err(CopyError::Interrupted));
    }
}
