//! An archive in the format "newc", which the kernel unpacks into its first root filesystem
//! (Documentation/driver-api/early-userspace/buffer-format.rst). Numbers are 8 hexadecimal digits;
//! names and contents are padded to 4 bytes.

use std::io::{self, Write};

/// `S_IFREG | 0755` and `S_IFDIR | 0755`.
const PROGRAM: u32 = 0o100_755;
const DIRECTORY: u32 = 0o040_755;

/// Writes an archive.
pub struct Archive<W> {
    to: W,
    entries: u32,
}

impl<W: Write> Archive<W> {
    /// An archive without entries.
    pub fn new(to: W) -> Self {
        Self { to, entries: 0 }
    }

    /// Adds a directory. Its parent has to be there.
    ///
    /// # Errors
    /// It can't be written.
    pub fn directory(&mut self, name: &str) -> io::Result<()> {
        self.entry(name, DIRECTORY, &[])
    }

    /// Adds a program, or another file. Its directory has to be there.
    ///
    /// # Errors
    /// It can't be written.
    pub fn file(&mut self, name: &str, contents: &[u8]) -> io::Result<()> {
        self.entry(name, PROGRAM, contents)
    }

    /// Writes the archive's last entry.
    ///
    /// # Errors
    /// It can't be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.entry("TRAILER!!!", 0, &[])?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn entry(&mut self, name: &str, mode: u32, contents: &[u8]) -> io::Result<()> {
        self.entries += 1;
        let size = u32::try_from(contents.len()).map_err(io::Error::other)?;
        let name_size = u32::try_from(name.len() + 1).map_err(io::Error::other)?;
        // Inode, mode, owner, group, links, time, size, the device's and the node's numbers, name,
        // no checksum.
        let fields = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        write!(self.to, "070701")?;
        for field in fields {
            write!(self.to, "{field:08x}")?;
        }
        write!(self.to, "{name}\0")?;
        self.pad(6 + 8 * fields.len() + name.len() + 1)?;
        self.to.write_all(contents)?;
        self.pad(contents.len())
    }

    fn pad(&mut self, length: usize) -> io::Result<()> {
        self.to.write_all(&[0; 3][..length.next_multiple_of(4) - length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_contents_begin_at_multiples_of_four() {
        let mut archive = Archive::new(Vec::new());
        archive.directory("modules").unwrap();
        archive.file("init", b"\x7fELF!").unwrap();
        let bytes = archive.finish().unwrap();
        let magics: Vec<usize> =
            (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"070701")).collect();
        assert_eq!(magics.len(), 3);
        assert!(magics.iter().all(|at| at % 4 == 0), "{magics:?}");
        assert!(bytes.len() % 4 == 0);
        let init = &bytes[magics[1]..];
        assert_eq!(&init[14..22], b"000081ed", "a program");
        assert_eq!(&init[54..62], b"00000005", "its size");
        assert_eq!(&init[94..102], b"00000005", "its name's size, with the NUL byte");
        assert_eq!(&init[110..115], b"init\0");
        assert_eq!(&init[116..121], b"\x7fELF!");
    }
}
