//! How fast a device drains, measured briefly, in bounded bytes and time.
//!
//! ```text
//! drain what is dirty → settle
//!   → write one file with a bounded backlog (load's filling of a random flood's file)
//!   → its tail's rate
//!   → remove it, drain again
//! ```
//!
//! The file's writeback is started as it is written and awaited 64 MiB behind. So the device always
//! has a backlog, and RAM never holds more than 64 MiB of it. No dirty limit is reached, and no
//! other program stalls for longer than those 64 MiB take. The data are random, so that nothing
//! compresses them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use floodwall_load::{LoadError, prepare_flood};
use floodwall_model::runner::{Second, Step};
use floodwall_model::scenario::parse_flood;
use floodwall_model::{Bytes, Rate, Watch};

use super::{HostRunner, free_space};
use crate::drain;
use crate::error::BenchError;
use crate::scratch::ScratchError;

/// The scratch file's directory, below the runner's own.
const NAME: &str = "drain";
/// The least that says anything: twice what is in flight.
const LEAST: Bytes = Bytes(160 << 20);
/// Once so much is accepted, the device has had a full backlog (load's filling waits 64 MiB and a
/// step of 8 MiB behind).
const PRIMED_BYTES: u64 = 80 << 20;
/// How often the device is looked at.
const TICK: Duration = Duration::from_millis(50);
/// The beginning that does not count: a device's own cache is faster than its medium.
const LEFT_OUT: u32 = 3;
/// The tail lasts this part of the measurement at least. A slower device has a full backlog only at
/// the end, and its completions in a moment are no rate. Then all of the measurement counts.
const LEAST_TAIL: u32 = 3;
/// A second half slower than this share of the first says that a cache has filled up meanwhile; the
/// second half is taken then.
const SLOWED: f64 = 0.7;
/// Before it: others' backlogs are written back, and the device left alone.
const SETTLE: Duration = Duration::from_millis(300);
/// A note is given if other programs write more than this: as a multiple of our bytes, and in
/// bytes.
const FOREIGN_SHARE: f64 = 1.3;
const FOREIGN_BYTES: u64 = 32 << 20;

/// The bounds of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes written at the most.
    pub bytes: Bytes,
    /// Time after which it ends, give or take what 8 MiB take.
    pub time: Duration,
}

/// How fast a device drains.
#[derive(Clone, Debug, PartialEq)]
pub struct DrainRate {
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// How long the part lasted that counts, in seconds.
    pub seconds: f64,
    /// All bytes written.
    pub written: Bytes,
    /// Notes for people.
    pub notes: Vec<String>,
}

/// A moment of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample {
    at: Duration,
    /// Bytes that the kernel has accepted from us.
    accepted: u64,
    /// Bytes that the device has completed, for whomever; `None` where there is no device, or more
    /// than one.
    completed: Option<u64>,
}

impl HostRunner {
    /// Measures how fast the directory's device drains. The runner's other files must not be in
    /// use.
    ///
    /// The scratch file is gone afterwards, and so is its backlog.
    ///
    /// # Errors
    /// [`BenchError::CutShort`] if there is too little space or the device did nothing;
    /// [`BenchError::Interrupted`], [`BenchError::Load`], [`BenchError::Writeback`].
    pub fn drain_rate(
        &mut self,
        bounds: Bounds,
        watch: &mut dyn Watch,
    ) -> Result<DrainRate, BenchError> {
        let free = free_space(self.scratch.dir())?;
        let bytes = Bytes(bounds.bytes.0.min(free.0 - free.0 / 10) >> 20 << 20);
        if bytes < LEAST {
            let why = if bounds.bytes < LEAST {
                "asked for".to_owned()
            } else {
                format!("left of {free} that are free")
            };
            return Err(BenchError::CutShort(format!(
                "can't measure with {bytes} {why}: it takes {LEAST} at least to tell a drain rate"
            )));
        }
        let stop = std::sync::Arc::clone(&self.options.stop);
        drain::drain(self.scratch.dir(), &mut self.sampler, &self.options, 0, watch)?;
        drain::settle(&mut self.sampler, SETTLE, &stop, 0, watch)?;
        let samples = self.fill(bytes, bounds.time, watch);
        // The file is removed in any case; writes under way are awaited below.
        let removed = self.scratch.dir().remove_tree(NAME);
        let samples = samples?;
        removed.map_err(|e| ScratchError::Remove {
            path: self.scratch.path().to_owned(),
            source: e,
        })?;
        drain::drain(self.scratch.dir(), &mut self.sampler, &self.options, 0, watch)?;
        let (samples, written) = samples;
        rate(&samples).map(|rate| DrainRate { written, ..rate }).ok_or_else(|| {
            BenchError::CutShort(
                "nothing reached the device in this time: see the kernel log".to_owned(),
            )
        })
    }

