//! Bringing a device up.
//!
//! ```text
//! check everything ─▶ claim the name ─▶ guardian ─▶ server ─▶ loop device ─▶ mkfs, mount
//! ─▶ begin: the model's time counts
//! ```
//!
//! Until the last step the device answers at once, so making a filesystem costs no modelled time. A
//! step that fails takes down what the steps before it made.

use std::fs;
use std::path::PathBuf;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use floodwall_device::DeviceSpec;
use floodwall_model::Bytes;

use super::Lab;
use super::info::{LabInfo, info};
use crate::control::{self, Answer, Request};
use crate::error::LabError;
use crate::filesystem::Filesystem;
use crate::loopdev;
use crate::mounts;
use crate::role::Role;
use crate::state::{self, MountAt, Overflow, Spec, StateDir};
use crate::teardown::{self, By};

/// What a device is to be. [`UpOptions::new`] has the defaults.
#[derive(Clone, Debug)]
pub struct UpOptions {
    /// TOML text of the device, a preset's or a file's.
    pub text: String,
    /// Its name; the preset's if absent, with a number if that is taken.
    pub name: Option<String>,
    /// Bytes that it has; the preset's default if absent.
    pub size: Option<Bytes>,
    /// 512 or 4096: the smallest unit of its I/O, in bytes.
    pub block_size: u32,
    /// The most memory that its contents may take; if absent, the smaller of its size and half of
    /// the available memory.
    pub memory: Option<Bytes>,
    /// What happens beyond that.
    pub overflow: Overflow,
    /// A filesystem to make, and where to mount it (in the lab's own directory if no place is
    /// named).
    pub mount: Option<(Filesystem, Option<PathBuf>)>,
    /// The elevator that its queue begins with; the kernel's choice for a loop device (none) if
    /// absent.
    pub scheduler: Option<String>,
    /// Seed of whatever is random in the model.
    pub seed: u64,
    /// User and group ids of the owner that [`Lab::run`] gives the new filesystem; it stays the
    /// caller's if absent.
    pub owner: Option<(u32, u32)>,
}

impl UpOptions {
    /// A device of its default size without a filesystem.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            name: None,
            size: None,
            block_size: 512,
            memory: None,
            overflow: Overflow::NoSpace,
            mount: None,
            scheduler: None,
            seed: 1,
            owner: None,
        }
    }
}

/// How long a server may take to be there.
const START: Duration = Duration::from_secs(20);
/// How often a server that is starting is asked.
const POLL: Duration = Duration::from_millis(5);

impl Lab {
    /// Brings a device up.
    ///
    /// # Errors
    /// All faults of the options and the host are found before anything is made; a later failure
    /// takes the lab down. [`LabError::Interrupted`] if `stop` is raised.
    pub fn up(&self, options: &UpOptions, stop: &AtomicBool) -> Result<LabInfo, LabError> {
        self.reap();
        Self::check_host()?;
        let device = DeviceSpec::parse(&options.text)?;
        let mut spec = self.settle(options, &device)?;
        let model = device.build(spec.size.0, spec.seed)?;
        let cache = Bytes(model.stats().cache_size_bytes);
        if let Some(memory) = memory("MemTotal").filter(|memory| cache > *memory) {
            return Err(LabError::Cache { cache, memory });
        }
        let profile = model.profile();
        let state = self.claim(&mut spec, options.name.is_none())?;
        let brought_up = self.start(&state, &spec, stop).and_then(|()| {
            attach(&state, &spec, profile.rotational, profile.volatile_cache, stop, true)?;
            control::ask(&spec.name, &state.control(), &Request::Begin)?;
            state.mark_ready()
        });
        match brought_up {
            Ok(()) => Ok(info(&state)),
            Err(e) => {
                // The first error is the one to be told.
                let _ = teardown::take_down(&state, By::Caller);
                // Another process that took the lab down meanwhile may not have seen this one's
                // last step.
                let _ = teardown::free_devices(&state, &spec.file_name(), false);
                self.reap();
                Err(e)
            }
        }
    }

