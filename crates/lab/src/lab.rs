//! The lab as its callers see it: bring devices up, look at them, take them down.
//!
//! ```text
//! up:  check everything ─▶ claim the name ─▶ guardian ─▶ server ─▶ loop device ─▶ mkfs, mount
//!      ─▶ begin: the model's time counts
//! ```
//!
//! Until the last step the device answers at once, so making a filesystem costs no modelled time. A
//! step that fails takes down what the steps before it made.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use floodwall_device::DeviceSpec;
use floodwall_model::Bytes;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::process::{Gid, Pid, Signal, Uid};
use serde::{Deserialize, Serialize};

use crate::control::{self, Answer, LabStats, PowerCut, Request};
use crate::error::LabError;
use crate::guardian;
use crate::loopdev::{self, LoopDevice};
use crate::mounts::{self, Filesystem};
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

/// How a lab is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabState {
    /// In use.
    Up,
    /// A process is bringing it up at this moment.
    Starting,
    /// After a power cut.
    NoPower,
    /// Neither up nor gone; the text names the missing part. `down` takes away the rest.
    HalfMade(String),
}

/// One lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabInfo {
    /// Its name.
    pub name: String,
    /// How it is.
    pub state: LabState,
    /// The preset's name; absent if the state can't be read.
    pub preset: Option<String>,
    /// Its size; `size_bytes` in JSON.
    #[serde(rename = "size_bytes")]
    pub size: Option<Bytes>,
    /// `/dev/loopN`.
    pub device: Option<PathBuf>,
    /// Where it is mounted.
    pub mounts: Vec<PathBuf>,
    /// Process id of its server.
    pub server_pid: Option<i32>,
}

/// A lab's name, and whether it could be taken down.
pub type Downed = (String, Result<(), LabError>);

/// What [`Lab::run`] ran.
#[derive(Clone, Debug)]
pub struct Ran {
    /// How the command ended.
    pub status: ExitStatus,
    /// What the device had counted by then; absent if its server was gone.
    pub stats: Option<LabStats>,
}

/// How long a server may take to be there.
const START: Duration = Duration::from_secs(20);
/// How long a guardian may take to end after its lab is gone.
const GUARDIAN: Duration = Duration::from_secs(3);
/// How long a command of [`Lab::run`] is given after it was asked to end.
const COMMAND_END: Duration = Duration::from_secs(10);
/// How often something is looked at that can't be waited for.
const POLL: Duration = Duration::from_millis(5);

/// All labs of this host (or below another state directory).
pub struct Lab {
    root: PathBuf,
    program: PathBuf,
    args: Vec<String>,
    /// Guardians that this process started, to be reaped.
    children: Mutex<Vec<Child>>,
}

