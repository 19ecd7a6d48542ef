//! kyber: as many requests of a kind in the device as its latency allows (`block/kyber-iosched.c`,
//! 6.18).
//!
//! ```text
//! insert ─▶ queue of the CPU and the domain (read, write, discard, other)
//! dispatch: the domain's batch while it lasts and has tokens, else the next domain;
//!           a token each, given back on completion
//! timer (100 ms after the first completion): latencies by domain,
//!           in eighths of twice the target ─▶ tokens of each domain
//! ```
//!
//! A domain whose latency is bad is throttled less. A domain whose latency is good is throttled
//! more as soon as the device is congested (p90 of the latency in the device above target in any
//! domain). The rule is `depth = depth * (p99 bucket + 1) / 4`, between 1 and the domain's maximum.
//! Times in nanoseconds. I/O priorities mean nothing to it.
//!
//! As in the kernel, one timeout serves both percentiles of a domain. Below 500 samples a second
//! p90 takes it each time, and p99 is not calculated before 500 samples are there.

use std::collections::VecDeque;

use floodwall_device::{Nanos, Op};

use super::id_map::IdMap;
use super::jiffies::Clock;
use super::none::merge_into_youngest;
use super::pool::{Fifo, Pool};
use super::tunable::tunables;
use super::{Dispatch, Elevator, Merge, TunableError};
use crate::request::IoRequest;

tunables! {
    /// `queue/iosched/` of kyber.
    pub struct KyberTunables of "kyber" {
        /// Latency that reads should have, ns.
        read_lat_ns: u64 = "read_lat_nsec" in [0, i64::MAX];
        /// Latency that writes should have, ns.
        write_lat_ns: u64 = "write_lat_nsec" in [0, i64::MAX];
    }
}

impl Default for KyberTunables {
    fn default() -> Self {
        Self { read_lat_ns: 2_000_000, write_lat_ns: 10_000_000 }
    }
}

/// Latency that discards should have, ns; no tunable.
const DISCARD_LAT_NS: u64 = 5_000_000_000;

const READ: usize = 0;
const WRITE: usize = 1;
const DISCARD: usize = 2;
const OTHER: usize = 3;
const DOMAINS: usize = 4;
/// Domains whose latency is measured: all but `OTHER`.
const MEASURED: usize = 3;

/// Most tokens of a domain (`kyber_depth`): even fast devices are busy with a fraction of their
/// tags.
const MAX_DEPTH: [u32; DOMAINS] = [256, 128, 64, 16];
/// Requests in a row from a domain (`kyber_batch_size`).
const BATCH: [u32; DOMAINS] = [16, 8, 1, 1];
/// Share of the slots for asynchronous requests, percent (`KYBER_ASYNC_PERCENT`).
const ASYNC_PERCENT: u32 = 75;

/// A quarter of the target is a bucket's width; the first four are at most the target.
const GOOD_BUCKETS: usize = 4;
const BUCKETS: usize = 8;
/// Samples that are enough for a percentile before a second has passed.
const ENOUGH_SAMPLES: u32 = 500;

/// Kinds of latency.
const TOTAL: usize = 0;
const IN_DEVICE: usize = 1;

/// The kyber elevator.
#[derive(Clone, Debug)]
pub struct Kyber {
    clock: Clock,
    tunables: KyberTunables,
    /// Whether the share for asynchronous requests binds synchronous writes too (6.18).
    limits_sync_writes: bool,
    pool: Pool,
    /// Software queues, by CPU and domain: here bios can still be merged.
    cpus: Vec<[Fifo; DOMAINS]>,
    /// Number of requests in the software queues, by domain.
    in_cpus: [u32; DOMAINS],
    /// Taken from the software queues all at once, waiting for a token.
    taken: [Fifo; DOMAINS],
    flushes: VecDeque<IoRequest>,
    domain: usize,
    batching: u32,
    depth: [u32; DOMAINS],
    used: [u32; DOMAINS],
    /// When each request in the device was sent there.
    sent: IdMap<Nanos>,
    buckets: [[[u32; BUCKETS]; 2]; MEASURED],
    /// When a percentile is calculated however few samples there are, jiffies; 0: not set.
    timeout: [u64; MEASURED],
    /// The last p99 that has not been acted on.
    kept_p99: [Option<usize>; MEASURED],
    timer: Option<u64>,
}

