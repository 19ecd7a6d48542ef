//! A submission: what one machine measured of one disk, without a word that names its owner.
//!
//! Every field is an allowed one, and nothing else is read: no comment, no host's or user's name,
//! no path, no serial number.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::alphabet::{check_filesystem, check_kernel, check_model, check_revision};
use crate::products::product;
use crate::refused::{MOST_BYTES, Refused};
use crate::setting::parse_setting;
use crate::size_class::SizeClass;

/// The name of the schema.
pub const SCHEMA: &str = "floodwall/device-result/1";
/// The kinds of victims, as scenarios name them.
pub const VICTIMS: [&str; 6] = ["commit", "wal", "journal", "read", "scan", "mixed"];

/// Drain rates of devices that exist, in bytes per second: 100 kB/s to 100 GB/s. A rate in MB/s is
/// below.
pub(crate) const DRAIN: (f64, f64) = (1e5, 1e11);
/// Times of a sync call, in microseconds: 1 µs to 100 s.
pub(crate) const SYNC: (f64, f64) = (1.0, 1e8);
/// Shares kept. Beside a flood a victim may get a little more than alone.
const KEPT: (f64, f64) = (0.0, 10.0);
/// RAM in GiB.
const RAM: (u32, u32) = (1, 64 << 10);
/// The day before which nothing can have been measured.
const FIRST_DAY: Date = Date::constant(2026, 1, 1);
/// More rounds than a run has.
const MOST_ROUNDS: u32 = 10_000;

/// A figure with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The figure.
    pub value: f64,
    /// Lower end; `None` of one round, which has no interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Rounds behind it.
    pub rounds: u32,
}

impl Figure {
    pub(crate) fn ends(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }

    fn check(&self, field: &'static str, (least, most): (f64, f64)) -> Result<(), Refused> {
        let refused = |why: &str| Err(Refused::field(field, &self.value.to_string(), why));
        // No range contains NaN.
        let is_in_range = |value: f64| (least..=most).contains(&value);
        match (self.low, self.high) {
            _ if !is_in_range(self.value) => {
                refused(&format!("it is out of range: {least:e} to {most:e}"))
            }
            (None, None) if self.rounds == 1 => Ok(()),
            (Some(low), Some(high)) if (2..=MOST_ROUNDS).contains(&self.rounds) => {
                // The upper end of a wide interval may be far away, but it is a number.
                if low >= 0.0 && low <= self.value && self.value <= high && high.is_finite() {
                    Ok(())
                } else {
                    refused("its interval does not hold it")
                }
            }
            _ => refused("one round has no interval, and two rounds or more have one"),
        }
    }
}

impl From<floodwall_stats::estimate::Estimate> for Figure {
    fn from(estimate: floodwall_stats::estimate::Estimate) -> Self {
        let floodwall_stats::estimate::Estimate { value, low, high, rounds } = estimate;
        Self { value, low, high, rounds }
    }
}

/// The best setting that a search found for one kind of victim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Best {
    /// The kind, one of [`VICTIMS`].
    pub victim: String,
    /// See [`parse_setting`].
    pub setting: String,
    /// The share of its rate alone that the victim kept.
    pub victim_kept: Figure,
    /// The share of its rate alone that the flood kept.
    pub flood_kept: Figure,
}

/// A result of one machine for one disk, as `report --submit` writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// [`SCHEMA`].
    pub schema: String,
    /// A name of the machine that wrote the submission ([`crate::source_of`]). Results of one
    /// source, and results without a source, confirm nothing of each other.
    pub source: Option<String>,
    /// The preset that stood for the disk; `None` if a disk was measured.
    pub modelled_by: Option<String>,
    /// Vendor and model.
    pub model: String,
    /// The firmware's revision; `None` of a model.
    pub firmware: Option<String>,
    /// See [`SizeClass`].
    pub size_class: String,
    /// The numbers of the kernel's release.
    pub kernel: String,
    /// RAM, rounded up.
    pub ram_gib: u32,
    /// The filesystem's type.
    pub filesystem: String,
    /// The day.
    pub date: String,
    /// The rate at which the disk completed writeback while it was backlogged.
    pub drain_bytes_per_s: Option<Figure>,
    /// Mean time of a sync call of the victim alone: the disk's flush, and what the filesystem
    /// writes before it.
    pub sync_us: Option<Figure>,
    /// The best setting.
    pub best: Option<Best>,
}

