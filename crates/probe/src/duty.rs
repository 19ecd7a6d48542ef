//! When a probe looks: it waits, takes samples, pauses and goes on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::ProbeError;
use crate::open_file::{Files, OpenFile};
use crate::perf::Perf;
use crate::probe::{Probe, Source, now_ns};
use crate::samples::Samples;
use crate::under_way::{Inside, everywhere, inside};

/// How often it is checked whether the operations of a sample have ended.
const END_CHECK: Duration = Duration::from_millis(10);

impl Probe {
    /// Above so many synchronous calls and reads a second a sample of them is counted: those that
    /// begin in the last fifth of each [`Self::wait`]. The wait has to fill the time between looks.
    /// Their counts are scaled, their latencies are not. `None`: all are counted.
    pub fn sample_above(&mut self, per_s: Option<u64>) {
        let is_attached = self.samples.is_attached();
        self.count_begins(true);
        self.samples = Samples::new(now_ns(), per_s, is_attached);
    }

    /// Closes all tracepoints, in the background. Until [`Self::resume`] only bytes dirtied and the
    /// devices' counters are seen. Operations under way are forgotten.
    pub fn pause(&mut self) {
        if !self.samples.is_attached() {
            return;
        }
        let now = now_ns();
        self.drain(now);
        let mut pieces = self.source.perf().map(Perf::detach).unwrap_or_default();
        if let Source::Bpf(bpf, _) = &mut self.source {
            pieces.extend(bpf.detach());
        }
        self.closer.close(pieces);
        self.aggregator.forget_all();
        self.samples.attach(now, false);
    }

    /// Opens the tracepoints again. Of operations that are under way only calls are known, of
    /// processes that were seen to make such, and their time begins now.
    ///
    /// # Errors
    /// [`ProbeError`] if the source is lost.
    pub fn resume(&mut self) -> Result<(), ProbeError> {
        if self.samples.is_attached() || matches!(self.source, Source::Proc) {
            return Ok(());
        }
        let mut closing = self.closer.take_back();
        if let Source::Bpf(bpf, _) = &mut self.source {
            // Counts from the time in which the programs were being detached.
            drop(bpf.take(now_ns(), &mut self.files, &|_| None));
            bpf.attach_again(&mut closing)?;
        }
        if let Some(perf) = self.source.perf() {
            perf.follow_processors(&self.root)?;
        }
        // Quick: their tracepoints are open again.
        drop(closing);
        self.samples.attach(now_ns(), true);
        self.watch_writers();
        self.take_in_calls_under_way();
        Ok(())
    }

    /// Takes in the calls of known committers that are under way and whose beginnings were not
    /// counted.
    pub(crate) fn take_in_calls_under_way(&mut self) {
        self.take_in(self.committers.inside(&self.root));
    }

    /// Finds the calls of all processes that began before the probe was opened (fsync, fdatasync,
    /// syncfs, writes to `O_SYNC` and `O_DIRECT` files). Their time begins now. It takes some 10 µs
    /// a thread, and a tenth of a second at most.
    pub fn take_in_all_calls_under_way(&mut self) {
        if !matches!(self.source, Source::Proc) {
            self.take_in(everywhere(&self.root));
        }
    }

    fn take_in(&mut self, under_way: Vec<Inside>) {
        if self.own_numbers {
            return;
        }
        let mut unsure = Vec::new();
        for found in under_way {
            if self.takes_in(found) {
                unsure.push(found);
            }
        }
        if unsure.iter().any(|found| found.call.is_none()) {
            // The ends of writes are seen from here on.
            self.watch_writers();
        }
        for found in unsure {
            let Inside { pid, tid, call, .. } = found;
            let is_still = || inside(&self.root, pid, tid) == Some(found);
            match &mut self.source {
                Source::Proc => {}
                Source::Perf(perf) => {
                    if !perf.watched().contains(&tid) || !is_still() {
                        self.aggregator.forget(tid);
                    }
                }
                Source::Bpf(bpf, _) => {
                    if call.is_none() && !bpf.is_watching(pid) || !is_still() {
                        bpf.forget(pid, tid);
                    }
                }
            }
        }
    }

    /// Takes in a call. Returns whether it is new and its end may have been missed.
    fn takes_in(&mut self, found: Inside) -> bool {
        let Inside { pid, tid, call, fd } = found;
        if call.is_none() {
            let file = fd.and_then(|fd| self.files.file(pid, fd));
            // A write to an ordinary file is no wait for the device, however long it takes.
            if file.and_then(OpenFile::write_call).is_none() {
                return false;
            }
            let is_by_process = matches!(self.source, Source::Bpf(..));
            self.sync_writers.is_inside(pid, if is_by_process { pid } else { tid });
        }
        match &mut self.source {
            Source::Proc => false,
            Source::Perf(_) => {
                let is_new = self.aggregator.is_inside(pid, tid, call, fd, now_ns());
                // If another call ends meanwhile, the record of that is read later.
                is_new && call.is_none()
            }
            Source::Bpf(bpf, _) => {
                let file = fd.and_then(|fd| self.files.file(pid, fd));
                let call = call.or_else(|| file?.write_call());
                let (Some(call), Some(device)) = (call, file.and_then(|file| file.device)) else {
                    return false;
                };
                bpf.is_inside(pid, tid, call, device, now_ns())
            }
        }
    }

    /// Whether tracepoints are closed, by [`Self::pause`].
    #[must_use]
    pub fn is_paused(&self) -> bool {
        !self.samples.is_attached() && !matches!(self.source, Source::Proc)
    }

    fn count_begins(&mut self, on: bool) {
        if self.samples.is_counting() == on || !self.samples.is_attached() {
            return;
        }
        match &mut self.source {
            Source::Proc => {}
            Source::Perf(perf) => perf.count_begins(on),
            // The perf events beside are rare.
            Source::Bpf(bpf, _) => bpf.count_begins(on),
        }
        self.samples.count(now_ns(), on);
    }

    /// Waits, and takes in what happens meanwhile; ends early when `stop` is raised, at the latest
    /// after a tenth of a second.
    ///
    /// # Errors
    /// [`ProbeError`] if the source is lost.
    pub fn wait(&mut self, time: Duration, stop: &AtomicBool) -> Result<(), ProbeError> {
        let begin = now_ns();
        let after = |time: Duration| {
            begin.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
        };
        let end = after(time);
        let sampled_from = self.samples.begins_after(time).map(after);
        self.count_begins(sampled_from.is_none());
        // All beginnings that were recorded are known now.
        self.drain(now_ns());
        while !stop.load(Ordering::Relaxed) {
            let now = now_ns();
            if now >= end {
                break;
            }
            let mut until = end;
            if let Some(from) = sampled_from.filter(|_| !self.samples.is_counting()) {
                if now >= from {
                    self.count_begins(true);
                } else {
                    until = from;
                }
            }
            let mut nap = Duration::from_nanos(until - now).min(Duration::from_millis(100));
            if !self.samples.is_counting() && self.aggregator.is_idle() {
                self.source.perf().into_iter().for_each(Perf::ignore_ends);
            } else if !self.samples.is_counting()
                && self.source.perf().is_some_and(|perf| perf.sees_ends())
            {
                nap = nap.min(END_CHECK);
            }
            match self.source.perf() {
                Some(perf) => {
                    perf.wait(nap)?;
                    // Often enough to learn the names of processes that do not live long.
                    self.drain(now_ns());
                }
                None => std::thread::sleep(nap),
            }
        }
        Ok(())
    }
}
