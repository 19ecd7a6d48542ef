//! Live latency counters: one writer that neither allocates nor locks, any number of readers.
//!
//! ```text
//! worker thread ── record(op, ns) ─▶ Recorder ◀─ sample() ─ Sampler ─▶ Delta since the last sample
//!                                   (atomics)               (last values seen)
//! ```
//!
//! A [`Recorder`] belongs to one worker thread, which alone writes it, so a counter is a relaxed
//! load and a store and not a locked instruction. A [`Sampler`] reads the recorders of a whole load
//! and returns the growth since its last reading. Counters only grow; they wrap at 2^32 operations
//! of one latency, which the difference of two samples survives as long as fewer than that fall
//! into one interval.
//!
//! **What a reader may see while the writer writes.** An operation's maximum and sum are stored
//! before its count; a reader reads them in the opposite order. So a sample may hold an operation's
//! time before it holds the operation, never the reverse, and the count always follows. Once the
//! writer is quiescent everything is exact: the deltas add up to the recorded totals.
//!
//! Memory: [`BUCKETS`] × 4 bytes for each kind of operation that a worker needs, and as much again
//! in the sampler: 37 KiB. A sample looks only at the range of buckets ever touched, typically a
//! few hundred.
//!
//! Units: nanoseconds and bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use floodwall_model::LatencyCounts;
use floodwall_model::latency::{BUCKETS, bucket_of};
use floodwall_model::trial::OpLatencies;

/// A kind of operation whose latency is counted by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Write + sync of a committed write, from its intended start.
    Commit = 0,
    /// The write call alone.
    Write = 1,
    /// The sync call alone.
    Sync = 2,
    /// A read, from its intended start.
    Read = 3,
}

impl Op {
    /// All kinds, in the order in which they are stored.
    pub const ALL: [Self; 4] = [Self::Commit, Self::Write, Self::Sync, Self::Read];
}

/// Histogram of one kind of operation.
#[derive(Debug)]
struct Counters {
    /// Operations per bucket, wrapping.
    counts: Box<[AtomicU32]>,
    /// Sum of latencies, wrapping at 2^64 ns (584 years).
    sum_ns: AtomicU64,
    /// Largest latency since a reader took it.
    max_ns: AtomicU64,
    /// Lowest bucket ever touched; `BUCKETS` before the first.
    lowest: AtomicU32,
    /// One more than the highest bucket ever touched; 0 before the first.
    end: AtomicU32,
}

impl Counters {
    fn new() -> Self {
        Self {
            counts: (0..BUCKETS).map(|_| AtomicU32::new(0)).collect(),
            sum_ns: AtomicU64::new(0),
            max_ns: AtomicU64::new(0),
            lowest: AtomicU32::new(BUCKETS as u32),
            end: AtomicU32::new(0),
        }
    }

    #[inline]
    fn record(&self, ns: u64) {
        let bucket = bucket_of(ns);
        if (bucket as u32) < self.lowest.load(Ordering::Relaxed) {
            self.lowest.store(bucket as u32, Ordering::Relaxed);
        }
        if bucket as u32 >= self.end.load(Ordering::Relaxed) {
            self.end.store(bucket as u32 + 1, Ordering::Relaxed);
        }
        if ns > self.max_ns.load(Ordering::Relaxed) {
            // A reader may take the maximum between the load and this: fetch_max then puts this one
            // into the new interval.
            self.max_ns.fetch_max(ns, Ordering::Relaxed);
        }
        self.sum_ns.store(self.sum_ns.load(Ordering::Relaxed).wrapping_add(ns), Ordering::Relaxed);
        if let Some(count) = self.counts.get(bucket) {
            // Release: a reader that sees the count sees all of the above.
            count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        }
    }
}

/// The counters of one worker thread.
///
/// Only one thread may record at a time; a second one loses counts, no more. Readers go through a
/// [`Sampler`].
#[derive(Debug)]
// A cache line and its prefetched neighbour to itself: two workers must not fight over one.
#[repr(align(128))]
pub struct Recorder {
    kinds: [Option<Counters>; 4],
    /// Operations counted without a latency.
    untimed_ops: AtomicU64,
    bytes: AtomicU64,
}

