//! Devices as files: TOML in, something that can be built or a message with line and remedy out.
//!
//! ```text
//! name, description, source, model, default_size
//! [disk] | [flash] | [cheap_flash] | [cloud] | [null]     exactly one: the medium
//! [array]      level, members, chunk …                     that many of the medium
//! [cache]      size, mode, destage …                       a controller's cache in front
//! [link]       rate, round_trip, server                    a network in front of that
//! [[fault]]    kind = "slow" | "stall" | "errors" | "battery",
//!              member = N for one member of the array
//! ```
//!
//! Every size, rate and time carries its unit, in quotes. The presets are the examples: copy one
//! and change it.

mod check;
mod media;
mod place;
mod raw;
mod units;

use floodwall_model::Bytes;
use floodwall_model::toml_text::{nearest, place_and_message};

use crate::array::{Array, ArrayParams};
use crate::cheap::{CheapFlash, CheapFlashParams};
use crate::cloud::{Cloud, CloudParams};
use crate::controller::{CacheMode, Controller, ControllerParams};
use crate::device::Device;
use crate::disk::{Disk, DiskParams};
use crate::fault::{Disturbance, Errors, Warp};
use crate::flash::{Flash, FlashParams};
use crate::front::Front;
use crate::link::{Link, LinkParams};
use crate::null::Null;
use crate::presets;
use crate::random::Random;
use crate::time::Nanos;

/// Why a text is no device, or a device can't be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The text is not what a device file looks like.
    #[error("line {line}: {message}")]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// The fault there.
        message: String,
    },
    /// The text is well formed, and its device is impossible.
    #[error("{place}: {message}")]
    Invalid {
        /// Which table.
        place: String,
        /// The fault, and an accepted form.
        message: String,
    },
    /// No preset has this name.
    #[error("there is no preset '{name}'; {known}")]
    UnknownPreset {
        /// The requested name.
        name: String,
        /// The nearest name, or all of them.
        known: String,
    },
    /// More bytes than the device has, or none.
    #[error("{name} can't have {asked}: use more than zero and at most its {capacity}")]
    Capacity {
        /// Which device.
        name: String,
        /// The requested size.
        asked: Bytes,
        /// The capacity of the device.
        capacity: Bytes,
    },
}

/// A device that can be built.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceSpec {
    /// Short, lower case, with dashes.
    pub name: String,
    /// One or two sentences.
    pub description: String,
    /// Where its figures come from, if one source stands for them all.
    pub source: Option<String>,
    /// The product string that an INQUIRY returns.
    pub model: String,
    /// The bytes that a lab exposes by default.
    pub default_size: Bytes,
    /// What holds the data.
    pub medium: Medium,
    /// How many of it, and how combined.
    pub array: Option<ArraySpec>,
    /// A controller's cache in front.
    pub cache: Option<ControllerParams>,
    /// A network in front of that.
    pub link: Option<LinkParams>,
    /// The kind of fault.
    pub faults: Vec<Fault>,
}

/// What holds the data.
#[derive(Clone, Debug, PartialEq)]
pub enum Medium {
    /// A disk.
    Disk(DiskParams),
    /// A solid-state drive.
    Flash(FlashParams),
    /// A USB stick or SD card.
    CheapFlash(CheapFlashParams),
    /// A cloud volume.
    Cloud(CloudParams),
    /// A fixed time for everything.
    Null {
        /// Bytes.
        capacity: u64,
        /// The fixed time.
        latency: Nanos,
    },
}

/// Members and how they are combined.
#[derive(Clone, Debug, PartialEq)]
pub struct ArraySpec {
    /// Level, chunk, balance.
    pub params: ArrayParams,
    /// How many.
    pub members: usize,
    /// Numbers of those that have failed, from 0.
    pub failed: Vec<usize>,
}

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Which member of the array; `None` for the device as a whole.
    pub member: Option<usize>,
    /// What.
    pub kind: FaultKind,
}

/// The kind of fault.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultKind {
    /// Slowness or stalls.
    Clock(Disturbance),
    /// Failing requests, as shares of reads and writes.
    Errors {
        /// Share of reads.
        reads: f64,
        /// Share of writes.
        writes: f64,
    },
}

impl Medium {
    fn capacity(&self) -> u64 {
        match self {
            Self::Disk(p) => p.mechanics.capacity,
            Self::Flash(p) => p.capacity,
            Self::CheapFlash(p) => p.capacity,
            Self::Cloud(p) => p.capacity,
            Self::Null { capacity, .. } => *capacity,
        }
    }

    fn has_volatile_cache(&self) -> bool {
        match self {
            Self::Disk(p) => p.write_cache > 0,
            Self::Flash(p) => !p.protected,
            Self::CheapFlash(_) | Self::Cloud(_) | Self::Null { .. } => false,
        }
    }