impl Lab {
    /// `program` with `args` in front must call [`crate::child()`] when it finds
    /// `--role ROLE --state DIR` behind them.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>, args: impl IntoIterator<Item = String>) -> Self {
        Self {
            root: state::DEFAULT_ROOT.into(),
            program: program.into(),
            args: args.into_iter().collect(),
            children: Mutex::new(Vec::new()),
        }
    }

    /// With another state directory. Labs of different directories do not see each other.
    #[must_use]
    pub fn with_root(self, root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), ..self }
    }

    /// Whether this host can have a lab at all.
    ///
    /// # Errors
    /// [`LabError::NoRoot`], [`LabError::NoFuse`], [`LabError::NoLoop`].
    pub fn check_host() -> Result<(), LabError> {
        if !rustix::process::geteuid().is_root() {
            return Err(LabError::NoRoot);
        }
        let fuse = Path::new("/dev/fuse");
        if !fuse.exists() {
            return Err(LabError::NoFuse { path: fuse.into() });
        }
        loopdev::check()
    }

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
        if let Some(memory) = mounts::memory("MemTotal").filter(|memory| cache > *memory) {
            return Err(LabError::Cache { cache, memory });
        }
        let profile = model.profile();
        let state = self.claim(&mut spec, options.name.is_none())?;
        let brought_up = self.start(&state, &spec, stop).and_then(|()| {
            self.attach(&state, &spec, profile.rotational, profile.volatile_cache, stop, true)?;
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
        let available = mounts::memory("MemAvailable").unwrap_or(Bytes(u64::MAX));
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
        let guardian = guardian::start(state, spec)?;
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

    /// Puts a loop device on the lab's file, and mounts it.
    fn attach(
        &self,
        state: &StateDir,
        spec: &Spec,
        rotational: bool,
        volatile_cache: bool,
        stop: &AtomicBool,
        make: bool,
    ) -> Result<(), LabError> {
        let stopped =
            || if stop.load(Ordering::Relaxed) { Err(LabError::Interrupted) } else { Ok(()) };
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

    /// All labs, half-made ones too, by name.
    ///
    /// # Errors
    /// [`LabError::Private`] for a caller that is not root, once there was a lab.
    pub fn list(&self) -> Result<Vec<LabInfo>, LabError> {
        self.reap();
        Ok(state::all(&self.root)?.iter().map(info).collect())
    }

    /// One lab's counters.
    ///
    /// # Errors
    /// [`LabError::Unknown`], [`LabError::NoAnswer`].
    pub fn stats(&self, name: &str) -> Result<LabStats, LabError> {
        let state = self.find(name)?;
        match control::ask(name, &state.control(), &Request::Stats)? {
            Answer::Stats(stats) => Ok(*stats),
            _ => Err(LabError::NoAnswer { name: name.into() }),
        }
    }

    /// Takes a lab down from whatever state it is in. Its contents are gone.
    ///
    /// # Errors
    /// [`LabError::Unknown`]; [`LabError::Busy`] if a process uses the device and did not end when
    /// it got errors from it.
    pub fn down(&self, name: &str) -> Result<(), LabError> {
        let state = self.find(name)?;
        let guardian = state.guardian();
        teardown::take_down(&state, By::Caller)?;
        if let Some(guardian) = guardian
            && !guardian.wait(GUARDIAN)
        {
            guardian.signal(Signal::KILL);
        }
        self.reap();
        Ok(())
    }

    /// Takes all labs down; what could not be taken down is in the result.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub fn down_all(&self) -> Result<Vec<Downed>, LabError> {
        let names: Vec<String> = state::all(&self.root)?.iter().map(StateDir::name).collect();
        Ok(names.into_iter().map(|name| (name.clone(), self.down(&name))).collect())
    }

    /// Cuts a device's power. Acknowledged data in a volatile cache that were not flushed are lost,
    /// requests in flight fail, and so do all requests until [`Self::powerup`].
    ///
    /// # Errors
    /// [`LabError::Power`] if it has none.
    pub fn powercut(&self, name: &str) -> Result<PowerCut, LabError> {
        if !self.stats(name)?.power {
            return Err(LabError::Power {
                name: name.into(),
                state: "has no power already; 'powerup' gives it back",
            });
        }
        let state = self.find(name)?;
        match control::ask(name, &state.control(), &Request::PowerCut)? {
            Answer::PowerCut(cut) => Ok(cut),
            _ => Err(LabError::NoAnswer { name: name.into() }),
        }
    }

    /// Gives a device its power back, as a booting machine would find it. Its filesystem is
    /// unmounted, the loop device is a new one, and its original filesystem is mounted again.
    ///
    /// # Errors
    /// [`LabError::Power`] if it has power; [`LabError::Busy`] if a process still uses the dead
    /// filesystem.
    pub fn powerup(&self, name: &str) -> Result<LabInfo, LabError> {
        if self.stats(name)?.power {
            return Err(LabError::Power {
                name: name.into(),
                state: "has power; 'powercut' takes it",
            });
        }
        let state = self.find(name)?;
        let spec = state.spec()?;
        teardown::free_devices(&state, &spec.file_name(), false)?;
        control::ask(name, &state.control(), &Request::PowerUp)?;
        let profile = DeviceSpec::parse(&spec.text)?.build(spec.size.0, spec.seed)?.profile();
        let never = AtomicBool::new(false);
        self.attach(&state, &spec, profile.rotational, profile.volatile_cache, &never, false)?;
        Ok(info(&state))
    }

    /// Writes the device's requests as CSV, from the oldest request in memory or from now on.
    /// Without `follow` it writes the present ones; with it, it goes on until `stop` is raised or
    /// the lab ends.
    ///
    /// # Errors
    /// [`LabError::Unknown`], [`LabError::NoAnswer`], or a failure to write to `out`.
    pub fn record(
        &self,
        name: &str,
        from_start: bool,
        follow: bool,
        out: &mut dyn Write,
        stop: &AtomicBool,
    ) -> Result<(), LabError> {
        let state = self.find(name)?;
        let (_, mut stream) =
            control::converse(name, &state.control(), &Request::Record { from_start, follow })?;
        let failed = |e| LabError::io("record", state.control(), e);
        stream.get_ref().set_read_timeout(Some(Duration::from_millis(100))).map_err(failed)?;
        let mut buffer = vec![0; 1 << 16];
        while !stop.load(Ordering::Relaxed) {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => out
                    .write_all(&buffer[..n])
                    .map_err(|e| LabError::io("write", "the recording", e))?,
                Err(e)
                    if matches!(
                        e.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) => {}
                Err(e) => return Err(failed(e)),
            }
        }
        out.flush().map_err(|e| LabError::io("write", "the recording", e))
    }

    /// Brings a device up, runs a command in its filesystem and takes it down again, whatever the
    /// command does. The command finds the lab's name and device in `FLOODWALL_LAB` and
    /// `FLOODWALL_LAB_DEVICE`.
    ///
    /// # Errors
    /// As [`Self::up`] and [`Self::down`]; [`LabError::Command`]. If `stop` is raised the command
    /// is asked to end, and its status returned.
    pub fn run(
        &self,
        options: &UpOptions,
        command: &mut Command,
        stop: &AtomicBool,
    ) -> Result<Ran, LabError> {
        let lab = self.up(options, stop)?;
        if let Some(dir) = lab.mounts.first() {
            command.current_dir(dir);
        }
        command.env("FLOODWALL_LAB", &lab.name);
        if let Some(device) = &lab.device {
            command.env("FLOODWALL_LAB_DEVICE", device);
        }
        let program = command.get_program().to_string_lossy().into_owned();
        let given = match (lab.mounts.first(), options.owner) {
            (Some(dir), Some(owner)) => give(dir, owner),
            _ => Ok(()),
        };
        let status =
            given.and_then(|()| command.spawn()).and_then(|mut child| wait(&mut child, stop));
        let status = status.map_err(|error| LabError::Command { command: program, error });
        let stats = self.stats(&lab.name).ok();
        let down = self.down(&lab.name);
        let status = status?;
        down.map(|()| Ran { status, stats })
    }

    fn find(&self, name: &str) -> Result<StateDir, LabError> {
        let state = StateDir::new(self.root.join(name));
        if state::check_name(name).is_ok() && state.exists() {
            return Ok(state);
        }
        let names: Vec<String> = state::all(&self.root)?.iter().map(StateDir::name).collect();
        let known = match names.as_slice() {
            [] => "no device is up".into(),
            [one] => format!("there is '{one}'"),
            _ => format!("there are {}", names.join(", ")),
        };
        Err(LabError::Unknown { name: name.into(), known })
    }

    /// Takes note of guardians that have ended.
    fn reap(&self) {
        let mut children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }
}

