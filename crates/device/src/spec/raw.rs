//! A device file as written. Every key is here; what each means is documented at the parameters
//! that it becomes.

use floodwall_model::{Bytes, Rate};
use serde::Deserialize;

use super::units::{PerSecond, Rpm, Text};
use crate::time::Nanos;

type Size = Text<Bytes>;
type Speed = Text<Rate>;
type Time = Text<Nanos>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSpec {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) source: Option<String>,
    pub(super) model: Option<String>,
    pub(super) default_size: Size,
    pub(super) disk: Option<RawDisk>,
    pub(super) flash: Option<RawFlash>,
    pub(super) cheap_flash: Option<RawCheapFlash>,
    pub(super) cloud: Option<RawCloud>,
    pub(super) null: Option<RawNull>,
    pub(super) array: Option<RawArray>,
    pub(super) cache: Option<RawCache>,
    pub(super) link: Option<RawLink>,
    #[serde(default, rename = "fault")]
    pub(super) faults: Vec<RawFault>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDisk {
    pub(super) capacity: Size,
    pub(super) speed: Text<Rpm>,
    pub(super) outer_rate: Speed,
    pub(super) inner_rate: Speed,
    pub(super) heads: u32,
    pub(super) head_switch: Time,
    pub(super) track_to_track: Time,
    pub(super) average_seek: Time,
    pub(super) full_stroke: Time,
    pub(super) write_settle: Time,
    pub(super) command: Time,
    pub(super) link_rate: Speed,
    pub(super) queue_depth: u32,
    pub(super) age_limit: Option<Time>,
    pub(super) read_ahead: Size,
    pub(super) segments: Option<u32>,
    pub(super) write_cache: Size,
    pub(super) shingles: Option<RawShingles>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawShingles {
    pub(super) band: Size,
    pub(super) media_cache: Size,
    pub(super) map_entries: u64,
    pub(super) idle: Time,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFlash {
    pub(super) capacity: Size,
    pub(super) read_latency: Time,
    pub(super) write_latency: Time,
    pub(super) command: Time,
    pub(super) link_rate: Speed,
    pub(super) channels: u32,
    pub(super) dies_per_channel: u32,
    pub(super) page: Size,
    pub(super) planes: u32,
    pub(super) read: Time,
    pub(super) program: Time,
    pub(super) slc_program: Option<Time>,
    pub(super) slc_size: Option<Size>,
    pub(super) block: Size,
    pub(super) erase: Time,
    pub(super) suspend: Option<Time>,
    pub(super) buffer: Size,
    pub(super) power_loss_protection: bool,
    pub(super) spare: f64,
    pub(super) filled: f64,
    pub(super) worn: bool,
    pub(super) gc_burst: Option<Time>,
    pub(super) idle: Option<Time>,
    pub(super) stall_every: Option<Size>,
    pub(super) stall: Option<Time>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCheapFlash {
    pub(super) capacity: Size,
    pub(super) read_latency: Time,
    pub(super) write_latency: Time,
    pub(super) read_rate: Speed,
    pub(super) write_rate: Speed,
    pub(super) copy_rate: Speed,
    pub(super) erase_block: Size,
    pub(super) erase: Time,
    pub(super) open_blocks: u32,
    pub(super) stall_every: Option<Size>,
    pub(super) stall: Option<Time>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCloud {
    pub(super) capacity: Size,
    pub(super) iops: Text<PerSecond>,
    pub(super) iops_burst: f64,
    pub(super) credits: Option<RawCredits>,
    pub(super) rate: Speed,
    pub(super) rate_burst: Size,
    pub(super) io_size: Size,
    pub(super) median_latency: Time,
    pub(super) latency_sigma: f64,
    pub(super) latency_floor: Time,
    pub(super) link_rate: Speed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCredits {
    pub(super) base: Text<PerSecond>,
    pub(super) most: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawNull {
    pub(super) capacity: Size,
    pub(super) latency: Time,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawLevel {
    Raid0,
    Raid1,
    Raid10,
    Raid5,
    Raid6,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RawReadBalance {
    Closest,
    LeastQueued,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawArray {
    pub(super) level: RawLevel,
    pub(super) members: usize,
    pub(super) chunk: Size,
    pub(super) read_balance: Option<RawReadBalance>,
    #[serde(default)]
    pub(super) failed: Vec<usize>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RawMode {
    Protected,
    Volatile,
    WriteThrough,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCache {
    pub(super) size: Size,
    pub(super) copies: Option<u32>,
    pub(super) mode: RawMode,
    pub(super) command: Time,
    pub(super) latency: Time,
    pub(super) link_rate: Speed,
    pub(super) backing_rate: Option<Speed>,
    pub(super) high: f64,
    pub(super) low: f64,
    pub(super) idle: Time,
    pub(super) destage_depth: u32,
    pub(super) destage_max: Size,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLink {
    pub(super) rate: Speed,
    pub(super) round_trip: Time,
    pub(super) server: Time,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawFaultKind {
    Slow,
    Stall,
    Errors,
    Battery,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFault {
    pub(super) kind: RawFaultKind,
    pub(super) member: Option<usize>,
    pub(super) factor: Option<f64>,
    pub(super) from: Option<Time>,
    pub(super) to: Option<Time>,
    pub(super) every: Option<Time>,
    pub(super) length: Option<Time>,
    pub(super) reads: Option<f64>,
    pub(super) writes: Option<f64>,
}
