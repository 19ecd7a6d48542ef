//! Counting in the kernel: programs on classic and raw tracepoints, histograms in maps, read once a
//! window.
//!
//! ```text
//! probe.bpf.c (CO-RE) ─ clang, when built with the feature `bpf` ─▶ object in this program ─ loaded, attached ─▶ maps ─▶ Counted
//! ```
//!
//! Two sets of counters take turns, so that the set being read does not change meanwhile. Programs
//! and maps are gone when this process is.

mod layout;

use std::collections::BTreeMap;
use std::time::Duration;

use floodwall_model::DeviceId;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Typedef;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder};

use crate::error::ProbeError;
use crate::event::{Call, Class};
use crate::files::OpenFiles;
use crate::snapshot::{Blind, ProcessUse, Requests};
use crate::tally::Counted;
use crate::tracefs::Tracefs;
use layout::{HISTOGRAM, device_id, histogram, u32_at, u64_at};

/// What clang made of `probe.bpf.c`.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/probe.bpf.o"));
/// `enum kind` beyond the calls.
const READ: u32 = 8;
/// Programs of these calls are attached on demand only.
const WRITES: [&str; 5] = ["write", "pwrite64", "writev", "pwritev", "pwritev2"];
/// Without these there is no use in looking.
const NEEDED: [&str; 4] = ["enter_fsync", "exit_fsync", "request_issued", "request_done"];

/// Whether a program is one of those for writes.
fn is_for_writes(program: &str) -> bool {
    program.split_once('_').is_some_and(|(_, call)| WRITES.contains(&call))
}

/// Loaded programs and their maps.
pub(crate) struct Bpf {
    object: Object,
    _links: Vec<Link>,
    writes: Vec<Link>,
    watching: Vec<u32>,
    watched: MapHandle,
    suspects: MapHandle,
    uses: MapHandle,
    devices: MapHandle,
    calls: MapHandle,
    requests: MapHandle,
    control: MapHandle,
    epoch: u32,
    folded: u64,
}

impl std::fmt::Debug for Bpf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bpf").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

fn failed(what: &str, why: impl std::fmt::Display) -> ProbeError {
    ProbeError::Bpf {
        why: format!("{what}: {why}"),
        remedy: "it needs root (CAP_BPF, CAP_PERFMON), /sys/kernel/btf/vmlinux and CONFIG_BPF_EVENTS; use --source perf",
    }
}

