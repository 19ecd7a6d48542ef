//! The requests that reached the device, in a ring that is always on.
//!
//! The ring holds the last [`CAPACITY`] requests in the order of their answers; a reader that falls
//! behind is told how many it missed. As CSV a request is one line under [`HEADER`] and the comment
//! [`About`]. `queue_us + service_us` is the modelled latency, divided as for a single server.
//! *Service* began when the device had completed the previous request, or on arrival if that was
//! later; the rest is *queue*. For a device that works on several requests at once this says how it
//! paced completions, not what each one cost.

use std::collections::VecDeque;
use std::fmt::Write as _;

use floodwall_device::{Nanos, Op};
use serde::Serialize;

/// Requests that the ring holds: 20 seconds of 13,000 IOPS, 15 MB.
pub(crate) const CAPACITY: usize = 1 << 18;

/// First line of the CSV.
pub(crate) const HEADER: &str =
    "time_us,offset_bytes,size_bytes,operation,fua,depth,queue_us,service_us,lateness_us,result\n";

/// The recorded device: a comment of JSON under the heading.
#[derive(Serialize)]
pub(crate) struct About<'a> {
    pub(crate) name: &'a str,
    pub(crate) preset: &'a str,
    pub(crate) size_bytes: u64,
    /// Unix time of the recording's time 0, by the clock as it was set when the recording was
    /// asked for.
    pub(crate) time_zero_unix_s: f64,
}

impl About<'_> {
    /// As a line of CSV that readers of CSV skip as a comment.
    pub(crate) fn line(&self) -> serde_json::Result<String> {
        Ok(format!("# {}\n", serde_json::to_string(self)?))
    }
}

/// A request that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// Submission to the model, since the device was made.
    pub(crate) arrived: Nanos,
    pub(crate) op: Op,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// Requests in the device on its arrival, itself included.
    pub(crate) depth: u32,
    /// Completion by the model.
    pub(crate) completed: Nanos,
    /// The device's completion before that.
    pub(crate) previous: Nanos,
    /// How late the answer was.
    pub(crate) late: Nanos,
    pub(crate) ok: bool,
}

impl Event {
    /// Appends the line of CSV.
    pub(crate) fn write_csv(&self, out: &mut String) {
        let us = |t: Nanos| t.0 as f64 / 1e3;
        let began = self.arrived.0.max(self.previous.0).min(self.completed.0);
        let operation = match self.op {
            Op::Read => "read",
            Op::Write { .. } => "write",
            Op::Flush => "flush",
            Op::Discard => "discard",
            Op::WriteZeroes => "write_zeroes",
        };
        // Writing to a string can't fail.
        let _ = writeln!(
            out,
            "{:.3},{},{},{operation},{},{},{:.3},{:.3},{:.3},{}",
            us(self.arrived),
            self.offset,
            self.len,
            u8::from(self.op == Op::Write { fua: true }),
            self.depth,
            us(Nanos(began - self.arrived.0)),
            us(Nanos(self.completed.0 - began)),
            us(self.late),
            if self.ok { "ok" } else { "error" },
        );
    }
}

/// The ring.
pub(crate) struct Recorder {
    ring: VecDeque<Event>,
    capacity: usize,
    /// Events that have left the ring.
    forgotten: u64,
}

impl Recorder {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { ring: VecDeque::new(), capacity, forgotten: 0 }
    }

    pub(crate) fn push(&mut self, event: Event) {
        if self.ring.len() == self.capacity {
            self.ring.pop_front();
            self.forgotten += 1;
        }
        self.ring.push_back(event);
    }

    /// Number of the event that comes next.
    pub(crate) fn end(&self) -> u64 {
        self.forgotten + self.ring.len() as u64
    }

    /// Number of the oldest event that is still there.
    pub(crate) fn start(&self) -> u64 {
        self.forgotten
    }

    /// Up to `max` events from number `from` on, and how many between were lost because the ring is
    /// bounded.
    pub(crate) fn since(&self, from: u64, max: usize) -> (Vec<Event>, u64) {
        let missed = self.forgotten.saturating_sub(from);
        let skip = from.saturating_sub(self.forgotten) as usize;
        (self.ring.iter().skip(skip).take(max).copied().collect(), missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(offset: u64) -> Event {
        Event {
            arrived: Nanos(1_000),
            op: Op::Write { fua: false },
            offset,
            len: 4096,
            depth: 2,
            completed: Nanos(9_500),
            previous: Nanos(4_000),
            late: Nanos(250),
            ok: true,
        }
    }

    #[test]
    fn a_reader_that_falls_behind_is_told_what_it_missed() {
        let mut recorder = Recorder::new(3);
        for n in 0..5 {
            recorder.push(event(n));
        }
        let (events, missed) = recorder.since(1, 2);
        assert_eq!((events.iter().map(|e| e.offset).collect::<Vec<_>>(), missed), (vec![2, 3], 1));
        assert_eq!((recorder.start(), recorder.end()), (2, 5));
        assert_eq!(recorder.since(5, 10), (vec![], 0));
    }

    #[test]
    fn a_recording_says_whose_it_is_in_one_line() {
        let about =
            About { name: "a", preset: "two\nlines", size_bytes: 4096, time_zero_unix_s: 1.5e9 };
        let line = about.line().unwrap();
        assert_eq!(
            line,
            "# {\"name\":\"a\",\"preset\":\"two\\nlines\",\"size_bytes\":4096,\
             \"time_zero_unix_s\":1500000000.0}\n"
        );
    }

    #[test]
    fn latency_is_divided_at_the_completion_before() {
        let mut line = String::new();
        event(8192).write_csv(&mut line);
        assert_eq!(line, "1.000,8192,4096,write,0,2,3.000,5.500,0.250,ok\n");
        // Done out of turn, before earlier requests: all of it is service.
        let mut line = String::new();
        Event { previous: Nanos(500), ..event(0) }.write_csv(&mut line);
        assert_eq!(line, "1.000,0,4096,write,0,2,0.000,8.500,0.250,ok\n");
        assert_eq!(HEADER.split(',').count(), line.split(',').count());
    }
}
