//! Lines of logs, as fio-plot and `fio2gnuplot` read them.

/// Which figure a log has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// KiB/s.
    Bw,
    /// Requests a second.
    Iops,
    /// Nanoseconds from submission to completion.
    Clat,
    /// Nanoseconds from the begin to the submission.
    Slat,
    /// Nanoseconds from the begin to the completion.
    Lat,
}

impl LogKind {
    /// Its part of the file's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bw => "bw",
            Self::Iops => "iops",
            Self::Clat => "clat",
            Self::Slat => "slat",
            Self::Lat => "lat",
        }
    }
}

/// The name of a job's log: jobs count from 1.
#[must_use]
pub fn log_name(prefix: &str, kind: LogKind, job: usize) -> String {
    format!("{prefix}_{}.{job}.log", kind.name())
}

/// A line's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSample {
    /// Milliseconds since the job's begin, of the interval's end with `log_avg_msec`.
    pub ms: u64,
    /// The figure: of an interval, the mean rounded down.
    pub value: u64,
    /// 0: read, 1: write, 2: trim.
    pub direction: u8,
    /// Bytes of the request; 0 of an interval.
    pub block: u64,
    /// Where the request began; 0 of an interval.
    pub offset: u64,
}

/// Columns of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogColumns {
    /// `log_offset`.
    pub offset: bool,
}

/// A line of a log. Its last column is the priority, which is the system's own.
#[must_use]
pub fn log_line(sample: &LogSample, columns: LogColumns) -> String {
    let LogSample { ms, value, direction, block, offset } = sample;
    if columns.offset {
        format!("{ms}, {value}, {direction}, {block}, {offset}, 0\n")
    } else {
        format!("{ms}, {value}, {direction}, {block}, 0\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of fio 3.33.
    #[test]
    fn lines_are_those_of_recorded_logs() {
        assert_eq!(log_name("l", LogKind::Clat, 2), "l_clat.2.log");
        let interval = LogSample { ms: 100, value: 440, direction: 1, block: 0, offset: 0 };
        assert_eq!(log_line(&interval, LogColumns::default()), "100, 440, 1, 0, 0\n");
        let one = LogSample { ms: 0, value: 14_100, direction: 0, block: 4_096, offset: 61_440 };
        assert_eq!(log_line(&one, LogColumns { offset: true }), "0, 14100, 0, 4096, 61440, 0\n");
    }
}
