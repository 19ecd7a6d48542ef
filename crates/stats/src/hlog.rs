//! Trials as a standard HdrHistogram interval log, which HistogramLogProcessor,
//! HistogramLogAnalyzer and hdr-plot read.
//!
//! ```text
//! #[StartTime: …] #[BaseTime: …]          when the run began, seconds since the epoch
//! #round 1, phase victim                   a comment before each phase
//! Tag=commit,12.000,1.000,3.211,HISTF…     start since BaseTime (s), length (s),
//!                                          maximum (ms), counts (ns)
//! Tag=write,…   Tag=sync,…   Tag=read,…    the other operations of the same interval
//! ```
//!
//! Values inside the histograms are nanoseconds; the maximum column is in milliseconds, as that
//! format's tools expect. Operations still in flight when a phase ended are counted in its last
//! interval, so that the slowest ones are not lost.

use std::io;
use std::time::{Duration, UNIX_EPOCH};

use floodwall_model::hdr::{CodecError, to_histogram};
use floodwall_model::trial::{Phase, Trial};
use hdrhistogram::serialization::interval_log::{IntervalLogWriter, IntervalLogWriterBuilder, Tag};
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

/// Nanoseconds in a millisecond, the unit of the log's maximum column.
const NS_PER_MS: f64 = 1e6;

/// Why an interval log could not be written.
#[derive(Debug, thiserror::Error)]
pub enum HlogError {
    /// The writer failed.
    #[error("can't write the interval log: {0}")]
    Io(#[from] io::Error),
    /// A histogram could not be made.
    #[error("can't write the interval log: {0}")]
    Histogram(#[from] CodecError),
    /// The start of the run is beyond what a clock can tell.
    #[error("can't write the interval log: {0:?} since the epoch is not a time")]
    StartTime(Duration),
}

/// Writes all phases of trials that ran one after the other. `started` is when the run began, since
/// the Unix epoch.
///
/// # Errors
/// [`HlogError`]; text written until then stays written.
pub fn write(
    trials: &[Trial],
    started: Duration,
    out: &mut impl io::Write,
) -> Result<(), HlogError> {
    let start = UNIX_EPOCH.checked_add(started).ok_or(HlogError::StartTime(started))?;
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment("values are nanoseconds, the maximum column is milliseconds")
        .with_start_time(start)
        .with_base_time(start)
        .with_max_value_divisor(NS_PER_MS)
        .begin_log_with(out, &mut serializer)?;
    for trial in trials {
        for phase in &trial.phases {
            log.write_comment(&format!("round {}, phase {}", trial.round, phase.kind.name()))?;
            write_phase(phase, &mut log)?;
        }
    }
    Ok(())
}

fn write_phase<W: io::Write, S: Serializer>(
    phase: &Phase,
    log: &mut IntervalLogWriter<'_, '_, W, S>,
) -> Result<(), HlogError>
where
    S::SerializeError: std::fmt::Display,
{
    let last = phase.intervals.len().saturating_sub(1);
    for (i, interval) in phase.intervals.iter().enumerate() {
        let mut latencies = interval.latencies.clone();
        if i == last {
            latencies.merge(&phase.overrun);
        }
        let start = duration(phase.start_s + interval.start_s);
        for (tag, counts) in latencies.by_operation() {
            if !counts.is_empty() {
                log.write_histogram(
                    &to_histogram(counts)?,
                    start,
                    duration(interval.seconds),
                    Tag::new(tag),
                )
                .map_err(|e| HlogError::Io(io::Error::other(e.to_string())))?;
            }
        }
    }
    Ok(())
}

/// Seconds as a duration; zero for negative values and NaN.
fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use floodwall_model::LatencyCounts;
    use floodwall_model::trial::{Interval, OpLatencies, PhaseKind, Warmup};
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;

    fn interval(start_s: f64, commits: &[u64], reads: &[u64]) -> Interval {
        let mut interval = Interval { start_s, seconds: 1.0, ..Interval::default() };
        interval.latencies.commit = LatencyCounts::from_values(commits.iter().copied());
        interval.latencies.read = LatencyCounts::from_values(reads.iter().copied());
        interval
    }

    fn trial() -> Trial {
        let overrun = OpLatencies {
            commit: LatencyCounts::from_values([3_000_000_000]),
            ..OpLatencies::default()
        };
        let phase = Phase {
            kind: PhaseKind::Both,
            start_s: 12.0,
            seconds: 2.0,
            warmup: Warmup::default(),
            intervals: vec![
                interval(0.0, &[1_000_000, 2_000_000], &[]),
                interval(1.0, &[5_000_000], &[70_000]),
            ],
            overrun,
            victims: vec![],
            floods: vec![],
            burst: None,
            cut_short: None,
        };
        Trial { setting: Default::default(), round: 1, phases: vec![phase] }
    }

    #[test]
    fn the_crates_own_reader_reads_it_back() {
        let started = Duration::from_millis(1_700_000_000_250);
        let mut text = Vec::new();
        write(&[trial()], started, &mut text).unwrap();
        let (mut times, mut found) = (Vec::new(), Vec::new());
        for entry in IntervalLogIterator::new(&text) {
            match entry.unwrap() {
                LogEntry::StartTime(t) | LogEntry::BaseTime(t) => times.push(t),
                LogEntry::Interval(i) => {
                    let bytes = base64::engine::general_purpose::STANDARD
                        .decode(i.encoded_histogram())
                        .unwrap();
                    let h: Histogram<u64> =
                        Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
                    let tag = i.tag().unwrap().as_str().to_owned();
                    found.push((
                        tag,
                        i.start_timestamp().as_secs_f64(),
                        i.duration().as_secs(),
                        h.len(),
                        i.max(),
                    ));
                }
            }
        }
        assert_eq!(times, [started; 2]);
        let shown: Vec<String> = found
            .iter()
            .map(|(tag, start, length, n, max)| format!("{tag} {start} {length} {n} {max:.0}"))
            .collect();
        // 3 s is reported as its bucket's upper end.
        assert_eq!(shown, ["commit 12 1 2 2", "commit 13 1 2 3003", "read 13 1 1 0"]);
    }

    #[test]
    fn each_phase_is_named_in_a_comment() {
        let mut text = Vec::new();
        write(&[trial()], Duration::ZERO, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("#round 1, phase both\n"), "{text}");
        assert!(text.starts_with("#[Histogram log format version 1.3]\n"), "{text}");
    }

    #[test]
    fn a_writer_that_fails_is_reported() {
        struct Full;
        impl io::Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::other("disk full"))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let message = write(&[trial()], Duration::ZERO, &mut Full).unwrap_err().to_string();
        assert_eq!(message, "can't write the interval log: disk full");
    }
}
