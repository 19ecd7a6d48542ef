//! `dd if=/dev/zero of=FILE bs=… count=… [conv=fdatasync]` on an otherwise idle machine: how fast a
//! file is accepted, and how fast it is stable.

use floodwall_device::Nanos;
use floodwall_model::{Bytes, Setting, setting};

use crate::error::SimError;
use crate::fs::{Extent, SyncJob};
use crate::runner::SimRunner;
use crate::workload::{Program, State, seeded};

/// How long it may take.
const AT_MOST: Nanos = Nanos::from_secs(24 * 3_600);

/// What dd did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DdResult {
    /// Until the last write had returned, in seconds.
    pub accepted_s: f64,
    /// Until `fdatasync` had returned, in seconds.
    pub stable_s: f64,
    /// Bytes a second as dd prints them with `conv=fdatasync`.
    pub bytes_per_s: f64,
}

impl SimRunner {
    /// Writes a new file of so many bytes and makes it stable.
    ///
    /// # Errors
    /// [`SimError`] for a setting that the kernel did not have, or a file that does not fit.
    pub fn dd(&self, setting: &Setting, bytes: Bytes) -> Result<DdResult, SimError> {
        let capacity = self.options().capacity();
        if bytes > capacity {
            return Err(SimError::Space { scenario: "dd".into(), needed: bytes, capacity });
        }
        let (mut machine, _) = self.build(setting, 0)?;
        let directory = machine.fs.new_directory();
        let file = machine.create_file(directory, bytes.0, false, false);
        let load = machine.add_load(machine.group_called(setting::FLOOD), 1 << 20, vec![file]);
        let task = machine.add_task(load, Program::Burst { left: bytes.0 }, file, seeded(0, 0));
        machine.start_load(load);
        machine.run_while(AT_MOST, |m| !m.load_stopped(load));
        let accepted_s = machine.now.as_secs_f64();
        let job = SyncJob::new(file, (0, u64::MAX), true, Extent::DataSync, machine.now);
        machine.tasks[task as usize].state = State::Sync(job);
        machine.wake(machine.tasks[task as usize].process);
        machine.run_while(AT_MOST, |m| !m.load_stopped(load));
        let stable_s = machine.now.as_secs_f64();
        Ok(DdResult { accepted_s, stable_s, bytes_per_s: bytes.as_f64() / stable_s.max(1e-9) })
    }
}

#[cfg(test)]
mod tests {
    use floodwall_device::DeviceSpec;

    use super::*;
    use crate::fs::FsKind;
    use crate::options::SimOptions;

    #[test]
    fn over_nfs_small_limits_let_link_and_disks_work_at_the_same_time() {
        let dd = |fs, limited: bool| {
            let spec = DeviceSpec::preset("usb3-btrfs-nas-2016").unwrap();
            let runner =
                SimRunner::new(SimOptions { ram: Bytes::gib(16), fs, ..SimOptions::new(spec) });
            let small =
                [("vm.dirty_bytes", "201326592"), ("vm.dirty_background_bytes", "33554432")];
            let pairs = if limited { &small[..] } else { &[][..] };
            let setting = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            runner.dd(&setting, Bytes::mib(1000)).unwrap().bytes_per_s / 1e6
        };
        let sync = FsKind::Nfs { server_async: false };
        // The disks take 66 MB/s, the link 105: one after the other is 41, both at once at most 66.
        let (large, limited) = (dd(sync, false), dd(sync, true));
        assert!((40.0..48.0).contains(&large), "{large}");
        assert!((54.0..66.0).contains(&limited), "{limited}");
        assert!(
            dd(FsKind::Nfs { server_async: true }, false) > 95.0,
            "a COMMIT that does nothing costs nothing"
        );
    }
}
