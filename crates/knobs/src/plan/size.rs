//! Limits from bandwidth × delay: how much may wait is how fast it drains × how long one may wait
//! for it.
//!
//! ```text
//! drains (link or measured rate) ─┐
//! delays (background, hard) ──────┼→ hard_bytes, background_bytes, a share for each device
//! memory (page size, RAM, CPUs) ──┘  → what the kernel makes of them, what the defaults would cost
//! ```
//!
//! The rule was published in 2016 for an NFS client on 1 Gbit/s Ethernet. Its author counted the
//! link as 1024³ / 8 bytes a second, which is 1 Gibit/s: the flusher starts at 0.25 s of that rate
//! (33,554,432 bytes), and writers wait from 1.5 s (201,326,592 bytes). Here a link of 1 Gbit/s
//! carries 125 MB/s. Pure, but for [`Machine::read`].

use std::time::Duration;

use floodwall_host::SysRoot;
use floodwall_host::memory::read_memory;
use floodwall_host::platform::read_possible_cpus;
use floodwall_model::units::{UnitError, human_duration};
use floodwall_model::{Bytes, Rate};
use serde::Serialize;

use crate::plan::dirty_limit::FLUSHER_CHUNK_BYTES;

/// Something that drains dirty data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Drain {
    /// A device's name, or what the link is.
    pub name: String,
    /// Bytes a second.
    pub bytes_per_s: u64,
}

/// How long one may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// For what waits when the flusher starts.
    pub background: Duration,
    /// For what waits when writers are made to wait.
    pub hard: Duration,
}

/// The machine that the limits are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Size of a page.
    pub page_bytes: u64,
    /// Usable RAM, if it is known.
    pub ram_bytes: Option<u64>,
    /// CPUs that the kernel could have (/sys/devices/system/cpu/possible), if it is known.
    pub possible_cpus: Option<u64>,
}

impl Machine {
    /// This machine, or that of a captured tree.
    #[must_use]
    pub fn read(root: &SysRoot) -> Self {
        Self {
            page_bytes: root.page_bytes(),
            ram_bytes: read_memory(root).total_bytes.into_value(),
            possible_cpus: read_possible_cpus(root).into_value(),
        }
    }
}

/// Limits can't be worked out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Not a link's speed.
    #[error("'{0}' is not a link's speed: write bits a second, such as 1Gbit/s or 100Mbit/s")]
    NotALink(String),
    /// A number that can't be.
    #[error(transparent)]
    Unit(UnitError),
    /// A link's speed, but none that can be.
    #[error("'{0}' is out of range: a link's speed is 8bit/s or more")]
    LinkOutOfRange(String),
    /// Nothing drains.
    #[error("nothing to size for: give --link, --rate or --device")]
    NoDrain,
    /// A rate of zero.
    #[error("{0} drains nothing: a rate must be above zero")]
    NoRate(String),
    /// The delays the wrong way round.
    #[error(
        "the hard delay ({hard}) must be longer than the background delay ({background}): the \
         kernel would halve the background limit"
    )]
    Delays {
        /// Background delay.
        background: String,
        /// Hard delay.
        hard: String,
    },
    /// The flusher would begin with the first dirty page.
    #[error("what drains in {delay} is less than a page of {page}: give a longer --delay")]
    NoBackground {
        /// Background delay.
        delay: String,
        /// Size of a page.
        page: Bytes,
    },
    /// Too small for the kernel.
    #[error(
        "{0} is less than one of the flusher's chunks of 4 MiB, which would stop writers again and \
         again: give a longer delay"
    )]
    TooSmall(Bytes),
}

/// The limits, and what they come to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sizing {
    /// `vm.dirty_bytes`.
    pub hard_bytes: u64,
    /// `vm.dirty_background_bytes`.
    pub background_bytes: u64,
    /// The kernel's hard limit: whole pages.
    pub effective_hard_bytes: u64,
    /// The kernel's background limit: whole pages, below the hard one.
    pub effective_background_bytes: u64,
    /// Each device's share, where there are several.
    pub shares: Vec<Share>,
    /// The drain times of the kernel's defaults, if RAM is known.
    pub defaults: Vec<DefaultCost>,
    /// What to know, for people.
    pub notes: Vec<String>,
}

