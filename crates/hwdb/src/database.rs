//! `60-floodwall.hwdb`: written, read, searched, and said in a sentence.
//!
//! ```text
//! floodwall:block:name:MODEL:fwrev:REVISION:size:CLASS
//!  FLOODWALL_DRAIN_BPS=121000000
//!  FLOODWALL_SETTING=nr_requests=8,scheduler=bfq
//!  FLOODWALL_EVIDENCE=HASH+HASH,n=2,kernel=6.1.0..6.18.5,ram=16GiB,date=2026-11-28
//! ```
//!
//! The format is systemd's (hwdb(7)): a match begins its line, a property has one blank before it.
//! The only pattern is the `*` that stands for any firmware of a modelled disk.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use floodwall_model::units::{Rate, human_duration};
use floodwall_model::{Reading, Setting, printable};

use crate::alphabet::{check_model, check_revision, model_name, revision};
use crate::setting::parse_setting;
use crate::size_class::SizeClass;
use crate::submission::{DRAIN, SYNC, VICTIMS};

/// The entries that Floodwall ships.
pub const SHIPPED: &str = include_str!("../60-floodwall.hwdb");

/// What a key begins with.
const PREFIX: &str = "floodwall:block:name:";
/// Before a key's firmware and size class.
const FIRMWARE: &str = ":fwrev:";
const SIZE: &str = ":size:";
const ANY: &str = "*";
/// What the evidence of a modelled entry begins with.
pub(crate) const MODELLED: &str = "model:";
const DRAIN_BPS: &str = "FLOODWALL_DRAIN_BPS";
const SYNC_US: &str = "FLOODWALL_SYNC_US";
const SETTING: &str = "FLOODWALL_SETTING";
const EVIDENCE: &str = "FLOODWALL_EVIDENCE";
/// Floodwall writes no longer evidence.
const MOST_EVIDENCE: usize = 300;
/// More lines, or a larger file, is no list of disks.
const MOST_FILE: usize = 16 << 20;

const HEAD: &str = "# What machines found on disks of a model, as a first guess (docs/hwdb.md).
# Written by 'floodwall hwdb merge'. FLOODWALL_EVIDENCE=model:PRESET marks what a model of the disk
# says; nobody has measured that.
";

/// The values of a model of disks.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Vendor and model.
    pub model: String,
    /// The firmware's revision; `None` stands for any.
    pub firmware: Option<String>,
    /// The size class.
    pub size: SizeClass,
    /// Bytes a second that it drains while it is backlogged.
    pub drain_bytes_per_s: Option<f64>,
    /// Mean time of a sync call of a victim alone.
    pub sync_us: Option<f64>,
    /// The best setting by kind of victim ([`VICTIMS`]).
    pub settings: BTreeMap<String, Setting>,
    /// Hashes of the submissions, number of sources, kernels; or the preset.
    pub evidence: String,
}

/// The property of the setting for a kind of victim.
fn setting_property(victim: &str) -> String {
    match victim {
        "commit" => SETTING.to_owned(),
        other => format!("{SETTING}_{}", other.to_uppercase()),
    }
}

impl Entry {
    /// Whether a model of the disk says it, and no measurement.
    #[must_use]
    pub fn is_modelled(&self) -> bool {
        self.evidence.starts_with(MODELLED)
    }

    fn write(&self, out: &mut String) {
        let Self { model, size, .. } = self;
        let firmware = self.firmware.as_deref().unwrap_or(ANY);
        // Writing to a String does not fail.
        let _ = writeln!(out, "\n{PREFIX}{model}{FIRMWARE}{firmware}{SIZE}{size}");
        if let Some(rate) = self.drain_bytes_per_s {
            let _ = writeln!(out, " {DRAIN_BPS}={rate}");
        }
        if let Some(us) = self.sync_us {
            let _ = writeln!(out, " {SYNC_US}={us}");
        }
        for (victim, setting) in &self.settings {
            let _ = writeln!(out, " {}={setting}", setting_property(victim));
        }
        let _ = writeln!(out, " {EVIDENCE}={}", self.evidence);
    }

    /// From a match line.
    fn of_key(key: &str) -> Option<Self> {
        let (model, rest) = key.strip_prefix(PREFIX)?.split_once(FIRMWARE)?;
        let (firmware, size) = rest.split_once(SIZE)?;
        check_model(model).ok()?;
        let firmware = (firmware != ANY).then_some(firmware);
        firmware.map_or(Ok(()), check_revision).ok()?;
        Some(Self {
            model: model.to_owned(),
            firmware: firmware.map(str::to_owned),
            size: size.parse().ok()?,
            drain_bytes_per_s: None,
            sync_us: None,
            settings: BTreeMap::new(),
            evidence: String::new(),
        })
    }

    /// Takes a property in; `None` if its value can't be read. Other properties are passed over.
    fn take(&mut self, name: &str, value: &str) -> Option<()> {
        let number = |(least, most): (f64, f64)| {
            let number: f64 = value.parse().ok()?;
            (least..=most).contains(&number).then_some(number)
        };
        match name {
            DRAIN_BPS => self.drain_bytes_per_s = Some(number(DRAIN)?),
            SYNC_US => self.sync_us = Some(number(SYNC)?),
            EVIDENCE if value.len() > MOST_EVIDENCE => return None,
            EVIDENCE => self.evidence = printable::printable(value).into_owned(),
            name => {
                let is_it = |victim: &&&str| setting_property(victim) == name;
                if let Some(victim) = VICTIMS.iter().find(is_it) {
                    self.settings.insert((*victim).to_owned(), parse_setting(value).ok()?);
                }
            }
        }
        Some(())
    }

