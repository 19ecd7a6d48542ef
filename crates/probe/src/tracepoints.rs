//! Which tracepoints are used, and how their records become events. Pure: format files in, events
//! out.
//!
//! | tracepoint | what it tells |
//! |---|---|
//! | `syscalls:sys_enter_*`, `sys_exit_*` | how long a sync call took, as the caller saw it |
//! | the same of the write calls | the same of writes to `O_SYNC` and `O_DIRECT` files |
//! | `block:block_io_start` (6.5), else `block_rq_insert` | the asking thread makes a request |
//! | `block:block_rq_issue`, `block_rq_complete` | it goes to the device, and is done |
//! | `block:block_rq_merge` | it became part of another |
//! | `writeback:balance_dirty_pages` | a writer is made to sleep |
//! | `sched:sched_process_fork`, `sched_process_exit` | who started whom |
//!
//! The sync calls are fsync, fdatasync, sync_file_range, msync, syncfs and sync. The write calls'
//! tracepoints are switched on for threads that were seen to do such writes. Those of `sched` are
//! used only where somebody is followed.

use std::collections::HashMap;

use floodwall_model::DeviceId;

use crate::event::{Call, Class, Event, Place};
use crate::format::{Format, FormatError, Number, Text};
use crate::hash::Fast;

/// Bytes in a sector, whatever the device's own blocks are.
const SECTOR_BYTES: u64 = 512;
/// The kernel's `dev_t`: minor numbers take 20 bits (include/linux/kdev_t.h).
const MINOR_BITS: u32 = 20;
/// `SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WAIT_AFTER`: without either, the call does not
/// wait.
const RANGE_WAITS: i64 = 1 | 4;
/// `MS_SYNC`: without it, msync(2) does not wait.
const MS_SYNC: i64 = 4;

/// What a tracepoint is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A synchronous call begins.
    Enter(Call),
    /// It returns.
    Exit(Call),
    /// A write begins.
    EnterWrite,
    /// It returns.
    ExitWrite,
    /// A request is made.
    Queued,
    /// The same before 6.5, and only where an elevator takes it. Under `none` most requests go to
    /// the device at once (block/blk-mq.c `blk_mq_try_issue_directly`).
    Inserted,
    /// It goes to the device.
    Issued,
    /// It is done.
    Done,
    /// It became part of another.
    Merged,
    /// A writer is looked at.
    Balanced,
    /// A thread makes another thread or process.
    Forked,
    /// A thread ends.
    Ended,
}

/// When a tracepoint's records are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// While operations that begin are counted.
    Begin,
    /// As long as an operation that has begun is under way.
    End,
    /// All the time; they are rare.
    Rare,
}

impl Kind {
    /// When it is needed. `sees_queued`: this kernel tells when a request is made.
    #[must_use]
    pub fn role(self, sees_queued: bool) -> Role {
        match self {
            Self::Enter(_) | Self::EnterWrite | Self::Queued | Self::Inserted => Role::Begin,
            // It is the first to tell which process asks.
            Self::Issued if !sees_queued => Role::Begin,
            Self::Exit(_) | Self::ExitWrite | Self::Issued | Self::Done | Self::Merged => Role::End,
            Self::Balanced | Self::Forked | Self::Ended => Role::Rare,
        }
    }

    /// What the kernel may leave out (Documentation/trace/events.rst, "Event filtering").
    /// `sparing`: of requests only reads are of interest, and who makes synchronous writes.
    #[must_use]
    pub fn filter(self, sparing: bool, sees_queued: bool) -> Option<&'static str> {
        const READS: &str = r#"rwbs ~ "R*""#;
        const WAITED_FOR: &str = r#"rwbs ~ "R*" || rwbs ~ "*W*S*""#;
        match self {
            // RANGE_WAITS and MS_SYNC.
            Self::Enter(Call::SyncFileRange) => Some("flags & 5"),
            Self::Enter(Call::Msync) => Some("flags & 4"),
            Self::Balanced => Some("pause > 0"),
            Self::Queued | Self::Inserted if sparing => Some(WAITED_FOR),
            Self::Issued if sparing && !sees_queued => Some(WAITED_FOR),
            Self::Issued | Self::Done | Self::Merged if sparing => Some(READS),
            _ => None,
        }
    }
}

