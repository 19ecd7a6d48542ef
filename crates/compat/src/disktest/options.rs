//! The command line, in the tool's own grammar.
//!
//! ```text
//! words ─▶ letters, values ─▶ version ─▶ each value read ─▶ checked together ─▶ Options
//! ```

use super::error::OptionError;
use super::kinds::{Data, Kind, Seeks, Version};
use super::number;
use super::words::Words;

/// Bytes of a sector.
pub(super) const SECTOR: u64 = 512;
/// A block of at most so many is one of sectors.
const MOST_SECTORS: u64 = 256;
/// The longest block: a buffer of each thread.
const MAX_BLOCK: u64 = 1 << 30;
/// Threads without `-K`.
const THREADS: u32 = 4;
/// As many as other limits of a process allow, at most.
const MAX_THREADS: u64 = 1 << 16;
/// Seconds without a completed transfer after which 1.4 fails.
const TIMEOUT_S: u32 = 60;
/// Both directions share the seconds.
const HALVES: (u32, u32) = (50, 50);

/// A command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The version.
    pub version: Version,
    /// The file or device.
    pub target: String,
    /// Its kind, as given or guessed.
    pub kind: Kind,
    /// Whether `-I` says it.
    pub(super) kind_given: bool,
    /// Opened with O_DIRECT.
    pub direct: bool,
    /// A sync after so many writes.
    pub sync_every: Option<u64>,
    /// Bytes of a transfer.
    pub block: u64,
    /// Sectors of the target, if they are given.
    pub sectors: Option<u64>,
    /// The first and the last unit of the range, `-s` or `-S`.
    pub range: Option<(u64, Option<u64>)>,
    /// Whether its unit is a sector, or else a block.
    pub in_sectors: bool,
    /// How many threads.
    pub threads: u32,
    /// After so many transfers it ends.
    pub seeks: Option<u64>,
    /// After so many seconds it ends.
    pub time_s: Option<u32>,
    /// Seconds from line to line while it runs.
    pub heartbeat_s: Option<u32>,
    /// Whether it reads.
    pub reads: bool,
    /// Whether it writes.
    pub writes: bool,
    /// Percent of the seconds for reads and for writes.
    pub duty: (u32, u32),
    /// The order of the blocks.
    pub seeks_as: Seeks,
    /// The bytes of writes.
    pub data: Data,
    /// The seed of the random numbers; `None` for the process's number.
    pub seed: Option<u64>,
    /// Milliseconds from a thread's transfer to its next one, from the least to the most.
    pub pause_ms: (u64, u64),
    /// Seconds without a completed transfer after which it fails.
    pub timeout_s: Option<u32>,
    /// Lines of throughput.
    pub throughput: bool,
    /// Lines of transfers and bytes.
    pub transfers: bool,
    /// Lines of seconds.
    pub runtime: bool,
    /// No INFO lines.
    pub quiet: bool,
    /// No time, level, process and target before a text.
    pub bare: bool,
    /// The words but the target.
    pub(super) echo: String,
    /// Letters that were written.
    pub(super) written: String,
    /// The value of `-p`.
    pub(super) order: String,
}

impl Options {
    /// From the words after the tool's name.
    ///
    /// # Errors
    /// [`OptionError`] with the word that is wrong.
    pub fn parse<S: AsRef<str>>(words: &[S]) -> Result<Self, OptionError> {
        let words = Words::split(words)?;
        let mut targets = words.others.iter();
        let Some(target) = targets.next() else { return Err(OptionError::NoTarget) };
        if let Some(second) = targets.next() {
            return Err(OptionError::Word(second.clone()));
        }
        let mut options = Self::of(version(&words)?, target, words.echo.join(" "));
        for (letter, value) in &words.options {
            options.written.push(*letter);
            options.set(*letter, value.as_deref().unwrap_or_default())?;
        }
        options.check()?;
        Ok(options)
    }

    /// Without an option.
    fn of(version: Version, target: &str, echo: String) -> Self {
        Self {
            version,
            target: target.to_owned(),
            kind: Kind::guess(target),
            kind_given: false,
            direct: false,
            sync_every: None,
            block: SECTOR,
            sectors: None,
            range: None,
            in_sectors: false,
            threads: THREADS,
            seeks: None,
            time_s: None,
            heartbeat_s: None,
            reads: false,
            writes: false,
            duty: HALVES,
            seeks_as: Seeks::Random,
            data: Data::Counter,
            seed: None,
            pause_ms: (0, 0),
            timeout_s: (version == Version::V1_4).then_some(TIMEOUT_S),
            throughput: false,
            transfers: false,
            runtime: false,
            quiet: false,
            bare: false,
            echo,
            written: String::new(),
            order: String::new(),
        }
    }

