//! The changes of a guard that was killed, by the journal.
//!
//! ```text
//! journal ─▶ holds of this boot whose process is gone ─▶ number of settings
//! ```

use std::path::Path;

use floodwall_host::SysRoot;
use floodwall_knobs::journal::{DiskStore, JournalError, boot_id, is_alive, open};
use floodwall_knobs::{KernelFiles, hold};

use super::args;

/// The settings that a killed guard has left in force, in words. `None` if it has left nothing, or
/// the journal can't be read.
pub(super) fn told(journal: Option<&Path>) -> Option<String> {
    let files = SysRoot::live().ok().and_then(|root| KernelFiles::new(&root).ok())?;
    let (settings, them) = match count(&files, &args::journal(journal)).ok()? {
        0 => return None,
        1 => ("1 setting".to_owned(), "it"),
        n => (format!("{n} settings"), "them"),
    };
    Some(format!(
        "a guard that was killed has left {settings} in force: floodwall guard restore puts {them} \
         back"
    ))
}

fn count(files: &KernelFiles, journal: &Path) -> Result<usize, JournalError> {
    let Some(store) = DiskStore::open_to_read(journal)? else { return Ok(0) };
    let mut left = 0;
    for transaction in open(&store, &boot_id(files))? {
        if transaction.begin.steers && !is_alive(files, &store, &transaction.begin)? {
            left += hold::held(&transaction).len();
        }
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use floodwall_knobs::{Change, Session, SystemClock, Who};

    use super::*;

    #[test]
    fn the_settings_of_a_guard_count_once_it_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path().canonicalize().unwrap();
        for (path, text) in [
            ("proc/sys/vm/dirty_expire_centisecs", "3000\n"),
            ("proc/sys/kernel/random/boot_id", "a\n"),
        ] {
            floodwall_testing::tree::put(&tree.join(path), text);
        }
        let root = SysRoot::new(&tree).unwrap();
        let files = KernelFiles::new(&root).unwrap();
        let journal = tree.join("journal");
        assert_eq!(count(&files, &journal).unwrap(), 0);

        let who = Who {
            pid: 4711,
            pid_start_ticks: 1,
            socket: None,
            uid: 0,
            command: "floodwall guard".into(),
        };
        let store = DiskStore::open(&journal, &who.describe()).unwrap();
        let session =
            Session { files: &files, store: &store, clock: &SystemClock, who, boot_id: "a".into() };
        let (mut hold, _) = session.hold("floodwall guard").unwrap();
        let change = Change::parse(&root, None, "vm.dirty_expire_centisecs=100").unwrap();
        session.write(&mut hold, &change).unwrap();
        assert_eq!(count(&files, &journal).unwrap(), 0, "it lives");
        drop(hold);
        assert_eq!(count(&files, &journal).unwrap(), 1);
        fs::write(tree.join("proc/sys/kernel/random/boot_id"), "b\n").unwrap();
        assert_eq!(count(&files, &journal).unwrap(), 0, "the boot has put it back");
    }
}
