//! The kernel's write path over a modelled device, in virtual time.
//!
//! ```text
//! writers ─▶ dirty accounting ─▶ throttling ─▶ flusher ─▶ wbt gate ─▶ request slots ─▶ elevator ─▶ device
//! readers, fsync ────────────────────────────────────────▶ ┘
//! ```
//!
//! Times are [`floodwall_device::Nanos`], sizes bytes unless a name says pages (4 KiB), rates pages or bytes per second as the kernel keeps them.
//! Pure: no file, no clock, no environment, no thread; what is random comes from a seed.

pub mod elevator;
pub mod kernel;
pub mod limits;
pub mod request;
pub mod throttle;
pub mod wbt;
