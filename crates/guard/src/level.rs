//! How far the levers are pulled, as steps from the administrator's settings, and as text.
//!
//! ```text
//! elevator      0: the administrator's   1 … 4: bfq, mq-deadline, kyber, none
//! depth         0: the administrator's   1: 32 requests   2: 16   3: 8   4: 4
//! size          0: the administrator's   1: 512 KiB a request   2: 256   3: 128   4: 64   5: 32
//! throttling    the administrator's, or off
//! priority      under bfq the threads of victims that commit are raised, or are not
//! limit level   0: the administrator's   1: drain rate × 0.5 s, strict, for this device alone
//!                                        2: half of that …   down to 16 MiB ([`crate::limit`])
//! ```

use std::fmt;
use std::str::FromStr;

/// Elevators by their level, from 1 on. One that a device lacks is refused once and not tried
/// again.
pub(crate) const ELEVATORS: [&str; 4] = ["bfq", "mq-deadline", "kyber", "none"];
/// Requests of the depths from 1 on. 4 is the kernel's least.
pub(crate) const DEPTH: [u32; 4] = [32, 16, 8, 4];
/// KiB a request of the sizes from 1 on.
pub(crate) const SIZE: [u32; 5] = [512, 256, 128, 64, 32];
pub(crate) const SHALLOWEST: u8 = DEPTH.len() as u8;
pub(crate) const SMALLEST: u8 = SIZE.len() as u8;

/// How far the levers are pulled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level {
    /// The elevator; 0: the administrator's.
    pub elevator: u8,
    /// The step of the number of requests; 0: the administrator's.
    pub depth: u8,
    /// The step of the size of requests; 0: the administrator's.
    pub size: u8,
    /// Whether writeback throttling is off; else as the administrator has it.
    pub wbt_off: bool,
    /// Whether victims keep their I/O priority although the elevator would heed a higher one.
    pub unraised: bool,
    /// The step of the limits; 0: the administrator's.
    pub limit: u32,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elevator = elevator_name(self.elevator).unwrap_or("own elevator");
        f.write_str(elevator)?;
        if let Some(requests) = self.requests() {
            write!(f, ", {requests} requests")?;
        }
        if let Some(kib) = self.kib() {
            write!(f, ", {kib} KiB")?;
        }
        if self.wbt_off {
            f.write_str(", no wbt")?;
        }
        if self.unraised {
            f.write_str(", not raised")?;
        }
        if self.limit > 0 {
            write!(f, ", limit {}", self.limit)?;
        }
        Ok(())
    }
}

impl FromStr for Level {
    type Err = String;

    /// The inverse of its text.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(", ");
        let elevator = match parts.next().unwrap_or_default() {
            "own elevator" => 0,
            name => elevator_level(name),
        };
        let mut level = Self { elevator, ..Self::default() };
        let step = |ours: &[u32], number: &str| {
            let number: Option<u32> = number.parse().ok();
            ours.iter().position(|n| Some(*n) == number).map_or(0, |i| i as u8 + 1)
        };
        for part in parts {
            if let Some(requests) = part.strip_suffix(" requests") {
                level.depth = step(&DEPTH, requests);
            } else if let Some(kib) = part.strip_suffix(" KiB") {
                level.size = step(&SIZE, kib);
            } else if let Some(limit) = part.strip_prefix("limit ") {
                level.limit = limit.parse().unwrap_or(0);
            }
            level.wbt_off |= part == "no wbt";
            level.unraised |= part == "not raised";
        }
        // A part that means nothing here is missing in the text of the level.
        (level.to_string() == text).then_some(level).ok_or_else(|| format!("'{text}' is no level"))
    }
}

/// The elevator of a level; `None`: the administrator's.
pub(crate) fn elevator_name(level: u8) -> Option<&'static str> {
    usize::from(level).checked_sub(1).and_then(|i| ELEVATORS.get(i).copied())
}

/// The level of an elevator; 0 if it is not in [`ELEVATORS`].
pub(crate) fn elevator_level(name: &str) -> u8 {
    ELEVATORS.iter().position(|ours| *ours == name).map_or(0, |i| i as u8 + 1)
}

impl Level {
    /// Whether every lever is the administrator's.
    #[must_use]
    pub fn is_free(self) -> bool {
        self == Self::default()
    }

    /// How far the queue is shortened: the steps of the number and of the size of requests
    /// together; 0: as the administrator has it.
    #[must_use]
    pub fn queue(self) -> u32 {
        u32::from(self.depth) + u32::from(self.size)
    }

    /// The knobs that it sets.
    pub(crate) fn knobs(self) -> impl Iterator<Item = &'static str> {
        let all = [
            (self.elevator > 0, "scheduler"),
            (self.depth > 0, "nr_requests"),
            (self.size > 0, "max_sectors_kb"),
            (self.wbt_off, "wbt_lat_usec"),
            (self.limit > 0, "bdi.max_ratio_fine"),
            (self.limit > 0, "bdi.strict_limit"),
        ];
        all.into_iter().filter(|(is_set, _)| *is_set).map(|(_, knob)| knob)
    }

    /// Whether the queue is as short as it gets.
    pub(crate) fn has_shortest_queue(self) -> bool {
        self.depth == SHALLOWEST && self.size == SMALLEST
    }

    pub(crate) fn requests(self) -> Option<u32> {
        usize::from(self.depth).checked_sub(1).and_then(|i| DEPTH.get(i).copied())
    }

    pub(crate) fn kib(self) -> Option<u32> {
        usize::from(self.size).checked_sub(1).and_then(|i| SIZE.get(i).copied())
    }

    /// Half of the way back for limits, all of it for queue and elevator. A queue has to run dry
    /// for each change, and a short queue does so soon.
    pub(crate) fn half(self) -> Self {
        Self { limit: self.limit / 2, ..Self::default() }
    }
}
