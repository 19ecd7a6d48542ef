//! The process behind a lab device: model, contents, FUSE file, control socket.
//!
//! ```text
//! kernel ─▶ /dev/fuse ─▶ reader threads ─▶ Engine ◀─ timing thread
//! caller ─▶ control socket ─▶ control threads ─▶ Engine
//! ```
//!
//! It ends when its file is unmounted. If it is killed, the kernel closes `/dev/fuse` with it,
//! which fails everything that waits for it, and the [guardian](crate::guardian) takes down what
//! stands on it.
//!
//! **It never touches its own device.** It reads and writes its state directory, its socket, and a
//! spill file that was opened before the device existed. Recordings go to the caller, which writes
//! them where it likes.

mod control;
mod fuse;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use floodwall_device::DeviceSpec;
use fuser::{Config, MountOption, Session};

use crate::engine::Engine;
use crate::error::LabError;
use crate::process;
use crate::state::{Overflow, Spec, StateDir};
use crate::store::{Beyond, Store};
use control::Control;
use fuse::{DiskFile, Reply};

/// Threads that read requests. One copies a large request while the other takes the next: on two
/// cores a fifth to a half faster than one thread, and a third gains nothing.
const READERS: usize = 2;

/// How long the server waits for its guardian to have started it.
const START: Duration = Duration::from_secs(10);

/// The type of the FUSE mount, as `/proc/mounts` shows it behind `fuse.`.
pub(crate) const SUBTYPE: &str = "floodwall-lab";

/// Serves the lab of a state directory until it is unmounted.
///
/// # Errors
/// The reason why it can't start. It is left in the state directory too, for the process that
/// waits.
pub(crate) fn main(state: &Path) -> Result<(), LabError> {
    let state = StateDir::new(state);
    serve(&state).inspect_err(|e| state.leave_error(e))
}

fn serve(state: &StateDir) -> Result<(), LabError> {
    let starting = state.lock_to_start(START)?;
    let spec = state.spec()?;
    state.enter("server")?;
    process::fit_to_serve();
    let device = DeviceSpec::parse(&spec.text)?.build(spec.size.0, spec.seed)?;
    let engine: Arc<Engine<Reply>> = Arc::new(Engine::new(device, store(&spec)?));

    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(format!("floodwall-lab:{}", spec.name)),
        MountOption::CUSTOM(format!("subtype={SUBTYPE}")),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoSuid,
        MountOption::NoExec,
    ];
    config.n_threads = Some(READERS);
    let file = DiskFile::new(engine.clone(), &spec.file_name());
    let session = Session::new(file, state.fuse(), &config)
        .map_err(|e| LabError::io("mount", state.fuse(), e))?;

    let timer = {
        let engine = engine.clone();
        process::start_thread("lab-timer", move || {
            process::run_first();
            engine.run_timer();
        })?
    };
    // The socket comes last: a process that can connect to it finds everything ready.
    Control::listen(state, spec, engine.clone())?;
    drop(starting);
    // For the reader threads, which are started here; the control threads are no hardware.
    process::run_first();
    let served = session.run();
    engine.stop();
    // A thread that panicked has nothing more to say.
    let _ = timer.join();
    served.map_err(|e| LabError::io("serve", state.fuse(), e))
}

fn store(spec: &Spec) -> Result<Store, LabError> {
    let beyond = match &spec.overflow {
        Overflow::NoSpace => Beyond::NoSpace,
        Overflow::Spill(dir) => Beyond::Spill(spill_file(dir)?),
    };
    Ok(Store::new(spec.memory.0, beyond))
}

/// A file without a name, which goes with its last descriptor.
fn spill_file(dir: &Path) -> Result<std::fs::File, LabError> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let file = rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR);
    file.map(Into::into).map_err(|e| LabError::io("make a spill file in", dir, e))
}
