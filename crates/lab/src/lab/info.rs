//! What a lab is at a moment.

use std::path::PathBuf;

use floodwall_model::Bytes;
use serde::{Deserialize, Serialize};

use crate::control::{self, Answer, Request};
use crate::loopdev::{self, LoopDevice};
use crate::state::{self, StateDir};
use crate::teardown;

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

/// What a lab is at this moment.
pub(super) fn info(state: &StateDir) -> LabInfo {
    let spec = state.spec();
    let devices = spec.as_ref().map(|s| loopdev::find(&s.file_name())).unwrap_or_default();
    let half_made = |why: &str| LabState::HalfMade(why.into());
    let how = match &spec {
        Err(_) => half_made("its specification was never written"),
        Ok(spec) if spec.boot_id != state::boot_id() => {
            half_made("it was made before the last boot")
        }
        Ok(_) if state.is_going() => half_made("a process began to take it down"),
        Ok(_) if !state.is_ready() && state.maker_alive() => LabState::Starting,
        Ok(_) if !state.is_ready() => half_made("the process that brought it up did not finish"),
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
