//! Command lines that can't be followed, each with what to write.

/// A command line that can't be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// An option of the tool, or a value of one, that is not supported.
    #[error("sysbench: '{what}' is not supported here; nearest: {nearest}")]
    Unsupported {
        /// As it was written.
        what: String,
        /// The words to write in its place.
        nearest: String,
    },
    /// No option of the tool.
    #[error("sysbench: there is no option '{option}'; nearest: {nearest}")]
    Unknown {
        /// As it was written.
        option: String,
        /// The one that it resembles most.
        nearest: String,
    },
    /// A value that its option can't have.
    #[error("sysbench: --{option}: '{value}' is not {wanted}")]
    Value {
        /// Its name.
        option: &'static str,
        /// As it was written.
        value: String,
        /// Values that would do.
        wanted: &'static str,
    },
    /// A word that is no option, in a place where there is none.
    #[error("sysbench: unexpected '{0}'; write sysbench fileio OPTIONS prepare, run or cleanup")]
    Word(String),
    /// Neither `fileio` nor `--test=fileio`.
    #[error("sysbench: name the test: sysbench fileio … run, or sysbench --test=fileio … run")]
    NoTest,
    /// Another test of the tool.
    #[error("sysbench: the test '{0}' is not supported here; fileio is")]
    Test(String),
    /// Neither of the commands.
    #[error("sysbench: name the command: prepare, run or cleanup")]
    NoCommand,
    /// `run` without a mode.
    #[error(
        "sysbench: run needs --file-test-mode; modes are seqwr, seqrewr, seqrd, rndrd, rndwr, rndrw"
    )]
    NoMode,
    /// Files without bytes.
    #[error("sysbench: --file-total-size is less than a byte for each of --file-num files")]
    TooSmall,
}
