//! The command line, in the tool's own grammar.
//!
//! ```text
//! words ─▶ split: name, value ─▶ dialect ─▶ each value read ─▶ checked together ─▶ Options
//! ```

use super::error::OptionError;
use super::kinds::{Command, Dialect, Mode, OpenFlags};
use super::line::Line;
use super::size;
use super::table::{In, Known};

/// Seconds that 1.0 runs without `--time`.
const TIME_S: u32 = 10;
/// Names of 0.4 in the order in which 1.0 warns of them, and the value with which 1.0 ignores them.
const RENAMED: [(&str, &str); 4] =
    [("num-threads", "1"), ("max-requests", "0"), ("max-time", "0"), ("tx-rate", "0")];
/// Requests that 0.4 makes without `--max-requests`.
const REQUESTS: u64 = 10_000;
/// The longest block: a buffer of each thread.
const MAX_BLOCK: u64 = 1 << 30;
/// Threads and files: as many as the other limits of a process allow, at most.
const MAX_COUNT: u32 = 1 << 20;

/// A command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The dialect.
    pub dialect: Dialect,
    /// The command.
    pub command: Command,
    /// How many files.
    pub files: u32,
    /// Bytes of a request.
    pub block: u64,
    /// Bytes of all files.
    pub total: u64,
    /// Always there for [`Command::Run`].
    pub mode: Option<Mode>,
    /// How the files are opened.
    pub flags: OpenFlags,
    /// All files are synced after so many requests; 0 for never.
    pub fsync_freq: u32,
    /// Each write is synced.
    pub fsync_all: bool,
    /// All files are synced at the end.
    pub fsync_end: bool,
    /// By fdatasync(2).
    pub fdatasync: bool,
    /// Blocks that a sequential request joins; 0 and 1 for none.
    pub merged: u32,
    /// Reads by writes of a combined test.
    pub rw_ratio: f64,
    /// How many threads.
    pub threads: u32,
    /// Events of 1.0, requests of 0.4, after which it ends; 0 for no end.
    pub events: u64,
    /// Seconds after which it ends; 0 for no end.
    pub time_s: u32,
    /// Seconds before that, without figures.
    pub warmup_s: u32,
    /// Events a second that fall due; 0 for as fast as it goes.
    pub rate: u32,
    /// Seconds from line to line while it runs; 0 for none.
    pub interval_s: u32,
    /// The percentile; 0 for none.
    pub percentile: u32,
    /// Whether the histogram is printed.
    pub histogram: bool,
    /// The seed of the random numbers; `None` for the time.
    pub seed: Option<u64>,
    /// Deprecated options of 1.0 that were written, with their new names.
    pub deprecated: Vec<(&'static str, &'static str)>,
    /// Whether `--test` was written, which 1.0 deprecates too.
    pub has_test: bool,
}

/// Whether a name of 0.4 has the value with which 1.0 ignores it.
fn is_default(name: &str, value: Option<&str>) -> bool {
    RENAMED.iter().any(|(old, default)| *old == name && value == Some(*default))
}

impl Options {
    /// From the words after the tool's name.
    ///
    /// # Errors
    /// [`OptionError`] with the word that is wrong.
    pub fn parse<S: AsRef<str>>(words: &[S]) -> Result<Self, OptionError> {
        let line = Line::split(words)?;
        let dialect = line.dialect()?;
        line.check_test()?;
        let mut options = Self::of(dialect, line.command()?);
        options.has_test = line.value("test").is_some();
        for (option, value) in &line.options {
            let is_known = match (option.known_in, dialect) {
                (In::Renamed(_), Dialect::V1_0) if is_default(option.name, value.as_deref()) => {
                    continue;
                }
                (In::Renamed(new), Dialect::V1_0) => {
                    options.deprecated.push((option.name, new));
                    true
                }
                (In::Both, _) | (In::New, Dialect::V1_0) => true,
                // Both have a rate, and 0.4 another meaning of it.
                (In::Renamed(new), Dialect::V0_4) => new != "rate",
                (In::Old, dialect) => dialect == Dialect::V0_4,
                (In::New, Dialect::V0_4) => false,
            };
            if !is_known {
                let nearest = match dialect {
                    Dialect::V1_0 => "--rand-seed=N",
                    Dialect::V0_4 => "the command line of 1.0: sysbench fileio … run",
                };
                let what = format!("--{}", option.name);
                return Err(OptionError::Unsupported { what, nearest: nearest.to_owned() });
            }
            options.set(option, value.as_deref())?;
        }
        options.deprecated.sort_by_key(|(name, _)| RENAMED.iter().position(|(old, _)| old == name));
        options.check()?;
        Ok(options)
    }

    /// Without an option.
    fn of(dialect: Dialect, command: Command) -> Self {
        let is_old = dialect == Dialect::V0_4;
        Self {
            dialect,
            command,
            files: 128,
            block: 16 << 10,
            total: 2 << 30,
            mode: None,
            flags: OpenFlags::default(),
            fsync_freq: 100,
            fsync_all: false,
            fsync_end: true,
            fdatasync: false,
            merged: 0,
            rw_ratio: 1.5,
            threads: 1,
            events: if is_old { REQUESTS } else { 0 },
            time_s: if is_old { 0 } else { TIME_S },
            warmup_s: 0,
            rate: 0,
            interval_s: 0,
            percentile: 95,
            histogram: false,
            // Without --init-rng 0.4 has the same numbers each time.
            seed: is_old.then_some(0),
            deprecated: Vec::new(),
            has_test: false,
        }
    }

