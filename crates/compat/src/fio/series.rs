//! Logs of a job, from its requests.

use std::io::{self, Write};
use std::mem;

use floodwall_model::KeptRequest;

use super::report::{Log, LogKind, LogSample};

/// A figure of a request.
fn value(request: &KeptRequest, kind: LogKind) -> u64 {
    let [slat, clat, lat] = request.latencies_ns;
    match kind {
        LogKind::Slat => slat,
        LogKind::Clat => clat,
        LogKind::Lat => lat,
        LogKind::Iops => 1,
        // KB/s of the request alone: the one figure of fio's with powers of 1,000.
        LogKind::Bw => (u128::from(request.bytes) * 1_000_000 / u128::from(clat.max(1))) as u64,
    }
}

/// Writes a job's log: a line for each request, or for intervals of so many milliseconds.
///
/// # Errors
/// Those of the output.
pub fn write_log(
    out: &mut dyn Write,
    requests: &[KeptRequest],
    kind: LogKind,
    interval_ms: u64,
) -> io::Result<()> {
    if matches!(kind, LogKind::Bw | LogKind::Iops) && interval_ms > 0 {
        return write_rates(out, requests, kind, interval_ms);
    }
    let (mut log, mut end_ms) = (Log::new(out, interval_ms), 0);
    for request in requests {
        end_ms = request.end_ns / 1_000_000;
        let sample = LogSample {
            ms: end_ms,
            value: value(request, kind) / request.requests.max(1),
            direction: u8::from(request.is_write),
            bytes: request.bytes,
        };
        (0..request.requests).try_for_each(|_| log.add(&sample))?;
    }
    log.end(end_ms)
}

/// Rates of whole intervals. An interval in which nothing ended has none.
fn write_rates(
    out: &mut dyn Write,
    requests: &[KeptRequest],
    kind: LogKind,
    interval_ms: u64,
) -> io::Result<()> {
    let mut log = Log::new(out, 0);
    // Requests and bytes of each direction in this interval. The last one is not whole.
    let (mut number, mut sums) = (0, [(0, 0); 2]);
    for request in requests {
        let now = request.end_ns / 1_000_000 / interval_ms;
        if now != number {
            let ms = (number + 1) * interval_ms;
            for (direction, (count, bytes)) in (0..).zip(mem::take(&mut sums)) {
                let value = match kind {
                    LogKind::Iops => count * 1000 / interval_ms,
                    _ => bytes * 1000 / interval_ms / 1024,
                };
                if count > 0 {
                    log.add(&LogSample { ms, value, direction, bytes: 0 })?;
                }
            }
            number = now;
        }
        let (count, bytes) = &mut sums[usize::from(request.is_write)];
        (*count, *bytes) = (*count + request.requests, *bytes + request.bytes);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(ms: u64, is_write: bool, clat_ns: u64) -> KeptRequest {
        let latencies_ns = [0, clat_ns, clat_ns + 1];
        KeptRequest { end_ns: ms * 1_000_000, is_write, requests: 1, bytes: 4096, latencies_ns }
    }

    fn text(requests: &[KeptRequest], kind: LogKind, interval_ms: u64) -> String {
        let mut text = Vec::new();
        write_log(&mut text, requests, kind, interval_ms).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_request_alone_has_the_values_that_fio_printed() {
        let one = [request(8, false, 8_624_015)];
        for (kind, wanted) in [
            (LogKind::Bw, "8, 474, 0, 4096, 0\n"),
            (LogKind::Iops, "8, 1, 0, 4096, 0\n"),
            (LogKind::Clat, "8, 8624015, 0, 4096, 0\n"),
            (LogKind::Lat, "8, 8624016, 0, 4096, 0\n"),
        ] {
            assert_eq!(text(&one, kind, 0), wanted);
        }
    }

    #[test]
    fn intervals_have_rates_and_means() {
        let requests = [(10, false, 100), (400, false, 300), (450, true, 7), (600, false, 200)]
            .map(|(ms, is_write, clat_ns)| request(ms, is_write, clat_ns));
        let text = |kind| text(&requests, kind, 500);
        assert_eq!(text(LogKind::Iops), "500, 4, 0, 0, 0\n500, 2, 1, 0, 0\n");
        assert_eq!(text(LogKind::Bw), "500, 16, 0, 0, 0\n500, 8, 1, 0, 0\n");
        assert_eq!(text(LogKind::Clat), "600, 200, 0, 0, 0\n600, 7, 1, 0, 0\n");
    }
}