impl Recorder {
    /// Counters for these kinds of operation. Allocates all that will ever be needed.
    #[must_use]
    pub fn new(kinds: &[Op]) -> Self {
        Self {
            kinds: Op::ALL.map(|op| kinds.contains(&op).then(Counters::new)),
            untimed_ops: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Counts one operation and how long it took. A kind that was not asked for in
    /// [`Recorder::new`] is ignored.
    #[inline]
    pub fn record(&self, op: Op, ns: u64) {
        if let Some(counters) = &self.kinds[op as usize] {
            counters.record(ns);
        }
    }

    /// Adds bytes moved by operations that [`Recorder::record`] counts.
    #[inline]
    pub fn add_bytes(&self, bytes: u64) {
        self.bytes.store(self.bytes.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
    }

    /// Counts one operation that no process waits for, with its bytes and without a latency.
    #[inline]
    pub fn count_untimed(&self, bytes: u64) {
        let ops = self.untimed_ops.load(Ordering::Relaxed);
        self.untimed_ops.store(ops.wrapping_add(1), Ordering::Relaxed);
        self.add_bytes(bytes);
    }
}

/// The growth of a set of recorders between two samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delta {
    /// Whole operations completed: commits and reads, as many as `latencies` holds of them, and
    /// operations without latency.
    pub ops: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Latencies by kind of operation.
    pub latencies: OpLatencies,
}

impl Delta {
    /// Adds another's counts.
    pub fn merge(&mut self, other: &Self) {
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.latencies.merge(&other.latencies);
    }
}

/// The values of one [`Counters`] at the last sample.
#[derive(Debug)]
struct Seen {
    counts: Box<[u32]>,
    sum_ns: u64,
}

/// One recorder, and its state at the last reading.
#[derive(Debug)]
struct Source {
    recorder: Arc<Recorder>,
    seen: [Option<Seen>; 4],
    untimed_ops: u64,
    bytes: u64,
}

/// Reads recorders and returns their growth since the last time. Keep one: a growth that it has
/// returned is not returned again.
#[derive(Debug)]
pub struct Sampler {
    sources: Vec<Source>,
    /// One kind's counts added up over all sources; all zero between samples.
    scratch: Box<[u64]>,
    /// By kind: a sum and maximum seen in a sample in which nothing was counted, kept for the
    /// next, which has the count.
    carried: [(u64, u64); 4],
}

impl Sampler {
    /// A reader of these recorders that has seen nothing yet. Allocates all that sampling needs,
    /// bar the deltas themselves.
    #[must_use]
    pub fn new(recorders: impl IntoIterator<Item = Arc<Recorder>>) -> Self {
        let sources = recorders
            .into_iter()
            .map(|recorder| Source {
                seen: [0, 1, 2, 3].map(|kind: usize| {
                    recorder.kinds[kind]
                        .as_ref()
                        .map(|_| Seen { counts: vec![0; BUCKETS].into_boxed_slice(), sum_ns: 0 })
                }),
                recorder,
                untimed_ops: 0,
                bytes: 0,
            })
            .collect();
        Self { sources, scratch: vec![0; BUCKETS].into_boxed_slice(), carried: [(0, 0); 4] }
    }

    /// The growth of the recorders since the last call, all of them together.
    pub fn sample(&mut self) -> Delta {
        let latencies = OpLatencies {
            commit: self.sample_kind(Op::Commit),
            write: self.sample_kind(Op::Write),
            sync: self.sample_kind(Op::Sync),
            read: self.sample_kind(Op::Read),
        };
        let mut delta =
            Delta { ops: latencies.commit.count() + latencies.read.count(), bytes: 0, latencies };
        for source in &mut self.sources {
            let (ops, bytes) = (
                source.recorder.untimed_ops.load(Ordering::Relaxed),
                source.recorder.bytes.load(Ordering::Relaxed),
            );
            delta.ops += ops.wrapping_sub(source.untimed_ops);
            delta.bytes += bytes.wrapping_sub(source.bytes);
            (source.untimed_ops, source.bytes) = (ops, bytes);
        }
        delta
    }

    fn sample_kind(&mut self, op: Op) -> LatencyCounts {
        let kind = op as usize;
        let (mut sum_ns, mut max_ns) = self.carried[kind];
        let (mut from, mut to) = (BUCKETS, 0);
        for source in &mut self.sources {
            let (Some(live), Some(seen)) = (&source.recorder.kinds[kind], &mut source.seen[kind])
            else {
                continue;
            };
            let lowest = live.lowest.load(Ordering::Relaxed) as usize;
            let end = (live.end.load(Ordering::Relaxed) as usize).min(BUCKETS);
            if lowest < end {
                (from, to) = (from.min(lowest), to.max(end));
                let touched = live.counts[lowest..end].iter().zip(&mut seen.counts[lowest..end]);
                for ((count, last), total) in touched.zip(&mut self.scratch[lowest..end]) {
                    let now = count.load(Ordering::Relaxed);
                    *total += u64::from(now.wrapping_sub(*last));
                    *last = now;
                }
            }
            // Opposite to the writer's order, see the module's head. The fence goes with the
            // release of each count.
            fence(Ordering::Acquire);
            let sum = live.sum_ns.load(Ordering::Relaxed);
            sum_ns = sum_ns.wrapping_add(sum.wrapping_sub(seen.sum_ns));
            seen.sum_ns = sum;
            max_ns = max_ns.max(live.max_ns.swap(0, Ordering::Relaxed));
        }
        let range = from..to.max(from);
        let counted = LatencyCounts::from_buckets(
            range.clone().zip(self.scratch[range.clone()].iter().copied()),
            sum_ns,
            max_ns,
        );
        self.scratch[range].fill(0);
        if counted.is_empty() {
            self.carried[kind] = (sum_ns, max_ns);
            return LatencyCounts::default();
        }
        self.carried[kind] = (0, 0);
        counted
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use proptest::prelude::*;

    use super::*;

    fn sampler_of(recorders: &[&Arc<Recorder>]) -> Sampler {
        Sampler::new(recorders.iter().map(|r| Arc::clone(r)))
    }

    #[test]
    fn a_sample_holds_only_what_is_new() {
        let recorder = Arc::new(Recorder::new(&Op::ALL));
        let mut sampler = sampler_of(&[&recorder]);
        assert_eq!(sampler.sample(), Delta::default());

        recorder.record(Op::Commit, 1_000);
        recorder.record(Op::Write, 300);
        recorder.record(Op::Sync, 700);
        recorder.add_bytes(4096);
        let first = sampler.sample();
        assert_eq!((first.ops, first.bytes), (1, 4096));
        assert_eq!(first.latencies.commit, LatencyCounts::from_values([1_000]));
        assert_eq!(first.latencies.write, LatencyCounts::from_values([300]));
        assert_eq!(first.latencies.sync, LatencyCounts::from_values([700]));
        assert!(first.latencies.read.is_empty());

        recorder.record(Op::Read, 50);
        let second = sampler.sample();
        assert_eq!(second.ops, 1);
        assert_eq!(second.latencies.read, LatencyCounts::from_values([50]));
        assert!(second.latencies.commit.is_empty());
        assert_eq!(sampler.sample(), Delta::default());
    }

    #[test]
    fn the_maximum_belongs_to_its_interval() {
        let recorder = Arc::new(Recorder::new(&[Op::Commit]));
        let mut sampler = sampler_of(&[&recorder]);
        recorder.record(Op::Commit, 9_000_001);
        assert_eq!(sampler.sample().latencies.commit.max_ns(), 9_000_001);
        recorder.record(Op::Commit, 17);
        assert_eq!(sampler.sample().latencies.commit.max_ns(), 17);
    }

    #[test]
    fn operations_without_latency_are_counted_beside() {
        let recorder = Arc::new(Recorder::new(&[]));
        let mut sampler = sampler_of(&[&recorder]);
        recorder.count_untimed(10);
        recorder.count_untimed(20);
        recorder.record(Op::Commit, 5);
        let delta = sampler.sample();
        assert_eq!((delta.ops, delta.bytes), (2, 30));
        assert!(delta.latencies.commit.is_empty());
    }

    #[test]
    fn a_time_that_is_seen_before_its_count_is_not_lost() {
        let recorder = Arc::new(Recorder::new(&[Op::Read]));
        let mut sampler = sampler_of(&[&recorder]);
        // The writer is caught between the sum and the count.
        let counters = recorder.kinds[Op::Read as usize].as_ref().unwrap();
        counters.max_ns.store(901, Ordering::Relaxed);
        counters.sum_ns.store(901, Ordering::Relaxed);
        let mut total = sampler.sample();
        assert_eq!(total, Delta::default());
        counters.lowest.store(0, Ordering::Relaxed);
        counters.end.store(BUCKETS as u32, Ordering::Relaxed);
        counters.counts[bucket_of(901)].store(1, Ordering::Release);
        total.merge(&sampler.sample());
        assert_eq!(total.latencies.read, LatencyCounts::from_values([901]));
    }

    #[test]
    fn counters_survive_wrapping_round() {
        let recorder = Arc::new(Recorder::new(&[Op::Read]));
        let counters = recorder.kinds[Op::Read as usize].as_ref().unwrap();
        recorder.record(Op::Read, 7);
        counters.counts[bucket_of(7)].store(u32::MAX, Ordering::Relaxed);
        counters.sum_ns.store(u64::MAX - 3, Ordering::Relaxed);
        let mut sampler = sampler_of(&[&recorder]);
        sampler.sample();
        recorder.record(Op::Read, 7);
        recorder.record(Op::Read, 7);
        assert_eq!(sampler.sample().latencies.read, LatencyCounts::from_values([7, 7]));
    }

    #[test]
    fn sixty_four_threads_stay_under_16_mib() {
        let of_counters = BUCKETS * size_of::<AtomicU32>() + size_of::<Counters>();
        let of_seen = BUCKETS * size_of::<u32>() + size_of::<Seen>();
        let each = 4 * (of_counters + of_seen) + size_of::<Recorder>() + size_of::<Source>();
        assert!(64 * each + BUCKETS * 8 < 16 << 20, "{each} bytes a thread");
    }

    #[test]
    fn a_reader_beside_a_busy_writer_loses_and_invents_nothing() {
        const OPS: u64 = 400_000;
        let recorders: Vec<_> =
            (0..2).map(|_| Arc::new(Recorder::new(&[Op::Commit, Op::Read]))).collect();
        let latency = |n: u64| (n * 2_654_435_761) % 3_000_000;
        let running = AtomicBool::new(true);
        let (mut total, mut samples) = (Delta::default(), 0);
        std::thread::scope(|scope| {
            let writers: Vec<_> = recorders
                .iter()
                .map(|recorder| {
                    scope.spawn(move || {
                        for n in 0..OPS {
                            recorder
                                .record(if n % 3 == 0 { Op::Read } else { Op::Commit }, latency(n));
                            recorder.add_bytes(8);
                        }
                    })
                })
                .collect();
            let reader = scope.spawn(|| {
                let mut sampler = Sampler::new(recorders.iter().cloned());
                loop {
                    let last = !running.load(Ordering::Acquire);
                    let delta = sampler.sample();
                    let counted = delta.latencies.commit.count() + delta.latencies.read.count();
                    assert_eq!(
                        delta.ops, counted,
                        "operations are what the histograms hold, at any moment"
                    );
                    total.merge(&delta);
                    samples += 1;
                    if last {
                        break;
                    }
                }
            });
            for writer in writers {
                writer.join().unwrap();
            }
            running.store(false, Ordering::Release);
            reader.join().unwrap();
        });
        let expected = |read: bool| {
            let one = (0..OPS).filter(|n| (n % 3 == 0) == read).map(latency);
            LatencyCounts::from_values(one.clone().chain(one))
        };
        assert_eq!(total.latencies.commit, expected(false), "after {samples} samples");
        assert_eq!(total.latencies.read, expected(true));
        assert_eq!((total.ops, total.bytes), (2 * OPS, 2 * OPS * 8));
    }

    proptest! {
        #[test]
        fn deltas_add_up_to_what_was_recorded(
            steps in prop::collection::vec(
                (0usize..3, 0usize..4, 0u64..1 << 44, any::<bool>()), 0..200),
        ) {
            let recorders: Vec<_> = (0..3).map(|_| Arc::new(Recorder::new(&Op::ALL))).collect();
            let mut sampler = Sampler::new(recorders.iter().cloned());
            let (mut total, mut values) = (Delta::default(), [const { Vec::new() }; 4]);
            for (worker, kind, ns, sample) in steps {
                recorders[worker].record(Op::ALL[kind], ns);
                recorders[worker].add_bytes(ns & 0xff);
                values[kind].push(ns);
                if sample {
                    total.merge(&sampler.sample());
                }
            }
            total.merge(&sampler.sample());
            let bytes: u64 = values.iter().flatten().map(|ns| ns & 0xff).sum();
            prop_assert_eq!(total.bytes, bytes);
            let [commit, write, sync, read] = values.map(LatencyCounts::from_values);
            prop_assert_eq!(total.ops, commit.count() + read.count());
            prop_assert_eq!(total.latencies, OpLatencies { commit, write, sync, read });
        }
    }
}
