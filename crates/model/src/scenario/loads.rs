//! Victims and floods as they are written (one flat table, whatever the kind), and the checks that
//! make them runnable.

use std::time::Duration;

use serde::Deserialize;

use super::error::ScenarioError;
use super::{Access, Data, Engine, Flood, FloodKind, SyncMethod, Victim, VictimKind, WriteMode};
use crate::units::{Bytes, KIB, Rate, parse_duration};

/// A value that is written with its unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct WithUnit<T>(pub(super) T);

macro_rules! from_text {
    ($type:ty, $parse:expr) => {
        impl<'de> Deserialize<'de> for WithUnit<$type> {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                struct Text;
                impl serde::de::Visitor<'_> for Text {
                    type Value = $type;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("a text with a unit, in quotes")
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        let parse: fn(&str) -> Result<$type, crate::units::UnitError> = $parse;
                        parse(text).map_err(E::custom)
                    }
                    fn visit_i64<E: serde::de::Error>(self, bare: i64) -> Result<$type, E> {
                        self.visit_str(&bare.to_string())
                    }
                }
                d.deserialize_any(Text).map(WithUnit)
            }
        }
    };
}
from_text!(Bytes, |t| t.parse());
from_text!(Rate, |t| t.parse());
from_text!(Duration, parse_duration);

/// A victim as written: one flat table, whatever the kind.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawVictim {
    name: Option<String>,
    kind: Option<RawVictimKind>,
    threads: Option<u32>,
    block: Option<WithUnit<Bytes>>,
    files: Option<u32>,
    size: Option<WithUnit<Bytes>>,
    engine: Option<RawEngine>,
    depth: Option<u32>,
    rate: Option<WithUnit<VictimRate>>,
    sync: Option<RawSync>,
    direct: Option<bool>,
    preallocated: Option<bool>,
    access: Option<RawAccess>,
    read_percent: Option<u32>,
    command: Option<String>,
}

/// A flood as written: one flat table, whatever the kind.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFlood {
    name: Option<String>,
    kind: Option<RawFloodKind>,
    streams: Option<u32>,
    block: Option<WithUnit<Bytes>>,
    size: Option<WithUnit<Bytes>>,
    rate: Option<WithUnit<Rate>>,
    data: Option<RawData>,
    mode: Option<WriteMode>,
    file_size: Option<WithUnit<Bytes>>,
    command: Option<String>,
}