impl Bpf {
    /// Loads and attaches what this kernel has, and says what the rest would have told.
    ///
    /// # Errors
    /// [`ProbeError::Bpf`].
    pub(crate) fn open() -> Result<(Self, Vec<Blind>), ProbeError> {
        // Its warnings would go to stderr; errors come back as such.
        libbpf_rs::set_print(None);
        let btf = Btf::from_vmlinux().map_err(|e| failed("types of the running kernel", e))?;
        let tracefs = Tracefs::open()?;
        let mut open = ObjectBuilder::default().open_memory(OBJECT).map_err(|e| failed("programs", e))?;
        let mut blind = Vec::new();
        for mut program in open.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let section = program.section().to_string_lossy().into_owned();
            let there = match section.split_once('/') {
                // The type of a raw tracepoint's function is called so (include/trace/bpf_probe.h).
                Some(("tp_btf", target)) => {
                    btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{target}")).is_some()
                }
                Some((_, target)) => tracefs.format(target).is_ok_and(|format| format.is_some()),
                None => true,
            };
            if !there {
                if NEEDED.contains(&name.as_str()) {
                    return Err(failed(&section, "not in this kernel"));
                }
                blind.push(Blind::new(section, "not in this kernel"));
                program.set_autoload(false);
            }
        }
        let object = open.load().map_err(|e| failed("the kernel refuses the programs", e))?;
        let mut links = Vec::new();
        for program in object.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            if is_for_writes(&name) || !program.autoload() {
                continue;
            }
            match program.attach() {
                Ok(link) => links.push(link),
                Err(e) if NEEDED.contains(&name.as_str()) => return Err(failed(&name, e)),
                Err(e) => blind.push(Blind::new(name, e.to_string())),
            }
        }
        let map = |name: &str| {
            let map = object.maps().find(|m| m.name() == name).ok_or_else(|| failed(name, "no such map"))?;
            MapHandle::try_from(&map).map_err(|e| failed(name, e))
        };
        let [uses, devices, calls, requests, control, watched, suspects] =
            ["uses", "devices", "calls", "requests", "control", "watched", "suspects"].map(map);
        let bpf = Self {
            uses: uses?,
            devices: devices?,
            calls: calls?,
            requests: requests?,
            control: control?,
            watched: watched?,
            suspects: suspects?,
            object,
            _links: links,
            writes: Vec::new(),
            watching: Vec::new(),
            epoch: 0,
            folded: 0,
        };
        Ok((bpf, blind))
    }

    /// Sees writes of these processes to `O_SYNC` and `O_DIRECT` files from now on, and of no
    /// others.
    ///
    /// # Errors
    /// [`ProbeError::Bpf`].
    pub(crate) fn watch_writes(&mut self, processes: &[u32]) -> Result<(), ProbeError> {
        if processes == self.watching {
            return Ok(());
        }
        for old in self.watching.iter().filter(|pid| !processes.contains(pid)) {
            let _ = self.watched.delete(&old.to_ne_bytes());
        }
        for new in processes {
            let _ = self.watched.update(&new.to_ne_bytes(), &1u32.to_ne_bytes(), MapFlags::ANY);
        }
        self.watching = processes.to_vec();
        if processes.is_empty() {
            self.writes.clear();
        } else if self.writes.is_empty() {
            for program in self.object.progs_mut() {
                if is_for_writes(&program.name().to_string_lossy()) && program.autoload() {
                    self.writes.push(program.attach().map_err(|e| failed("writes", e))?);
                }
            }
        }
        Ok(())
    }

    fn control(&self) -> Option<Vec<u8>> {
        self.control.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten()
    }

    /// Processes that sent synchronous writes outside of a call that is timed, since the last look.
    pub(crate) fn take_suspects(&self) -> Vec<u32> {
        let keys: Vec<Vec<u8>> = self.suspects.keys().collect();
        keys.iter().for_each(|key| drop(self.suspects.delete(key)));
        keys.iter().filter_map(|key| u32_at(key, 0)).collect()
    }

    /// Calls under way for at least this long: process and thread.
    pub(crate) fn long_calls(&self, now_ns: u64, least: Duration) -> Vec<(u32, u32)> {
        let long = |key: &Vec<u8>| {
            let value = self.calls.lookup(key, MapFlags::ANY).ok().flatten()?;
            let took = now_ns.saturating_sub(u64_at(&value, 0)?);
            let id = u64_at(key, 0)?;
            (u128::from(took) >= least.as_nanos()).then_some(((id >> 32) as u32, id as u32))
        };
        self.calls.keys().filter_map(|key| long(&key)).collect()
    }

    /// Forgets a thread's call: its end was not seen, and would be waited for for ever.
    pub(crate) fn forget(&self, pid: u32, tid: u32) {
        let _ = self.calls.delete(&(u64::from(pid) << 32 | u64::from(tid)).to_ne_bytes());
    }

    /// Ends the window: its counts, and the calls under way.
    pub(crate) fn take(&mut self, now_ns: u64, files: &mut OpenFiles) -> Counted {
        let folded = self.control().and_then(|c| u64_at(&c, 8)).unwrap_or(self.folded);
        let before = self.epoch;
        self.epoch ^= 1;
        let mut control = [0; 16];
        control[..4].copy_from_slice(&self.epoch.to_ne_bytes());
        control[8..].copy_from_slice(&folded.to_ne_bytes());
        let _ = self.control.update(&0u32.to_ne_bytes(), &control, MapFlags::ANY);
        let mut counted = Counted { folded: folded.saturating_sub(self.folded), ..Counted::default() };
        self.folded = folded;
        let mut processes: BTreeMap<(u32, Option<DeviceId>), ProcessUse> = BTreeMap::new();
        for (key, value) in taken(&self.uses, before) {
            let _ = use_of(&key, &value, files, &mut processes);
        }
        for (key, value) in taken(&self.devices, before) {
            let _ = requests_of(&key, &value, &mut counted.devices);
        }
        for key in self.calls.keys() {
            let value = self.calls.lookup(&key, MapFlags::ANY).ok().flatten().unwrap_or_default();
            let _ = pending_of(&key, &value, now_ns, files, &mut processes);
        }
        for key in self.requests.keys() {
            let value = self.requests.lookup(&key, MapFlags::ANY).ok().flatten().unwrap_or_default();
            let _ = read_of(&value, now_ns, files, &mut processes);
        }
        counted.processes = processes.into_values().collect();
        counted
    }
}

