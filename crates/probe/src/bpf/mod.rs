//! Counting in the kernel: programs on classic and raw tracepoints, histograms in maps, read once a
//! window.
//!
//! ```text
//! probe.bpf.c (CO-RE) ─ scripts/bpf-object ─▶ probe.bpf.o, kept beside it and in this program
//!   ─ aya: types of the running kernel ─▶ loaded ─ attach ─▶ maps ─▶ Counted
//! ```
//!
//! Two sets of counters take turns, so that the set being read does not change meanwhile. Programs
//! and maps are gone when this process is. Attaching is done here and not by `aya`: it needs
//! tracefs mounted, and would switch on a perf event whose records nothing reads.

mod attach;
pub(crate) mod attached;
mod counts;
mod dirtied;
mod error;
mod layout;
mod maps;
mod programs;
mod requests;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use aya::maps::{Array, HashMap as Map, MapData};
use aya::programs::Program;
use aya::{Btf, Ebpf, EbpfLoader};
use floodwall_host::SysRoot;
use floodwall_model::DeviceId;

use crate::closer::Piece;
use crate::error::ProbeError;
use crate::event::Call;
use crate::files::OpenFiles;
use crate::hash::Fast;
use crate::snapshot::{Blind, Counted};
use attach::attach;
use attached::Attached;
use counts::{Processes, pending_of, read_of, requests_of, use_of};
use dirtied::DirtiedMaps;
use error::{failed, refused};
use layout::{CONTROL, DEVICE, DEVICE_KEY, PENDING, USE, USE_KEY, u64_at};
use maps::{map, take_each};
use programs::{DIRTIED, NEEDED, is_for_writes, unseen};
use requests::Requests;

/// What clang made of `probe.bpf.c`; for little-endian machines.
static OBJECT: &[u8] = aya::include_bytes_aligned!("probe.bpf.o");
/// Flags of `struct control`.
const CLOSED: u32 = 1;
const SPARING: u32 = 2;

/// Loaded programs and their maps.
pub(crate) struct Bpf {
    root: SysRoot,
    programs: Ebpf,
    /// The loaded programs of system calls, and the numbers of their tracepoints.
    calls_at: BTreeMap<String, u16>,
    attached: Vec<(String, Attached)>,
    writes: Vec<(String, Attached)>,
    watching: Vec<u32>,
    watched: Map<MapData, u32, u32>,
    suspects: Map<MapData, u32, u32>,
    uses: Map<MapData, [u8; USE_KEY], [u8; USE]>,
    devices: Map<MapData, [u8; DEVICE_KEY], [u8; DEVICE]>,
    calls: Map<MapData, u64, [u8; PENDING]>,
    requests: Requests,
    dirtied: Option<DirtiedMaps>,
    control: Array<MapData, [u8; CONTROL]>,
    epoch: u32,
    flags: u32,
    folded: u64,
}