    /// Checks the options and fills in the defaults.
    fn settle(&self, options: &UpOptions, device: &DeviceSpec) -> Result<Spec, LabError> {
        let name = options.name.clone().unwrap_or_else(|| device.name.chars().take(28).collect());
        state::check_name(&name)?;
        let size = options.size.unwrap_or(device.default_size);
        let block = Bytes(u64::from(options.block_size));
        if !matches!(options.block_size, 512 | 4096) {
            return Err(LabError::BlockSize { block: options.block_size });
        }
        if size.0 == 0 || !size.0.is_multiple_of(block.0) {
            return Err(LabError::Size { size, block });
        }
        let promised = self.promised()?;
        let available = memory("MemAvailable").unwrap_or(Bytes(u64::MAX));
        let available = Bytes(available.0.saturating_sub(promised.0));
        let memory = options.memory.unwrap_or(Bytes(size.0.min(available.0 / 2)));
        if memory > available {
            return Err(LabError::Memory { asked: memory, available, promised });
        }
        let mount = match &options.mount {
            None => None,
            Some((filesystem, dir)) => {
                filesystem.check()?;
                if size < filesystem.least() {
                    return Err(LabError::TooSmall {
                        filesystem: filesystem.name(),
                        least: filesystem.least(),
                        size,
                    });
                }
                let dir = dir.as_deref().map(mounts::check_mount_point).transpose()?;
                Some(MountAt { dir: dir.unwrap_or_default(), filesystem: *filesystem })
            }
        };
        if let Overflow::Spill(dir) = &options.overflow
            && !dir.is_dir()
        {
            return Err(LabError::SpillDir { dir: dir.clone() });
        }
        Ok(Spec {
            name,
            preset: device.name.clone(),
            text: options.text.clone(),
            seed: options.seed,
            size,
            block_size: options.block_size,
            memory,
            overflow: options.overflow.clone(),
            mount,
            scheduler: options.scheduler.clone(),
            token: state::random_token()?,
            boot_id: state::boot_id(),
            program: self.program.clone(),
            args: self.args.clone(),
        })
    }

    /// What the labs that are up may still take of the memory that is available now. One whose
    /// server does not answer takes no more.
    fn promised(&self) -> Result<Bytes, LabError> {
        let labs = state::all(&self.root)?;
        let left = labs.iter().map(|state| {
            match control::ask(&state.name(), &state.control(), &Request::Stats) {
                Ok(Answer::Stats(stats)) => {
                    // The pages kept for a power cut come on top of the size; they are as few as
                    // the device's cache has.
                    stats
                        .store
                        .memory_limit_bytes
                        .min(stats.size_bytes)
                        .saturating_sub(stats.store.memory_bytes)
                }
                _ => 0,
            }
        });
        Ok(Bytes(left.sum()))
    }

    /// Makes the state directory, under the next free name if the name is only a suggestion.
    fn claim(&self, spec: &mut Spec, suggestion: bool) -> Result<StateDir, LabError> {
        let wanted = spec.name.clone();
        for number in 2.. {
            // Made by an earlier boot: nothing of it is left but the directory.
            let old = StateDir::new(self.root.join(&spec.name));
            if old.spec().is_ok_and(|s| s.boot_id != spec.boot_id) {
                old.remove()?;
            }
            if let Some(mount) = &mut spec.mount
                && (mount.dir.as_os_str().is_empty() || mount.dir.starts_with(&self.root))
            {
                mount.dir = StateDir::new(self.root.join(&spec.name)).mnt();
            }
            match StateDir::create(&self.root, spec) {
                Err(LabError::NameTaken { .. }) if suggestion && number < 1000 => {
                    spec.name = format!("{wanted}-{number}");
                }
                other => return other,
            }
        }
        Err(LabError::NameTaken { name: wanted, half_made: false })
    }

    /// Starts guardian and server, and waits until the latter answers.
    fn start(&self, state: &StateDir, spec: &Spec, stop: &AtomicBool) -> Result<(), LabError> {
        let guardian = Role::Guardian.start(state, spec)?;
        self.children.lock().unwrap_or_else(PoisonError::into_inner).push(guardian);
        let deadline = Instant::now() + START;
        loop {
            if let Some(said) = state.error() {
                return Err(LabError::Server { name: spec.name.clone(), said });
            }
            if control::ask(&spec.name, &state.control(), &Request::Ping).is_ok() {
                return Ok(());
            }
            if stop.load(Ordering::Relaxed) {
                return Err(LabError::Interrupted);
            }
            if Instant::now() >= deadline {
                return Err(LabError::NoAnswer { name: spec.name.clone() });
            }
            thread::sleep(POLL);
        }
    }
}

/// Puts a loop device on the lab's file, and mounts it.
pub(super) fn attach(
    state: &StateDir,
    spec: &Spec,
    rotational: bool,
    volatile_cache: bool,
    stop: &AtomicBool,
    make: bool,
) -> Result<(), LabError> {
    let stopped = || if stop.load(Ordering::Relaxed) { Err(LabError::Interrupted) } else { Ok(()) };
    let device = loopdev::attach(&state.fuse().join(spec.file_name()), spec.block_size)?;
    device.describe(rotational, volatile_cache)?;
    spec.scheduler.iter().try_for_each(|name| device.choose_elevator(name))?;
    if let Some(MountAt { dir, filesystem }) = &spec.mount {
        stopped()?;
        let made = if make { filesystem.make(&device.path()) } else { Ok(()) };
        // Before its failure is told: a Ctrl-C ends mkfs too.
        stopped()?;
        made?;
        filesystem.mount(&device.path(), dir)?;
    }
    stopped()
}

/// A figure of `/proc/meminfo`; `None` where the kernel does not say.
fn memory(name: &str) -> Option<Bytes> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'))?;
    Some(Bytes::kib(line.trim().strip_suffix("kB")?.trim().parse().ok()?))
}
