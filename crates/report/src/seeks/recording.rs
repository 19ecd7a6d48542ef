//! A lab's recording: CSV with one request a line, as `floodwall lab record` writes it.
//!
//! ```text
//! heading:
//!   time_us,offset_bytes,size_bytes,operation,fua,depth,queue_us,service_us,lateness_us,result
//! whose it is:
//!   # {"name":…,"preset":…,"size_bytes":…,"time_zero_unix_s":…}
//! a gap:
//!   # 17 requests missing: they came faster than they were read
//! a request:
//!   1.000,8192,4096,write,0,2,3.000,5.500,0.250,ok
//! ```
//!
//! Lines are in the order of the answers; here they are put into the order of arrival. Columns may
//! be in any order, and columns that are not known are passed over. Everything else that is not as
//! it should be is an error with its line, because a picture of misread data shows nothing. Only a
//! last line without its end is left out and told: that is what an interrupted recording leaves.

use serde::Deserialize;

/// Why a text is no recording.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordingError {
    /// The heading is not there.
    #[error(
        "line {line}: a recording begins with the names of its columns (time_us,offset_bytes,…), \
         not with '{found}'; make one with 'floodwall lab record NAME --out FILE.csv'"
    )]
    Heading {
        /// Counts from 1.
        line: usize,
        /// Its beginning.
        found: String,
    },
    /// A column is not there, or twice.
    #[error(
        "line {line}: the heading has {times} columns '{column}' instead of one; record it again \
         with this version"
    )]
    Column {
        /// Counts from 1.
        line: usize,
        /// Its name.
        column: &'static str,
        /// How often it is there.
        times: usize,
    },
    /// A line has more or fewer fields than the heading.
    #[error(
        "line {line}: {found} fields under a heading of {expected}; the file was changed or cut"
    )]
    Fields {
        /// Counts from 1.
        line: usize,
        /// Fields of the line.
        found: usize,
        /// Fields of the heading.
        expected: usize,
    },
    /// A field can't be what its column says.
    #[error(
        "line {line}: {column} is '{found}', which is not {expected}; the file was changed or cut"
    )]
    Field {
        /// Counts from 1.
        line: usize,
        /// The column's name.
        column: &'static str,
        /// The text found.
        found: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// The comment that names the recording's run can't be read.
    #[error("line {line}: can't read whose recording this is ({why}); the file was changed or cut")]
    About {
        /// Counts from 1.
        line: usize,
        /// What the JSON parser says.
        why: String,
    },
    /// There is nothing in it.
    #[error("the recording has no requests; record while something uses the device")]
    Empty,
}

/// Latest time that is believed, in microseconds: a century.
const MAX_US: f64 = 3.2e15;

/// What a request asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Write the device's cache back; has no place.
    Flush,
    /// Forget contents, or make them zero without transfer.
    Discard,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Its arrival, in microseconds of the recording's time.
    pub time_us: f64,
    /// First byte.
    pub offset_bytes: u64,
    /// Length; 0 for a flush.
    pub size_bytes: u64,
    /// The kind of request.
    pub operation: Operation,
    /// A write that goes past the volatile cache (forced unit access).
    pub fua: bool,
    /// Time in the device before its service began, in microseconds.
    pub queue_us: f64,
    /// Time that its service took, in microseconds.
    pub service_us: f64,
    /// Whether it succeeded.
    pub ok: bool,
}

impl Request {
    /// When the model completed it, in microseconds of the recording's time.
    #[must_use]
    pub fn completed_us(&self) -> f64 {
        self.time_us + self.queue_us + self.service_us
    }

    /// Whether bytes of the device are transferred.
    #[must_use]
    pub fn transfers(&self) -> bool {
        matches!(self.operation, Operation::Read | Operation::Write)
    }
}

/// The device that was recorded.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct About {
    /// The lab device's name.
    pub name: String,
    /// The preset it was made of.
    pub preset: String,
    /// Its size.
    pub size_bytes: u64,
    /// Unix time of time 0, in seconds.
    pub time_zero_unix_s: f64,
}

/// What reached a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// The run that it belongs to; absent in recordings that do not say.
    pub about: Option<About>,
    /// By arrival; at least one.
    pub requests: Vec<Request>,
    /// Requests that the recorder says it lost.
    pub missing: u64,
    /// Whether the last line had no end and was left out.
    pub cut: bool,
}

impl Recording {
    /// Reads a recording.
    ///
    /// # Errors
    /// [`RecordingError`], with the line.
    pub fn parse(text: &str) -> Result<Self, RecordingError> {
        let mut recording = Self { about: None, requests: Vec::new(), missing: 0, cut: false };
        let mut heading: Option<Heading> = None;
        for (index, whole) in text.split_inclusive('\n').enumerate() {
            let line = index + 1;
            let Some(content) = whole.strip_suffix('\n') else {
                recording.cut = true;
                break;
            };
            let content = content.strip_suffix('\r').unwrap_or(content);
            if let Some(comment) = content.strip_prefix('#') {
                recording.read_comment(line, comment.trim())?;
                continue;
            }
            match &heading {
                None => heading = Some(Heading::parse(line, content)?),
                Some(heading) => recording.requests.push(heading.request(line, content)?),
            }
        }
        if heading.is_none() {
            return Err(RecordingError::Heading { line: 1, found: beginning(text) });
        }
        if recording.requests.is_empty() {
            return Err(RecordingError::Empty);
        }
        recording.requests.sort_by(|a, b| a.time_us.total_cmp(&b.time_us));
        Ok(recording)
    }

