//! The choices of a command line.

/// The version whose options, semantics and report apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// `sysbench fileio … run`.
    #[default]
    V1_0,
    /// `sysbench --test=fileio … run`.
    V0_4,
}

/// The command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Make the files.
    Prepare,
    /// Measure.
    Run,
    /// Remove the files.
    Cleanup,
}

impl Command {
    pub(super) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "prepare" => Self::Prepare,
            "run" => Self::Run,
            "cleanup" => Self::Cleanup,
            _ => return None,
        })
    }
}

/// `--file-test-mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Sequential writes into new files.
    SeqWr,
    /// Sequential writes into the files that there are.
    SeqReWr,
    /// Sequential reads.
    SeqRd,
    /// Random reads.
    RndRd,
    /// Random writes.
    RndWr,
    /// Both.
    RndRw,
}

impl Mode {
    /// Random offsets.
    #[must_use]
    pub fn is_random(self) -> bool {
        matches!(self, Self::RndRd | Self::RndWr | Self::RndRw)
    }

    /// Whether it writes.
    #[must_use]
    pub fn writes(self) -> bool {
        !matches!(self, Self::SeqRd | Self::RndRd)
    }

    pub(super) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "seqwr" => Self::SeqWr,
            "seqrewr" => Self::SeqReWr,
            "seqrd" => Self::SeqRd,
            "rndrd" => Self::RndRd,
            "rndwr" => Self::RndWr,
            "rndrw" => Self::RndRw,
            _ => return None,
        })
    }
}

/// `--file-extra-flags`: with which of them the files are opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFlags {
    /// O_SYNC.
    pub sync: bool,
    /// O_DSYNC.
    pub dsync: bool,
    /// O_DIRECT.
    pub direct: bool,
}

impl OpenFlags {
    /// `sync,direct`.
    pub(super) fn parse(list: &str) -> Option<Self> {
        let mut flags = Self::default();
        for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match word {
                "sync" => flags.sync = true,
                "dsync" => flags.dsync = true,
                "direct" => flags.direct = true,
                _ => return None,
            }
        }
        Some(flags)
    }
}