impl Kyber {
    /// `release`: the kernel's (major, minor). `hz`: ticks a second. `cpus`: number of software
    /// queues.
    #[must_use]
    pub fn new(release: (u16, u16), hz: u32, cpus: u32, tunables: KyberTunables) -> Self {
        Self {
            clock: Clock::new(hz),
            tunables,
            limits_sync_writes: release >= (6, 18),
            pool: Pool::new(),
            cpus: vec![[Fifo::new(); DOMAINS]; cpus.max(1) as usize],
            in_cpus: [0; DOMAINS],
            taken: [Fifo::new(); DOMAINS],
            flushes: VecDeque::new(),
            domain: READ,
            batching: 0,
            depth: MAX_DEPTH,
            used: [0; DOMAINS],
            sent: IdMap::new(),
            buckets: [[[0; BUCKETS]; 2]; MEASURED],
            timeout: [0; MEASURED],
            kept_p99: [None; MEASURED],
            timer: None,
        }
    }

    /// Tokens of the domains read, write, discard and other at this moment (`*_tokens` in debugfs).
    #[must_use]
    pub const fn depths(&self) -> [u32; 4] {
        self.depth
    }

    fn cpu_of(&self, request: &IoRequest) -> usize {
        request.process.0 as usize % self.cpus.len()
    }

    const fn target_ns(&self, domain: usize) -> u64 {
        match domain {
            READ => self.tunables.read_lat_ns,
            WRITE => self.tunables.write_lat_ns,
            _ => DISCARD_LAT_NS,
        }
    }

    /// `kyber_dispatch_request`.
    fn choose(&mut self, now: Nanos) -> Option<IoRequest> {
        if self.batching < BATCH[self.domain] {
            let request = self.choose_in_domain(now);
            if request.is_some() {
                return request;
            }
        }
        self.batching = 0;
        for _ in 0..DOMAINS {
            self.domain = (self.domain + 1) % DOMAINS;
            let request = self.choose_in_domain(now);
            if request.is_some() {
                return request;
            }
        }
        None
    }

    /// `kyber_dispatch_cur_domain`: without a token requests stay where they can still be merged.
    fn choose_in_domain(&mut self, now: Nanos) -> Option<IoRequest> {
        let domain = self.domain;
        if self.used[domain] >= self.depth[domain] {
            return None;
        }
        if self.taken[domain].is_empty() {
            self.take_from_cpus(domain);
        }
        let handle = self.taken[domain].oldest()?;
        self.taken[domain].unlink(&mut self.pool, handle);
        let request = self.pool.take(handle);
        self.used[domain] += 1;
        self.batching += 1;
        self.sent.insert(request.id, now);
        Some(request)
    }

    /// `kyber_flush_busy_kcqs`.
    fn take_from_cpus(&mut self, domain: usize) {
        if self.in_cpus[domain] == 0 {
            return;
        }
        for cpu in &mut self.cpus {
            while let Some(handle) = cpu[domain].oldest() {
                cpu[domain].unlink(&mut self.pool, handle);
                self.taken[domain].push(&mut self.pool, handle);
            }
        }
        self.in_cpus[domain] = 0;
    }

    fn run_timer(&mut self, now: Nanos) {
        let jiffies = self.clock.jiffies(now);
        if let Some(expires) = self.timer.filter(|&expires| expires <= jiffies) {
            self.timer = None;
            self.adjust(expires);
        }
    }

    /// `kyber_timer_fn`.
    fn adjust(&mut self, jiffies: u64) {
        let mut congested = false;
        for domain in 0..MEASURED {
            let p90 = self.percentile(domain, IN_DEVICE, 90, jiffies);
            congested |= p90.is_some_and(|bucket| bucket >= GOOD_BUCKETS);
        }
        for (domain, most) in MAX_DEPTH.into_iter().enumerate().take(MEASURED) {
            let mut p99 = self.percentile(domain, TOTAL, 99, jiffies);
            // Domains need not have enough samples at the same time: a p99 is kept for the next
            // congestion, and acted on once.
            if congested {
                p99 = p99.or(self.kept_p99[domain]);
                self.kept_p99[domain] = None;
            } else if p99.is_some() {
                self.kept_p99[domain] = p99;
            }
            if let Some(p99) = p99.filter(|&p99| congested || p99 >= GOOD_BUCKETS) {
                let depth = (self.depth[domain] * (p99 as u32 + 1)) >> 2;
                self.depth[domain] = depth.clamp(1, most);
            }
        }
    }

    /// The bucket of a percentile, if there are samples enough (`calculate_percentile`).
    fn percentile(
        &mut self,
        domain: usize,
        kind: usize,
        percent: u32,
        jiffies: u64,
    ) -> Option<usize> {
        let samples: u32 = self.buckets[domain][kind].iter().sum();
        if samples == 0 {
            return None;
        }
        let timeout = &mut self.timeout[domain];
        if *timeout == 0 {
            *timeout = jiffies + self.clock.hz();
        }
        if samples < ENOUGH_SAMPLES && *timeout > jiffies {
            return None;
        }
        *timeout = 0;
        let mut wanted = (samples * percent).div_ceil(100);
        let mut bucket = 0;
        while bucket < BUCKETS - 1 && self.buckets[domain][kind][bucket] < wanted {
            wanted -= self.buckets[domain][kind][bucket];
            bucket += 1;
        }
        self.buckets[domain][kind] = [0; BUCKETS];
        Some(bucket)
    }