    /// `drains 121 MB/s; syncs in 8.30 ms; best for commit: nr_requests=8,scheduler=bfq`.
    fn findings(&self) -> String {
        let drain = self.drain_bytes_per_s.map(|rate| format!("drains {}", Rate(rate)));
        let sync = self.sync_us.and_then(|us| Duration::try_from_secs_f64(us / 1e6).ok());
        let sync = sync.map(|time| format!("syncs in {}", human_duration(time)));
        let settings = self.settings.iter().map(|(victim, s)| format!("best for {victim}: {s}"));
        drain.into_iter().chain(sync).chain(settings).collect::<Vec<_>>().join("; ")
    }

    /// The findings of others on this disk, in a sentence that begins with `name`. The sentence
    /// says if the entry is modelled. `None` without findings.
    #[must_use]
    pub fn sentence(&self, name: &str) -> Option<String> {
        let (model, found) = (&self.model, self.findings());
        if found.is_empty() {
            return None;
        }
        Some(match self.evidence.strip_prefix(MODELLED) {
            Some(model_of) => {
                let preset = model_of.split(',').next().unwrap_or_default();
                format!(
                    "{name}: others with this disk ({model}) found nothing yet; \
                     the model {preset} of it says: {found}"
                )
            }
            None => {
                let evidence = self.evidence.split_once(',').map(|(_, rest)| format!(" ({rest})"));
                let evidence = evidence.unwrap_or_default();
                format!("{name}: others with this disk ({model}) found: {found}{evidence}")
            }
        })
    }
}

/// Entries, one for each key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Database {
    entries: Vec<Entry>,
}

impl Database {
    pub(crate) fn new(mut entries: Vec<Entry>) -> Self {
        let key = |e: &Entry| (e.model.clone(), e.size, e.firmware.clone());
        entries.sort_by_key(key);
        Self { entries }
    }

    /// All entries: by model, size class, firmware.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = HEAD.to_owned();
        self.entries.iter().for_each(|entry| entry.write(&mut text));
        text
    }

    /// Reads a file. Matches and properties of others are passed over. An entry that has a value
    /// out of its range is left out, and its line is named in a message.
    #[must_use]
    pub fn read(text: &str) -> (Self, Vec<String>) {
        let mut problems = Vec::new();
        let mut entries = Vec::new();
        // The entries of the present record, and its first line that is wrong.
        let mut record: Vec<Entry> = Vec::new();
        let mut wrong: Option<usize> = None;
        let lines = text.lines().map(Some).chain([None]);
        for (number, line) in (1..).zip(lines) {
            let line = line.map(str::trim_end);
            match line {
                Some(line) if line.starts_with('#') => {}
                None | Some("") => {
                    let good = std::mem::take(&mut record);
                    match wrong.take() {
                        None => entries.extend(good),
                        Some(line) => {
                            problems.push(format!(
                                "line {line} is not understood; its entry is \
                                 not used"
                            ));
                        }
                    }
                }
                Some(line) => match line.strip_prefix(' ').map(|line| line.split_once('=')) {
                    Some(Some((name, value))) => {
                        let taken = record.iter_mut().all(|e| e.take(name, value).is_some());
                        wrong = wrong.or((!taken).then_some(number));
                    }
                    Some(None) => wrong = wrong.or((!record.is_empty()).then_some(number)),
                    None if line.starts_with(PREFIX) => match Entry::of_key(line) {
                        Some(entry) => record.push(entry),
                        None => wrong = wrong.or(Some(number)),
                    },
                    None => {}
                },
            }
        }
        (Self::new(entries), problems)
    }

    /// The entries of a machine's [`crate::INSTALLED`] file, and a line for each wrong one. The
    /// shipped entries take the place of a file that is absent, unreadable or too large.
    #[must_use]
    pub fn installed(file: &Reading<String>) -> (Self, Vec<String>) {
        match file {
            Reading::Value(text) if text.len() > MOST_FILE => Self::shipped_for("it is too large"),
            Reading::Value(text) => Self::read(text),
            Reading::Absent(_) => Self::read(SHIPPED),
            Reading::Unreadable(why) => Self::shipped_for(why),
        }
    }

    /// The shipped entries in place of a file, and the reason.
    fn shipped_for(why: &str) -> (Self, Vec<String>) {
        let (shipped, mut problems) = Self::read(SHIPPED);
        problems.push(format!("{why}; the shipped entries are used"));
        (shipped, problems)
    }

    /// The entry of a disk, by what the kernel tells of it: that of its firmware, else that of any.
    /// A firmware that is not known is empty.
    #[must_use]
    pub fn find(&self, model: &str, firmware: &str, size_bytes: u64) -> Option<&Entry> {
        let (model, size) = (model_name(model)?, SizeClass::of(size_bytes));
        let of = |wanted: Option<&str>| {
            self.entries
                .iter()
                .find(|e| e.model == model && e.size == size && e.firmware.as_deref() == wanted)
        };
        revision(firmware).and_then(|firmware| of(Some(&firmware))).or_else(|| of(None))
    }
}
