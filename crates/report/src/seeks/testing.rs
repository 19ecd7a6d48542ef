//! Made-up recordings for tests.

use super::{About, Operation, Recording, Request};

/// A request of 4 KiB that waits 100 µs and takes 400 µs.
pub(super) fn request(time_us: f64, operation: Operation, offset_bytes: u64) -> Request {
    Request {
        time_us,
        offset_bytes,
        size_bytes: if operation == Operation::Flush { 0 } else { 4096 },
        operation,
        fua: false,
        queue_us: 100.0,
        service_us: 400.0,
        ok: true,
    }
}

/// A recording whose time 0 is 1,000 s of Unix time.
pub(super) fn recording(mut requests: Vec<Request>) -> Recording {
    requests.sort_by(|a, b| a.time_us.total_cmp(&b.time_us));
    let about = About {
        name: "array".into(),
        preset: "hdd-7200".into(),
        size_bytes: 16 << 30,
        time_zero_unix_s: 1_000.0,
    };
    Recording { about: Some(about), requests, missing: 0, cut: false }
}