/// One tracepoint that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// `group/name`, as its directory below `events` is called.
    pub path: &'static str,
    /// What for.
    pub kind: Kind,
}

const fn wanted(path: &'static str, kind: Kind) -> Wanted {
    Wanted { path, kind }
}

/// Those that run all the time. [`Kind::Inserted`] stands in for [`Kind::Queued`].
pub const ALWAYS: &[Wanted] = &[
    wanted("syscalls/sys_enter_fsync", Kind::Enter(Call::Fsync)),
    wanted("syscalls/sys_exit_fsync", Kind::Exit(Call::Fsync)),
    wanted("syscalls/sys_enter_fdatasync", Kind::Enter(Call::Fdatasync)),
    wanted("syscalls/sys_exit_fdatasync", Kind::Exit(Call::Fdatasync)),
    wanted("syscalls/sys_enter_sync_file_range", Kind::Enter(Call::SyncFileRange)),
    wanted("syscalls/sys_exit_sync_file_range", Kind::Exit(Call::SyncFileRange)),
    wanted("syscalls/sys_enter_msync", Kind::Enter(Call::Msync)),
    wanted("syscalls/sys_exit_msync", Kind::Exit(Call::Msync)),
    wanted("syscalls/sys_enter_syncfs", Kind::Enter(Call::Syncfs)),
    wanted("syscalls/sys_exit_syncfs", Kind::Exit(Call::Syncfs)),
    wanted("syscalls/sys_enter_sync", Kind::Enter(Call::Sync)),
    wanted("syscalls/sys_exit_sync", Kind::Exit(Call::Sync)),
    wanted("block/block_io_start", Kind::Queued),
    wanted("block/block_rq_insert", Kind::Inserted),
    wanted("block/block_rq_issue", Kind::Issued),
    wanted("block/block_rq_complete", Kind::Done),
    wanted("block/block_rq_merge", Kind::Merged),
    wanted("writeback/balance_dirty_pages", Kind::Balanced),
];

/// What programs in the kernel leave to perf events: it is rare, and its arguments differ from
/// kernel to kernel.
pub(crate) const BESIDE_BPF: &[Wanted] = &[wanted("writeback/balance_dirty_pages", Kind::Balanced)];

/// The tracepoints that follow the children of a process, including processes that live for
/// milliseconds.
pub const FORKS: &[Wanted] = &[
    wanted("sched/sched_process_fork", Kind::Forked),
    wanted("sched/sched_process_exit", Kind::Ended),
];

/// The tracepoints that are switched on while threads write to `O_SYNC` or `O_DIRECT` files. Every
/// write call of the machine passes them, so their filter, not this program, has to leave the rest
/// out.
pub const WRITES: &[Wanted] = &[
    wanted("syscalls/sys_enter_write", Kind::EnterWrite),
    wanted("syscalls/sys_exit_write", Kind::ExitWrite),
    wanted("syscalls/sys_enter_pwrite64", Kind::EnterWrite),
    wanted("syscalls/sys_exit_pwrite64", Kind::ExitWrite),
    wanted("syscalls/sys_enter_writev", Kind::EnterWrite),
    wanted("syscalls/sys_exit_writev", Kind::ExitWrite),
    wanted("syscalls/sys_enter_pwritev", Kind::EnterWrite),
    wanted("syscalls/sys_exit_pwritev", Kind::ExitWrite),
    wanted("syscalls/sys_enter_pwritev2", Kind::EnterWrite),
    wanted("syscalls/sys_exit_pwritev2", Kind::ExitWrite),
];

