//! Values of options that are words.

/// The order of the blocks, and what is done to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pattern {
    /// Whether blocks are read; the default.
    pub reads: bool,
    /// Whether blocks are written.
    pub writes: bool,
    /// In random order.
    pub is_random: bool,
}

/// Words of `rw`, in fio's order.
const PATTERNS: [(&str, bool, bool, bool); 7] = [
    ("read", true, false, false),
    ("write", false, true, false),
    ("randread", true, false, true),
    ("randwrite", false, true, true),
    ("rw", true, true, false),
    ("readwrite", true, true, false),
    ("randrw", true, true, true),
];

impl Pattern {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let found = PATTERNS.iter().find(|(name, ..)| *name == text)?;
        Some(Self { reads: found.1, writes: found.2, is_random: found.3 })
    }

    /// Its word in fio's report.
    #[must_use]
    pub fn name(self) -> &'static str {
        let is_same = |p: &&(&str, bool, bool, bool)| (p.1, p.2, p.3) == self.parts();
        PATTERNS.iter().find(is_same).map_or("read", |found| found.0)
    }

    fn parts(self) -> (bool, bool, bool) {
        (self.reads, self.writes, self.is_random)
    }
}

/// How requests are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Engine {
    /// As it was written.
    pub name: &'static str,
    /// Whether `iodepth` requests are in flight, by io_uring.
    pub is_async: bool,
}

/// The engines that there are: their requests are pread(2) and pwrite(2), or io_uring's.
const ENGINES: [Engine; 7] = [
    Engine { name: "psync", is_async: false },
    Engine { name: "sync", is_async: false },
    Engine { name: "vsync", is_async: false },
    Engine { name: "pvsync", is_async: false },
    Engine { name: "pvsync2", is_async: false },
    Engine { name: "libaio", is_async: true },
    Engine { name: "io_uring", is_async: true },
];

impl Engine {
    pub(super) fn parse(text: &str) -> Option<Self> {
        ENGINES.into_iter().find(|engine| engine.name == text)
    }
}

impl Default for Engine {
    fn default() -> Self {
        ENGINES[0]
    }
}

/// A size, or a part of what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// Percent of the files or devices.
    Percent(u64),
}

impl Amount {
    /// Of so many bytes.
    #[must_use]
    pub fn of(self, whole: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (u128::from(whole) * u128::from(percent) / 100) as u64,
        }
    }
}

/// Writes that return when the data is stable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// They return before.
    #[default]
    None,
    /// `O_SYNC`.
    Sync,
    /// `O_DSYNC`.
    Dsync,
}

/// How blocks of a new file are allocated before the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallocate {
    /// By fallocate(2), if the filesystem has it.
    #[default]
    Native,
    /// By posix_fallocate(3).
    Posix,
    /// By fallocate(2) that keeps the length.
    Keep,
    /// Not: only the length is set.
    Truncate,
    /// Not at all.
    None,
}

impl Fallocate {
    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "native" => Self::Native,
            "posix" | "1" => Self::Posix,
            "keep" => Self::Keep,
            "truncate" => Self::Truncate,
            "none" | "0" => Self::None,
            _ => return None,
        })
    }
}

/// The bytes that are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Data {
    /// Random bytes, no block like another one.
    #[default]
    Random,
    /// Half of each block is zeros.
    HalfZero,
    /// Zeros.
    Zero,
}
