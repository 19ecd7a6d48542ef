//! A short queue: less of a flood stands before a commit.
//!
//! ```text
//! drain rate of each disk ─▶ bytes that drain in 8 ms ─▶ requests × their size ─▶ settings, gain
//! ```
//!
//! A commit waits for the requests that are in the queue before it. The queue is frozen for a
//! moment at each change, but what waits in memory need not be written first, as with a lower
//! limit.

use floodwall_model::diagnosis::{Action, Disk};
use floodwall_model::status::{Device, DrainSource, Leaf, Queue};
use floodwall_model::{Bytes, Reading};

use super::super::view::{rate, time};
use super::trial::on_trial;

/// What stands before a commit may take so long. It is about one request of a disk that seeks: a
/// shorter queue leaves the disk idle between two.
const QUEUE_S: f64 = 0.008;
/// Requests of this size: with smaller ones a disk loses throughput, larger ones are longer than
/// [`QUEUE_S`] on a slow disk.
const REQUEST_KIB: u64 = 128;
/// … and for a disk so fast that [`MOST_REQUESTS`] of them are too few.
const LARGE_REQUEST_KIB: u64 = 512;
/// The least that the kernel takes for every elevator (block/blk.h `BLKDEV_MIN_RQ` is 4), and room
/// for a commit of several requests.
const LEAST_REQUESTS: u64 = 8;
const MOST_REQUESTS: u64 = 64;
/// From here on an elevator's work for each request shows in a disk's throughput, so that the
/// elevator stays as it is (Documentation/block/bfq-iosched.rst).
const FAST_BYTES_PER_S: f64 = 1e9;
/// Elevators that put a commit before the requests of a flood, the better first.
const ELEVATORS: [&str; 2] = ["bfq", "mq-deadline"];

/// Shortens the queues of the disks that drain for `disk`; `None` where no queue would get shorter.
pub(super) fn shorten(disk: &Disk, device: &Device) -> Option<Action> {
    let short: Vec<Short<'_>> = queues(disk, device).into_iter().filter_map(Short::of).collect();
    let first = short.first()?;
    let names = short.iter().map(|one| one.name).collect::<Vec<_>>().join(" and ");
    let settings: Vec<String> = short.iter().flat_map(Short::settings).collect();
    let what = format!("shorten the queue of {names}");
    let price = format!(
        "the flood gets less of {}, because fewer of its requests are merged and sorted; the queue \
         is frozen for a moment at each change",
        disk.name
    );
    Some(Action { gain: first.gain(), ..on_trial(what, settings, price) })
}

/// Whether a queue is known that could be shortened, or is short.
pub(super) fn is_there(disk: &Disk, device: &Device) -> bool {
    queues(disk, device).iter().any(|one| one.queue.nr_requests.value().is_some())
}

/// A queue and how fast its disk drains.
struct Drained<'a> {
    name: &'a str,
    queue: &'a Queue,
    bytes_per_s: Option<f64>,
}

/// The queues that a disk's requests stand in: its own, or those of the disks below. What one of
/// these wrote is its own rate; without that it has its part of the whole.
fn queues<'a>(disk: &Disk, device: &'a Device) -> Vec<Drained<'a>> {
    let all = rate(device);
    let leaves: Vec<&Leaf> =
        device.leaves.iter().filter(|leaf| device.id == disk.id || leaf.id == disk.id).collect();
    if leaves.is_empty() {
        return vec![Drained { name: &device.name, queue: &device.queue, bytes_per_s: all }];
    }
    let part = all.map(|all| all / device.leaves.len() as f64);
    let is_seen = device.drain.from == DrainSource::Seen;
    let of = |leaf: &'a Leaf| {
        let own = leaf.written_bytes_per_s.value().copied();
        let bytes_per_s = own.filter(|own| is_seen && *own > 0.0).or(part);
        Drained { name: &leaf.name, queue: &leaf.queue, bytes_per_s }
    };
    leaves.into_iter().map(of).collect()
}

/// A queue that is longer than it need be, and its wanted length.
struct Short<'a> {
    name: &'a str,
    /// Another elevator, if a better one is there.
    elevator: Option<&'static str>,
    requests: u64,
    request_kib: u64,
    ends_throttling: bool,
    was_bytes: u64,
    drains: Option<f64>,
}

impl<'a> Short<'a> {
    /// `None` if it is as short already, or can't be read.
    fn of(of: Drained<'a>) -> Option<Self> {
        let Drained { name, queue, bytes_per_s: drains } = of;
        let (now, now_kib) = (*queue.nr_requests.value()?, *queue.max_sectors_kib.value()?);
        let (requests, request_kib) = length(drains);
        let (requests, request_kib) = (requests.min(now), request_kib.min(now_kib));
        let bytes = |requests: u64, kib: u64| requests.saturating_mul(kib << 10);
        let was_bytes = bytes(now, now_kib);
        if bytes(requests, request_kib) >= was_bytes {
            return None;
        }
        let offered = queue.offered.value().map(Vec::as_slice).unwrap_or_default();
        let is_fast = drains.is_some_and(|rate| rate >= FAST_BYTES_PER_S);
        let is_offered = |name: &&str| offered.iter().any(|other| other == name);
        let best = ELEVATORS.into_iter().find(is_offered).filter(|_| !is_fast);
        let elevator = best.filter(|best| queue.scheduler != Reading::Value((*best).to_owned()));
        let ends_throttling = queue.wbt_lat_us.value().is_some_and(|lat| *lat > 0);
        Some(Self { name, elevator, requests, request_kib, ends_throttling, was_bytes, drains })
    }

    /// As `floodwall apply` takes them.
    fn settings(&self) -> Vec<String> {
        let name = self.name;
        let elevator = self.elevator.map(|elevator| format!("{name}.scheduler={elevator}"));
        // It would hold back a flood by another measure, and counts commits among it.
        let wbt = self.ends_throttling.then(|| format!("{name}.wbt_lat_usec=0"));
        let length = [
            format!("{name}.nr_requests={}", self.requests),
            format!("{name}.max_sectors_kb={}", self.request_kib),
        ];
        elevator.into_iter().chain(length).chain(wbt).collect()
    }

    /// What stands before a commit, by the disk's own rate.
    fn gain(&self) -> Option<String> {
        let drains = self.drains.filter(|rate| *rate > 0.0)?;
        let told =
            |bytes: u64| format!("{}, which takes {}", Bytes(bytes), time(bytes as f64 / drains));
        let bytes = self.requests * (self.request_kib << 10);
        Some(format!(
            "a full queue of {} before a commit falls from {} to {}",
            self.name,
            told(self.was_bytes),
            told(bytes)
        ))
    }
}

/// Requests and their size in KiB that drain in [`QUEUE_S`].
fn length(drains: Option<f64>) -> (u64, u64) {
    let Some(drains) = drains else { return (LEAST_REQUESTS, REQUEST_KIB) };
    let requests = |kib: u64| (drains * QUEUE_S / (kib << 10) as f64).round() as u64;
    match requests(REQUEST_KIB) {
        many if many > MOST_REQUESTS => {
            (requests(LARGE_REQUEST_KIB).max(LEAST_REQUESTS), LARGE_REQUEST_KIB)
        }
        few => (few.max(LEAST_REQUESTS), REQUEST_KIB),
    }
}
