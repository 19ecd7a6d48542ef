//! The known state that every phase starts from: no backlog in RAM, and the device left alone for a
//! while.
//!
//! A *device's* own cache can't be seen from outside. The settling pause lets it empty, and the
//! stationarity test of the warm-up catches the rest.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use floodwall_host::Sampler;
use floodwall_load::{Dir, LoadError, sleep_until};
use floodwall_model::runner::{Second, Step};
use floodwall_model::{Bytes, HostSample, Interval, Rate, Watch};
use floodwall_stats::phase::drain_rate;
use rustix::io::Errno;

use crate::error::BenchError;
use crate::options::Options;

/// How often the backlog is looked at.
const TICK: Duration = Duration::from_millis(100);
/// A device that is idle for this long has nothing more coming.
const IDLE_TICKS: u32 = 2;
/// How long to wait for a device that other programs keep busy.
const BUSY_PATIENCE: Duration = Duration::from_secs(10);
/// More than this a second during the pause is other programs' work.
const FOREIGN_BYTES_PER_S: f64 = 4e6;
/// Dirty pages of others, as a share of the background limit: with more of them the kernel writes
/// back, and throttles, earlier than our own would make it.
const FOREIGN_DIRTY: f64 = 0.25;
/// Fewer dirty bytes than this every machine has at any time.
const USUAL_DIRTY: u64 = 64 << 20;
/// Share of the pause in which some task waits for I/O (PSI `some`).
const FOREIGN_PRESSURE: f64 = 0.3;

/// Writes back the dirty pages of the directory's filesystem, and waits until its device is idle.
///
/// `directory` must have been open since before the first write: the kernel tells each open file
/// once of every writeback error since then (errseq_t; syncfs(2) since 5.8). A flood does not sync,
/// so its lost pages would go unnoticed.
pub(crate) fn drain(
    directory: &Dir,
    sampler: &mut Sampler,
    options: &Options,
    round: u32,
    watch: &mut dyn Watch,
) -> Result<(), BenchError> {
    drain_by(Means::SYSTEM, directory, sampler, options, round, watch)
}

/// Makes the filesystem of this process's input stable: the process of
/// [`Options::sync_command`]. Returns its exit status, which `synced_apart` reads.
#[must_use]
pub fn serve() -> u8 {
    let synced = rustix::fs::syncfs(io::stdin());
    synced.map_or_else(|e| u8::try_from(e.raw_os_error()).unwrap_or(u8::MAX), |()| 0)
}

fn drain_by(
    means: Means,
    directory: &Dir,
    sampler: &mut Sampler,
    options: &Options,
    round: u32,
    watch: &mut dyn Watch,
) -> Result<(), BenchError> {
    let (stop, origin) = (&*options.stop, options.origin);
    watch.step(Step { what: "draining", phase: None, round, expected_s: 0.5 });
    let (synced, waited) = means.write_back(directory, &options.sync_command);
    if waited {
        watch.warn(
            "can't start a thread (see ulimit -u): Ctrl-C had to wait until all dirty pages were \
             written",
        );
    }
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
                Ok(result) => result.map_err(|e| BenchError::Writeback(e.into()))?,
                Err(TryRecvError::Empty) => continue,
                // Only a fault of this program ends the thread without an answer.
                Err(TryRecvError::Disconnected) => {
                    return Err(BenchError::Load(LoadError::Panicked));
                }
            }
        }
        let synced_at = *synced_at.get_or_insert(last);
        let busy = host.device.is_some_and(|d| d.in_flight > 0 || d.written_bytes > 0);
        idle = if busy { 0 } else { idle + 1 };
        if idle >= IDLE_TICKS {
            return Ok(());
        }
        if last - synced_at > BUSY_PATIENCE {
            watch.warn(
                "something else keeps this device busy: the phases do not start from an \
                idle device",
            );
            return Ok(());
        }
    }
}

