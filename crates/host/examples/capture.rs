//! Stores what Floodwall reads of this machine as a tree below a directory: `capture DIR [ROOT]`.
//!
//! The tree then stands for the machine: `floodwall status --root DIR`, and `fixtures/hosts/` in
//! the tests. What identifies a machine is left out (`floodwall_host::capture`).

use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;

use floodwall_host::SysRoot;
use floodwall_host::capture::{Content, entries};

#[expect(
    clippy::disallowed_methods,
    reason = "stores a tree where the user asked for it, not in a kernel's filesystem"
)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let to = args.next().ok_or("usage: capture DIR [ROOT]")?;
    let from = args.next().unwrap_or_else(|| "/".to_owned());
    std::fs::create_dir(&to)?;
    for entry in entries(&SysRoot::new(Path::new(&from))?) {
        let path = Path::new(&to).join(entry.path.trim_start_matches('/'));
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        match entry.content {
            Content::Text(text) => std::fs::File::create(&path)?.write_all(text.as_bytes())?,
            Content::Link(target) => symlink(target, &path)?,
            Content::Directory => std::fs::create_dir_all(&path)?,
            // Reading a directory as a file fails, for root too. The file in it is for git, which
            // keeps no empty directory.
            Content::Unreadable => {
                std::fs::create_dir(&path)?;
                std::fs::File::create(path.join("was-unreadable"))?;
            }
        }
    }
    Ok(())
}