/// Where the fields of one tracepoint's records lie.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Enter { call: Call, fd: Option<Number>, flags: Option<(Number, i64)> },
    Exit { call: Call, result: Number },
    EnterWrite { fd: Number },
    ExitWrite { result: Number },
    Request { kind: Kind, device: Number, sector: Number, sectors: Number, rwbs: Text },
    Balanced { bdi: Text, pause: Number },
    Forked { child: Number },
    Ended,
}

/// Turns records into events.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    layouts: HashMap<u16, Layout, Fast>,
    kinds: Vec<Kind>,
}

impl Decoder {
    /// Learns a tracepoint from its format file.
    ///
    /// # Errors
    /// [`FormatError`] if a field that is needed is not there.
    pub fn learn(&mut self, kind: Kind, format: &Format) -> Result<(), FormatError> {
        let request = |kind| {
            Ok(Layout::Request {
                kind,
                device: format.number("dev")?,
                sector: format.number("sector")?,
                sectors: format.number("nr_sector")?,
                rwbs: format.text("rwbs")?,
            })
        };
        let layout = match kind {
            Kind::Enter(call) => Layout::Enter {
                call,
                fd: format.number("fd").ok(),
                flags: match call {
                    Call::SyncFileRange => Some((format.number("flags")?, RANGE_WAITS)),
                    Call::Msync => Some((format.number("flags")?, MS_SYNC)),
                    _ => None,
                },
            },
            Kind::Exit(call) => Layout::Exit { call, result: format.number("ret")? },
            Kind::EnterWrite => Layout::EnterWrite { fd: format.number("fd")? },
            Kind::ExitWrite => Layout::ExitWrite { result: format.number("ret")? },
            Kind::Queued | Kind::Inserted | Kind::Issued | Kind::Done | Kind::Merged => {
                request(kind)?
            }
            Kind::Balanced => {
                Layout::Balanced { bdi: format.text("bdi")?, pause: format.number("pause")? }
            }
            Kind::Forked => Layout::Forked { child: format.number("child_pid")? },
            Kind::Ended => Layout::Ended,
        };
        self.kinds.push(kind);
        self.layouts.insert(format.id, layout);
        Ok(())
    }