    /// Bytes of each file.
    #[must_use]
    pub fn file_len(&self) -> u64 {
        self.total / u64::from(self.files)
    }

    /// Bytes of a request, with those that it joins.
    #[must_use]
    pub fn request_len(&self) -> u64 {
        let is_random = self.mode.is_some_and(Mode::is_random);
        if is_random { self.block } else { self.block * u64::from(self.merged.max(1)) }
    }

    fn set(&mut self, option: &Known, value: Option<&str>) -> Result<(), OptionError> {
        let name = option.name;
        let text = value.unwrap_or_default();
        let wrong = |wanted| OptionError::Value { option: name, value: text.to_owned(), wanted };
        let whole = |least: u32, most: u32, wanted| {
            let number = text.parse::<u32>().ok().filter(|_| text.bytes().all(is_digit));
            number.filter(|n| (least..=most).contains(n)).ok_or_else(|| wrong(wanted))
        };
        let seconds = || whole(0, u32::MAX, "a number of seconds");
        let switch = || match value {
            None | Some("on") => Ok(true),
            Some("off") => Ok(false),
            Some(_) => Err(wrong("on or off")),
        };
        let bytes = || size::parse(text).filter(|n| *n > 0).ok_or_else(|| wrong("a size like 2G"));
        let count = "a whole number from 1 to 1048576";
        match name {
            "file-num" => self.files = whole(1, MAX_COUNT, count)?,
            "threads" | "num-threads" => self.threads = whole(1, MAX_COUNT, count)?,
            "file-block-size" => {
                let is_short = |n: &u64| *n <= MAX_BLOCK;
                let block = Some(bytes()?).filter(is_short);
                self.block = block.ok_or_else(|| wrong("a size of at most 1G"))?;
            }
            "file-total-size" => self.total = bytes()?,
            "file-test-mode" => {
                let modes = "one of seqwr, seqrewr, seqrd, rndrd, rndwr, rndrw";
                self.mode = Some(Mode::parse(text).ok_or_else(|| wrong(modes))?);
            }
            "file-io-mode" => match text {
                "sync" => {}
                "async" => return Err(no_mode(text, "--file-io-mode=sync --threads=N")),
                "mmap" => return Err(no_mode(text, "--file-io-mode=sync")),
                _ => return Err(wrong("sync")),
            },
            "file-extra-flags" => {
                self.flags =
                    OpenFlags::parse(text).ok_or_else(|| wrong("a list of sync, dsync, direct"))?
            }
            "file-fsync-freq" => {
                self.fsync_freq = whole(0, u32::MAX, "a whole number of requests, 0 for never")?;
            }
            "file-fsync-all" => self.fsync_all = switch()?,
            "file-fsync-end" => self.fsync_end = switch()?,
            "file-fsync-mode" => match text {
                "fsync" => self.fdatasync = false,
                "fdatasync" => self.fdatasync = true,
                _ => return Err(wrong("fsync or fdatasync")),
            },
            "file-merged-requests" => {
                self.merged = whole(0, MAX_COUNT, "a whole number of requests up to 1048576")?;
            }
            "file-rw-ratio" => {
                let ratio = text.parse::<f64>().ok().filter(|r| r.is_finite() && *r >= 0.0);
                self.rw_ratio = ratio.ok_or_else(|| wrong("a number of 0 and above"))?;
            }
            "events" | "max-requests" => {
                let number = text.parse().ok().filter(|_| text.bytes().all(is_digit));
                self.events = number.ok_or_else(|| wrong("a whole number, 0 for no limit"))?;
            }
            "time" | "max-time" => self.time_s = seconds()?,
            "warmup-time" => self.warmup_s = seconds()?,
            "report-interval" => self.interval_s = seconds()?,
            "rate" | "tx-rate" => {
                self.rate = whole(0, u32::MAX, "a whole number of events a second")?;
            }
            "percentile" => {
                self.percentile = whole(0, 100, "a whole number from 1 to 100, or 0 for none")?;
            }
            "histogram" => self.histogram = switch()?,
            "rand-seed" | "seed-rng" => {
                let seed: u64 = text.parse().map_err(|_| wrong("a whole number"))?;
                self.seed = (seed > 0).then_some(seed);
            }
            "init-rng" => self.seed = if switch()? { None } else { Some(0) },
            // The dialect and the test are read before; the tool's fileio does not read the others.
            _ => {}
        }
        Ok(())
    }

    /// Checks the options together.
    fn check(&mut self) -> Result<(), OptionError> {
        if self.command == Command::Run && self.mode.is_none() {
            return Err(OptionError::NoMode);
        }
        if self.file_len() == 0 {
            return Err(OptionError::TooSmall);
        }
        if self.fsync_all {
            (self.fsync_freq, self.fsync_end) = (0, false);
        }
        if self.request_len() > MAX_BLOCK {
            return Err(OptionError::Value {
                option: "file-merged-requests",
                value: self.merged.to_string(),
                wanted: "few enough: a request is at most 1G",
            });
        }
        Ok(())
    }
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit()
}

fn no_mode(mode: &str, nearest: &str) -> OptionError {
    let what = format!("--file-io-mode={mode}");
    OptionError::Unsupported { what, nearest: nearest.to_owned() }
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