    fn build(&self, seed: u64, member: u64) -> Box<dyn Device> {
        match self {
            Self::Disk(p) => {
                let turn = Random::new(seed, member).uniform();
                Box::new(Disk::new(*p, p.mechanics.revolution.scaled(turn)))
            }
            Self::Flash(p) => Box::new(Flash::new(*p)),
            Self::CheapFlash(p) => Box::new(CheapFlash::new(*p)),
            Self::Cloud(p) => Box::new(Cloud::new(*p, seed.wrapping_add(member))),
            Self::Null { capacity, latency } => Box::new(Null::new(*capacity, *latency)),
        }
    }
}

impl DeviceSpec {
    /// Reads a device file.
    ///
    /// # Errors
    /// [`SpecError::Syntax`] with the line, for malformed TOML, unknown keys (with the nearest
    /// known one) and values without or with wrong units. [`SpecError::Invalid`] for devices that
    /// can't be.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let raw: raw::RawSpec = toml::from_str(text).map_err(|e| syntax_error(text, &e))?;
        raw.check()
    }

    /// The device of a preset.
    ///
    /// # Errors
    /// [`SpecError::UnknownPreset`] with the nearest name.
    pub fn preset(name: &str) -> Result<Self, SpecError> {
        match presets::preset_text(name) {
            Some(text) => Self::parse(text),
            None => Err(SpecError::UnknownPreset {
                name: name.into(),
                known: match nearest(name, presets::preset_names()) {
                    Some(near) => format!("did you mean '{near}'?"),
                    None => format!(
                        "there are {}",
                        presets::preset_names().collect::<Vec<_>>().join(", ")
                    ),
                },
            }),
        }
    }

    /// All that the device could expose.
    #[must_use]
    pub fn capacity(&self) -> Bytes {
        let one = self.medium.capacity();
        Bytes(self.array.as_ref().map_or(one, |a| a.params.capacity(a.members, one)))
    }

    /// Whether neighbouring offsets are cheaper than far ones.
    #[must_use]
    pub fn rotational(&self) -> bool {
        matches!(self.medium, Medium::Disk(_))
    }

    /// Whether it will report a write cache that a FLUSH is needed for. A device that a `battery`
    /// fault hits reports one from then on.
    #[must_use]
    pub fn volatile_cache(&self) -> bool {
        match &self.cache {
            Some(c) if c.mode == CacheMode::Volatile => true,
            _ => self.medium.has_volatile_cache(),
        }
    }

    /// Builds the device. Its mechanics are always those of the whole: fewer bytes mean its
    /// beginning (on disks the outer tracks).
    ///
    /// The same specification, capacity and seed give the same completions for the same requests.
    ///
    /// # Errors
    /// [`SpecError::Capacity`] for zero or more bytes than [`Self::capacity`].
    pub fn build(
        &self,
        capacity_bytes: u64,
        seed: u64,
    ) -> Result<Box<dyn Device + Send>, SpecError> {
        let capacity = self.capacity();
        if capacity_bytes == 0 || capacity_bytes > capacity.0 {
            return Err(SpecError::Capacity {
                name: self.name.clone(),
                asked: Bytes(capacity_bytes),
                capacity,
            });
        }
        let mut device = match &self.array {
            None => self.medium.build(seed, 0),
            Some(array) => {
                let members = (0..array.members)
                    .map(|m| self.disturb(self.medium.build(seed, m as u64), Some(m), seed))
                    .collect();
                Box::new(Array::new(array.params, members, &array.failed))
            }
        };
        if let Some(cache) = &self.cache {
            device = Box::new(Controller::new(*cache, device));
        }
        if let Some(link) = &self.link {
            device = Box::new(Link::new(*link, device));
        }
        Ok(Box::new(Front::new(self.disturb(device, None, seed), capacity_bytes)))
    }

    /// Puts the faults of a member, or of the whole, around it.
    fn disturb(
        &self,
        mut device: Box<dyn Device>,
        member: Option<usize>,
        seed: u64,
    ) -> Box<dyn Device> {
        for (i, fault) in self.faults.iter().enumerate().filter(|(_, f)| f.member == member) {
            device = match fault.kind {
                FaultKind::Clock(disturbance) => Box::new(Warp::new(device, disturbance)),
                FaultKind::Errors { reads, writes } => {
                    Box::new(Errors::new(device, reads, writes, seed.wrapping_add(i as u64)))
                }
            };
        }
        device
    }
}

fn syntax_error(text: &str, error: &toml::de::Error) -> SpecError {
    let (line, message) = place_and_message(text, error);
    SpecError::Syntax { line, message }
}
