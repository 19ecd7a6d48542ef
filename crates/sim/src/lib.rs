//! The kernel's write path over a modelled device, in virtual time.
//!
//! ```text
//! writers ─▶ dirty accounting ─▶ throttling ─▶ flusher ─┐
//! readers, fsync ───────────────────────────────────────┤
//!   ┌───────────────────────────────────────────────────┘
//!   └▶ wbt gate ─▶ request slots ─▶ elevator ─▶ device
//! ```
//!
//! | module | the kernel's |
//! |---|---|
//! | `workload` | processes: victims and floods |
//! | `page_cache`, `extent` | dirty and writeback pages, as ranges |
//! | `limits`, `throttle` | mm/page-writeback.c |
//! | `groups` | control groups of victims and floods: `io.max`, `memory.high` |
//! | `writeback` | fs/fs-writeback.c, mm/pdflush.c |
//! | `fs` | fsync and journals of xfs, ext3, ext4, btrfs |
//! | `block`, `wbt`, `elevator`, `driver` | block/, and what a device's driver says |
//! | `eras` | the parts that only kernels before 6.x had, and which kernel has which |
//! | `machine` | puts them together and lets time pass |
//! | `plant` | lives on while somebody looks at it and turns its knobs, as a [`Plant`] |
//! | `life` | such a machine with a database and a copy that come and go |
//! | `options`, `runner`, `phase`, `setup`, `settings` | a scenario and a setting as a [`Trial`] |
//!
//! Times are [`floodwall_device::Nanos`], sizes bytes unless a name says pages (4 KiB), rates pages
//! or bytes per second as the kernel keeps them. Pure: no file, no clock, no environment, no
//! thread; random numbers come from a seed.
//!
//! [`Plant`]: floodwall_model::Plant
//! [`Trial`]: floodwall_model::Trial

mod block;
mod cost;
mod dd;
mod disktest;
mod driver;
pub mod elevator;
pub mod eras;
mod error;
mod event;
pub mod explain;
mod extent;
mod fs;
mod groups;
mod life;
pub mod limits;
mod machine;
mod options;
mod page_cache;
mod phase;
pub mod plant;
pub mod request;
mod runner;
mod sample;
mod scan;
mod settings;
mod setup;
mod slab;
pub mod throttle;
pub mod wbt;
mod workload;
mod writeback;

pub use dd::DdResult;
pub use disktest::{DiskTest, DiskTestResult};
pub use eras::kernel;
pub use error::SimError;
pub use fs::{FsKind, UnknownFs};
pub use life::{LifeError, life};
pub use options::SimOptions;
pub use plant::{PlantDevice, SimPlant};
pub use runner::{ExplainedPhase, SimRunner};
pub use scan::{ScanResult, TableScans};
