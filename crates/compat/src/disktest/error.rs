//! Command lines that can't be followed, each with what to write.

/// A command line that can't be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// An option of the tool, or a value of one, that is not supported.
    #[error("disktest: '{what}' is not supported here; nearest: {nearest}")]
    Unsupported {
        /// As it was written.
        what: String,
        /// The words to write in its place.
        nearest: String,
    },
    /// No option of the tool.
    #[error("disktest: there is no option '{option}'; nearest: {nearest}")]
    Unknown {
        /// As it was written.
        option: String,
        /// The one that it resembles most.
        nearest: String,
    },
    /// A value that its option can't have.
    #[error("disktest: -{option}: '{value}' is not {wanted}")]
    Value {
        /// Its letter.
        option: char,
        /// As it was written.
        value: String,
        /// Values that would do.
        wanted: &'static str,
    },
    /// Options that contradict each other.
    #[error("disktest: {0}")]
    Conflict(&'static str),
    /// No target.
    #[error("disktest: name the target: disktest OPTIONS FILE-OR-DEVICE")]
    NoTarget,
    /// A second word that is no option.
    #[error("disktest: unexpected '{0}'; there is one target")]
    Word(String),
    /// A target that is read and is not there.
    #[error("disktest: there is no '{0}'; write it first, with -w, or correct its path")]
    Missing(String),
    /// A target that is not what `-I` says.
    #[error("disktest: '{target}' is a {what}; write -I {letter}")]
    Kind {
        /// Its path.
        target: String,
        /// Its kind.
        what: &'static str,
        /// Its letter.
        letter: char,
    },
    /// Blocks that the target has not.
    #[error(
        "disktest: blocks up to byte {end} are asked for and the target has {size} bytes; make -N, \
         -s or -S fit, or write the file first"
    )]
    Beyond {
        /// Where they end.
        end: u64,
        /// Bytes of the target.
        size: u64,
    },
    /// A range without a block in it.
    #[error("disktest: there is no whole block of -B in the range of -N, -s or -S")]
    NoBlock,
}
