//! From the text to a device that can be built: defaults, and refusals with their reason.

use floodwall_model::Bytes;

use super::place::{Place, invalid};
use super::raw::*;
use super::{DeviceSpec, Fault, FaultKind, SpecError};
use crate::array::{ArrayParams, RaidLevel, ReadBalance};
use crate::controller::{CacheMode, ControllerParams};
use crate::fault::Disturbance;
use crate::link::LinkParams;
use crate::time::Nanos;

/// Members of an array, at most: as many as md takes with its first superblock format.
const MEMBERS_MAX: usize = 27;
impl RawSpec {
    pub(super) fn check(self) -> Result<DeviceSpec, SpecError> {
        if self.name.trim().is_empty() {
            return Err(invalid("name", "is empty; write a short name such as \"my-array\""));
        }
        let media = [
            self.disk.map(RawDisk::check),
            self.flash.map(RawFlash::check),
            self.cheap_flash.map(RawCheapFlash::check),
            self.cloud.map(RawCloud::check),
            self.null.map(RawNull::check),
        ];
        let mut media = media.into_iter().flatten();
        let one = "write exactly one of [disk], [flash], [cheap_flash], [cloud] and [null]";
        let medium =
            media.next().ok_or_else(|| invalid("medium", format!("is missing; {one}")))??;
        if media.next().is_some() {
            return Err(invalid("medium", format!("is given more than once; {one}")));
        }
        let array = self.array.map(RawArray::check).transpose()?;
        let mut spec = DeviceSpec {
            model: self.model.unwrap_or_else(|| self.name.clone()),
            name: self.name,
            description: self.description,
            source: self.source,
            default_size: self.default_size.0,
            medium,
            array,
            cache: None,
            link: self.link.map(RawLink::check).transpose()?,
            faults: Vec::new(),
        };
        let capacity = spec.capacity();
        if let Some(raw) = self.cache {
            spec.cache = Some(raw.check(&spec, capacity)?);
        }
        for (i, raw) in self.faults.into_iter().enumerate() {
            raw.check(&format!("fault {}", i + 1), &mut spec)?;
        }
        if spec.default_size.0 == 0 || spec.default_size > capacity {
            return Err(invalid(
                "default_size",
                format!(
                    "({}) must be above zero and within the capacity, {capacity}",
                    spec.default_size
                ),
            ));
        }
        Ok(spec)
    }
}

impl RawArray {
    fn check(mut self) -> Result<super::ArraySpec, SpecError> {
        let place = Place("array");
        let (level, name, least) = match self.level {
            RawLevel::Raid0 => (RaidLevel::Raid0, "RAID 0", 2),
            RawLevel::Raid1 => (RaidLevel::Raid1, "RAID 1", 2),
            RawLevel::Raid10 => (RaidLevel::Raid10, "RAID 10", 4),
            RawLevel::Raid5 => (RaidLevel::Raid5, "RAID 5", 3),
            RawLevel::Raid6 => (RaidLevel::Raid6, "RAID 6", 4),
        };
        let n = self.members;
        if level == RaidLevel::Raid10 && !n.is_multiple_of(2) {
            return place.err(format!(
                "RAID 10 of {n} is impossible: members are mirrored in pairs; use an even number"
            ));
        }
        if n < least || n > MEMBERS_MAX {
            return place
                .err(format!("{name} of {n} is impossible; use {least} to {MEMBERS_MAX} members"));
        }
        let chunk = place.size("chunk", self.chunk)?;
        if !chunk.is_multiple_of(4096) {
            return place.err(format!("chunk ({}) is not a multiple of 4 KiB", self.chunk.0));
        }
        self.failed.sort_unstable();
        self.failed.dedup();
        if let Some(m) = self.failed.iter().find(|m| **m >= n) {
            return place.err(format!("failed names member {m}; members are 0 to {}", n - 1));
        }
        let both = self.failed.windows(2).any(|w| w[0] / 2 == w[1] / 2);
        let lost = match level {
            RaidLevel::Raid10 => both,
            _ => self.failed.len() > level.spare_members(n),
        };
        if lost {
            return place.err(format!(
                "{name} has lost its data when members {:?} have failed",
                self.failed
            ));
        }
        Ok(super::ArraySpec {
            params: ArrayParams {
                level,
                chunk,
                read_balance: match self.read_balance {
                    None | Some(RawReadBalance::Closest) => ReadBalance::Closest,
                    Some(RawReadBalance::LeastQueued) => ReadBalance::LeastQueued,
                },
            },
            members: n,
            failed: self.failed,
        })
    }
}