    /// Holds what `-I` says against the target. Without a word of its type it is what it is.
    ///
    /// # Errors
    /// [`OptionError::Missing`], [`OptionError::Kind`], [`OptionError::Conflict`].
    pub fn settle(&mut self, is_device: Option<bool>) -> Result<(), OptionError> {
        let actual = match is_device {
            Some(true) => Kind::Block,
            Some(false) => Kind::File,
            None if self.writes && self.kind == Kind::File => Kind::File,
            None => return Err(OptionError::Missing(self.target.clone())),
        };
        let is_same = (self.kind == Kind::File) == (actual == Kind::File);
        if !is_same && self.kind_given {
            let what = if actual == Kind::File { "file" } else { "device" };
            let (target, letter) = (self.target.clone(), actual.letter());
            return Err(OptionError::Kind { target, what, letter });
        }
        if !is_same {
            self.kind = actual;
        }
        if self.sync_every.is_some() && self.kind != Kind::File {
            return Err(OptionError::Conflict("-I s is for files; leave s out"));
        }
        Ok(())
    }

    /// Whether an option was written.
    pub(super) fn has(&self, letter: char) -> bool {
        self.written.contains(letter)
    }

    fn set(&mut self, letter: char, text: &str) -> Result<(), OptionError> {
        let wrong = |wanted| OptionError::Value { option: letter, value: text.to_owned(), wanted };
        let count = |wanted| number::size(text).filter(|n| *n > 0).ok_or_else(|| wrong(wanted));
        let seconds = || {
            let seconds = number::seconds(text).filter(|seconds| *seconds > 0);
            seconds.ok_or_else(|| wrong("a number of seconds like 30 or 2h"))
        };
        match letter {
            'r' => self.reads = true,
            'w' => self.writes = true,
            'c' => self.data = Data::Counter,
            'z' => self.data = Data::Random,
            'q' => self.quiet = true,
            'Q' => self.bare = true,
            'B' if text.contains(':') => {
                return Err(unsupported('B', text, "one size, like -B 4k"));
            }
            'B' => {
                let sectors = |n| if n > MOST_SECTORS { n / SECTOR } else { n };
                let sectors = number::size(text).map(sectors);
                let sectors = sectors.filter(|n| (1..=MAX_BLOCK / SECTOR).contains(n));
                let size = "a size like 4k, at most 1g";
                self.block = sectors.ok_or_else(|| wrong(size))? * SECTOR;
            }
            'K' => {
                let threads = count("a number of threads up to 65536")?;
                let threads = Some(threads).filter(|n| *n <= MAX_THREADS);
                self.threads = threads.ok_or_else(|| wrong("at most 65536 threads"))? as u32;
            }
            'L' => self.seeks = Some(count("a number of seeks")?),
            'N' => self.sectors = Some(count("a number of sectors")?),
            'a' => self.seed = Some(number::size(text).ok_or_else(|| wrong("a whole number"))?),
            'T' => self.time_s = Some(seconds()?),
            'h' => self.heartbeat_s = Some(seconds()?),
            's' | 'S' => {
                let range = number::range(text);
                self.range = Some(range.ok_or_else(|| wrong("a range like 10 or 10:15"))?);
                self.in_sectors = letter == 's';
            }
            'D' => self.duty = number::shares(text).ok_or_else(|| wrong("shares like 30:70"))?,
            't' => {
                let pauses = number::pauses(text);
                let (pause_ms, timeout_s) = pauses
                    .ok_or_else(|| wrong("milliseconds like 30 or 300:1000:1m, up to a day"))?;
                self.pause_ms = pause_ms;
                self.timeout_s = timeout_s.map_or(self.timeout_s, |s| Some(s).filter(|s| *s > 0));
            }
            'p' => self.seek(text)?,
            'P' => self.lines(text)?,
            'I' => self.access(text)?,
            // -M is the time of -m's marks alone.
            _ => {}
        }
        Ok(())
    }

    fn seek(&mut self, text: &str) -> Result<(), OptionError> {
        text.clone_into(&mut self.order);
        for letter in text.chars() {
            self.seeks_as = match letter {
                'l' | 'L' => Seeks::Linear,
                'R' => Seeks::Random,
                'r' if self.version == Version::V1_4 => Seeks::Interleaved,
                'r' => Seeks::Random,
                'u' => continue,
                'd' => return Err(unsupported('p', text, "-p l, which begins again at the start")),
                's' => return Err(unsupported('p', text, "-p l")),
                _ => {
                    let (option, value) = ('p', text.to_owned());
                    return Err(OptionError::Value { option, value, wanted: "l, L, r or R" });
                }
            };
        }
        Ok(())
    }

    fn lines(&mut self, text: &str) -> Result<(), OptionError> {
        for letter in text.chars() {
            match letter {
                'T' => self.throughput = true,
                'X' => self.transfers = true,
                'R' => self.runtime = true,
                'A' => (self.throughput, self.transfers, self.runtime) = (true, true, true),
                'P' | 'C' => return Err(unsupported('P', text, "-P TXR")),
                _ => {
                    let (option, value) = ('P', text.to_owned());
                    return Err(OptionError::Value { option, value, wanted: "of T, X, R, A" });
                }
            }
        }
        Ok(())
    }

