//! Files of /proc and /sys: each file of a captured machine. The first number chooses it.

#![no_main]

use floodwall_fuzz::Tree;
use floodwall_host::findings::{Facts, JournalFacts, look};
use floodwall_host::managers;
use floodwall_host::status::{Observation, status};
use libfuzzer_sys::fuzz_target;

const TREE: &str = "vm-virtio-ext4";

fuzz_target!(init: { Tree::shared(TREE); }, |input: (u16, &[u8])| {
    let (file, content) = input;
    let tree = Tree::shared(TREE);
    let root = tree.root();
    let sane = Observation::read(root);
    let files = tree.files();
    tree.with(&files[usize::from(file) % files.len()], content, || {
        let now = Observation::read(root);
        let status = status(root, &sane, &now, 1.0, false);
        let _ = look(Facts {
            status: &status,
            journal: &JournalFacts::default(),
            managers: &managers::read(root),
            disk_users: &[],
        });
    });
});