/// A thread's work.
type Work = Box<dyn FnOnce() + Send>;

/// How written data is made stable; tests put other functions in their place.
#[derive(Clone, Copy)]
struct Means {
    /// syncfs(2).
    sync: fn(&Dir) -> Result<(), Errno>,
    /// Starts a thread.
    spawn: fn(Builder, Work) -> io::Result<JoinHandle<()>>,
}

impl Means {
    const SYSTEM: Self =
        Self { sync: |directory| rustix::fs::syncfs(directory), spawn: Builder::spawn };

    /// Has syncfs(2) called: it can take minutes and can't be interrupted, and the user's Ctrl-C
    /// should not wait for it. So another process calls it, because none ends within a call, and
    /// another thread waits for that process. Where no thread can be started it is called before
    /// this returns: the kernel tells of lost pages here or nowhere. Returns where the result
    /// arrives, and whether it was waited for.
    fn write_back(
        self,
        directory: &Dir,
        command: &[PathBuf],
    ) -> (Receiver<Result<(), Errno>>, bool) {
        let (send, receive) = mpsc::channel();
        // After an interrupt there is no receiver any more.
        if let Ok(own) = directory.try_clone() {
            let (send, command) = (send.clone(), command.to_vec());
            let work = move || {
                let synced = synced_apart(&own, &command).unwrap_or_else(|| (self.sync)(&own));
                let _ = send.send(synced);
            };
            if (self.spawn)(Builder::new().name("fw-syncfs".into()), Box::new(work)).is_ok() {
                return (receive, false);
            }
        }
        let _ = send.send((self.sync)(directory));
        (receive, true)
    }
}

/// The answer of syncfs(2) in a process of this command; `None` if there is no command or it gave
/// no answer. That process has the same open file, to which the kernel reports lost pages. It has
/// no other file of this process, so that a reader of this process's output does not wait for it.
fn synced_apart(directory: &Dir, command: &[PathBuf]) -> Option<Result<(), Errno>> {
    let (program, arguments) = command.split_first()?;
    let own = directory.as_fd().try_clone_to_owned().ok()?;
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::from(own))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match status.ok()?.code()? {
        0 => Some(Ok(())),
        errno if errno < i32::from(u8::MAX) => Some(Err(Errno::from_raw_os_error(errno))),
        _ => None,
    }
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
    if let Some((kind, what)) = others(&sampler.sample(), seconds) {
        let warning = format!("{what} while the benchmark pauses: figures include its disturbance");
        watch.warn_once(kind, &warning);
    }
    Ok(())
}

