//! The options of one job, with fio's defaults.

use super::super::outcome::Percentiles;
use super::error::OptionError;
use super::kinds::{Amount, Data, Engine, Fallocate, Pattern, Sync};

/// Milliseconds of an interval whose rates are figures.
const AVERAGE_MS: u64 = 500;

/// Options of a job: those of the sections above it, then its own.
#[derive(Clone, Debug, PartialEq)]
pub struct JobOptions {
    /// `name`.
    pub name: String,
    /// `description`.
    pub description: Option<String>,
    /// `rw`.
    pub pattern: Pattern,
    /// `bs` of reads, of writes, of trims.
    pub block: [u64; 3],
    /// `size`.
    pub size: Option<Amount>,
    /// `io_size`.
    pub io_size: Option<Amount>,
    /// `filesize`.
    pub file_size: Option<u64>,
    /// `offset`.
    pub offset: Amount,
    /// `offset_increment`, for each further job of `numjobs`.
    pub offset_increment: Amount,
    /// `nrfiles`.
    pub files: Option<u32>,
    /// `filename`, at its colons.
    pub filenames: Vec<String>,
    /// `filename_format`.
    pub filename_format: Option<String>,
    /// `directory`, at its colons.
    pub directories: Vec<String>,
    /// `ioengine`.
    pub engine: Engine,
    /// `iodepth`.
    pub depth: u32,
    /// `numjobs`.
    pub jobs: u32,
    /// `direct`, and not `buffered`.
    pub direct: bool,
    /// `sync`.
    pub sync: Sync,
    /// `fsync`: after so many writes.
    pub fsync: u64,
    /// `fdatasync`: after so many writes.
    pub fdatasync: u64,
    /// `end_fsync`.
    pub end_fsync: bool,
    /// `fsync_on_close`.
    pub fsync_on_close: bool,
    /// `rate` in bytes a second of reads and writes; 0 for as fast as it goes.
    pub rate: [u64; 2],
    /// `rate_iops` of reads and writes.
    pub rate_iops: [u64; 2],
    /// `runtime` in microseconds; 0 for no end.
    pub runtime_us: u64,
    /// `time_based`.
    pub time_based: bool,
    /// `ramp_time` in microseconds.
    pub ramp_us: u64,
    /// `startdelay` in microseconds.
    pub delay_us: u64,
    /// `stonewall`.
    pub stonewall: bool,
    /// `new_group`.
    pub new_group: bool,
    /// `group_reporting`.
    pub group_reporting: bool,
    /// `thread`.
    pub thread: bool,
    /// `rwmixread`.
    pub read_percent: u32,
    /// Not `norandommap`: each block once a pass.
    pub random_map: bool,
    /// `randrepeat`: the same offsets in each run.
    pub random_repeat: bool,
    /// `randseed`.
    pub seed: Option<u64>,
    /// `loops`.
    pub loops: u64,
    /// `number_ios`; 0 for no limit.
    pub number_ios: u64,
    /// `invalidate`.
    pub invalidate: bool,
    /// `overwrite`: files are written before the run.
    pub overwrite: bool,
    /// `create_on_open`: files are not made before the run.
    pub create_on_open: bool,
    /// `fallocate`.
    pub fallocate: Fallocate,
    /// `unlink`.
    pub unlink: bool,
    /// `exitall`.
    pub exit_all: bool,
    /// `zero_buffers`, `buffer_compress_percentage`.
    pub data: Data,
    /// Not `disable_lat`.
    pub lat: bool,
    /// Not `disable_clat`.
    pub clat: bool,
    /// Not `disable_slat`.
    pub slat: bool,
    /// Not `disable_bw`.
    pub bw: bool,
    /// `clat_percentiles` and so on.
    pub percentiles: Percentiles,
    /// `disk_util`.
    pub disk_util: bool,
    /// `write_bw_log`, `write_iops_log`, `write_lat_log`.
    pub logs: Logs,
    /// `bwavgtime` in milliseconds.
    pub bw_window_ms: u64,
    /// `iopsavgtime` in milliseconds.
    pub iops_window_ms: u64,
    /// 1,024 or 1,000.
    pub kb_base: u64,
}