impl Sizing {
    /// The limits as people write settings: knobs and values.
    #[must_use]
    pub fn settings(&self) -> Vec<(String, String)> {
        let mut settings = vec![
            ("vm.dirty_background_bytes".to_owned(), format!("{}B", self.background_bytes)),
            ("vm.dirty_bytes".to_owned(), format!("{}B", self.hard_bytes)),
        ];
        for share in &self.shares {
            settings.push((
                format!("{}.bdi.max_ratio_fine", share.name),
                share.max_ratio_ppm.to_string(),
            ));
            settings.push((format!("{}.bdi.strict_limit", share.name), "1".to_owned()));
        }
        settings
    }
}

/// One device's share of the hard limit. It holds only under `bdi.strict_limit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Share {
    /// The device.
    pub name: String,
    /// `bdi.max_bytes`.
    pub max_bytes: u64,
    /// `bdi.max_ratio_fine`, parts per million.
    pub max_ratio_ppm: u64,
}

/// The drain times of the defaults (20 % hard, 10 % background) on one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DefaultCost {
    /// The device.
    pub name: String,
    /// 20 % of RAM: an upper bound, because the kernel counts free memory and page cache alone.
    pub hard_bytes: u64,
    /// How long that takes to drain, in seconds.
    pub drain_s: f64,
}

/// A link's speed in bytes a second: a gigabit is 10^9 bits, a gibibit 1024³.
///
/// # Errors
/// [`SizeError::NotALink`], [`SizeError::LinkOutOfRange`]; [`SizeError::Unit`] below zero.
pub fn parse_link(text: &str) -> Result<u64, SizeError> {
    let wrong = || SizeError::NotALink(text.to_owned());
    let Rate(bytes_per_s) = text.parse::<Rate>().map_err(|e| match e {
        negative @ UnitError::Negative { .. } => SizeError::Unit(negative),
        _ => wrong(),
    })?;
    if !text.trim().to_ascii_lowercase().ends_with("bit/s") {
        return Err(wrong());
    }
    if bytes_per_s >= 1.0 && bytes_per_s < u64::MAX as f64 {
        Ok(bytes_per_s.round() as u64)
    } else {
        Err(SizeError::LinkOutOfRange(text.to_owned()))
    }
}

/// Works the limits out.
///
/// With several devices the limit is the sum of their limits: the kernel divides it by how much
/// each writes back. Each device's part is also its share. Without the share, a slow device that
/// floods alone may fill the whole limit.
///
/// # Errors
/// [`SizeError`].
pub fn size(drains: &[Drain], delays: Delays, machine: Machine) -> Result<Sizing, SizeError> {
    if drains.is_empty() {
        return Err(SizeError::NoDrain);
    }
    if let Some(dead) = drains.iter().find(|drain| drain.bytes_per_s == 0) {
        return Err(SizeError::NoRate(dead.name.clone()));
    }
    if delays.background >= delays.hard {
        return Err(SizeError::Delays {
            background: human_duration(delays.background),
            hard: human_duration(delays.hard),
        });
    }
    let total = drains.iter().fold(0_u64, |sum, drain| sum.saturating_add(drain.bytes_per_s));
    let hard_bytes = times(total, delays.hard);
    let background_bytes = times(total, delays.background);
    if hard_bytes < FLUSHER_CHUNK_BYTES {
        return Err(SizeError::TooSmall(Bytes(hard_bytes)));
    }
    if background_bytes < machine.page_bytes {
        return Err(SizeError::NoBackground {
            delay: human_duration(delays.background),
            page: Bytes(machine.page_bytes),
        });
    }
    let pages = |bytes: u64| bytes.div_ceil(machine.page_bytes) * machine.page_bytes;
    let effective_hard_bytes = pages(hard_bytes);
    let mut effective_background_bytes = pages(background_bytes);
    if effective_background_bytes >= effective_hard_bytes {
        effective_background_bytes = effective_hard_bytes / 2;
    }
    let shares =
        if drains.len() > 1 { shares(drains, delays, effective_hard_bytes) } else { Vec::new() };
    let mut sizing = Sizing {
        hard_bytes,
        background_bytes,
        effective_hard_bytes,
        effective_background_bytes,
        shares,
        defaults: defaults(drains, machine),
        notes: Vec::new(),
    };
    sizing.notes = notes(&sizing, drains, machine);
    Ok(sizing)
}

fn shares(drains: &[Drain], delays: Delays, hard_bytes: u64) -> Vec<Share> {
    let share = |drain: &Drain| {
        let max_bytes = times(drain.bytes_per_s, delays.hard);
        let ppm = u128::from(max_bytes) * 1_000_000 / u128::from(hard_bytes.max(1));
        Share {
            name: drain.name.clone(),
            max_bytes,
            // At least a millionth: a share of zero would stop the device's writers.
            max_ratio_ppm: u64::try_from(ppm).unwrap_or(1_000_000).clamp(1, 1_000_000),
        }
    };
    drains.iter().map(share).collect()
}

