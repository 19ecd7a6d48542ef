//! The lists of `conv=`, `iflag=` and `oflag=`: the words that are supported, and those that the
//! tool has besides.

/// The words of `conv=`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent words of one list")]
pub struct Conv {
    /// `fsync(2)` at the end.
    pub fsync: bool,
    /// `fdatasync(2)` at the end.
    pub fdatasync: bool,
    /// The output keeps its length.
    pub notrunc: bool,
    /// The output must exist.
    pub nocreat: bool,
    /// The output must not exist.
    pub excl: bool,
    /// Short blocks of the input are filled with zeros.
    pub sync: bool,
    /// Errors of reading are passed over.
    pub noerror: bool,
}

/// How a file is opened, and how its blocks are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent words of one list")]
pub struct Flags {
    /// `O_APPEND`.
    pub append: bool,
    /// `O_DIRECT`.
    pub direct: bool,
    /// `O_DIRECTORY`.
    pub directory: bool,
    /// `O_DSYNC`.
    pub dsync: bool,
    /// `O_SYNC`.
    pub sync: bool,
    /// `O_NONBLOCK`.
    pub nonblock: bool,
    /// `O_NOATIME`.
    pub noatime: bool,
    /// `O_NOCTTY`.
    pub noctty: bool,
    /// `O_NOFOLLOW`.
    pub nofollow: bool,
    /// Input: blocks are read until they are full.
    pub fullblock: bool,
    /// `count` counts bytes.
    pub count_bytes: bool,
    /// `skip` counts bytes.
    pub skip_bytes: bool,
    /// `seek` counts bytes.
    pub seek_bytes: bool,
}

/// One of the three lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// `conv=`
    Conversion,
    /// `iflag=`
    Input,
    /// `oflag=`
    Output,
}

impl List {
    /// As messages call one of its words.
    pub(super) const fn noun(self) -> &'static str {
        match self {
            Self::Conversion => "conversion",
            Self::Input => "input flag",
            Self::Output => "output flag",
        }
    }

    /// The words that are supported, as messages list them.
    pub(super) const fn supported(self) -> &'static str {
        match self {
            Self::Conversion => "fsync, fdatasync, notrunc, nocreat, excl, sync, noerror",
            Self::Input => {
                "fullblock, direct, dsync, sync, nonblock, noatime, noctty, nofollow, directory, \
                 append, count_bytes, skip_bytes"
            }
            Self::Output => {
                "direct, dsync, sync, nonblock, append, noatime, noctty, nofollow, directory, \
                 seek_bytes"
            }
        }
    }

    /// Advice for a word that the tool has and this does not.
    pub(super) fn nearest(self, word: &str) -> Option<&'static str> {
        let words: &[(&str, &str)] = match self {
            Self::Conversion => &[
                ("ascii", "recode or iconv"),
                ("ebcdic", "recode or iconv"),
                ("ibm", "recode or iconv"),
                ("block", "conv=sync fills blocks of the input"),
                ("unblock", "leave it out"),
                ("lcase", "tr A-Z a-z"),
                ("ucase", "tr a-z A-Z"),
                ("sparse", "cp --sparse=always"),
                ("swab", "leave it out"),
            ],
            Self::Input | Self::Output => &[("nocache", "direct passes the page cache by")],
        };
        words.iter().find(|(name, _)| *name == word).map(|(_, nearest)| *nearest)
    }
}

impl Conv {
    /// Sets one by its word; whether there is such a word.
    pub(super) fn set(&mut self, word: &str) -> bool {
        let flag = match word {
            "fsync" => &mut self.fsync,
            "fdatasync" => &mut self.fdatasync,
            "notrunc" => &mut self.notrunc,
            "nocreat" => &mut self.nocreat,
            "excl" => &mut self.excl,
            "sync" => &mut self.sync,
            "noerror" => &mut self.noerror,
            _ => return false,
        };
        *flag = true;
        true
    }
}

impl Flags {
    /// The same.
    pub(super) fn set(&mut self, word: &str, list: List) -> bool {
        let flag = match word {
            "append" => &mut self.append,
            "direct" => &mut self.direct,
            "directory" => &mut self.directory,
            "dsync" => &mut self.dsync,
            "sync" => &mut self.sync,
            "nonblock" => &mut self.nonblock,
            "noatime" => &mut self.noatime,
            "noctty" => &mut self.noctty,
            "nofollow" => &mut self.nofollow,
            "fullblock" if list == List::Input => &mut self.fullblock,
            // The original takes these of either list, where they have an effect of one alone.
            "count_bytes" => &mut self.count_bytes,
            "skip_bytes" => &mut self.skip_bytes,
            "seek_bytes" => &mut self.seek_bytes,
            _ => return false,
        };
        *flag = true;
        true
    }
}