impl Submission {
    /// Reads a submission.
    ///
    /// # Errors
    /// [`Refused`], with the reason.
    pub fn read(bytes: &[u8], today: Date) -> Result<Self, Refused> {
        if bytes.len() > MOST_BYTES {
            return Err(Refused::Size);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| Refused::Size)?;
        let submission: Self =
            serde_json::from_str(text).map_err(|e| Refused::Json(e.to_string()))?;
        submission.check(today)?;
        Ok(submission)
    }

    /// As it is written into a file.
    #[must_use]
    pub fn to_text(&self) -> String {
        // Numbers and texts can always be written.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Its size class.
    ///
    /// # Errors
    /// [`Refused`] if there is no such class.
    pub fn size(&self) -> Result<SizeClass, Refused> {
        self.size_class.parse()
    }

    /// Refuses values that no machine measures and texts that do more than name something.
    ///
    /// # Errors
    /// [`Refused`], with the first field that is wrong.
    pub fn check(&self, today: Date) -> Result<(), Refused> {
        if self.schema != SCHEMA {
            let why = format!("this program reads {SCHEMA}");
            return Err(Refused::field("schema", &self.schema, &why));
        }
        if let Some(source) = &self.source {
            let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
            if source.len() != 16 || !source.bytes().all(is_digit) {
                return Err(Refused::field("source", source, "it has 16 hexadecimal digits"));
            }
        }
        check_model(&self.model)?;
        let size = self.size()?;
        match (&self.modelled_by, &self.firmware) {
            (None, Some(firmware)) => check_revision(firmware)?,
            (None, None) => {
                return Err(Refused::field("firmware", "null", "a measured disk has one"));
            }
            (Some(preset), None) => {
                let known = product(preset);
                if known.is_none_or(|it| it.model != self.model || it.size() != size) {
                    return Err(Refused::field(
                        "modelled_by",
                        preset,
                        "no preset of that name stands for that model",
                    ));
                }
            }
            (Some(_), Some(firmware)) => {
                return Err(Refused::field("firmware", firmware, "a model has none"));
            }
        }
        check_kernel(&self.kernel)?;
        check_filesystem(&self.filesystem)?;
        if !(RAM.0..=RAM.1).contains(&self.ram_gib) {
            let text = self.ram_gib.to_string();
            return Err(Refused::field("ram_gib", &text, "it is out of range: 1 to 65536"));
        }
        self.check_date(today)?;
        if let Some(drain) = &self.drain_bytes_per_s {
            drain.check("drain_bytes_per_s", DRAIN)?;
        }
        if let Some(sync) = &self.sync_us {
            sync.check("sync_us", SYNC)?;
        }
        match &self.best {
            Some(best) => best.check()?,
            None if self.drain_bytes_per_s.is_none() && self.sync_us.is_none() => {
                let why = "a submission has it, sync_us or best";
                return Err(Refused::field("drain_bytes_per_s", "null", why));
            }
            None => {}
        }
        Ok(())
    }

    fn check_date(&self, today: Date) -> Result<(), Refused> {
        let refused = |why| Refused::field("date", &self.date, why);
        let date: Date = self.date.parse().map_err(|_| refused("write it as 2026-11-28"))?;
        // Another time zone may be a day ahead.
        let last = today.tomorrow().unwrap_or(today);
        if date.to_string() != self.date || date < FIRST_DAY || date > last {
            return Err(refused("it is no day on which this could be measured"));
        }
        Ok(())
    }
}

impl Best {
    fn check(&self) -> Result<(), Refused> {
        if !VICTIMS.contains(&self.victim.as_str()) {
            return Err(Refused::field("victim", &self.victim, "there is no such kind"));
        }
        self.victim_kept.check("victim_kept", KEPT)?;
        self.flood_kept.check("flood_kept", KEPT)?;
        parse_setting(&self.setting).map(drop)
    }
}
