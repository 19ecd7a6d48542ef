//! Models of storage devices in virtual time.
//!
//! ```text
//! preset or file (TOML) ─▶ DeviceSpec ─ build(capacity, seed) ─▶ dyn Device
//!
//! medium:  disk | flash | cheap flash | cloud | null
//! around:  faults of a member ─▶ array ─▶ controller cache ─▶ link ─▶ faults of the whole
//! ```
//!
//! A [`Device`] is handed requests and says when they are done; it holds no contents. The lab puts
//! one behind a real kernel's block layer, the simulator behind a modelled one. Each model's module
//! has its equations, units and sources.
//!
//! Pure: no file, no clock, no environment, no thread; random numbers come from the seed. Times are
//! [`Nanos`], sizes bytes, rates bytes per second.

pub mod array;
pub mod cheap;
pub mod cloud;
pub mod controller;
mod device;
pub mod disk;
mod events;
pub mod fault;
pub mod flash;
mod front;
mod lane;
pub mod link;
mod null;
mod presets;
mod random;
mod slab;
mod sorted;
pub mod spec;
mod time;
mod write_cache;

pub use device::{
    Completion, Device, DeviceStats, IoError, LostExtent, LostWrites, Op, Profile, Request,
};
pub use null::Null;
pub use presets::{preset_names, preset_text};
pub use spec::{DeviceSpec, SpecError};
pub use time::Nanos;