/// Logs of single requests or of intervals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logs {
    /// Begin of the name of `…_bw.1.log`; empty for the job's name.
    pub bw: Option<String>,
    /// Of `…_iops.1.log`.
    pub iops: Option<String>,
    /// Of `…_lat.1.log`, `…_slat.1.log` and `…_clat.1.log`.
    pub lat: Option<String>,
    /// `log_avg_msec`; 0 for each request.
    pub average_ms: u64,
    /// `per_job_logs`: each job its own.
    pub per_job: bool,
}

impl Default for Logs {
    fn default() -> Self {
        Self { bw: None, iops: None, lat: None, average_ms: 0, per_job: true }
    }
}

impl Default for JobOptions {
    fn default() -> Self {
        Self {
            name: String::new(),
            description: None,
            pattern: Pattern { reads: true, writes: false, is_random: false },
            block: [4096; 3],
            size: None,
            io_size: None,
            file_size: None,
            offset: Amount::Bytes(0),
            offset_increment: Amount::Bytes(0),
            files: None,
            filenames: Vec::new(),
            filename_format: None,
            directories: Vec::new(),
            engine: Engine::default(),
            depth: 1,
            jobs: 1,
            direct: false,
            sync: Sync::None,
            fsync: 0,
            fdatasync: 0,
            end_fsync: false,
            fsync_on_close: false,
            rate: [0; 2],
            rate_iops: [0; 2],
            runtime_us: 0,
            time_based: false,
            ramp_us: 0,
            delay_us: 0,
            stonewall: false,
            new_group: false,
            group_reporting: false,
            thread: false,
            read_percent: 50,
            random_map: true,
            random_repeat: true,
            seed: None,
            loops: 1,
            number_ios: 0,
            invalidate: true,
            overwrite: false,
            create_on_open: false,
            fallocate: Fallocate::Native,
            unlink: false,
            exit_all: false,
            data: Data::Random,
            lat: true,
            clat: true,
            slat: true,
            bw: true,
            percentiles: Percentiles::default(),
            disk_util: true,
            logs: Logs::default(),
            bw_window_ms: AVERAGE_MS,
            iops_window_ms: AVERAGE_MS,
            kb_base: 1024,
        }
    }
}

impl JobOptions {
    /// Checks what options say of each other. Returns what fio warns of.
    pub(super) fn settle(&mut self, is_read_only: bool) -> Result<Option<String>, OptionError> {
        let failed = |what| Err(OptionError::Job { job: self.name.clone(), what });
        if is_read_only && self.pattern.writes {
            return failed("it writes, and --readonly is set; take one of them out");
        }
        let blocks = [(self.pattern.reads, self.block[0]), (self.pattern.writes, self.block[1])];
        let least = blocks.iter().filter(|(is_used, _)| *is_used).map(|(_, block)| *block).min();
        let is_small = matches!(self.size, Some(Amount::Bytes(bytes))
            if bytes > 0 && bytes < least.unwrap_or(0));
        if is_small {
            return failed("its size is less than a block; raise size or lower bs");
        }
        if self.jobs == 0 {
            return failed("numjobs is 0; write 1 or more");
        }
        // What is not measured has no percentiles, not even zeros in a terse line.
        self.percentiles.lat &= self.lat;
        self.percentiles.clat &= self.clat;
        self.percentiles.slat &= self.slat;
        if self.time_based && self.runtime_us == 0 {
            self.time_based = false;
            let name = &self.name;
            return Ok(Some(format!("fio: job '{name}': time_based needs runtime; ignored")));
        }
        Ok(None)
    }

    /// How many bytes a second are allowed of reads or writes; `None` for as many as go.
    #[must_use]
    pub fn rate_of(&self, is_write: bool) -> Option<f64> {
        let direction = usize::from(is_write);
        match (self.rate[direction], self.rate_iops[direction]) {
            (0, 0) => None,
            (0, ios) => Some(ios as f64 * self.block[direction] as f64),
            (bytes, _) => Some(bytes as f64),
        }
    }
}
