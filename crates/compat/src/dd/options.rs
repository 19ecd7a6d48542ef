//! The command line: `name=value`, in any order, the last one of a name wins.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use floodwall_model::toml_text;

use super::flags::{Conv, Flags, List};
use super::number::{Number, NumberError};
use super::quote;

/// Operands that are supported, as messages list them.
const SUPPORTED: &str =
    "if, of, bs, ibs, obs, count, skip, seek, iseek, oseek, conv, iflag, oflag, status";
/// Bytes of a block that no operand gives.
const BLOCK: u64 = 512;

/// A command line that can't be followed: lines without the tool's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{said}{}", .help.as_ref().map(|help| format!("\n{help}")).unwrap_or_default())]
pub struct OptionsError {
    /// The fault, in the original's words where it says the same.
    said: String,
    /// The words to write instead.
    help: Option<String>,
}

impl OptionsError {
    const fn alone(said: String) -> Self {
        Self { said, help: None }
    }
}

/// The lines on stderr besides errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// The lines at the end, or on SIGUSR1.
    #[default]
    Lines,
    /// Nothing, not even warnings.
    None,
    /// The lines of records alone.
    NoTransfer,
    /// A line a second besides.
    Progress,
}

/// A command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The file to read; else stdin.
    pub input: Option<OsString>,
    /// The file to write; else stdout.
    pub output: Option<OsString>,
    /// Bytes of a block of the input.
    pub ibs: u64,
    /// Bytes of a block of the output.
    pub obs: u64,
    /// `bs=`: each block is written as it was read. Without it the output's blocks are filled.
    pub as_read: bool,
    /// Whole blocks to read, and bytes after them; `None` for all.
    pub count: Option<(u64, u64)>,
    /// Blocks of the input to pass over, and bytes after them.
    pub skip: (u64, u64),
    /// The same of the output.
    pub seek: (u64, u64),
    /// Conversions.
    pub conv: Conv,
    /// How the input is opened.
    pub iflag: Flags,
    /// How the output is opened.
    pub oflag: Flags,
    /// The lines that are printed.
    pub status: Status,
    /// Lines before the copy begins.
    pub warnings: Vec<String>,
}

/// Operands as they are read, before blocks and bytes are told apart.
#[derive(Default)]
struct Operands {
    input: Option<OsString>,
    output: Option<OsString>,
    bs: Option<u64>,
    ibs: Option<u64>,
    obs: Option<u64>,
    count: Option<Number>,
    skip: Option<Number>,
    seek: Option<Number>,
    conv: Conv,
    iflag: Flags,
    oflag: Flags,
    status: Status,
    warnings: Vec<String>,
}

impl Options {
    /// From the words after the tool's name.
    ///
    /// # Errors
    /// [`OptionsError`] with the word that is wrong.
    pub fn parse<S: AsRef<OsStr>>(words: &[S]) -> Result<Self, OptionsError> {
        let mut operands = Operands::default();
        // The first `--` has no meaning here: operands have no dashes.
        let end = words.iter().position(|word| word.as_ref() == "--");
        for (at, word) in words.iter().enumerate() {
            if Some(at) != end {
                operands.read(word.as_ref())?;
            }
        }
        operands.resolve()
    }
}

impl Operands {
    fn read(&mut self, word: &OsStr) -> Result<(), OptionsError> {
        let bytes = word.as_bytes();
        let Some(at) = bytes.iter().position(|byte| *byte == b'=') else {
            return Err(unknown(word));
        };
        let (name, value) = (&bytes[..at], &bytes[at + 1..]);
        let file = || Some(OsString::from_vec(value.to_vec()));
        match name {
            b"if" => self.input = file(),
            b"of" => self.output = file(),
            b"bs" => self.bs = Some(self.size(value)?),
            b"ibs" => self.ibs = Some(self.size(value)?),
            b"obs" => self.obs = Some(self.size(value)?),
            b"count" => self.count = Some(self.number(value)?),
            b"skip" | b"iseek" => self.skip = Some(self.number(value)?),
            b"seek" | b"oseek" => self.seek = Some(self.number(value)?),
            b"conv" => set(List::Conversion, value, |word| self.conv.set(word))?,
            b"iflag" => set(List::Input, value, |word| self.iflag.set(word, List::Input))?,
            b"oflag" => set(List::Output, value, |word| self.oflag.set(word, List::Output))?,
            b"status" => self.status = status(value)?,
            _ => return Err(unknown(word)),
        }
        Ok(())
    }