    fn read_comment(&mut self, line: usize, comment: &str) -> Result<(), RecordingError> {
        if comment.starts_with('{') {
            let about: About = serde_json::from_str(comment)
                .map_err(|e| RecordingError::About { line, why: e.to_string() })?;
            self.about = Some(about);
        } else if let Some((number, _)) = comment.split_once(" requests missing")
            && let Ok(number) = number.parse::<u64>()
        {
            self.missing = self.missing.saturating_add(number);
        }
        Ok(())
    }
}

/// Names of the columns that are read.
const COLUMNS: [&str; 8] = [
    "time_us",
    "offset_bytes",
    "size_bytes",
    "operation",
    "fua",
    "queue_us",
    "service_us",
    "result",
];

/// Where the columns are.
struct Heading {
    /// Of each of [`COLUMNS`], its number.
    places: [usize; COLUMNS.len()],
    fields: usize,
}

impl Heading {
    fn parse(line: usize, text: &str) -> Result<Self, RecordingError> {
        let names: Vec<&str> = text.split(',').map(str::trim).collect();
        if !names.iter().any(|name| COLUMNS.contains(name)) {
            return Err(RecordingError::Heading { line, found: beginning(text) });
        }
        let mut places = [0; COLUMNS.len()];
        for (place, column) in places.iter_mut().zip(COLUMNS) {
            let times = names.iter().filter(|name| **name == column).count();
            match names.iter().position(|name| *name == column) {
                Some(found) if times == 1 => *place = found,
                _ => return Err(RecordingError::Column { line, column, times }),
            }
        }
        Ok(Self { places, fields: names.len() })
    }

    fn request(&self, line: usize, text: &str) -> Result<Request, RecordingError> {
        let fields: Vec<&str> = text.split(',').collect();
        if fields.len() != self.fields {
            return Err(RecordingError::Fields {
                line,
                found: fields.len(),
                expected: self.fields,
            });
        }
        // In the order of COLUMNS.
        let [time, offset, size, operation, fua, queue, service, result] =
            self.places.map(|place| fields.get(place).copied().unwrap_or_default());
        let wrong =
            |column: &'static str, found: &str, expected: &'static str| RecordingError::Field {
                line,
                column,
                found: found.chars().take(40).collect(),
                expected,
            };
        let us = |column, text: &str| {
            let value = text.parse().ok().filter(|us: &f64| (0.0..=MAX_US).contains(us));
            value.ok_or_else(|| wrong(column, text, "a time in microseconds"))
        };
        let bytes = |column, text: &str| {
            text.parse::<u64>().map_err(|_| wrong(column, text, "a whole number of bytes"))
        };
        let request = Request {
            time_us: us("time_us", time)?,
            offset_bytes: bytes("offset_bytes", offset)?,
            size_bytes: bytes("size_bytes", size)?,
            operation: match operation {
                "read" => Operation::Read,
                "write" => Operation::Write,
                "flush" => Operation::Flush,
                "discard" | "write_zeroes" => Operation::Discard,
                other => {
                    let known = "read, write, flush, discard or write_zeroes";
                    return Err(wrong("operation", other, known));
                }
            },
            fua: match fua {
                "0" => false,
                "1" => true,
                other => return Err(wrong("fua", other, "0 or 1")),
            },
            queue_us: us("queue_us", queue)?,
            service_us: us("service_us", service)?,
            ok: match result {
                "ok" => true,
                "error" => false,
                other => return Err(wrong("result", other, "ok or error")),
            },
        };
        if request.offset_bytes.checked_add(request.size_bytes).is_none() {
            return Err(wrong("offset_bytes", offset, "on any device, its size added"));
        }
        Ok(request)
    }
}