    /// Whether a tracepoint of this kind was learned.
    #[must_use]
    pub fn knows(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind)
    }

    /// The event that a record tells of. `None` if it tells nothing that is of use, or is not
    /// understood.
    #[must_use]
    #[inline]
    pub fn decode(&self, record: &[u8]) -> Option<Event> {
        let id = u16::from_ne_bytes(record.get(..2)?.try_into().ok()?);
        match self.layouts.get(&id)? {
            Layout::Enter { call, fd, flags } => {
                if let Some((flags, waits)) = flags
                    && flags.read(record)? & waits == 0
                {
                    return None;
                }
                // The kernel stores the argument as it was given, in a whole register.
                let fd = fd.and_then(|fd| fd.read(record)).map(|fd| fd as i32);
                Some(Event::Enter { call: *call, fd })
            }
            Layout::Exit { call, result } => {
                Some(Event::Exit { call: *call, ok: result.read(record)? >= 0 })
            }
            Layout::EnterWrite { fd } => Some(Event::EnterWrite { fd: fd.read(record)? as i32 }),
            Layout::ExitWrite { result } => {
                Some(Event::ExitWrite { ok: result.read(record)? >= 0 })
            }
            Layout::Request { kind, device, sector, sectors, rwbs } => {
                let class = Class::from_rwbs(rwbs.read(record)?)?;
                let bytes = (sectors.read(record)? as u64).saturating_mul(SECTOR_BYTES);
                let number = device.read(record)? as u32;
                let sector = match class {
                    Class::Flush => Place::FLUSH,
                    // An empty write asks for a flush, which has separate events; an empty request
                    // of another kind has no place.
                    _ if bytes == 0 => return None,
                    _ => sector.read(record)? as u64,
                };
                let device = DeviceId {
                    major: number >> MINOR_BITS,
                    minor: number & ((1 << MINOR_BITS) - 1),
                };
                let place = Place { device, sector };
                Some(match kind {
                    Kind::Queued | Kind::Inserted => Event::Queued { place, class, bytes },
                    Kind::Issued => Event::Issued { place, class, bytes },
                    Kind::Merged => Event::Merged { place },
                    _ => Event::Done { place },
                })
            }
            Layout::Balanced { bdi, pause } => {
                let device =
                    std::str::from_utf8(bdi.read(record)?).ok().and_then(|name| name.parse().ok());
                Some(Event::Balanced { device, pause_ms: pause.read(record)?.max(0) as u64 })
            }
            Layout::Forked { child } => Some(Event::Forked { child: child.read(record)? as u32 }),
            Layout::Ended => Some(Event::Ended),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use proptest::prelude::*;

    use super::*;

    /// Captured `events` directories, one a kernel.
    fn kernels() -> Vec<PathBuf> {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tracefs");
        let mut kernels: Vec<_> = std::fs::read_dir(fixtures)
            .unwrap()
            .map(|entry| entry.unwrap().path().join("events"))
            .collect();
        kernels.retain(|kernel| kernel.is_dir());
        kernels.sort();
        kernels
    }

    fn format(kernel: &Path, path: &str) -> Option<Format> {
        let text = std::fs::read_to_string(kernel.join(path).join("format")).ok()?;
        Some(Format::parse(&text).unwrap())
    }

    /// Writes a field as the kernel would.
    fn set(record: &mut [u8], format: &Format, name: &str, bytes: &[u8]) {
        let field = format.field(name).unwrap();
        let bytes = &bytes[..bytes.len().min(field.size)];
        record[field.offset..field.offset + bytes.len()].copy_from_slice(bytes);
    }

    fn record(format: &Format, fields: &[(&str, &[u8])]) -> Vec<u8> {
        let length = format.fields.iter().map(|f| f.offset + f.size).max().unwrap();
        let mut record = vec![0; length];
        set(&mut record, format, "common_type", &format.id.to_ne_bytes());
        fields.iter().for_each(|(name, bytes)| set(&mut record, format, name, bytes));
        record
    }

    fn decoder(kernel: &Path) -> Decoder {
        let mut decoder = Decoder::default();
        for wanted in ALWAYS.iter().chain(WRITES).chain(FORKS) {
            if let Some(format) = format(kernel, wanted.path) {
                decoder.learn(wanted.kind, &format).unwrap();
            }
        }
        decoder
    }

    #[test]
    fn records_of_each_captured_kernel_are_understood() {
        let kernels = kernels();
        assert!(kernels.len() >= 2, "{kernels:?}");
        for kernel in &kernels {
            let decoder = decoder(kernel);
            let decode = |path: &str, fields: &[(&str, &[u8])]| {
                let format =
                    format(kernel, path).unwrap_or_else(|| panic!("{}: {path}", kernel.display()));
                decoder.decode(&record(&format, fields))
            };
            let fd = 7u64.to_ne_bytes();
            assert_eq!(
                decode("syscalls/sys_enter_fsync", &[("fd", &fd)]),
                Some(Event::Enter { call: Call::Fsync, fd: Some(7) })
            );
            assert_eq!(
                decode("syscalls/sys_exit_fdatasync", &[("ret", &(-5i64).to_ne_bytes())]),
                Some(Event::Exit { call: Call::Fdatasync, ok: false })
            );
            assert_eq!(
                decode("syscalls/sys_enter_sync", &[]),
                Some(Event::Enter { call: Call::Sync, fd: None })
            );
            assert_eq!(
                decode("syscalls/sys_enter_pwritev2", &[("fd", &fd)]),
                Some(Event::EnterWrite { fd: 7 })
            );
            // Without flags these two do not wait.
            assert_eq!(decode("syscalls/sys_enter_sync_file_range", &[("fd", &fd)]), None);
            assert_eq!(decode("syscalls/sys_enter_msync", &[("flags", &1u64.to_ne_bytes())]), None);
            assert_eq!(
                decode("syscalls/sys_enter_msync", &[("flags", &4u64.to_ne_bytes())]),
                Some(Event::Enter { call: Call::Msync, fd: None })
            );
            let dev = ((259u32 << 20) | 3).to_ne_bytes();
            let device = DeviceId { major: 259, minor: 3 };
            let (sector, sectors) = (123_456_789_012u64.to_ne_bytes(), 16u32.to_ne_bytes());
            let request: &[(&str, &[u8])] =
                &[("dev", &dev), ("sector", &sector), ("nr_sector", &sectors), ("rwbs", b"WSM")];
            let place = Place { device, sector: 123_456_789_012 };
            let class = Class::SyncWrite;
            assert_eq!(
                decode("block/block_rq_issue", request),
                Some(Event::Issued { place, class, bytes: 8192 })
            );
            assert_eq!(decode("block/block_rq_complete", request), Some(Event::Done { place }));
            let flush: &[(&str, &[u8])] = &[("dev", &dev), ("rwbs", b"FF")];
            let place = Place { device, sector: Place::FLUSH };
            assert_eq!(decode("block/block_rq_complete", flush), Some(Event::Done { place }));
            // An empty write that only wants the flush.
            assert_eq!(decode("block/block_rq_insert", &[("dev", &dev), ("rwbs", b"FWS")]), None);
            assert_eq!(
                decode(
                    "writeback/balance_dirty_pages",
                    &[("bdi", b"259:3\0"), ("pause", &48i64.to_ne_bytes())]
                ),
                Some(Event::Balanced { device: Some(device), pause_ms: 48 })
            );
            assert_eq!(
                decode(
                    "writeback/balance_dirty_pages",
                    &[("bdi", b"btrfs-1\0"), ("pause", &(-4i64).to_ne_bytes())]
                ),
                Some(Event::Balanced { device: None, pause_ms: 0 })
            );
        }
    }

    #[test]
    fn forks_name_the_child_and_ends_are_the_callers_own() {
        let kernels = kernels();
        let newest = kernels.last().unwrap();
        let decoder = decoder(newest);
        assert!(decoder.knows(Kind::Forked) && !Decoder::default().knows(Kind::Forked));
        let fork = format(newest, "sched/sched_process_fork").unwrap();
        let fields: &[(&str, &[u8])] =
            &[("parent_pid", &100i32.to_ne_bytes()), ("child_pid", &4_194_303i32.to_ne_bytes())];
        assert_eq!(
            decoder.decode(&record(&fork, fields)),
            Some(Event::Forked { child: 4_194_303 })
        );
        let exit = format(newest, "sched/sched_process_exit").unwrap();
        assert_eq!(decoder.decode(&record(&exit, &[])), Some(Event::Ended));
    }

    #[test]
    fn a_tracepoint_without_a_field_is_not_learned() {
        let format = format(&kernels()[0], "block/block_rq_issue").unwrap();
        let why = Decoder::default().learn(Kind::Balanced, &format).unwrap_err().to_string();
        assert!(why.contains("block_rq_issue") && why.contains("'bdi'"), "{why}");
    }

    proptest! {
        #[test]
        fn no_record_makes_the_decoder_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..160),
            which in any::<prop::sample::Index>()
        ) {
            static NEWEST: std::sync::LazyLock<(Decoder, Vec<u16>)> = std::sync::LazyLock::new(|| {
                let decoder = decoder(&kernels().pop().unwrap());
                let ids = decoder.layouts.keys().copied().collect();
                (decoder, ids)
            });
            let (decoder, ids) = &*NEWEST;
            let mut bytes = bytes;
            if bytes.len() >= 2 {
                bytes[..2].copy_from_slice(&which.get(ids).to_ne_bytes());
            }
            let _ = decoder.decode(&bytes);
        }
    }
}
