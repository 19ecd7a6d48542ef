//! The known state that every phase starts from: no backlog in RAM, and the device left alone for a while.
//!
//! What a *device* still holds in its own cache can't be seen from outside; the settling pause is for that, and the
//! stationarity test of the warm-up catches what it leaves over.

use std::fs::File;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::{Duration, Instant};

use floodwall_host::Sampler;
use floodwall_load::sleep_until;
use floodwall_model::rig::{Second, Step};
use floodwall_model::{Interval, Rate, Watch};

use crate::phase::drain_rate;
use crate::rig::BenchError;

/// How often the backlog is looked at.
const TICK: Duration = Duration::from_millis(100);
/// A device that is idle for this long has nothing more coming.
const IDLE_TICKS: u32 = 2;
/// How long to wait for a device that somebody else keeps busy.
const BUSY_PATIENCE: Duration = Duration::from_secs(10);
/// More than this a second while we pause is somebody else's work.
const FOREIGN_BYTES_PER_S: f64 = 4e6;

/// Writes back what is dirty on the directory's filesystem, and waits until its device is idle.
///
/// `directory` must have been open since before the first write: the kernel tells each open file once of every writeback error since then
/// (errseq_t; syncfs(2) since 5.8). A flood does not sync, so nobody else would hear of its lost pages.
pub(crate) fn drain(
    directory: &File,
    sampler: &mut Sampler,
    stop: &AtomicBool,
    origin: Instant,
    round: u32,
    watch: &mut dyn Watch,
) -> Result<(), BenchError> {
    watch.step(Step { what: "draining", phase: None, round, expected_s: 0.5 });
    let synced = start_syncfs(directory);
    let begin = Instant::now();
    let mut shown = begin;
    let mut idle = 0;
    let mut synced_at = None;
    let _ = sampler.sample();
    let mut last = begin;
    loop {
        if !sleep_until(last + TICK, stop) {
            return Err(BenchError::Interrupted);
        }
        let host = sampler.sample();
        let seconds = last.elapsed().as_secs_f64();
        last = Instant::now();
        if last - shown >= Duration::from_secs(1) {
            shown = last;
            let drain_bytes_per_s = drain_rate(&host, seconds);
            watch.second(&Second {
                elapsed_s: origin.elapsed().as_secs_f64(),
                done: None,
                drain_bytes_per_s,
                interval: Some(&Interval { seconds, host: host.clone(), ..Interval::default() }),
            });
        }
        if synced_at.is_none() {
            match synced.try_recv() {
                Ok(result) => result.map_err(BenchError::Writeback)?,
                Err(TryRecvError::Empty) => continue,
                // The thread could not be started; the device's idleness has to do.
                Err(TryRecvError::Disconnected) => {}
            }
        }
        let synced_at = *synced_at.get_or_insert(last);
        let busy = host.device.is_some_and(|d| d.in_flight > 0 || d.written_bytes > 0);
        idle = if busy { 0 } else { idle + 1 };
        if idle >= IDLE_TICKS {
            return Ok(());
        }
        if last - synced_at > BUSY_PATIENCE {
            watch.warn("something else keeps this device busy: the phases do not start from an idle device");
            return Ok(());
        }
    }
}

/// Starts syncfs(2) in a thread of its own: it can take minutes and can't be interrupted, and the user's Ctrl-C should not wait for it.
fn start_syncfs(directory: &File) -> Receiver<io::Result<()>> {
    let (send, receive) = mpsc::channel();
    if let Ok(directory) = directory.try_clone() {
        // If the thread can't be started, `send` is dropped and the receiver knows.
        let _ = std::thread::Builder::new().name("fw-syncfs".into()).spawn(move || {
            // Nobody listens any more after an interrupt.
            let _ = send.send(rustix::fs::syncfs(&directory).map_err(io::Error::from));
        });
    }
    receive
}

/// Leaves the device alone for a while, and notices whether others do too.
pub(crate) fn settle(
    sampler: &mut Sampler,
    pause: Duration,
    stop: &AtomicBool,
    round: u32,
    watch: &mut dyn Watch,
) -> Result<(), BenchError> {
    watch.step(Step { what: "settling", phase: None, round, expected_s: pause.as_secs_f64() });
    let _ = sampler.sample();
    let begin = Instant::now();
    if !sleep_until(begin + pause, stop) {
        return Err(BenchError::Interrupted);
    }
    let seconds = begin.elapsed().as_secs_f64().max(1e-3);
    if let Some(device) = sampler.sample().device {
        let moved = (device.written_bytes + device.read_bytes) as f64 / seconds;
        if moved > FOREIGN_BYTES_PER_S {
            watch.warn(&format!(
                "something else moves {} on this device while the benchmark pauses: figures include its disturbance",
                Rate(moved)
            ));
        }
    }
    Ok(())
}