    /// A number; its warning is kept.
    fn number(&mut self, value: &[u8]) -> Result<Number, OptionsError> {
        let invalid =
            |why: &str| OptionsError::alone(format!("invalid number: {}{why}", quote::word(value)));
        let text = str::from_utf8(value).map_err(|_| invalid(""))?;
        let number = Number::parse(text).map_err(|e| match e {
            NumberError::Invalid => invalid(""),
            NumberError::TooLarge => invalid(": Value too large for defined data type"),
        })?;
        if number.starts_with_0x {
            let warning = "warning: '0x' is a zero multiplier; use '00x' if that is intended";
            self.warnings.push(warning.to_owned());
        }
        Ok(number)
    }

    /// A number of bytes from 1 on.
    fn size(&mut self, value: &[u8]) -> Result<u64, OptionsError> {
        let size = self.number(value)?.value;
        if size == 0 {
            return Err(OptionsError::alone(format!("invalid number: {}", quote::word(value))));
        }
        Ok(size)
    }

    fn resolve(mut self) -> Result<Options, OptionsError> {
        if self.conv.excl && self.conv.nocreat {
            return Err(OptionsError::alone("cannot combine excl and nocreat".to_owned()));
        }
        if self.oflag.append && !self.conv.notrunc {
            self.warnings.push("you probably want conv=notrunc with oflag=append".to_owned());
        }
        let (ibs, obs) = (self.bs.or(self.ibs), self.bs.or(self.obs));
        let (ibs, obs) = (ibs.unwrap_or(BLOCK), obs.unwrap_or(BLOCK));
        let blocks = |number: Number, in_bytes: bool, block: u64| match number {
            Number { value, has_b, .. } if in_bytes || has_b => (value / block, value % block),
            Number { value, .. } => (value, 0),
        };
        let (iflag, oflag) = (self.iflag, self.oflag);
        Ok(Options {
            input: self.input,
            output: self.output,
            ibs,
            obs,
            as_read: self.bs.is_some(),
            count: self.count.map(|count| blocks(count, iflag.count_bytes, ibs)),
            skip: self.skip.map_or((0, 0), |skip| blocks(skip, iflag.skip_bytes, ibs)),
            seek: self.seek.map_or((0, 0), |seek| blocks(seek, oflag.seek_bytes, obs)),
            conv: self.conv,
            iflag,
            oflag,
            status: self.status,
            warnings: self.warnings,
        })
    }
}

/// Sets the words of a list; `set` tells whether it knows one.
fn set(list: List, value: &[u8], mut set: impl FnMut(&str) -> bool) -> Result<(), OptionsError> {
    for word in value.split(|byte| *byte == b',') {
        let text = String::from_utf8_lossy(word);
        if !set(&text) {
            return Err(unknown_word(list, word, &text));
        }
    }
    Ok(())
}

fn unknown_word(list: List, word: &[u8], text: &str) -> OptionsError {
    let (noun, quoted) = (list.noun(), quote::word(word));
    match list.nearest(text) {
        Some(nearest) => OptionsError::alone(format!(
            "{noun} {quoted} is not supported here; nearest: {nearest}"
        )),
        None => OptionsError {
            said: format!("invalid {noun}: {quoted}"),
            help: Some(format!("supported here: {}", list.supported())),
        },
    }
}

fn status(value: &[u8]) -> Result<Status, OptionsError> {
    Ok(match value {
        b"none" => Status::None,
        b"noxfer" => Status::NoTransfer,
        b"progress" => Status::Progress,
        other => {
            let said = format!("invalid status level: {}", quote::word(other));
            let help = Some("supported here: none, noxfer, progress".to_owned());
            return Err(OptionsError { said, help });
        }
    })
}