    /// Writes the file, and notes how it goes. Gives that and the bytes that were written.
    fn fill(
        &mut self,
        bytes: Bytes,
        time: Duration,
        watch: &mut dyn Watch,
    ) -> Result<(Vec<Sample>, Bytes), BenchError> {
        let spec = format!("random,name={NAME},block=1MiB,size={}B", bytes.0);
        let flood = parse_flood(&spec).map_err(|e| BenchError::CutShort(e.to_string()))?;
        watch.step(Step {
            what: "measuring the drain rate",
            phase: None,
            round: 0,
            expected_s: time.as_secs_f64(),
        });
        // Several disks below one filesystem (btrfs) may each get every byte. There, bytes that
        // leave the page cache count.
        let one_device = self.location.queue_devices.len() == 1;
        let (sampler, options) = (&mut self.sampler, &self.options);
        let _ = sampler.sample();
        let begin = Instant::now();
        let halt = AtomicBool::new(false);
        let mut samples: Vec<Sample> = Vec::new();
        let (mut accepted, mut completed) = (0_u64, one_device.then_some(0_u64));
        let (mut last, mut shown) = (begin, begin);
        let mut progress = |more: u64| {
            accepted += more;
            let now = Instant::now();
            if options.stop.load(Ordering::Relaxed)
                || (now - begin >= time && accepted > PRIMED_BYTES)
            {
                halt.store(true, Ordering::Relaxed);
            }
            if now - last < TICK && !halt.load(Ordering::Relaxed) {
                return;
            }
            last = now;
            let device = sampler.sample().device;
            completed = completed.zip(device).map(|(sum, device)| sum + device.written_bytes);
            samples.push(Sample { at: now - begin, accepted, completed });
            if now - shown >= Duration::from_secs(1) {
                shown = now;
                watch.second(&Second {
                    elapsed_s: options.origin.elapsed().as_secs_f64(),
                    done: Some((accepted as f64 / bytes.0 as f64).min(1.0)),
                    interval: None,
                    drain_bytes_per_s: rate(&samples).map(|rate| rate.bytes_per_s),
                });
            }
        };
        let filled =
            prepare_flood(self.scratch.dir(), &flood, None, options.seed, &mut progress, &halt);
        match filled {
            _ if options.stop.load(Ordering::Relaxed) => Err(BenchError::Interrupted),
            // Time was up.
            Ok(_) | Err(LoadError::Interrupted) => Ok((samples, Bytes(accepted))),
            Err(e) => Err(e.into()),
        }
    }
}

/// The rate of the tail. `None` if nothing was completed.
fn rate(samples: &[Sample]) -> Option<DrainRate> {
    let last = samples.last()?;
    let counts =
        |sample: &Sample| sample.accepted >= PRIMED_BYTES && sample.at >= last.at / LEFT_OUT;
    let begin = samples.iter().position(counts).unwrap_or(0);
    let long = last.at - samples[begin].at >= last.at / LEAST_TAIL;
    let tail = if long { &samples[begin..] } else { samples };
    let (first, middle) = (tail.first()?, tail.get(tail.len() / 2)?);
    let mut notes = Vec::new();
    let whole = between(first, last)?;
    let (mut bytes_per_s, mut from) = (whole, first);
    // A slow device completes in bursts: nothing in the last half, of a moment perhaps, is no rate.
    if let (Some(before), Some(after)) = (between(first, middle), between(middle, last))
        && after > 0.0
        && after < before * SLOWED
    {
        notes.push(format!(
            "it became slower while it was measured ({} to {}): a cache took the beginning; more \
             bytes say more",
            Rate(before),
            Rate(after)
        ));
        (bytes_per_s, from) = (after, middle);
    }
    let completed = first.completed.zip(last.completed).map(|(a, b)| b.saturating_sub(a));
    let accepted = last.accepted - first.accepted;
    if completed
        .is_some_and(|n| n > accepted + FOREIGN_BYTES && n as f64 > accepted as f64 * FOREIGN_SHARE)
    {
        notes.push(
            "something else writes to this device too: the rate is that of everything together"
                .to_owned(),
        );
    }
    (bytes_per_s > 0.0).then(|| DrainRate {
        bytes_per_s,
        seconds: (last.at - from.at).as_secs_f64(),
        written: Bytes(last.accepted),
        notes,
    })
}

