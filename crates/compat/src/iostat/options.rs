//! The command line, in the tool's own grammar.
//!
//! Letters may be joined. Options and devices may come in any order. The first word of digits is
//! the interval in seconds, the second one the count of reports.

use std::collections::BTreeSet;

/// Options that are supported, as error messages list them.
const SUPPORTED: &str = "-c, -d, -k, -m, -o JSON, -p, -t, -x, -y, -z";
/// The tool's other options, and what to do without them.
const OTHERS: [(&str, &str); 13] = [
    ("-f", "leave it out; /proc/diskstats is read"),
    ("+f", "leave it out; /proc/diskstats is read"),
    ("-g", "name the devices, as in 'sda sdb'"),
    ("-H", "name the devices, as in 'sda sdb'"),
    ("-h", "-k or -m choose the unit"),
    ("--human", "-k or -m choose the unit"),
    ("-j", "name the devices as the kernel does"),
    ("-N", "name the devices as the kernel does"),
    ("-s", "-x has these columns and more"),
    ("-V", "floodwall --version"),
    ("--compact", "-x prints all columns in one line"),
    ("--dec", "leave it out; figures have two decimals"),
    ("--pretty", "leave it out; the name comes first"),
];
/// Among devices: all of them.
const ALL: &str = "ALL";

/// A command line that can't be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// An option of the tool that is not supported.
    #[error("iostat: option '{option}' is not supported here; nearest: {nearest}")]
    Unsupported {
        /// As it was written.
        option: String,
        /// The words to write in its place.
        nearest: &'static str,
    },
    /// No option of the tool.
    #[error("iostat: there is no option '{0}'; supported are {SUPPORTED}")]
    Unknown(String),
    /// `-k` and `-m`.
    #[error("iostat: -k can't go with -m; leave one out")]
    Units,
    /// `-o` without a format that is known.
    #[error("iostat: -o: unknown format '{0}'; write -o JSON")]
    Format(String),
    /// A number that can't be an interval or a count.
    #[error(
        "iostat: '{0}' is neither an interval in seconds nor a count; write [INTERVAL [COUNT]]"
    )]
    Number(String),
}

/// The unit of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// 1,024 bytes.
    #[default]
    Kilobytes,
    /// 1,048,576 bytes.
    Megabytes,
}

/// A command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The processors' part is printed.
    pub cpu: bool,
    /// The disks' part is printed.
    pub disk: bool,
    /// All columns of a disk.
    pub extended: bool,
    /// Of bytes.
    pub unit: Unit,
    /// Each report begins with the time.
    pub timestamp: bool,
    /// The report since boot is left out, if an interval is given.
    pub omit_first: bool,
    /// Disks without an operation in the interval are left out.
    pub omit_idle: bool,
    /// As JSON.
    pub json: bool,
    /// Devices that are named, without `/dev/`.
    pub named: BTreeSet<String>,
    /// Devices that are named with `-p`: with their partitions.
    pub with_partitions: BTreeSet<String>,
    /// All disks, also those that were never used.
    pub all: bool,
    /// All disks and partitions, in the kernel's order; of those that were never used only with
    /// `all` or with names.
    pub all_partitions: bool,
    /// Seconds from report to report; `None` for one report since boot.
    pub interval_s: Option<u32>,
    /// How many reports; `None` for no end.
    pub count: Option<u32>,
}

impl Options {
    /// From the words after the tool's name.
    ///
    /// # Errors
    /// [`OptionError`] with the word that is wrong.
    pub fn parse<S: AsRef<str>>(words: &[S]) -> Result<Self, OptionError> {
        let mut options = Self::default();
        let (mut kilobytes, mut megabytes) = (false, false);
        let mut numbers = Vec::new();
        let mut words = words.iter().map(AsRef::as_ref).peekable();
        while let Some(word) = words.next() {
            if word == "-o" {
                let format = words.next().unwrap_or_default();
                if format != "JSON" {
                    return Err(OptionError::Format(format.to_owned()));
                }
                options.json = true;
            } else if word == "-p" {
                match words.next_if(|next| !next.starts_with('-') && !is_number(next)) {
                    Some(list) => options.partitions(list),
                    None => options.all_partitions = true,
                }
            } else if word.starts_with("--") || word.starts_with("+f") {
                return Err(refused(word));
            } else if let Some(letters) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) {
                for letter in letters.chars() {
                    match letter {
                        'c' => options.cpu = true,
                        'd' => options.disk = true,
                        'k' => kilobytes = true,
                        'm' => megabytes = true,
                        'p' => options.all_partitions = true,
                        't' => options.timestamp = true,
                        'x' => options.extended = true,
                        'y' => options.omit_first = true,
                        'z' => options.omit_idle = true,
                        'o' => return Err(OptionError::Format(format!("(in '{word}')"))),
                        other => return Err(refused(&format!("-{other}"))),
                    }
                }
            } else if is_number(word) {
                numbers.push(number(word, numbers.len())?);
            } else if word == ALL {
                options.all = true;
            } else if word != "-" {
                options.named.insert(device(word));
            }
        }
        if kilobytes && megabytes {
            return Err(OptionError::Units);
        }
        if megabytes {
            options.unit = Unit::Megabytes;
        }
        options.times(&numbers)?;
        options.parts();
        Ok(options)
    }

    /// `sda,sdb`, or `ALL`.
    fn partitions(&mut self, list: &str) {
        for name in list.split(',').filter(|name| !name.is_empty()) {
            if name == ALL {
                (self.all, self.all_partitions) = (true, true);
            } else {
                self.with_partitions.insert(device(name));
            }
        }
    }

    /// The numbers in their order: interval, count.
    fn times(&mut self, numbers: &[u32]) -> Result<(), OptionError> {
        match numbers {
            // An interval of 0 is the report since boot alone.
            [] | [0] => {}
            [interval] => self.interval_s = Some(*interval),
            [0, _] => return Err(OptionError::Number("0".to_owned())),
            [interval, count] => {
                self.interval_s = Some(*interval);
                self.count = Some(*count);
            }
            [_, _, third, ..] => return Err(OptionError::Number(third.to_string())),
        }
        Ok(())
    }

    /// Settles the parts: both, unless one is asked for. A named device is always printed.
    fn parts(&mut self) {
        let names = !self.named.is_empty() || !self.with_partitions.is_empty();
        if !self.cpu && !self.disk {
            (self.cpu, self.disk) = (true, true);
        }
        self.disk |= names || self.all || self.all_partitions;
    }
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit())
}

