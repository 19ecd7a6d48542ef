//! Logs of single requests or of intervals, as fio-plot and `fio2gnuplot` read them.
//!
//! ```text
//! ms, value, direction, bytes, 0
//! ```
//!
//! The last column is the request's priority: the system's own.

use std::io::{self, Write};

use floodwall_model::Moments;

/// The figure of a log.
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

/// A request or an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSample {
    /// Milliseconds since the job's begin.
    pub ms: u64,
    /// The figure.
    pub value: u64,
    /// 0: read, 1: write, 2: trim.
    pub direction: u8,
    /// Bytes of the request.
    pub bytes: u64,
}

/// Writes a log.
pub struct Log<'o> {
    out: &'o mut dyn Write,
    /// `log_avg_msec`: the length of an interval; 0 for each sample by itself.
    average_ms: u64,
    /// By direction: the samples of the interval, and when it began.
    intervals: [(Moments, u64); 3],
}

impl<'o> Log<'o> {
    /// An empty log with `log_avg_msec`.
    #[must_use]
    pub fn new(out: &'o mut dyn Write, average_ms: u64) -> Self {
        Self { out, average_ms, intervals: Default::default() }
    }

    /// Adds a sample: samples come in the order of their times.
    ///
    /// # Errors
    /// Those of the output.
    pub fn add(&mut self, sample: &LogSample) -> io::Result<()> {
        let LogSample { ms, value, direction, bytes } = *sample;
        if self.average_ms == 0 {
            return writeln!(self.out, "{ms}, {value}, {direction}, {bytes}, 0");
        }
        let Some((interval, begin)) = self.intervals.get_mut(usize::from(direction)) else {
            return Ok(());
        };
        interval.record(value);
        if ms >= *begin + self.average_ms {
            *begin = ms - ms % self.average_ms;
            self.close(ms, usize::from(direction))?;
        }
        Ok(())
    }

    /// Writes the intervals that were under way at the end.
    ///
    /// # Errors
    /// Those of the output.
    pub fn end(mut self, ms: u64) -> io::Result<()> {
        (0..self.intervals.len()).try_for_each(|direction| self.close(ms, direction))
    }

    fn close(&mut self, ms: u64, direction: usize) -> io::Result<()> {
        let Some((interval, _)) = self.intervals.get_mut(direction) else { return Ok(()) };
        if interval.n > 0 {
            let mean = interval.mean.round() as u64;
            writeln!(self.out, "{ms}, {mean}, {direction}, 0, 0")?;
        }
        *interval = Moments::default();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ms: u64, value: u64, direction: u8) -> LogSample {
        LogSample { ms, value, direction, bytes: 4_096 }
    }

    fn text(average_ms: u64, samples: &[LogSample], end_ms: u64) -> String {
        let mut text = Vec::new();
        let mut log = Log::new(&mut text, average_ms);
        samples.iter().for_each(|sample| log.add(sample).unwrap());
        log.end(end_ms).unwrap();
        String::from_utf8(text).unwrap()
    }

    /// Lines of fio 3.33.
    #[test]
    fn lines_are_those_of_recorded_logs() {
        assert_eq!(log_name("l", LogKind::Clat, 2), "l_clat.2.log");
        let samples = [sample(0, 447_503, 0), sample(10, 281_009, 1)];
        assert_eq!(text(0, &samples, 20), "0, 447503, 0, 4096, 0\n10, 281009, 1, 4096, 0\n");
    }

    #[test]
    fn an_interval_ends_with_the_first_sample_after_it() {
        let samples = [(10, 400, 0), (20, 5, 1), (101, 481, 0), (150, 7, 0), (200, 8, 0)]
            .map(|(ms, value, direction)| sample(ms, value, direction));
        let wanted = "101, 441, 0, 0, 0\n200, 8, 0, 0, 0\n250, 5, 1, 0, 0\n";
        assert_eq!(text(100, &samples, 250), wanted);
    }
}
