//! Full scans of tables through InnoDB, as in the comparison of 2009: several scans whose
//! read-ahead is done by a few common threads.
//!
//! ```text
//! scan ─▶ near the end of an extent: asks for the next one
//!   ─▶ the next free read thread: one pread(2) of the extent, past the page cache
//!   ─▶ scan goes on
//! ```
//!
//! The elevator sees the read threads, not the scans: what one of them reads next belongs to
//! another scan and lies elsewhere (storage/innobase, `buf_read_ahead_linear`,
//! `os_aio_simulated_handle`). A scan wants the next extent as soon as it has this one, so all
//! scans always wait in the threads' queue, in turn.

use floodwall_device::Nanos;
use floodwall_model::scenario::{Access, SyncMethod};
use floodwall_model::{Bytes, Setting};

use crate::error::SimError;
use crate::runner::SimRunner;
use crate::workload::{Chooser, Program, VictimProgram, Way, seeded};

/// The table to scan, and the load beside the scans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableScans {
    /// Scans, each of a part of the table.
    pub scans: u32,
    /// `innodb_read_io_threads`.
    pub read_threads: u32,
    /// Bytes of an extent: 64 pages, as they are on disk.
    pub extent: Bytes,
    /// Size of the table.
    pub table: Bytes,
    /// Threads that read single pages at random.
    pub queries: u32,
    /// Bytes of a page on disk.
    pub page: Bytes,
    /// How long it goes on before it is counted.
    pub warmup_s: u32,
    /// How long it is counted.
    pub seconds: u32,
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScanResult {
    /// Pages a second that the scans got.
    pub scanned_per_s: f64,
    /// Pages a second that the queries got.
    pub queried_per_s: f64,
}

impl SimRunner {
    /// Scans a table.
    ///
    /// # Errors
    /// [`SimError`] for a setting that the kernel did not have, or a table that does not fit.
    pub fn scans(&self, setting: &Setting, test: &TableScans) -> Result<ScanResult, SimError> {
        let capacity = self.options().capacity();
        if test.table > capacity {
            return Err(SimError::Space { scenario: "scans".into(), needed: test.table, capacity });
        }
        let seed = self.options().seed;
        let (mut machine, _) = self.build(setting, 0)?;
        let directory = machine.fs.new_directory();
        let file = machine.create_file(directory, test.table.0, true, false);
        let mut load = |block: u64, threads: u32, way: Way, cursors: usize| {
            let block = block.max(4096);
            let load = machine.add_load(0, block, vec![file]);
            machine.loads[load].logs = vec![0; cursors];
            for thread in 0..threads {
                let chooser = Chooser { way, slots: (test.table.0 / block).max(1), files: 1 };
                let program = VictimProgram {
                    sync: SyncMethod::Fsync,
                    direct: true,
                    access: Access::Direct,
                    chooser,
                };
                let stream = seeded(seed, (load as u64) << 32 | u64::from(thread));
                machine.add_task(load, Program::Victim(program), file, stream);
            }
            load
        };
        let streams = Way::Streams { count: u64::from(test.scans.max(1)) };
        let scans = load(test.extent.0, test.read_threads, streams, 1 + test.scans.max(1) as usize);
        let queries = load(test.page.0, test.queries, Way::Random { read_percent: 100 }, 0);
        for load in [scans, queries] {
            machine.start_load(load);
        }
        machine.run_until(machine.now + Nanos::from_secs(u64::from(test.warmup_s)));
        for load in [scans, queries] {
            machine.loads[load].meter.take();
        }
        machine.run_until(machine.now + Nanos::from_secs(u64::from(test.seconds)));
        let mut pages_per_s = |load: usize| {
            let bytes = machine.loads[load].meter.take().bytes;
            bytes as f64 / test.page.as_f64().max(1.0) / f64::from(test.seconds.max(1))
        };
        Ok(ScanResult { scanned_per_s: pages_per_s(scans), queried_per_s: pages_per_s(queries) })
    }
}

#[cfg(test)]
mod tests {
    use floodwall_device::DeviceSpec;

    use super::*;
    use crate::kernel::Generation;
    use crate::options::SimOptions;

    #[test]
    fn cfq_idles_for_read_threads_that_go_elsewhere() {
        let pages = |elevator: &str| {
            let spec = DeviceSpec::preset("sas-raid10-2009").unwrap();
            let runner = SimRunner::new(SimOptions {
                generation: Generation::K2_6_18,
                ..SimOptions::new(spec)
            });
            let setting = [("scheduler".to_owned(), elevator.to_owned())].into_iter().collect();
            let kib = Bytes::kib;
            let (table, seconds) = (Bytes::gib(300), 5);
            let test = TableScans {
                scans: 8,
                read_threads: 4,
                extent: kib(512),
                table,
                queries: 4,
                page: kib(8),
                warmup_s: 1,
                seconds,
            };
            runner.scans(&setting, &test).unwrap().scanned_per_s
        };
        let (noop, cfq) = (pages("noop"), pages("cfq"));
        assert!(noop > 2.0 * cfq, "{noop} {cfq}");
        // Four extents at a time from four disks of at most 171 MB/s.
        assert!(noop * 8_192.0 < 4.0 * 171e6, "{noop}");
    }
}
