//! Which bytes of the target take part.

use super::error::OptionError;
use super::kinds::Seeks;
use super::options::{Options, SECTOR};

/// Sectors of a target whose size is not known.
const SECTORS: u64 = 2_000;
/// Seeks in a range of one block.
const SEEKS: u64 = 1_000;

/// The bytes that take part, in whole blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first of them.
    pub from: u64,
    /// How many.
    pub len: u64,
    /// Sectors of the target.
    pub sectors: u64,
    /// After so many seeks it ends; `None`: by time.
    pub seeks: Option<u64>,
}

impl Extent {
    /// Of a target with so many bytes. `None`: a file that is not there yet.
    ///
    /// # Errors
    /// [`OptionError::Beyond`], [`OptionError::NoBlock`].
    pub fn of(options: &Options, size: Option<u64>, may_grow: bool) -> Result<Self, OptionError> {
        let size = size.filter(|size| *size > 0);
        let known = size.map(|size| size / SECTOR).filter(|sectors| *sectors > 0);
        let sectors = options.sectors.or(known).unwrap_or(SECTORS);
        let all = sectors.saturating_mul(SECTOR);
        let block = options.block;
        let unit = if options.in_sectors { SECTOR } else { block };
        let (from, end) = match options.range {
            None => (0, all),
            Some((first, last)) => {
                let end = last.map(|last| last.saturating_add(1).saturating_mul(unit));
                (first.saturating_mul(unit), end.unwrap_or(all))
            }
        };
        let blocks = end.saturating_sub(from) / block;
        let end = from.saturating_add(blocks.saturating_mul(block));
        if blocks == 0 {
            return Err(OptionError::NoBlock);
        }
        let there = size.unwrap_or(0);
        let is_long_enough = end <= there || (may_grow && !options.reads);
        // An offset of a file is signed.
        if !is_long_enough || end > i64::MAX.cast_unsigned() {
            return Err(OptionError::Beyond { end, size: there });
        }
        let by_default = || {
            let is_twice = options.seeks_as == Seeks::Linear && options.reads && options.writes;
            if blocks == 1 { SEEKS } else { blocks << u32::from(is_twice) }
        };
        let seeks = options.time_s.is_none().then(|| options.seeks.unwrap_or_else(by_default));
        // The tool never chooses the last block at random.
        let is_random = options.seeks_as != Seeks::Linear && blocks > 1;
        let len = (blocks - u64::from(is_random)) * block;
        Ok(Self { from, len, sectors, seeks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(line: &str, size: Option<u64>) -> Result<Extent, OptionError> {
        let options = Options::parse(&line.split(' ').collect::<Vec<_>>()).unwrap();
        Extent::of(&options, size, true)
    }

    fn range(line: &str, size: Option<u64>) -> (u64, u64) {
        let extent = extent(line, size).unwrap();
        (extent.from, extent.len)
    }

    #[test]
    fn ranges_are_whole_blocks_and_inclusive() {
        let mib = Some(1 << 20);
        assert_eq!(range("-p l -B 4k f", mib), (0, 1 << 20));
        assert_eq!(range("-p l -B 4k -S 10:15 f", mib), (10 * 4096, 6 * 4096));
        assert_eq!(range("-p l -B 4k -s 8:16 f", mib), (4096, 4096));
        assert_eq!(range("-p l -B 4k -s 8 -N 1000 f", mib), (4096, 124 * 4096));
        // The size rounds down.
        assert_eq!(range("-p l -B 4k f", Some(9999)), (0, 8192));
        // At random the last block is left out.
        assert_eq!(range("-p r -B 4k f", mib), (0, (1 << 20) - 4096));
        assert_eq!(range("-p r -B 4k -S 3:3 f", mib), (3 * 4096, 4096));
    }

    #[test]
    fn a_file_that_is_written_may_grow() {
        assert_eq!(range("-p l -w f", None), (0, 2_000 * 512));
        assert_eq!(range("-p l -w -N 200000 -B 128k f", None), (0, 781 << 17));
        let wrong = |line, size| extent(line, size).unwrap_err();
        assert_eq!(wrong("-p l f", None), OptionError::Beyond { end: 1_024_000, size: 0 });
        assert_eq!(
            wrong("-p l -N 16 f", Some(4096)),
            OptionError::Beyond { end: 8192, size: 4096 }
        );
        assert_eq!(
            wrong("-p l -B 64k -S 0:99999999g -w f", None).to_string().find("blocks up"),
            Some(10)
        );
        assert_eq!(wrong("-B 64k f", Some(512)), OptionError::NoBlock);
    }

    #[test]
    fn seeks_are_a_pass_without_a_time() {
        let seeks = |line| extent(line, Some(1 << 20)).unwrap().seeks;
        assert_eq!(seeks("-p l -B 4k f"), Some(256));
        assert_eq!(seeks("-p l -B 4k -r -w f"), Some(512));
        assert_eq!(seeks("-p l -B 1m f"), Some(1_000));
        assert_eq!(seeks("-p l -L 35 f"), Some(35));
        assert_eq!(seeks("-p l -T 5 f"), None);
    }
}