/// The beginning of a text, for a message.
fn beginning(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADING: &str = "time_us,offset_bytes,size_bytes,operation,fua,depth,queue_us,\
        service_us,lateness_us,result\n";

    fn error(lines: &str) -> String {
        Recording::parse(&format!("{HEADING}{lines}")).unwrap_err().to_string()
    }

    #[test]
    fn requests_come_in_the_order_of_their_arrival_with_what_the_comments_say() {
        let text = format!(
            "{HEADING}\
             # {{\"name\":\"a\",\"preset\":\"hdd-7200\",\"size_bytes\":1024,\
             \"time_zero_unix_s\":5.5}}\n\
             # 3 requests missing: they came faster than they were read\n\
             20.5,0,0,flush,0,1,1.0,2.5,0.1,ok\n\
             10.0,4096,512,write,1,2,0.5,0.25,0.1,error\n\
             # 4 requests missing: again\n"
        );
        let recording = Recording::parse(&text).unwrap();
        assert_eq!(recording.missing, 7);
        assert_eq!(
            recording.about.map(|a| (a.preset, a.time_zero_unix_s)),
            Some(("hdd-7200".into(), 5.5))
        );
        let first = Request {
            time_us: 10.0,
            offset_bytes: 4096,
            size_bytes: 512,
            operation: Operation::Write,
            fua: true,
            queue_us: 0.5,
            service_us: 0.25,
            ok: false,
        };
        assert_eq!(recording.requests[0], first);
        assert_eq!(recording.requests[1].completed_us(), 24.0);
        assert!(!recording.cut);
    }

    #[test]
    fn columns_in_another_order_and_unknown_ones_are_fine() {
        let text = "result,colour,time_us,size_bytes,offset_bytes,operation,fua,queue_us,\
                    service_us\r\n\
                    ok,blue,1,512,1024,discard,0,2,3\r\n";
        let recording = Recording::parse(text).unwrap();
        assert_eq!(recording.requests[0].offset_bytes, 1024);
        assert_eq!(recording.requests[0].operation, Operation::Discard);
        assert_eq!(recording.about, None);
    }

    #[test]
    fn a_line_without_its_end_is_left_out() {
        // Cut within its last field, it would still look whole.
        let text = format!("{HEADING}1,0,512,read,0,1,2,3,0,ok\n2,0,512,read,0,1,2,3,0,ok");
        let recording = Recording::parse(&text).unwrap();
        assert_eq!((recording.requests.len(), recording.cut), (1, true));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let good = "1,0,512,read,0,1,2,3,0,ok\n";
        insta::assert_snapshot!(
            [
                error(&format!("{good}1,0,512,read,0,1,2,3,ok\n")),
                error(&format!("{good}{good}-1,0,512,read,0,1,2,3,0,ok\n")),
                error("1,x,512,read,0,1,2,3,0,ok\n"),
                error("1,0,512,seek,0,1,2,3,0,ok\n"),
                error("1,0,512,read,yes,1,2,3,0,ok\n"),
                error("1,0,512,read,0,1,NaN,3,0,ok\n"),
                error("1,0,512,read,0,1,2,3,0,fine\n"),
                error("1,18446744073709551615,512,read,0,1,2,3,0,ok\n"),
                error("\n"),
                error("# {\"name\":1}\n"),
                error("# nothing\n"),
                Recording::parse("{\"schema\": 1}\n").unwrap_err().to_string(),
                Recording::parse("").unwrap_err().to_string(),
                Recording::parse("time_us,result\n").unwrap_err().to_string(),
                Recording::parse(&HEADING.replace("fua", "result")).unwrap_err().to_string(),
            ]
            .join("\n"),
            @"
        line 3: 9 fields under a heading of 10; the file was changed or cut
        line 4: time_us is '-1', which is not a time in microseconds; the file was changed or cut
        line 2: offset_bytes is 'x', which is not a whole number of bytes; the file was changed or \
        cut
        line 2: operation is 'seek', which is not read, write, flush, discard or write_zeroes; the \
        file was changed or cut
        line 2: fua is 'yes', which is not 0 or 1; the file was changed or cut
        line 2: queue_us is 'NaN', which is not a time in microseconds; the file was changed or cut
        line 2: result is 'fine', which is not ok or error; the file was changed or cut
        line 2: offset_bytes is '18446744073709551615', which is not on any device, its size \
        added; the file was changed or cut
        line 2: 1 fields under a heading of 10; the file was changed or cut
        line 2: can't read whose recording this is (invalid type: integer `1`, expected a string \
        at line 1 column 9); the file was changed or cut
        the recording has no requests; record while something uses the device
        line 1: a recording begins with the names of its columns (time_us,offset_bytes,…), not \
        with '{\"schema\": 1}'; make one with 'floodwall lab record NAME --out FILE.csv'
        line 1: a recording begins with the names of its columns (time_us,offset_bytes,…), not \
        with ''; make one with 'floodwall lab record NAME --out FILE.csv'
        line 1: the heading has 0 columns 'offset_bytes' instead of one; record it again with this \
        version
        line 1: the heading has 0 columns 'fua' instead of one; record it again with this version
        "
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "([a-z#{},0-9.\n-]{0,30}\n){0,6}") {
            let _ = Recording::parse(&text);
            let _ = Recording::parse(&format!("{HEADING}{text}"));
        }

        #[test]
        fn an_error_names_the_line_that_is_broken(good in 0usize..20, after in 0usize..5) {
            let line = "1.5,0,512,read,0,1,2,3,0,ok\n";
            let broken = "1.5,0,512,read,0,1,2,3,0,ok,more\n";
            let text = format!("{}{broken}{}", line.repeat(good), line.repeat(after));
            let expected = format!("line {}: 11 fields", good + 2);
            let message = error(&text);
            prop_assert!(message.starts_with(&expected), "{}", message);
        }
    }
}
