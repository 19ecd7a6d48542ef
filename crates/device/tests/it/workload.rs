//! Closed loops over a device, in virtual time: each thread submits its next request when the last
//! one is done.

use floodwall_device::{Completion, Device, DeviceSpec, Nanos, Op, Request};

/// A small separate generator (xorshift64*), so that tests don't share the models' random numbers.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((u128::from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)) * u128::from(n)) >> 64) as u64
    }
}

pub(crate) fn full(name: &str) -> Box<dyn Device + Send> {
    let spec = DeviceSpec::preset(name).unwrap_or_else(|e| panic!("{name}: {e}"));
    spec.build(spec.capacity().0, 1).unwrap()
}

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = KIB << 10;
pub(crate) const GIB: u64 = MIB << 10;

/// What a closed loop measured in its second part.
pub(crate) struct Measured {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
}

impl Measured {
    pub(crate) fn iops(&self) -> f64 {
        self.operations as f64 / self.seconds
    }

    pub(crate) fn rate(&self) -> f64 {
        self.bytes as f64 / self.seconds
    }
}

/// `threads` threads, each asking `next(thread, step)` for its next request: `None` ends an
/// operation of several requests. Warms up for `warmup` seconds and measures for `seconds`.
pub(crate) fn closed_loop(
    device: &mut dyn Device,
    threads: usize,
    warmup: f64,
    seconds: f64,
    mut next: impl FnMut(usize, usize) -> Option<(Op, u64, u64)>,
) -> Measured {
    let (begin, end) = (Nanos::from_secs_f64(warmup), Nanos::from_secs_f64(warmup + seconds));
    let mut steps = vec![0usize; threads];
    let mut last_len = vec![0u64; threads];
    let mut measured = Measured { operations: 0, bytes: 0, seconds };
    let mut id = 0;
    let mut submit =
        |device: &mut dyn Device, now, thread: usize, steps: &mut Vec<usize>| -> (u64, bool) {
            let mut ended = false;
            let (op, offset, len) = next(thread, steps[thread]).unwrap_or_else(|| {
                ended = true;
                steps[thread] = 0;
                next(thread, 0).unwrap()
            });
            steps[thread] += 1;
            id += 1;
            // The thread is part of the id.
            device.submit(now, Request::new(id * 1024 + thread as u64, op, offset, len));
            (len, ended)
        };
    for (thread, len) in last_len.iter_mut().enumerate() {
        *len = submit(device, Nanos::ZERO, thread, &mut steps).0;
    }
    let mut out: Vec<Completion> = Vec::new();
    while let Some(now) = device.next_event().filter(|t| *t < end) {
        device.advance(now, &mut out);
        for c in out.drain(..) {
            let thread = (c.id % 1024) as usize;
            if c.at >= begin {
                measured.bytes += last_len[thread];
            }
            let (len, ended) = submit(device, c.at, thread, &mut steps);
            last_len[thread] = len;
            if ended && c.at >= begin {
                measured.operations += 1;
            }
        }
    }
    measured
}

/// One request an operation.
pub(crate) fn single(
    mut next: impl FnMut() -> (Op, u64, u64),
) -> impl FnMut(usize, usize) -> Option<(Op, u64, u64)> {
    move |_, step| (step == 0).then(&mut next)
}
