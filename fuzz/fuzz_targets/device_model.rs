//! Device models.

#![no_main]

use floodwall_device::DeviceSpec;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(spec) = DeviceSpec::parse(text) {
        let _ = (spec.capacity(), spec.rotational(), spec.volatile_cache());
    }
});