/// An interval or a count. A count of 0 is refused.
fn number(word: &str, at: usize) -> Result<u32, OptionError> {
    let number = word.parse().ok().filter(|number| at == 0 || *number > 0);
    number.ok_or_else(|| OptionError::Number(word.to_owned()))
}

fn device(word: &str) -> String {
    word.strip_prefix("/dev/").unwrap_or(word).to_owned()
}

fn refused(option: &str) -> OptionError {
    let name = option.split('=').next().unwrap_or_default();
    match OTHERS.iter().find(|(other, _)| *other == name) {
        Some((_, nearest)) => OptionError::Unsupported { option: option.to_owned(), nearest },
        None => OptionError::Unknown(option.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, OptionError> {
        Options::parse(&line.split_whitespace().collect::<Vec<_>>())
    }

    /// cpu, disk, interval, count.
    fn shape(line: &str) -> (bool, bool, Option<u32>, Option<u32>) {
        let options = parsed(line).unwrap();
        (options.cpu, options.disk, options.interval_s, options.count)
    }

    #[test]
    fn parts_and_times_are_those_that_the_original_prints() {
        assert_eq!(shape(""), (true, true, None, None));
        assert_eq!(shape("-x"), (true, true, None, None));
        assert_eq!(shape("-c 2"), (true, false, Some(2), None));
        assert_eq!(shape("-d 2 3"), (false, true, Some(2), Some(3)));
        assert_eq!(shape("-c sda 1 1"), (true, true, Some(1), Some(1)));
        assert_eq!(shape("-c -p"), (true, true, None, None));
        assert_eq!(shape("-d sda 1 1 sdb"), (false, true, Some(1), Some(1)));
        assert_eq!(shape("sda 0"), (true, true, None, None));
        assert_eq!(shape("-d - 08 1"), (false, true, Some(8), Some(1)));
    }

    #[test]
    fn letters_are_joined_and_devices_come_anywhere() {
        let options = parsed("-xdmt /dev/sdb -yz sda 5 -o JSON").unwrap();
        assert!(options.extended && options.timestamp && options.omit_first && options.omit_idle);
        assert!(options.json && options.unit == Unit::Megabytes);
        assert_eq!(Vec::from_iter(options.named), ["sda", "sdb"]);
    }

    #[test]
    fn a_list_follows_p_only_where_it_stands_alone() {
        let list = parsed("-d -p sda,/dev/sdb 1").unwrap();
        assert_eq!(Vec::from_iter(list.with_partitions), ["sda", "sdb"]);
        assert!(!list.all_partitions);
        let joined = parsed("-dp sda").unwrap();
        assert!(joined.all_partitions && joined.named.contains("sda"));
        for line in ["-p", "-p -d", "-p 1 1", "-p ALL", "-px"] {
            assert!(parsed(line).unwrap().all_partitions, "{line}");
        }
        assert!(parsed("ALL").unwrap().all);
    }

    #[test]
    fn what_is_wrong_is_named_with_the_nearest() {
        let said = |line| parsed(line).unwrap_err().to_string();
        let nearest = "iostat: option '-s' is not supported here; nearest: -x has these columns";
        assert!(said("-xs").starts_with(nearest), "{}", said("-xs"));
        assert!(said("--dec=1").contains("option '--dec=1' is not supported here; nearest: "));
        assert_eq!(
            said("-dQ"),
            "iostat: there is no option '-Q'; supported are -c, -d, -k, -m, -o JSON, -p, -t, -x, \
             -y, -z"
        );
        assert_eq!(said("-k -m"), "iostat: -k can't go with -m; leave one out");
        assert_eq!(said("-o json"), "iostat: -o: unknown format 'json'; write -o JSON");
        for line in ["1 0", "0 3", "1 2 3", "99999999999", "-d -1", "-- sda", "-to JSON", "-o"] {
            assert!(parsed(line).is_err(), "{line}");
        }
        for (option, _) in OTHERS {
            assert!(said(option).contains("not supported here"), "{option}");
        }
    }

    #[test]
    fn no_word_makes_it_panic() {
        use proptest::prelude::*;
        let word = "[-+]{0,2}[a-zA-Z0-9,/=]{0,6}|\\PC{0,4}";
        proptest!(|(words in prop::collection::vec(word, 0..6))| {
            let _ = Options::parse(&words);
        });
    }
}