/// The work of other programs during the pause: data they move on this device, dirty pages for any
/// device (the limits are the machine's), or I/O waits anywhere. Its kind, and words with figures.
fn others(host: &HostSample, seconds: f64) -> Option<(&'static str, String)> {
    if let Some(device) = host.device {
        let moved = (device.written_bytes + device.read_bytes) as f64 / seconds;
        if moved > FOREIGN_BYTES_PER_S {
            let what = format!("something else moves {} on this device", Rate(moved));
            return Some(("moves", what));
        }
    }
    // The bench's own pages are written back by now.
    if let (Some(dirty), Some(limit)) = (host.dirty_bytes, host.background_threshold_bytes)
        && dirty > USUAL_DIRTY
        && dirty as f64 > FOREIGN_DIRTY * limit as f64
    {
        let what = format!(
            "something else holds {} of dirty pages, of {} before the kernel writes back",
            Bytes(dirty),
            Bytes(limit)
        );
        return Some(("dirty", what));
    }
    let waiting = host.psi_io_some_us.map_or(0.0, |us| us as f64 / 1e6 / seconds);
    let what = || format!("something else waits for I/O {:.0} % of the time", waiting * 100.0);
    (waiting > FOREIGN_PRESSURE).then(|| ("waits", what()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use floodwall_model::trial::DeviceSample;

    use super::*;

    /// The result and the warnings of [`drain_by`] where threads can be started or not, and
    /// syncfs(2) answers this.
    fn drained(
        spawn: bool,
        sync: fn(&Dir) -> Result<(), Errno>,
        command: &[&str],
    ) -> (Result<(), BenchError>, Vec<String>) {
        struct Heard(Vec<String>);
        impl Watch for Heard {
            fn warn(&mut self, message: &str) {
                self.0.push(message.to_owned());
            }
        }
        let means = match spawn {
            true => Means { sync, ..Means::SYSTEM },
            false => Means { sync, spawn: |_, _| Err(io::ErrorKind::WouldBlock.into()) },
        };
        let (dir, mut heard) = (tempfile::tempdir().unwrap(), Heard(Vec::new()));
        let dir = Dir::open(dir.path()).unwrap();
        let mut sampler = Sampler::new(floodwall_host::SysRoot::live().unwrap(), []);
        let options = Options::new(Instant::now(), Arc::default());
        let options =
            Options { sync_command: command.iter().map(PathBuf::from).collect(), ..options };
        let drained = drain_by(means, &dir, &mut sampler, &options, 1, &mut heard);
        (drained, heard.0)
    }

    #[test]
    fn lost_pages_are_told_with_a_thread_and_without() {
        for spawn in [true, false] {
            let (drained, heard) = drained(spawn, |_| Err(Errno::IO), &[]);
            assert!(matches!(drained, Err(BenchError::Writeback(_))), "{spawn}: {drained:?}");
            assert_eq!(heard.len(), usize::from(!spawn), "{heard:?}");
            let (drained, _) = self::drained(spawn, |_| Ok(()), &[]);
            drained.unwrap();
        }
    }

    #[test]
    fn another_process_answers_or_this_one_does() {
        let told = |command: &[&str]| drained(true, |_| Err(Errno::IO), command).0;
        told(&["true"]).unwrap();
        for command in [&["sh", "-c", "exit 28"][..], &["sh", "-c", "kill $$"], &["/none"]] {
            let Err(BenchError::Writeback(error)) = told(command) else { panic!("{command:?}") };
            let full = command.contains(&"exit 28");
            let expected = if full { Errno::NOSPC } else { Errno::IO };
            assert_eq!(error.raw_os_error(), Some(expected.raw_os_error()), "{command:?}");
        }
        // Its input is the directory.
        told(&["sh", "-c", "test -d /proc/self/fd/0"]).unwrap();
    }

    #[test]
    fn a_thread_that_ends_without_an_answer_is_no_success() {
        let (drained, _) = drained(true, |_| panic!("on purpose"), &[]);
        assert!(matches!(drained, Err(BenchError::Load(LoadError::Panicked))), "{drained:?}");
    }

    #[test]
    fn a_quiet_machine_is_quiet_and_each_kind_of_neighbour_is_heard() {
        let device = DeviceSample { written_bytes: 1 << 20, ..DeviceSample::default() };
        let quiet = HostSample {
            dirty_bytes: Some(4 << 20),
            background_threshold_bytes: Some(1 << 30),
            psi_io_some_us: Some(20_000),
            device: Some(device),
            ..HostSample::default()
        };
        assert_eq!(others(&quiet, 1.0), None);
        assert_eq!(others(&HostSample::default(), 1.0), None);
        let busy = DeviceSample { read_bytes: 50_000_000, ..device };
        let said = |host: HostSample| others(&host, 1.0).map(|(_, what)| what).unwrap_or_default();
        assert!(said(HostSample { device: Some(busy), ..quiet.clone() }).contains("moves 51"));
        assert!(
            said(HostSample { dirty_bytes: Some(1 << 29), ..quiet.clone() })
                .contains("512 MiB of dirty")
        );
        assert!(
            said(HostSample { psi_io_some_us: Some(600_000), ..quiet })
                .contains("waits for I/O 60 %")
        );
    }
}