impl std::fmt::Debug for Bpf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bpf").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl Bpf {
    /// Loads and attaches what this kernel has, and says what the rest would have told. `sparing`:
    /// of requests only reads are counted, and by process. `dirtied`: dirtied pages are counted.
    ///
    /// # Errors
    /// [`ProbeError::Bpf`].
    pub(crate) fn open(
        root: &SysRoot,
        sparing: bool,
        dirtied: bool,
    ) -> Result<(Self, Vec<Blind>), ProbeError> {
        if cfg!(target_endian = "big") {
            return Err(refused("its programs are made for little-endian machines".to_owned()));
        }
        let btf = Btf::from_sys_fs().map_err(|e| failed("types of the running kernel", &e))?;
        let mut programs = EbpfLoader::new()
            .btf(Some(&btf))
            .override_global("o_direct", &(libc::O_DIRECT as u32), true)
            .override_global("page_bytes", &root.page_bytes(), true)
            .load(OBJECT)
            .map_err(|e| failed("programs", &e))?;
        let mut blind = Vec::new();
        let calls_at = programs::load(&mut programs, &btf, dirtied, &mut blind)?;
        let mut bpf = Self {
            root: root.clone(),
            uses: map(&mut programs, "uses")?,
            devices: map(&mut programs, "devices")?,
            calls: map(&mut programs, "calls")?,
            requests: Requests::new(map(&mut programs, "requests")?),
            watched: map(&mut programs, "watched")?,
            suspects: map(&mut programs, "suspects")?,
            dirtied: if dirtied { Some(DirtiedMaps::of(&mut programs)?) } else { None },
            control: map(&mut programs, "control")?,
            programs,
            calls_at,
            attached: Vec::new(),
            writes: Vec::new(),
            watching: Vec::new(),
            epoch: 0,
            // What begins before all are attached may end unseen.
            flags: if sparing { SPARING | CLOSED } else { CLOSED },
            folded: 0,
        };
        bpf.put_control(0);
        blind.extend(bpf.attach(Vec::new())?);
        bpf.count_begins(true);
        drop(btf);
        give_back_memory();
        Ok((bpf, blind))
    }

    /// Attaches all programs but those for writes, and says which could not be. `before`: those
    /// that are attached still.
    ///
    /// # Errors
    /// [`ProbeError::Bpf`] for a program without which there is no use in looking.
    fn attach(&mut self, before: Vec<(String, Attached)>) -> Result<Vec<Blind>, ProbeError> {
        let mut blind = Vec::new();
        let mut attached = before;
        attached.retain(|(name, _)| !is_for_writes(name));
        for (name, program) in self.programs.programs_mut() {
            let is_loaded = match program {
                Program::BtfTracePoint(program) => program.fd().is_ok(),
                _ => self.calls_at.contains_key(name),
            };
            let is_attached = attached.iter().any(|(known, _)| known == name);
            if is_for_writes(name) || !is_loaded || is_attached {
                continue;
            }
            match attach(&self.root, program, self.calls_at.get(name)) {
                Ok(link) => attached.push((name.to_owned(), link)),
                Err(e) if NEEDED.contains(&name) => return Err(e),
                Err(e) => blind.push(unseen(name, &e)),
            }
        }
        self.attached = attached;
        Ok(blind)
    }

    /// Detaches all programs. Dropping what it returns takes most of a second (`closer`); until
    /// then they count nothing that begins.
    pub(crate) fn detach(&mut self) -> Vec<Piece> {
        self.count_begins(false);
        self.watching.clear();
        let all = self.writes.drain(..).chain(self.attached.drain(..));
        all.map(|(name, attached)| Piece::Program(name, attached)).collect()
    }

    /// Attaches the programs again, which know nothing of before. Takes those from `closing` that
    /// are attached still: a program is attached once.
    ///
    /// # Errors
    /// [`ProbeError::Bpf`].
    pub(crate) fn attach_again(&mut self, closing: &mut Vec<Piece>) -> Result<(), ProbeError> {
        self.forget_all();
        let mut before = Vec::new();
        for piece in std::mem::take(closing) {
            match piece {
                Piece::Program(name, attached) => before.push((name, attached)),
                other => closing.push(other),
            }
        }
        self.writes = before.extract_if(.., |(name, _)| is_for_writes(name)).collect();
        self.attach(before)?;
        self.count_begins(true);
        Ok(())
    }

    /// Forgets the operations under way: their ends were not seen.
    fn forget_all(&mut self) {
        let calls: Vec<u64> = self.calls.keys().filter_map(Result::ok).collect();
        calls.iter().for_each(|key| drop(self.calls.remove(key)));
        self.requests.forget_all();
    }

    /// Whether operations that begin from now on are counted.
    pub(crate) fn count_begins(&mut self, on: bool) {
        let flags = if on { self.flags & !CLOSED } else { self.flags | CLOSED };
        if std::mem::replace(&mut self.flags, flags) != flags {
            self.put_control(self.folded_so_far());
        }
    }

    fn folded_so_far(&self) -> u64 {
        self.control.get(&0, 0).ok().and_then(|c| u64_at(&c, 8)).unwrap_or(self.folded)
    }

    fn put_control(&mut self, folded: u64) {
        let mut control = [0; CONTROL];
        control[..4].copy_from_slice(&self.epoch.to_ne_bytes());
        control[4..8].copy_from_slice(&self.flags.to_ne_bytes());
        control[8..].copy_from_slice(&folded.to_ne_bytes());
        let _ = self.control.set(0, control, 0);
    }

    /// Sees writes of these processes to `O_SYNC` and `O_DIRECT` files from now on, and of no
    /// others.
    ///
    /// # Errors
    /// [`ProbeError::Bpf`].
    pub(crate) fn watch_writes(&mut self, processes: &[u32]) -> Result<(), ProbeError> {
        if processes == self.watching && processes.is_empty() == self.writes.is_empty() {
            return Ok(());
        }
        let known: Vec<u32> = self.watched.keys().filter_map(Result::ok).collect();
        for old in known.iter().filter(|pid| !processes.contains(pid)) {
            let _ = self.watched.remove(old);
        }
        for new in processes {
            let _ = self.watched.insert(new, 1, 0);
        }
        self.watching = processes.to_vec();
        if processes.is_empty() {
            self.writes.clear();
            return Ok(());
        }
        for (name, program) in self.programs.programs_mut() {
            let is_attached = self.writes.iter().any(|(known, _)| known == name);
            if is_for_writes(name) && self.calls_at.contains_key(name) && !is_attached {
                let link = attach(&self.root, program, self.calls_at.get(name))?;
                self.writes.push((name.to_owned(), link));
            }
        }
        Ok(())
    }

    /// Processes that sent synchronous writes outside of a call that is timed, since the last look.
    pub(crate) fn take_suspects(&mut self) -> Vec<u32> {
        let suspects: Vec<u32> = self.suspects.keys().filter_map(Result::ok).collect();
        suspects.iter().for_each(|pid| drop(self.suspects.remove(pid)));
        suspects
    }

    /// Whether writes of a process are seen.
    pub(crate) fn is_watching(&self, pid: u32) -> bool {
        !self.writes.is_empty() && self.watching.contains(&pid)
    }

    /// Calls under way for at least this long: process and thread.
    pub(crate) fn long_calls(&self, now_ns: u64, least: Duration) -> Vec<(u32, u32)> {
        let long = |(id, pending): (u64, [u8; PENDING])| {
            let took = now_ns.saturating_sub(u64_at(&pending, 0)?);
            (u128::from(took) >= least.as_nanos()).then_some(((id >> 32) as u32, id as u32))
        };
        self.calls.iter().filter_map(Result::ok).filter_map(long).collect()
    }

    /// A call that is under way and whose beginning was not counted. Returns whether it is new.
    pub(crate) fn is_inside(
        &mut self,
        pid: u32,
        tid: u32,
        call: Call,
        device: DeviceId,
        now_ns: u64,
    ) -> bool {
        let Some(kind) = Call::ALL.iter().position(|known| *known == call) else { return false };
        let mut pending = [0; PENDING];
        pending[..8].copy_from_slice(&now_ns.to_ne_bytes());
        pending[8..12].copy_from_slice(&(device.major << 20 | device.minor).to_ne_bytes());
        pending[12..].copy_from_slice(&(kind as u32).to_ne_bytes());
        const NEW: u64 = 1; // BPF_NOEXIST
        self.calls.insert(u64::from(pid) << 32 | u64::from(tid), pending, NEW).is_ok()
    }

    /// Forgets a thread's call: its end was not seen, and would be waited for for ever.
    pub(crate) fn forget(&mut self, pid: u32, tid: u32) {
        let _ = self.calls.remove(&(u64::from(pid) << 32 | u64::from(tid)));
    }

    /// Ends the window: its counts, and the calls and reads under way. `in_flight`: how many
    /// requests a device has; of more reads than that, the ends of the oldest were missed.
    pub(crate) fn take(
        &mut self,
        now_ns: u64,
        files: &mut OpenFiles,
        in_flight: &dyn Fn(DeviceId) -> Option<u64>,
    ) -> Counted {
        let folded = self.folded_so_far();
        let before = self.epoch;
        self.epoch ^= 1;
        self.put_control(folded);
        let mut counted =
            Counted { folded: folded.saturating_sub(self.folded), ..Counted::default() };
        self.folded = folded;
        let mut processes = Processes::new();
        take_each(&mut self.uses, before, |key, value| {
            let _ = use_of(key, value, files, &mut processes);
        });
        take_each(&mut self.devices, before, |key, value| {
            let _ = requests_of(key, value, &mut counted.devices);
        });
        for (id, pending) in self.calls.iter().filter_map(Result::ok) {
            let _ = pending_of(id, &pending, now_ns, files, &mut processes);
        }
        for request in self.requests.under_way(&self.root, now_ns, in_flight) {
            read_of(&request, now_ns, files, &mut processes);
        }
        counted.processes = processes.into_values().collect();
        let dirtied = self.dirtied.as_mut().map(|maps| maps.take(before, files));
        counted.dirtied = dirtied.filter(|_| self.counts_dirtied());
        counted
    }

    /// Whether dirtied pages are counted.
    pub(crate) fn counts_dirtied(&self) -> bool {
        self.attached.iter().any(|(name, _)| name == DIRTIED)
    }

    /// Bytes that processes dirtied since the window began.
    pub(crate) fn dirtied_so_far(&self) -> HashMap<u32, u64, Fast> {
        self.dirtied.as_ref().map(|maps| maps.so_far(self.epoch)).unwrap_or_default()
    }
}

/// The kernel's types took 30 MB for a moment, in small pieces: glibc keeps those, 15 MB of them,
/// unless told otherwise.
#[expect(unsafe_code, reason = "malloc_trim(3) has no safe form")]
fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer and frees nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}