/// A word that is no operand, with the nearest one.
fn unknown(word: &OsStr) -> OptionsError {
    let bytes = word.as_bytes();
    if bytes.starts_with(b"-") {
        let said = format!("unrecognized option {}", quote::word(bytes));
        let help = "dd takes operands such as if=FILE; 'floodwall compat --help' has examples";
        return OptionsError { said, help: Some(help.to_owned()) };
    }
    let name = bytes.split(|byte| *byte == b'=').next().unwrap_or_default();
    if name == b"cbs" {
        let said = "operand 'cbs' is not supported here; nearest: bs, ibs and obs";
        return OptionsError::alone(said.to_owned());
    }
    let name = String::from_utf8_lossy(name).to_lowercase();
    let nearest = toml_text::nearest(&name, SUPPORTED.split(", "));
    let nearest = nearest.map(|known| format!("nearest: {known}=; ")).unwrap_or_default();
    let help = Some(format!("{nearest}supported here: {SUPPORTED}"));
    OptionsError { said: format!("unrecognized operand {}", quote::word(bytes)), help }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, OptionsError> {
        Options::parse(&line.split_whitespace().collect::<Vec<_>>())
    }

    #[test]
    fn operands_come_in_any_order_and_the_last_one_wins() {
        let none = parsed("").unwrap();
        assert_eq!((none.ibs, none.obs, none.as_read, none.count), (512, 512, false, None));
        let options =
            parsed("if=a -- of=b bs=1k ibs=7 obs=9 if=c=d conv=sync conv=notrunc").unwrap();
        assert_eq!(options.input.unwrap(), "c=d");
        assert_eq!((options.ibs, options.obs, options.as_read), (1024, 1024, true));
        assert!(options.conv.sync && options.conv.notrunc && !options.conv.fsync);
        let options = parsed("ibs=7 obs=9 status=none status=progress oflag=direct,dsync").unwrap();
        assert_eq!((options.ibs, options.obs, options.as_read), (7, 9, false));
        assert_eq!(options.status, Status::Progress);
        assert!(options.oflag.direct && options.oflag.dsync && !options.iflag.direct);
    }

    #[test]
    fn bytes_are_whole_blocks_and_a_rest() {
        let options = parsed("count=10 skip=5B seek=2000 bs=1000 oflag=seek_bytes").unwrap();
        assert_eq!((options.count, options.skip, options.seek), (Some((10, 0)), (0, 5), (2, 0)));
        let options = parsed("count=1KiB ibs=300 iseek=1 oseek=2").unwrap();
        assert_eq!((options.count, options.skip, options.seek), (Some((3, 124)), (1, 0), (2, 0)));
        let options = parsed("count=600 skip=700 iflag=count_bytes,skip_bytes").unwrap();
        assert_eq!((options.count, options.skip), (Some((1, 88)), (1, 188)));
    }

    #[test]
    fn what_is_odd_is_a_warning() {
        let options = parsed("count=0x10 oflag=append").unwrap();
        assert_eq!(options.warnings.len(), 2);
        assert!(parsed("oflag=append conv=notrunc").unwrap().warnings.is_empty());
    }

    #[test]
    fn what_is_wrong_is_named_with_the_nearest() {
        let said = |line| parsed(line).unwrap_err().to_string();
        for (line, wanted) in [
            ("bs=1z", "invalid number: '1z'"),
            ("bs=0", "invalid number: '0'"),
            ("count=1Z", "invalid number: '1Z': Value too large for defined data type"),
            ("conv=excl,nocreat", "cannot combine excl and nocreat"),
            ("conv=swab", "conversion 'swab' is not supported here; nearest: leave it out"),
            ("cbs=80", "operand 'cbs' is not supported here; nearest: bs, ibs and obs"),
        ] {
            assert_eq!(said(line), wanted);
        }
        for (line, wanted) in [
            ("iff=a", "unrecognized operand 'iff=a'\nnearest: if=; supported here: if, of, bs"),
            ("COUNT=1", "unrecognized operand 'COUNT=1'\nnearest: count=;"),
            ("of", "unrecognized operand 'of'\nnearest: of=;"),
            ("conv=", "invalid conversion: ''\nsupported here: fsync"),
            ("conv=foo,sync", "invalid conversion: 'foo'\n"),
            ("iflag=foo", "invalid input flag: 'foo'\n"),
            ("oflag=fullblock", "invalid output flag: 'fullblock'\n"),
            ("status=foo", "invalid status level: 'foo'\n"),
            ("--foo", "unrecognized option '--foo'\n"),
        ] {
            assert!(said(line).starts_with(wanted), "{}", said(line));
        }
    }

    #[test]
    fn no_word_makes_it_panic() {
        use proptest::prelude::*;
        let word = "(if|bs|count|conv|iflag)=[0-9a-zA-Z,x+ ]{0,8}|\\PC{0,6}";
        proptest!(|(words in prop::collection::vec(word, 0..6))| {
            let _ = Options::parse(&words);
        });
    }
}
