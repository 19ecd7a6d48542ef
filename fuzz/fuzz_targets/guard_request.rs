//! Lines that a client sends to the guard's socket.

#![no_main]

use floodwall_daemon::socket;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| {
    let _ = socket::request(line);
});
