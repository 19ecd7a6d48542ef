//! Model and firmware of an ATA disk, from its IDENTIFY DEVICE data.
//!
//! The kernel's `model` and `rev` hold 16 characters of the model and the last 4 of the firmware
//! revision (drivers/ata/libata-scsi.c `ata_scsiop_inq_std`). There `Samsung SSD 860 EVO 500GB`
//! and `Samsung SSD 860 PRO 256GB` are both `Samsung SSD 860`. The vital product data page 89h
//! (SAT-4, "ATA Information") has the whole data. Every user may read it.

use crate::root::SysRoot;
use crate::text::squeezed;

/// Offset of the IDENTIFY DEVICE data in the page.
const IDENTIFY: usize = 60;
/// Words of that data (ACS-4, 7.13): firmware revision and model number.
const FIRMWARE: std::ops::Range<usize> = 23..27;
const MODEL: std::ops::Range<usize> = 27..47;

/// Names of an ATA disk, blanks squeezed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) model: String,
    pub(crate) firmware: String,
}

/// Reads the names of the disk with the directory `dir`. `None` if it is no ATA disk, or if the
/// kernel does not tell.
pub(crate) fn read_names(root: &SysRoot, dir: &str) -> Option<Names> {
    // Of a disk in a USB case the kernel names the case.
    if root.read_line(&format!("{dir}/device/vendor")).into_value()? != "ATA" {
        return None;
    }
    let mut page = Vec::new();
    root.read_into(&format!("{dir}/device/vpd_pg89"), &mut page).ok()?;
    parse(&page)
}

fn parse(page: &[u8]) -> Option<Names> {
    let data = page.get(IDENTIFY..)?;
    Some(Names { model: text(data, MODEL)?, firmware: text(data, FIRMWARE)? })
}

/// The text in some words. Each word holds its first character in its high byte.
fn text(data: &[u8], words: std::ops::Range<usize>) -> Option<String> {
    let bytes = data.get(2 * words.start..2 * words.end)?;
    let swapped: Vec<u8> = bytes.chunks(2).flat_map(|word| [word[1], word[0]]).collect();
    let text = String::from_utf8(swapped).ok()?;
    let text = squeezed(&text);
    let is_name = !text.is_empty() && text.bytes().all(|c| c.is_ascii_graphic() || c == b' ');
    is_name.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The begin of the page of QEMU's `ide-hd,model=Samsung SSD 860 EVO 500GB,ver=RVT01B6Q` under
    /// Linux 6.1, whose `model` is `Samsung SSD 860 ` and whose `rev` is `1B6Q`.
    fn page() -> Vec<u8> {
        let mut page = vec![0; IDENTIFY];
        page.extend_from_slice(&[0; 46]);
        page.extend_from_slice(b"VR0TB1Q6");
        page.extend_from_slice(b"aSsmnu gSS D68 0VE O05G0 B              ");
        page
    }

    #[test]
    fn whole_names_of_a_disk() {
        let names = parse(&page()).unwrap();
        assert_eq!(names.model, "Samsung SSD 860 EVO 500GB");
        assert_eq!(names.firmware, "RVT01B6Q");
    }

    #[test]
    fn a_page_without_names_tells_nothing() {
        let whole = page();
        assert_eq!(parse(&whole[..whole.len() - 1]), None);
        assert_eq!(parse(&vec![0; 572]), None);
        assert_eq!(parse(&vec![b' '; 572]), None);
        assert_eq!(parse(&vec![0xff; 572]), None);
    }
}
