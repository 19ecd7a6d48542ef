//! `disktest` of the Linux Test Project, the tool of the report of 2007. Its threads read or write
//! blocks of a whole device with direct I/O for a given time.
//!
//! Sequential threads share one cursor, so that together they go through the device once
//! (`disktest -p L -K n`); random ones choose for themselves (`-p R`). Nothing is synced.

use floodwall_device::Nanos;
use floodwall_model::scenario::{Access, SyncMethod};
use floodwall_model::trial::OpLatencies;
use floodwall_model::{Bytes, Setting};

use crate::error::SimError;
use crate::fs::FsKind;
use crate::options::SimOptions;
use crate::runner::SimRunner;
use crate::workload::{Chooser, Program, VictimProgram, Way, seeded};

/// What to do to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskTest {
    /// Threads, each with one transfer at a time.
    pub threads: u32,
    /// Bytes of each transfer.
    pub block: Bytes,
    /// In order with a common cursor, or at random.
    pub sequential: bool,
    /// Reads, or else writes.
    pub reads: bool,
    /// How long transfers go on before they are counted: a write cache that is empty at the
    /// beginning hides the disks.
    pub warmup_s: u32,
    /// How long they are counted.
    pub seconds: u32,
    /// How much of the device takes part.
    pub span: Bytes,
}

/// The result.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskTestResult {
    /// Transfers that ended in the time.
    pub operations: u64,
    /// Transfers a second.
    pub iops: f64,
    /// From when they are counted until the last had ended, in seconds.
    pub wall_s: f64,
    /// How long transfers took: of reads, or of writes as `commit`.
    pub latencies: OpLatencies,
}

impl SimRunner {
    /// Runs disktest on the whole device, without a filesystem, whatever the options say of one.
    ///
    /// # Errors
    /// [`SimError`] for a setting that the kernel did not have, or a span that the device has not.
    pub fn disktest(&self, setting: &Setting, test: &DiskTest) -> Result<DiskTestResult, SimError> {
        let options = SimOptions { fs: FsKind::Raw, ..self.options().clone() };
        let capacity = options.capacity();
        if test.span > capacity {
            return Err(SimError::Space {
                scenario: "disktest".into(),
                needed: test.span,
                capacity,
            });
        }
        let seed = options.seed;
        let (mut machine, _) = SimRunner::new(options).build(setting, 0)?;
        let block = test.block.0.max(512);
        let slots = (test.span.0 / block).max(1);
        let directory = machine.fs.new_directory();
        let file = machine.create_file(directory, slots * block, true, false);
        let load = machine.add_load(0, block, vec![file]);
        for thread in 0..u64::from(test.threads) {
            let way = match (test.sequential, test.reads) {
                (true, reads) => Way::Shared { reads },
                (false, reads) => Way::Random { read_percent: if reads { 100 } else { 0 } },
            };
            let program = VictimProgram {
                sync: SyncMethod::SyncFileRange,
                direct: true,
                access: Access::Direct,
                chooser: Chooser { way, slots, files: 1 },
            };
            machine.add_task(load, Program::Victim(program), file, seeded(seed, thread));
        }
        machine.start_load(load);
        machine.run_until(machine.now + Nanos::from_secs(u64::from(test.warmup_s)));
        machine.loads[load].meter.take();
        let begin = machine.now;
        machine.run_until(begin + Nanos::from_secs(u64::from(test.seconds)));
        let mut done = machine.loads[load].meter.take();
        machine.stop_load(load);
        machine.run_while(machine.now + Nanos::from_secs(600), |m| !m.load_stopped(load));
        let wall_s = machine.now.since(begin).as_secs_f64();
        done.latencies.merge(&machine.loads[load].meter.take().latencies);
        Ok(DiskTestResult {
            operations: done.ops,
            iops: done.ops as f64 / f64::from(test.seconds.max(1)),
            wall_s,
            latencies: done.latencies,
        })
    }
}