    /// `BD`, `fs`, `fs200`: 1.4 takes a number of writes.
    fn access(&mut self, text: &str) -> Result<(), OptionError> {
        let (option, value) = ('I', text.to_owned());
        let wrong = |wanted| OptionError::Value { option, value: value.clone(), wanted };
        let mut rest = text.chars();
        while let Some(letter) = rest.next() {
            let letter = letter.to_ascii_uppercase();
            self.kind_given |= matches!(letter, 'R' | 'B' | 'F');
            match letter {
                'R' => self.kind = Kind::Raw,
                'B' => self.kind = Kind::Block,
                'F' => self.kind = Kind::File,
                'D' => self.direct = true,
                'S' => {
                    let end = rest.as_str().find(|c: char| !c.is_ascii_digit());
                    let (digits, more) = rest.as_str().split_at(end.unwrap_or(rest.as_str().len()));
                    let is_number = !digits.is_empty();
                    if is_number && self.version == Version::V1_2 {
                        return Err(unsupported('I', text, "--dialect=1.4 -I fsN, or -I fs"));
                    }
                    let every = if is_number { digits.parse().unwrap_or(0) } else { 1 };
                    self.sync_every = Some(every).filter(|every| *every > 0);
                    if self.sync_every.is_none() {
                        return Err(wrong("a type like fs200, a sync after 200 writes"));
                    }
                    rest = more.chars();
                }
                _ => return Err(wrong("of r, b or f, with d and s")),
            }
        }
        Ok(())
    }

    /// Checks the options together.
    fn check(&mut self) -> Result<(), OptionError> {
        let conflict =
            |is_one, text| if is_one { Err(OptionError::Conflict(text)) } else { Ok(()) };
        self.reads |= !self.writes;
        let both = self.reads && self.writes;
        if both && self.order.contains('L') {
            return Err(OptionError::Unsupported {
                what: "-p L with -r and -w".to_owned(),
                nearest: "a run with -w, then one with -r".to_owned(),
            });
        }
        let is_random = self.seeks_as == Seeks::Random;
        conflict(self.has('T') && self.has('L'), "-T and -L exclude each other; leave one out")?;
        conflict(self.has('s') && self.has('S'), "-s and -S exclude each other; leave one out")?;
        conflict(self.has('D') && !is_random, "-D is for random seeks; add -p R or leave it out")?;
        let shows = self.throughput || self.transfers || self.runtime;
        conflict(self.has('h') && !shows, "-h needs lines to print; add -P T")?;
        let is_late = self.heartbeat_s > self.time_s && self.time_s.is_some();
        conflict(is_late, "-h is longer than -T; make it shorter")?;
        let syncs = self.sync_every.is_some();
        let is_new = self.version == Version::V1_4;
        conflict(syncs && self.direct && is_new, "-I has d and s; leave one out")?;
        let is_mixed = both && self.sync_every.is_some_and(|every| every > 1);
        conflict(is_mixed, "-I sN is for writes alone; leave -r or the number out")?;
        self.settle_duty(both && is_random);
        Ok(())
    }

    /// One direction has all the seconds; two that seek together have half each.
    fn settle_duty(&mut self, is_chosen: bool) {
        match (self.reads, self.writes) {
            (true, false) => self.duty = (100, 0),
            (false, true) => self.duty = (0, 100),
            _ if !is_chosen => self.duty = HALVES,
            // A share of nothing is a direction that does not take place.
            _ => (self.reads, self.writes) = (self.duty.0 > 0, self.duty.1 > 0),
        }
    }
}

/// As named; else 1.4 if an option is one that only it has.
fn version(words: &Words) -> Result<Version, OptionError> {
    match words.dialect.as_deref() {
        Some("1.2") => Ok(Version::V1_2),
        Some("1.4") => Ok(Version::V1_4),
        Some(value) => Err(OptionError::Unknown {
            option: format!("--dialect={value}"),
            nearest: "--dialect=1.2 or --dialect=1.4".to_owned(),
        }),
        None => {
            let is_new = |(letter, value): &(char, Option<String>)| {
                let value = value.as_deref().unwrap_or_default();
                matches!(letter, 't' | 'M')
                    || (*letter == 'I' && value.ends_with(|c: char| c.is_ascii_digit()))
            };
            Ok(if words.options.iter().any(is_new) { Version::V1_4 } else { Version::V1_2 })
        }
    }
}

fn unsupported(letter: char, value: &str, nearest: &str) -> OptionError {
    OptionError::Unsupported { what: format!("-{letter} {value}"), nearest: nearest.to_owned() }
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