/// Removes and returns all of a set's entries.
fn taken(map: &MapHandle, epoch: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    let keys: Vec<Vec<u8>> = map.keys().filter(|key| u32_at(key, 0) == Some(epoch)).collect();
    keys.into_iter()
        .filter_map(|key| {
            let value = map.lookup(&key, MapFlags::ANY).ok().flatten()?;
            map.delete(&key).ok()?;
            Some((key, value))
        })
        .collect()
}

type Processes = BTreeMap<(u32, Option<DeviceId>), ProcessUse>;

fn entry(processes: &mut Processes, pid: u32, device: Option<DeviceId>) -> &mut ProcessUse {
    processes.entry((pid, device)).or_insert_with(|| ProcessUse { pid, device, ..ProcessUse::default() })
}

/// `struct use_key` and `struct use`.
fn use_of(key: &[u8], value: &[u8], files: &mut OpenFiles, processes: &mut Processes) -> Option<()> {
    let (pid, dev, kind) = (u32_at(key, 4)?, u32_at(key, 8)?, u32_at(key, 12)?);
    let took = histogram(value.get(24..24 + HISTOGRAM)?)?;
    let comm = value.get(8..24)?;
    let name = &comm[..comm.iter().position(|b| *b == 0).unwrap_or(comm.len())];
    if !name.is_empty() {
        files.called(pid, &String::from_utf8_lossy(name));
    }
    if kind == READ {
        let process = entry(processes, pid, Some(device_id(dev)));
        process.reads = took;
        process.read_bytes = u64_at(value, 0)?;
        return Some(());
    }
    let device = files.device_of_filesystem(device_id(dev));
    let calls = &mut entry(processes, pid, device).calls;
    calls.entry(*Call::ALL.get(kind as usize)?).or_default().merge(&took);
    Some(())
}

/// `struct device_key` and `struct device`.
fn requests_of(
    key: &[u8],
    value: &[u8],
    devices: &mut BTreeMap<DeviceId, BTreeMap<Class, Requests>>,
) -> Option<()> {
    let class = *Class::ALL.get(u32_at(key, 8)? as usize)?;
    let requests = Requests {
        bytes: u64_at(value, 0)?,
        queue: histogram(value.get(8..8 + HISTOGRAM)?)?,
        device: histogram(value.get(8 + HISTOGRAM..8 + 2 * HISTOGRAM)?)?,
    };
    devices.entry(device_id(u32_at(key, 4)?)).or_default().insert(class, requests);
    Some(())
}

/// A call under way: thread and process, `struct pending`.
fn pending_of(
    key: &[u8],
    value: &[u8],
    now_ns: u64,
    files: &mut OpenFiles,
    processes: &mut Processes,
) -> Option<()> {
    let pid = (u64_at(key, 0)? >> 32) as u32;
    let device = files.device_of_filesystem(device_id(u32_at(value, 8)?));
    entry(processes, pid, device).waits(now_ns, u64_at(value, 0)?);
    Some(())
}

/// A request under way, `struct outstanding`; only reads have a waiting process.
fn read_of(value: &[u8], now_ns: u64, files: &mut OpenFiles, processes: &mut Processes) -> Option<()> {
    let pid = u32_at(value, 16).filter(|pid| *pid != 0)?;
    let device = device_id(u32_at(value, 20)?);
    files.name(pid);
    entry(processes, pid, Some(device)).waits(now_ns, u64_at(value, 8)?);
    Some(())
}
