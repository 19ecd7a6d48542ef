//! The choices of a command line.

/// The version whose options, semantics and lines apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// 1.2.8, of 2005 and of the published tables.
    #[default]
    V1_2,
    /// 1.4.2, of 2008.
    V1_4,
}

impl Version {
    /// As lines have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V1_2 => "v1.2.8",
            Self::V1_4 => "v1.4.2",
        }
    }
}

/// The kind of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `-I r`: a raw device.
    Raw,
    /// `-I b`: a block device.
    Block,
    /// `-I f`: a file.
    File,
}

impl Kind {
    /// The kind for which the tool takes a path.
    pub(super) fn guess(path: &str) -> Self {
        if path.contains("raw") {
            Self::Raw
        } else if path.to_uppercase().contains("DEV") {
            Self::Block
        } else {
            Self::File
        }
    }

    pub(super) fn letter(self) -> char {
        match self {
            Self::Raw => 'r',
            Self::Block => 'b',
            Self::File => 'f',
        }
    }
}

/// The order of the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seeks {
    /// One cursor of all threads. With both directions each block is written, then read.
    Linear,
    /// At random. With both directions each transfer is one or the other, by duty.
    Random,
    /// At random. With both directions each block is written, then read.
    Interleaved,
}

/// The bytes of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// The bytes from 0 to 255, again and again.
    Counter,
    /// 512 random bytes, again and again.
    Random,
}

/// The level of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The command line.
    Start,
    /// A step of the run.
    Info,
    /// Figures.
    Stat,
    /// A warning.
    Warn,
    /// Why it failed.
    Error,
    /// How it ended.
    End,
}

impl Level {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Start => "START",
            Self::Info => "INFO",
            Self::Stat => "STAT",
            Self::Warn => "WARN",
            Self::Error => "ERROR",
            Self::End => "END",
        }
    }
}
