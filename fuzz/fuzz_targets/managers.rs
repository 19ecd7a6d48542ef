//! Files of other managers of the same knobs: udev's rules, sysctl.d, tmpfiles.d, TLP,
//! laptop-mode-tools, TuneD. The first byte chooses the file.

#![no_main]

use floodwall_fuzz::Tree;
use floodwall_host::managers;
use libfuzzer_sys::fuzz_target;

const TREE: &str = "rhel-8";
const FILES: [&str; 9] = [
    "etc/udev/rules.d/60-disks.rules",
    "etc/sysctl.d/50-limits.conf",
    "etc/tmpfiles.d/disks.conf",
    "etc/tlp.conf",
    "etc/laptop-mode/laptop-mode.conf",
    "etc/tuned/active_profile",
    "usr/lib/tuned/throughput-performance/tuned.conf",
    "etc/tuned/tuned-main.conf",
    "run/udev/data/b8:0",
];

fuzz_target!(init: { Tree::shared(TREE); }, |input: (u8, &[u8])| {
    let (file, content) = input;
    let tree = Tree::shared(TREE);
    tree.with(FILES[usize::from(file) % FILES.len()], content, || {
        let _ = managers::read(tree.root());
    });
});