/// Bytes a second between two moments: what the device completed, or else what was accepted.
fn between(from: &Sample, to: &Sample) -> Option<f64> {
    let bytes = match from.completed.zip(to.completed) {
        Some((before, after)) => after.saturating_sub(before),
        None => to.accepted.saturating_sub(from.accepted),
    };
    let seconds = to.at.saturating_sub(from.at).as_secs_f64();
    (seconds > 0.0).then(|| bytes as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    /// A device of so many MB a second, and 72 MiB of backlog, sampled for so many seconds.
    fn steady(rate_mb: u64, seconds: u64) -> Vec<Sample> {
        let sample = |tick: u64| {
            let completed = rate_mb * MB * tick / 20;
            Sample {
                at: TICK * tick as u32,
                accepted: completed + (72 << 20),
                completed: Some(completed),
            }
        };
        (0..=seconds * 20).map(sample).collect()
    }

    #[test]
    fn a_steady_device_shows_its_rate() {
        let measured = rate(&steady(150, 6)).unwrap();
        assert!((measured.bytes_per_s / 150e6 - 1.0).abs() < 1e-9, "{measured:?}");
        assert!((measured.seconds - 4.0).abs() < 0.06 && measured.notes.is_empty(), "{measured:?}");
        assert_eq!(measured.written, Bytes(150 * MB * 6 + (72 << 20)));
    }

    #[test]
    fn without_a_device_what_is_accepted_counts() {
        let mut samples = steady(50, 8);
        samples.iter_mut().for_each(|sample| sample.completed = None);
        assert!((rate(&samples).unwrap().bytes_per_s / 50e6 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_cache_that_fills_up_is_noticed_and_left_out() {
        // 400 MB/s for 3 s, then 100 MB/s.
        let completed = |tick: u64| MB * (20 * tick.min(60) + 5 * tick.saturating_sub(60));
        let samples: Vec<Sample> = (0..=120)
            .map(|tick| Sample {
                at: TICK * tick as u32,
                accepted: completed(tick) + (72 << 20),
                completed: Some(completed(tick)),
            })
            .collect();
        let measured = rate(&samples).unwrap();
        assert!((measured.bytes_per_s / 100e6 - 1.0).abs() < 1e-6, "{measured:?}");
        assert!(measured.notes[0].contains("became slower"), "{measured:?}");
    }

    #[test]
    fn a_slow_device_may_complete_nothing_for_a_moment() {
        let sample = |ms: u64, mb: u64| Sample {
            at: Duration::from_millis(ms),
            accepted: mb * MB + (72 << 20),
            completed: Some(mb * MB),
        };
        let measured = rate(&[sample(5000, 45), sample(10_000, 90), sample(10_050, 90)]).unwrap();
        assert!((measured.bytes_per_s / (45e6 / 5.05) - 1.0).abs() < 1e-9, "{measured:?}");
    }

    #[test]
    fn a_device_so_slow_that_its_backlog_is_full_only_at_the_end_has_a_rate() {
        let sample = |ms: u64, completed: u64| Sample {
            at: Duration::from_millis(ms),
            accepted: completed + (72 << 20),
            completed: Some(completed),
        };
        // 800 kB a second; at the end three samples with a full backlog, and nothing completed.
        let mut samples: Vec<Sample> = (0..=10).map(|s| sample(s * 1000, s * 800_000)).collect();
        samples.extend(
            [10_060, 10_120, 10_180]
                .map(|ms| Sample { accepted: PRIMED_BYTES + ms, ..sample(ms, 8_000_000) }),
        );
        let measured = rate(&samples).unwrap();
        assert!((measured.bytes_per_s / (8e6 / 10.18) - 1.0).abs() < 1e-9, "{measured:?}");
        assert!(
            (measured.seconds - 10.18).abs() < 1e-9 && measured.notes.is_empty(),
            "{measured:?}"
        );
    }

    #[test]
    fn others_on_the_device_are_noticed() {
        let mut samples = steady(100, 6);
        samples.iter_mut().for_each(|sample| sample.completed = sample.completed.map(|n| n * 2));
        assert!(rate(&samples).unwrap().notes[0].contains("something else"));
    }

    #[test]
    fn nothing_is_no_rate() {
        assert_eq!(rate(&[]), None);
        let still: Vec<Sample> = (0..9)
            .map(|n| Sample { at: TICK * n, accepted: 1 << 20, completed: Some(0) })
            .collect();
        assert_eq!(rate(&still), None);
    }
}