impl RawCache {
    fn check(self, spec: &DeviceSpec, capacity: Bytes) -> Result<ControllerParams, SpecError> {
        let place = Place("cache");
        let size = place.size("size", self.size)?;
        if size > capacity.0 {
            return place.err(format!(
                "size ({}) is larger than the device behind it ({capacity})",
                self.size.0
            ));
        }
        let mode = match self.mode {
            RawMode::Protected => CacheMode::Protected,
            RawMode::Volatile => CacheMode::Volatile,
            RawMode::WriteThrough => CacheMode::WriteThrough,
        };
        if mode == CacheMode::Protected && spec.medium.has_volatile_cache() {
            return place.err(
                "is protected, but what stands behind it has a volatile cache and would lose what \
                 was destaged; switch that off (write_cache = \"0B\")",
            );
        }
        let (high, low) = (place.share("high", self.high)?, place.share("low", self.low)?);
        if low > high {
            return place.err(format!("low ({low}) is above high ({high})"));
        }
        let backing_rate = match self.backing_rate {
            Some(rate) => place.rate("backing_rate", rate)?,
            None => f64::INFINITY,
        };
        Ok(ControllerParams {
            size,
            copies: place.count("copies", self.copies.unwrap_or(1), 4)?,
            mode,
            battery_until: None,
            command: self.command.0,
            latency: self.latency.0,
            link_rate: place.rate("link_rate", self.link_rate)?,
            backing_rate,
            high,
            low,
            idle: self.idle.0,
            destage_depth: place.count("destage_depth", self.destage_depth, 4096)?,
            destage_max: place.size("destage_max", self.destage_max)?,
        })
    }
}

impl RawLink {
    fn check(self) -> Result<LinkParams, SpecError> {
        Ok(LinkParams {
            rate: Place("link").rate("rate", self.rate)?,
            round_trip: self.round_trip.0,
            server: self.server.0,
        })
    }
}

impl RawFault {
    fn check(self, place: &str, spec: &mut DeviceSpec) -> Result<(), SpecError> {
        use RawFaultKind as K;
        let err = |message: String| Err(invalid(place, message));
        let members = spec.array.as_ref().map_or(0, |a| a.members);
        if let Some(m) = self.member.filter(|m| *m >= members) {
            return err(match members {
                0 => format!("names member {m} of a device that is no array"),
                n => format!("names member {m}; members are 0 to {}", n - 1),
            });
        }
        for (given, key, kinds) in [
            (self.factor.is_some(), "factor", &[K::Slow][..]),
            (self.from.is_some(), "from", &[K::Slow, K::Battery]),
            (self.to.is_some(), "to", &[K::Slow]),
            (self.every.is_some(), "every", &[K::Stall]),
            (self.length.is_some(), "length", &[K::Stall]),
            (self.reads.is_some(), "reads", &[K::Errors]),
            (self.writes.is_some(), "writes", &[K::Errors]),
            (self.member.is_some(), "member", &[K::Slow, K::Stall, K::Errors]),
        ] {
            if given && !kinds.contains(&self.kind) {
                return err(format!("'{key}' means nothing to a fault of this kind"));
            }
        }
        let from = self.from.map_or(Nanos::ZERO, |t| t.0);
        let kind = match self.kind {
            K::Slow => {
                let factor = self.factor.unwrap_or(10.0);
                if !(1.0..=1e6).contains(&factor) {
                    return err(format!("factor = {factor} is out of range; write 1 to 1000000"));
                }
                let to = self.to.map_or(Nanos::MAX, |t| t.0);
                if to <= from {
                    return err("ends before it begins; make 'to' later than 'from'".into());
                }
                let factor_permille = (factor * 1000.0).round() as u64;
                FaultKind::Clock(Disturbance::Slow { factor_permille, from, to })
            }
            K::Stall => {
                let (Some(every), Some(length)) = (self.every, self.length) else {
                    return err("needs 'every' and 'length'".into());
                };
                if length.0 >= every.0 {
                    return err(format!(
                        "stands still for {} every {}: nothing would ever move",
                        length.0, every.0
                    ));
                }
                FaultKind::Clock(Disturbance::Stall { every: every.0, length: length.0 })
            }
            K::Errors => {
                let (reads, writes) = (self.reads.unwrap_or(0.0), self.writes.unwrap_or(0.0));
                if ![reads, writes].iter().all(|r| (0.0..=0.5).contains(r)) || reads + writes == 0.0
                {
                    return err("needs 'reads' or 'writes', a share above 0 and up to 0.5".into());
                }
                FaultKind::Errors { reads, writes }
            }
            K::Battery => match spec.cache.as_mut() {
                Some(cache) if cache.mode == CacheMode::Protected => {
                    cache.battery_until = Some(from);
                    return Ok(());
                }
                _ => return err("there is no protected cache whose battery could fail".into()),
            },
        };
        spec.faults.push(Fault { member: self.member, kind });
        Ok(())
    }
}