macro_rules! spelled {
    ($name:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
        enum $name { $(#[serde(rename = $text)] $variant),+ }
        impl $name {
            fn text(self) -> &'static str { match self { $(Self::$variant => $text),+ } }
        }
    };
}
spelled!(RawVictimKind {
    Commit = "commit",
    Wal = "wal",
    Journal = "journal",
    Read = "read",
    Scan = "scan",
    Mixed = "mixed",
    Command = "command",
});
spelled!(RawFloodKind {
    Seq = "seq",
    Random = "random",
    Files = "files",
    Mmap = "mmap",
    Copy = "copy",
    Command = "command",
});

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawEngine {
    Psync,
    IoUring,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawSync {
    Fsync,
    Fdatasync,
    SyncFileRange,
    ODsync,
    OSync,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawAccess {
    Direct,
    Evict,
    Cached,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawData {
    Random,
    Zero,
    Compressible,
}

/// A victim's rate: operations a second, written `500/s` or 500, or a share of its rate alone,
/// written `33%`.
#[derive(Clone, Copy, Debug)]
pub(super) enum VictimRate {
    PerSecond(f64),
    /// Percent, above 0, up to 100.
    Share(f64),
}

impl<'de> Deserialize<'de> for WithUnit<VictimRate> {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(f64),
            Text(String),
        }
        let text = match Written::deserialize(d)? {
            Written::Number(number) => return Ok(WithUnit(VictimRate::PerSecond(number))),
            Written::Text(text) => text,
        };
        let wrong = || {
            serde::de::Error::custom(format!(
                "'{text}' is not a rate: write operations per second, such as 500/s, \
                 or a share of what the victim does alone, such as 33%"
            ))
        };
        let written = text.trim();
        let (number, is_share) = match (written.strip_suffix("/s"), written.strip_suffix('%')) {
            (Some(number), _) => (number, false),
            (None, Some(number)) => (number, true),
            (None, None) => return Err(wrong()),
        };
        let number: f64 = number.trim().parse().map_err(|_| wrong())?;
        Ok(WithUnit(if is_share {
            VictimRate::Share(number)
        } else {
            VictimRate::PerSecond(number)
        }))
    }
}

/// The kind that is written, or that of a command for a table with nothing but one.
fn kind_or_command<K>(kind: Option<K>, command: Option<&String>, of_commands: K) -> Option<K> {
    kind.or(command.map(|_| of_commands))
}

/// The command of a kind that needs one.
fn command_text(command: Option<String>) -> Result<String, String> {
    command
        .filter(|c| !c.trim().is_empty())
        .ok_or_else(|| "has no command; write command = \"…\"".into())
}

impl RawVictim {
    pub(super) fn from_command(command: &str) -> Self {
        Self { command: Some(command.into()), ..Self::default() }
    }

    /// Fills in defaults and refuses impossible loads. `place` names the table in messages.
    pub(super) fn check(self, place: &str) -> Result<Victim, ScenarioError> {
        use RawVictimKind as K;
        let invalid = |message: String| ScenarioError::Invalid { place: place.into(), message };
        let without = "has no kind; write kind = \"commit\", wal, journal, read, scan, \
                       mixed or command";
        let kind = kind_or_command(self.kind, self.command.as_ref(), K::Command)
            .ok_or_else(|| invalid(without.into()))?;
        let refuse = |given: bool, key: &str, kinds: &[K]| {
            if given && !kinds.contains(&kind) {
                let names: Vec<&str> = kinds.iter().map(|k| k.text()).collect();
                return Err(invalid(format!(
                    "'{key}' means nothing to a {} victim; it belongs to {}",
                    kind.text(),
                    names.join(", ")
                )));
            }
            Ok(())
        };
        refuse(self.sync.is_some(), "sync", &[K::Commit, K::Wal, K::Journal, K::Mixed])?;
        refuse(self.direct.is_some(), "direct", &[K::Commit])?;
        refuse(self.preallocated.is_some(), "preallocated", &[K::Wal])?;
        refuse(self.access.is_some(), "access", &[K::Read, K::Scan, K::Mixed])?;
        refuse(self.read_percent.is_some(), "read_percent", &[K::Mixed])?;
        refuse(self.command.is_some(), "command", &[K::Command])?;

        let sync = match self.sync.unwrap_or(RawSync::Fsync) {
            RawSync::Fsync => SyncMethod::Fsync,
            RawSync::Fdatasync => SyncMethod::Fdatasync,
            RawSync::SyncFileRange => SyncMethod::SyncFileRange,
            RawSync::ODsync => SyncMethod::ODsync,
            RawSync::OSync => SyncMethod::OSync,
        };
        let access = match self.access.unwrap_or(RawAccess::Direct) {
            RawAccess::Direct => Access::Direct,
            RawAccess::Evict => Access::Evict,
            RawAccess::Cached => Access::Cached,
        };
        let full_kind = match kind {
            K::Commit => VictimKind::Commit { sync, direct: self.direct.unwrap_or(false) },
            K::Wal => VictimKind::Wal { sync, preallocated: self.preallocated.unwrap_or(true) },
            K::Journal => VictimKind::Journal { sync },
            K::Read => VictimKind::Read { access },
            K::Scan => VictimKind::Scan { access },
            K::Mixed => {
                let read_percent = self.read_percent.unwrap_or(70);
                if read_percent > 100 {
                    return Err(invalid(format!(
                        "read_percent = {read_percent} is over 100; write 0 to 100"
                    )));
                }
                VictimKind::Mixed { sync, access, read_percent }
            }
            K::Command => {
                VictimKind::Command { command: command_text(self.command).map_err(invalid)? }
            }
        };
        let (rate, rate_percent) = match self.rate.map(|rate| rate.0) {
            None => (None, None),
            Some(VictimRate::PerSecond(rate)) => (Some(rate), None),
            Some(VictimRate::Share(share)) => (None, Some(share)),
        };
        let victim = Victim {
            name: self.name.unwrap_or_else(|| kind.text().into()),
            threads: self.threads.unwrap_or(1),
            block: self.block.map_or(Bytes(16 * KIB), |b| b.0),
            files: self.files.unwrap_or(1),
            size: self.size.map_or(Bytes::gib(1), |b| b.0),
            engine: match self.engine.unwrap_or(RawEngine::Psync) {
                RawEngine::Psync => Engine::Psync,
                RawEngine::IoUring => Engine::IoUring,
            },
            depth: self.depth.unwrap_or(1),
            rate,
            rate_percent,
            kind: full_kind,
        };
        check_name(&victim.name).and_then(|()| victim.check()).map_err(invalid)?;
        Ok(victim)
    }
}

/// Names become directories in the scratch directory and labels in tables.
fn check_name(name: &str) -> Result<(), String> {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if plain && !name.is_empty() && name.len() <= 40 && !name.starts_with('.') {
        return Ok(());
    }
    Err(format!(
        "name '{name}' is not one; use up to 40 letters, digits, '-', '_' and '.', not first"
    ))
}

impl Victim {
    fn check(&self) -> Result<(), String> {
        if self.threads == 0 {
            return Err("threads = 0 does nothing; write at least 1".into());
        }
        if self.threads > 4096 {
            return Err(format!("threads = {} is more than 4096", self.threads));
        }
        if self.files == 0 {
            return Err("files = 0 leaves nothing to work on; write at least 1".into());
        }
        if self.block.0 == 0 {
            return Err("block is zero; write a size such as \"16KiB\"".into());
        }
        let per_file = self.size.0 / u64::from(self.files);
        if self.block.0 > per_file {
            return Err(format!(
                "block ({}) is larger than a file ({} over {} files); make size larger or block \
                 smaller",
                self.block, self.size, self.files
            ));
        }
        if self.kind.is_direct() && !self.block.0.is_multiple_of(512) {
            return Err(format!(
                "block ({}) is not a multiple of 512 B, which direct I/O needs; use one, such as \
                 4KiB, or buffered access",
                self.block
            ));
        }
        if self.depth == 0 {
            return Err("depth = 0 does nothing; write at least 1".into());
        }
        if self.depth > 1024 {
            return Err(format!("depth = {} is more than 1024", self.depth));
        }
        if self.depth > 1 && self.engine == Engine::Psync {
            return Err(format!(
                "depth = {} needs engine = \"io_uring\": psync has one operation per thread",
                self.depth
            ));
        }
        if self.engine == Engine::IoUring
            && matches!(self.kind, VictimKind::Wal { .. })
            && self.depth > 1
        {
            return Err(
                "a log is appended in order: depth > 1 means nothing to a wal victim".into()
            );
        }
        if let VictimKind::Journal { sync } = self.kind {
            if self.threads > 1 || self.files > 1 || self.engine != Engine::Psync {
                return Err("a database with a rollback journal has one writer and one file: \
                     leave threads, files and engine out"
                    .into());
            }
            if self.size.0 < 2 * self.block.0 {
                return Err("a commit changes two pages: make size at least two blocks".into());
            }
            if !matches!(sync, SyncMethod::Fsync | SyncMethod::Fdatasync) {
                return Err("a journal victim syncs with fsync or fdatasync".into());
            }
        }
        match (self.rate, self.rate_percent) {
            (Some(rate), _) if !(rate.is_finite() && rate > 0.0) => {
                Err("rate must be above zero; write a number such as \"500/s\", or leave it out"
                    .into())
            }
            (_, Some(share)) if !(share > 0.0 && share <= 100.0) => {
                Err("rate must be above 0% and at most 100% of what the victim does alone".into())
            }
            (_, Some(_)) if matches!(self.kind, VictimKind::Command { .. }) => {
                Err("a command has a rate of its own; leave rate out".into())
            }
            _ => Ok(()),
        }
    }
}

impl RawFlood {
    pub(super) fn from_command(command: &str) -> Self {
        Self { command: Some(command.into()), ..Self::default() }
    }

    /// Fills in defaults and refuses impossible loads. `place` names the table in messages.
    pub(super) fn check(self, place: &str) -> Result<Flood, ScenarioError> {
        use RawFloodKind as K;
        let invalid = |message: String| ScenarioError::Invalid { place: place.into(), message };
        let without = "has no kind; write kind = \"seq\", random, files, mmap, copy or command";
        let kind = kind_or_command(self.kind, self.command.as_ref(), K::Command)
            .ok_or_else(|| invalid(without.into()))?;
        if self.file_size.is_some() && kind != K::Files {
            return Err(invalid(format!(
                "'file_size' means nothing to a {} flood; it belongs to files",
                kind.text()
            )));
        }
        if self.command.is_some() && kind != K::Command {
            return Err(invalid(format!(
                "'command' means nothing to a {} flood; it belongs to command",
                kind.text()
            )));
        }
        if self.mode.is_some() && !matches!(kind, K::Seq | K::Random | K::Copy) {
            return Err(invalid(format!(
                "'mode' means nothing to a {} flood; it belongs to seq, random and copy",
                kind.text()
            )));
        }
        if self.mode == Some(WriteMode::SyncFileRange) && kind == K::Random {
            return Err(invalid(
                "mode = sync_file_range waits for the block before: it belongs to seq and copy"
                    .into(),
            ));
        }
        let full_kind = match kind {
            K::Seq => FloodKind::Seq,
            K::Random => FloodKind::Random,
            K::Files => FloodKind::Files { file: self.file_size.map_or(Bytes(16 * KIB), |b| b.0) },
            K::Mmap => FloodKind::Mmap,
            K::Copy => FloodKind::Copy,
            K::Command => {
                FloodKind::Command { command: command_text(self.command).map_err(invalid)? }
            }
        };
        let default_block = match kind {
            K::Random => Bytes(16 * KIB),
            _ => Bytes::mib(1),
        };
        let flood = Flood {
            name: self.name.unwrap_or_else(|| kind.text().into()),
            streams: self.streams.unwrap_or(1),
            block: self.block.map_or(default_block, |b| b.0),
            size: self.size.map(|b| b.0),
            rate: self.rate.map(|r| r.0),
            data: match self.data.unwrap_or(RawData::Random) {
                RawData::Random => Data::Random,
                RawData::Zero => Data::Zero,
                RawData::Compressible => Data::Compressible,
            },
            mode: self.mode.unwrap_or_default(),
            kind: full_kind,
        };
        check_name(&flood.name).and_then(|()| flood.check()).map_err(invalid)?;
        Ok(flood)
    }
}

impl Flood {
    fn check(&self) -> Result<(), String> {
        if self.streams == 0 || self.streams > 1024 {
            return Err(format!("streams = {} is out of range; write 1 to 1024", self.streams));
        }
        if self.block.0 == 0 || self.block.0 > 64 << 20 {
            return Err(format!("block ({}) is out of range; write 1B to 64MiB", self.block));
        }
        if let Some(size) = self.size {
            let per_stream = size.0 / u64::from(self.streams);
            if self.block.0 > per_stream {
                return Err(format!(
                    "block ({}) is larger than a stream's share of the space ({size} over {} \
                     streams)",
                    self.block, self.streams
                ));
            }
        }
        if let FloodKind::Files { file } = self.kind
            && (file.0 == 0 || file.0 > 1 << 30)
        {
            return Err(format!("file_size ({file}) is out of range; write 1B to 1GiB"));
        }
        if self.mode == WriteMode::Direct && !self.block.0.is_multiple_of(512) {
            return Err(format!(
                "block ({}) is not a multiple of 512 B, which direct I/O needs; use one, such as \
                 1MiB",
                self.block
            ));
        }
        match self.rate {
            Some(Rate(rate)) if !(rate.is_finite() && rate > 0.0) => {
                Err("rate must be above zero; write a rate such as \"100MB/s\", or leave it out"
                    .into())
            }
            _ => Ok(()),
        }
    }
}