/// Gives a directory to a user. Its path has no symlinks, and none is followed: the owner of a
/// directory on the way may put one there.
fn give(dir: &Path, (uid, gid): (u32, u32)) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = match rustix::fs::openat2(CWD, dir, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // Before Linux 5.6, and in containers that forbid the call.
        Err(Errno::NOSYS | Errno::PERM) => rustix::fs::open(dir, flags, Mode::empty())?,
        opened => opened?,
    };
    Ok(rustix::fs::fchown(&fd, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?)
}

/// Waits for a command; asks it to end when `stop` is raised, and then makes it.
fn wait(child: &mut Child, stop: &AtomicBool) -> io::Result<ExitStatus> {
    let mut asked: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        match asked {
            None if stop.load(Ordering::Relaxed) => {
                asked = Some(Instant::now());
                if let Some(pid) = Pid::from_raw(child.id() as i32) {
                    // Not yet reaped, so the number is still its own.
                    rustix::process::kill_process(pid, Signal::TERM)?;
                }
            }
            Some(since) if since.elapsed() > COMMAND_END => child.kill()?,
            _ => {}
        }
        thread::sleep(POLL);
    }
}

/// What a lab is at this moment.
fn info(state: &StateDir) -> LabInfo {
    let spec = state.spec();
    let devices = spec.as_ref().map(|s| loopdev::find(&s.file_name())).unwrap_or_default();
    let half_made = |why: &str| LabState::HalfMade(why.into());
    let how = match &spec {
        Err(_) => half_made("its specification was never written"),
        Ok(spec) if spec.boot_id != state::boot_id() => {
            half_made("it was made before the last boot")
        }
        Ok(_) if state.is_going() => half_made("somebody began to take it down"),
        Ok(_) if !state.is_ready() && state.maker_alive() => LabState::Starting,
        Ok(_) if !state.is_ready() => half_made("whoever brought it up did not finish"),
        Ok(_) if !state.server_alive() => half_made("its server is gone"),
        Ok(_) if devices.is_empty() => half_made("it has no loop device"),
        Ok(_) => match control::ask(&state.name(), &state.control(), &Request::Stats) {
            Ok(Answer::Stats(stats)) if !stats.power => LabState::NoPower,
            Ok(_) => LabState::Up,
            Err(_) => half_made("its server does not answer"),
        },
    };
    LabInfo {
        name: state.name(),
        state: how,
        preset: spec.as_ref().ok().map(|s| s.preset.clone()),
        size: spec.as_ref().ok().map(|s| s.size),
        device: devices.first().map(LoopDevice::path),
        mounts: devices.iter().flat_map(teardown::mounted_at).collect(),
        server_pid: state.server().map(|p| p.pid),
    }
}
