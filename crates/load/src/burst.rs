//! A burst: how fast the kernel accepts data that fits in RAM.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use floodwall_model::Bytes;
use floodwall_model::scenario::Data;
use floodwall_model::trial::BurstTotals;
use rustix::fs::OFlags;

use crate::buffer::{Blocks, rng};
use crate::dir::Dir;
use crate::error::LoadError;
use crate::file::NamedFile;

/// The file's name.
const NAME: &str = "burst";
/// Length of each write.
const BLOCK: usize = 1 << 20;
/// The data repeats itself, but for the stamps, after this much more than a block.
const VARIETY: usize = 4 << 20;

/// Writes `bytes` into a new file in `dir`, in buffered writes of 1 MiB, and takes the time from
/// the first write to the return of the last. The file is then truncated and removed, so that most
/// of it never reaches the device.
///
/// A raised `stop` flag ends it early; the totals then say how far it came.
///
/// # Errors
/// [`LoadError::Io`]; the file is gone then too, if it could be removed.
pub fn burst(
    dir: &Dir,
    bytes: Bytes,
    data: Data,
    seed: u64,
    stop: &AtomicBool,
) -> Result<BurstTotals, LoadError> {
    let mut blocks = Blocks::new(BLOCK, VARIETY, data, &mut rng(seed, 0));
    let file = NamedFile::create(dir, NAME, OFlags::WRONLY)?;
    let begin = Instant::now();
    let mut done = 0;
    let mut result = Ok(());
    while done < bytes.0 && !stop.load(Ordering::Relaxed) && result.is_ok() {
        let len = (bytes.0 - done).min(BLOCK as u64) as usize;
        result = file.write_all_at(blocks.next(len), done);
        done += len as u64;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let truncated = file.truncate(0);
    dir.remove_file(NAME).map_err(|e| file.failed("remove", e))?;
    result.and(truncated)?;
    Ok(BurstTotals { bytes: done, seconds })
}