fn defaults(drains: &[Drain], machine: Machine) -> Vec<DefaultCost> {
    let Some(ram_bytes) = machine.ram_bytes else { return Vec::new() };
    let hard_bytes = ram_bytes / 5;
    let cost = |drain: &Drain| DefaultCost {
        name: drain.name.clone(),
        hard_bytes,
        drain_s: hard_bytes as f64 / drain.bytes_per_s as f64,
    };
    drains.iter().map(cost).collect()
}

/// Bytes that pass in a time, rounded down; exact.
fn times(bytes_per_s: u64, delay: Duration) -> u64 {
    let bytes = u128::from(bytes_per_s) * delay.as_nanos() / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn notes(sizing: &Sizing, drains: &[Drain], machine: Machine) -> Vec<String> {
    let mut notes = Vec::new();
    let chunk = Bytes(FLUSHER_CHUNK_BYTES);
    if sizing.hard_bytes < 2 * FLUSHER_CHUNK_BYTES {
        notes.push(format!(
            "the hard limit of {} is less than two of the flusher's chunks of {chunk}: writers \
             will often stop",
            Bytes(sizing.hard_bytes)
        ));
    }
    if sizing.background_bytes < FLUSHER_CHUNK_BYTES {
        notes.push(format!(
            "the background limit of {} is less than one of the flusher's chunks of {chunk}: the \
             flusher never rests",
            Bytes(sizing.background_bytes)
        ));
    }
    for share in sizing.shares.iter().filter(|share| share.max_bytes < 2 * FLUSHER_CHUNK_BYTES) {
        notes.push(format!(
            "{}'s share of {} is less than two of the flusher's chunks of {chunk}: its writers \
             will often stop",
            share.name,
            Bytes(share.max_bytes)
        ));
    }
    if let Some(cpus) = machine.possible_cpus {
        let error = counter_error(cpus) * machine.page_bytes;
        if sizing.hard_bytes < 4 * error {
            notes.push(format!(
                "with {cpus} CPUs the kernel's counters are off by up to {} a device: limits near \
                 that are not kept",
                Bytes(error)
            ));
        }
    }
    if let Some(ram_bytes) = machine.ram_bytes
        && sizing.hard_bytes > ram_bytes / 5
    {
        notes.push(format!(
            "{} is more than the kernel's default, 20 % of {}: {} drains it quickly as it is",
            Bytes(sizing.hard_bytes),
            Bytes(ram_bytes),
            if drains.len() > 1 { "this set of devices" } else { "this device" }
        ));
    }
    notes
}

/// How far a per-CPU counter of a device may be off, in pages (mm/backing-dev.c `wb_stat_error`:
/// CPUs × 8 × (1 + log2 CPUs)).
fn counter_error(cpus: u64) -> u64 {
    cpus.max(1) * 8 * (1 + u64::from(cpus.max(1).ilog2()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The published delays: 250 ms before the flusher starts, 1.5 s before writers wait.
    const DELAYS: Delays =
        Delays { background: Duration::from_millis(250), hard: Duration::from_millis(1500) };

    const MACHINE: Machine =
        Machine { page_bytes: 4096, ram_bytes: Some(64 << 30), possible_cpus: Some(8) };

    fn drain(name: &str, bytes_per_s: u64) -> Drain {
        Drain { name: name.to_owned(), bytes_per_s }
    }

    #[test]
    fn the_published_result_is_exact() {
        let link = parse_link("1Gibit/s").unwrap();
        assert_eq!(link, 1024 * 1024 * 1024 / 8);
        let sizing = size(&[drain("link", link)], DELAYS, MACHINE).unwrap();
        assert_eq!((sizing.hard_bytes, sizing.background_bytes), (201_326_592, 33_554_432));
        assert_eq!(
            (sizing.effective_hard_bytes, sizing.effective_background_bytes),
            (201_326_592, 33_554_432)
        );
        assert!(sizing.notes.is_empty() && sizing.shares.is_empty(), "{sizing:?}");
    }

    #[test]
    fn links_are_bits_and_nothing_else() {
        assert_eq!(parse_link("1Gbit/s"), Ok(125_000_000));
        assert_eq!(parse_link("100Mbit/s"), Ok(12_500_000));
        assert_eq!(parse_link("8kbit/s"), Ok(1000));
        assert_eq!(parse_link("8Kibit/s"), Ok(1024));
        assert_eq!(parse_link("8bit/s"), Ok(1));
        for text in ["1Gbit", "66MB/s", "fast", ""] {
            assert_eq!(parse_link(text), Err(SizeError::NotALink(text.to_owned())));
        }
        assert_eq!(parse_link("0Gbit/s"), Err(SizeError::LinkOutOfRange("0Gbit/s".into())));
        assert_eq!(
            parse_link("-1Gbit/s").unwrap_err().to_string(),
            "'-1Gbit/s' is negative; no rate is below zero"
        );
    }

    #[test]
    fn defaults_are_told_as_seconds_to_drain() {
        let sizing = size(&[drain("sda", 66_000_000)], DELAYS, MACHINE).unwrap();
        let cost = &sizing.defaults[0];
        assert_eq!(cost.hard_bytes, (64 << 30) / 5);
        assert!((cost.drain_s - 208.24).abs() < 0.01, "{}", cost.drain_s);
    }

    #[test]
    fn several_devices_share_the_sum_of_their_limits() {
        let drains = [drain("fast", 900_000_000), drain("slow", 100_000_000)];
        let sizing = size(&drains, DELAYS, MACHINE).unwrap();
        assert_eq!(sizing.hard_bytes, 1_500_000_000);
        assert_eq!(sizing.shares[1].max_bytes, 150_000_000);
        // 10 % of the limit that the kernel uses, which is a part of a page larger.
        assert_eq!(sizing.shares[1].max_ratio_ppm, 99_999);
    }

    #[test]
    fn the_kernels_floors_are_told_or_refused() {
        let told = |bytes_per_s: u64| {
            size(&[drain("usb", bytes_per_s)], DELAYS, MACHINE).map(|s| s.notes.join("\n"))
        };
        insta::assert_snapshot!(told(4_000_000).unwrap(), @"
        the hard limit of 6 MB is less than two of the flusher's chunks of 4 MiB: writers will \
        often stop
        the background limit of 1 MB is less than one of the flusher's chunks of 4 MiB: the \
        flusher never rests
        ");
        insta::assert_snapshot!(told(1_000_000).unwrap_err(), @"1500 kB is less than one of the \
            flusher's chunks of 4 MiB, which would stop writers again and again: give a longer \
            delay");
        let many = Machine { possible_cpus: Some(128), ..MACHINE };
        let sizing = size(&[drain("sda", 40_000_000)], DELAYS, many).unwrap();
        insta::assert_snapshot!(sizing.notes.join("\n"), @"with 128 CPUs the kernel's counters are \
            off by up to 32 MiB a device: limits near that are not kept");
    }

    #[test]
    fn senseless_questions_are_refused() {
        assert_eq!(size(&[], DELAYS, MACHINE), Err(SizeError::NoDrain));
        assert!(matches!(size(&[drain("sda", 0)], DELAYS, MACHINE), Err(SizeError::NoRate(_))));
        let turned = Delays { background: DELAYS.hard, hard: DELAYS.background };
        insta::assert_snapshot!(size(&[drain("sda", 1 << 30)], turned, MACHINE).unwrap_err(), @"\
            the hard delay (250 ms) must be longer than the background delay (1.50 s): the kernel \
            would halve the background limit");
        let at_once = Delays { background: Duration::ZERO, ..DELAYS };
        insta::assert_snapshot!(size(&[drain("sda", 1 << 30)], at_once, MACHINE).unwrap_err(), @"\
            what drains in 0 s is less than a page of 4 KiB: give a longer --delay");
    }

    proptest! {
        #[test]
        fn limits_are_in_order_and_shares_fit(
            rates in proptest::collection::vec(1_u64..20_000_000_000, 1..6)
        ) {
            let drains: Vec<Drain> = rates.iter().map(|rate| drain("x", *rate)).collect();
            if let Ok(sizing) = size(&drains, DELAYS, MACHINE) {
                prop_assert!(sizing.effective_background_bytes < sizing.effective_hard_bytes);
                prop_assert!(sizing.hard_bytes >= FLUSHER_CHUNK_BYTES);
                let mut ratios = sizing.shares.iter().map(|share| share.max_ratio_ppm);
                prop_assert!(ratios.all(|ppm| (1..=1_000_000).contains(&ppm)));
                let sum: u64 = sizing.shares.iter().map(|share| share.max_bytes).sum();
                prop_assert!(sum <= sizing.hard_bytes);
            }
        }
    }
}
