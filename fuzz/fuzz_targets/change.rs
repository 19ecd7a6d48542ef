//! `KNOB=VALUE`, as the command line and settings files give it.

#![no_main]

use floodwall_fuzz::Tree;
use floodwall_knobs::{Change, Device};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: { Tree::shared("vm-virtio-ext4"); }, |text: &str| {
    let root = Tree::shared("vm-virtio-ext4").root();
    let device = Device::find(root, "vda").expect("the tree has the disk");
    let _ = Change::parse(root, Some(&device), text);
    let _ = Change::parse(root, None, text);
    let _ = Device::find(root, text);
});
