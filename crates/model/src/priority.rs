//! A thread's I/O priority (ioprio_set(2)) as text: `none`, `be/0` to `be/7`, `rt/0` to `rt/7`,
//! `idle`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The levels of a class go from 0, which is served first, to this (`IOPRIO_NR_LEVELS` - 1).
pub const LAST_LEVEL: u8 = 7;

/// A thread's I/O priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Not set: the kernel derives it from the nice value (`be/4` at nice 0).
    #[default]
    None,
    /// Before all others. The level, 0 to 7.
    RealTime(u8),
    /// The usual class. The level, 0 to 7.
    BestEffort(u8),
    /// After all others.
    Idle,
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::RealTime(level) => write!(f, "rt/{level}"),
            Self::BestEffort(level) => write!(f, "be/{level}"),
            Self::Idle => f.write_str("idle"),
        }
    }
}

/// A text is not a priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("give none, be/0 to be/7 (0 goes first), rt/0 to rt/7 or idle")]
pub struct NotAPriority;

impl FromStr for Priority {
    type Err = NotAPriority;

    fn from_str(text: &str) -> Result<Self, NotAPriority> {
        let level =
            |text: &str| text.parse().ok().filter(|level| *level <= LAST_LEVEL).ok_or(NotAPriority);
        match text.split_once('/') {
            None if text == "none" => Ok(Self::None),
            None if text == "idle" => Ok(Self::Idle),
            Some(("rt", rest)) => level(rest).map(Self::RealTime),
            Some(("be", rest)) => level(rest).map(Self::BestEffort),
            _ => Err(NotAPriority),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_read_back_and_nothing_else_is_one() {
        use Priority::{BestEffort, Idle, None, RealTime};
        for (text, priority) in [
            ("none", None),
            ("rt/0", RealTime(0)),
            ("rt/7", RealTime(7)),
            ("be/0", BestEffort(0)),
            ("be/4", BestEffort(4)),
            ("idle", Idle),
        ] {
            assert_eq!((text.parse(), priority.to_string().as_str()), (Ok(priority), text));
        }
        for text in ["", "be", "be/8", "be/-1", "rt/", "be/0 ", "NONE", "idle/0"] {
            assert_eq!(text.parse::<Priority>(), Err(NotAPriority), "{text}");
        }
    }
}