    fn add_sample(&mut self, domain: usize, kind: usize, latency_ns: u64) {
        let width = (self.target_ns(domain) >> 2).max(1);
        let bucket = (latency_ns.saturating_sub(1) / width).min(BUCKETS as u64 - 1);
        self.buckets[domain][kind][bucket as usize] += 1;
    }
}

/// `kyber_sched_domain`.
const fn domain_of(request: &IoRequest) -> usize {
    match request.op {
        Op::Read => READ,
        Op::Write { .. } => WRITE,
        Op::Discard => DISCARD,
        Op::Flush | Op::WriteZeroes => OTHER,
    }
}

/// Whether a process waits for it (`op_is_sync`).
const fn is_sync(request: &IoRequest) -> bool {
    request.is_read() || request.flags.sync || matches!(request.op, Op::Write { fua: true })
}

impl Elevator for Kyber {
    fn name(&self) -> &'static str {
        "kyber"
    }

    fn merge(&mut self, now: Nanos, bio: &IoRequest, max_bytes: u64) -> Option<Merge> {
        self.run_timer(now);
        let cpu = self.cpu_of(bio);
        merge_into_youngest(&mut self.pool, &self.cpus[cpu][domain_of(bio)], bio, max_bytes)
    }

    fn insert(&mut self, now: Nanos, request: IoRequest) {
        self.run_timer(now);
        if request.op == Op::Flush {
            self.flushes.push_back(request);
            return;
        }
        let (cpu, domain) = (self.cpu_of(&request), domain_of(&request));
        let handle = self.pool.add(request, domain as u32, 0);
        self.cpus[cpu][domain].push(&mut self.pool, handle);
        self.in_cpus[domain] += 1;
    }

    fn dispatch(&mut self, now: Nanos, _in_flight: u32) -> Dispatch {
        self.run_timer(now);
        if let Some(flush) = self.flushes.pop_front() {
            return Dispatch::Request(flush);
        }
        if self.pool.len() == 0 {
            return Dispatch::Empty;
        }
        match self.choose(now) {
            Some(request) => Dispatch::Request(request),
            None => Dispatch::Wait,
        }
    }

    /// `kyber_completed_request` and `kyber_finish_request`.
    fn completed(&mut self, now: Nanos, request: &IoRequest) {
        self.run_timer(now);
        let Some(sent) = self.sent.remove(request.id) else { return };
        let domain = domain_of(request);
        self.used[domain] = self.used[domain].saturating_sub(1);
        if domain < MEASURED {
            self.add_sample(domain, TOTAL, now.since(request.queued).0);
            self.add_sample(domain, IN_DEVICE, now.since(sent).0);
            let expires = self.clock.jiffies(now) + self.clock.hz() / 10;
            self.timer = Some(self.timer.map_or(expires, |timer| timer.min(expires)));
        }
    }

    /// `kyber_limit_depth`.
    fn depth_limit(&self, request: &IoRequest, nr_requests: u32) -> u32 {
        let limited = if self.limits_sync_writes { !request.is_read() } else { !is_sync(request) };
        if limited { nr_requests * ASYNC_PERCENT / 100 } else { nr_requests }
    }

    fn len(&self) -> usize {
        self.pool.len() + self.flushes.len()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), TunableError> {
        self.tunables.set(name, value)
    }

    fn tunables(&self) -> Vec<(&'static str, String)> {
        self.tunables.list()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{dispatched, drain, from, merged, read, write};
    use super::*;

    fn kyber() -> Kyber {
        Kyber::new((6, 18), 250, 1, KyberTunables::default())
    }

    #[test]
    fn sixteen_reads_then_eight_writes() {
        let mut elevator = kyber();
        for n in 0..40 {
            elevator.insert(Nanos::ZERO, read(n, n * 10, 1));
        }
        for n in 100..120 {
            elevator.insert(Nanos::ZERO, write(n, n * 10, 1));
        }
        let expected: Vec<u64> = (0..16)
            .chain(100..108)
            .chain(16..32)
            .chain(108..116)
            .chain(32..40)
            .chain(116..120)
            .collect();
        assert_eq!(drain(&mut elevator), expected);
    }

    #[test]
    fn without_a_token_a_domain_waits_and_its_bios_still_merge() {
        let mut elevator = kyber();
        elevator.depth[WRITE] = 1;
        elevator.insert(Nanos::ZERO, write(1, 0, 1));
        elevator.insert(Nanos::ZERO, write(2, 100, 1));
        let Dispatch::Request(first) = elevator.dispatch(Nanos::ZERO, 0) else { panic!() };
        assert_eq!(elevator.dispatch(Nanos::ZERO, 1), Dispatch::Wait);
        // Request 2 was taken out of its software queue together with 1: it is past merging, a
        // newcomer is not.
        assert_eq!(merged(&mut elevator, &write(3, 101, 1)), None);
        elevator.insert(Nanos::ZERO, write(4, 200, 1));
        assert_eq!(merged(&mut elevator, &write(5, 201, 1)), Some(4));
        elevator.insert(Nanos::ZERO, read(6, 0, 1));
        assert_eq!(
            dispatched(&mut elevator, Nanos::ZERO),
            Some(6),
            "reads have tokens of their own"
        );
        elevator.completed(Nanos::from_millis(1), &first);
        assert_eq!(dispatched(&mut elevator, Nanos::from_millis(1)), Some(2));
    }

    /// Serves `count` requests one after the other; each takes `latency`.
    fn serve(
        elevator: &mut Kyber,
        start: Nanos,
        count: u64,
        latency: Nanos,
        make: fn(u64) -> IoRequest,
    ) -> Nanos {
        let mut now = start;
        for id in 0..count {
            elevator.insert(now, IoRequest { queued: now, ..make(id) });
            let Dispatch::Request(request) = elevator.dispatch(now, 0) else { panic!() };
            now += latency;
            elevator.completed(now, &request);
        }
        now
    }

    #[test]
    fn slow_reads_take_tokens_from_writes() {
        let mut elevator = kyber();
        // The first completions set the timer; then 600 writes in the first bucket and 600 reads in
        // the sixth (2.5 to 3 ms) are counted.
        let now =
            serve(&mut elevator, Nanos::ZERO, 50, Nanos::from_millis(1), |id| write(id, id, 1));
        assert_eq!(elevator.depths(), [256, 128, 64, 16]);
        elevator.buckets[WRITE][TOTAL][0] = 600;
        elevator.buckets[READ][TOTAL][5] = 600;
        elevator.buckets[READ][IN_DEVICE][5] = 600;
        serve(&mut elevator, now + Nanos::from_millis(100), 1, Nanos::from_millis(3), |id| {
            read(1000 + id, id, 1)
        });
        // Writes: 128 * (0 + 1) / 4; reads: 256 * (5 + 1) / 4, at most 256.
        assert_eq!(elevator.depths(), [256, 32, 64, 16]);
    }

    #[test]
    fn few_samples_are_looked_at_after_a_second() {
        let mut elevator = kyber();
        elevator.kept_p99[WRITE] = Some(0);
        let mut depths = Vec::new();
        for round in 0..14 {
            let now = Nanos::from_millis(100 * round);
            serve(&mut elevator, now, 1, Nanos::from_millis(3), |id| read(id, id, 1));
            depths.push(elevator.depths()[WRITE]);
        }
        // The first timer, at 100 ms, sets the time: one second later all of a few reads being slow
        // is congestion, and the writes pay for it.
        assert_eq!(depths.iter().position(|&depth| depth == 32), Some(11), "{depths:?}");
    }

    #[test]
    fn one_bucket_is_a_quarter_of_the_target() {
        let mut elevator = kyber();
        for (latency_us, bucket) in
            [(1, 0), (500, 0), (501, 1), (2000, 3), (2001, 4), (3500, 6), (9999, 7)]
        {
            elevator.buckets[READ][TOTAL] = [0; BUCKETS];
            elevator.add_sample(READ, TOTAL, latency_us * 1000);
            assert_eq!(elevator.buckets[READ][TOTAL][bucket], 1, "{latency_us} µs");
        }
    }

    #[test]
    fn a_quarter_of_the_slots_is_kept_for_reads() {
        let mut sync = write(1, 0, 1);
        sync.flags.sync = true;
        let depth = |release, request: &IoRequest| {
            Kyber::new(release, 250, 1, KyberTunables::default()).depth_limit(request, 256)
        };
        assert_eq!(depth((6, 18), &write(1, 0, 1)), 192);
        assert_eq!((depth((6, 18), &sync), depth((6, 12), &sync)), (192, 256));
        assert_eq!(depth((6, 18), &read(1, 0, 1)), 256);
    }

    #[test]
    fn cpus_are_emptied_one_after_the_other() {
        let mut elevator = Kyber::new((6, 18), 250, 2, KyberTunables::default());
        for (id, process) in [(1, 1), (2, 0), (3, 1), (4, 0)] {
            elevator.insert(Nanos::ZERO, from(process, read(id, id * 10, 1)));
        }
        assert_eq!(drain(&mut elevator), [2, 4, 1, 3]);
    }
}
