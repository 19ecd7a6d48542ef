//! From the text to a device that can be built: defaults, and refusals with their reason.

use floodwall_model::{Bytes, Rate};

use super::raw::*;
use super::units::Text;
use super::{DeviceSpec, Fault, FaultKind, Medium, SpecError};
use crate::array::{ArrayParams, RaidLevel, ReadBalance};
use crate::cheap::CheapFlashParams;
use crate::cloud::CloudParams;
use crate::controller::{CacheMode, ControllerParams};
use crate::disk::geometry::seek_factors;
use crate::disk::{DiskMechanics, DiskParams, DiskShingles};
use crate::fault::Disturbance;
use crate::flash::FlashParams;
use crate::link::LinkParams;
use crate::time::Nanos;

/// A command may be passed over for this long when a file does not say. A full queue of 32 takes
/// 0.6 s in order of arrival. With a limit near that, a busy disk would fall back to that order and
/// stay there.
const AGE_LIMIT: Nanos = Nanos::from_secs(2);
/// Members of an array, at most: as many as md takes with its first superblock format.
const MEMBERS_MAX: usize = 27;
/// Anything larger is a slip of the unit: no drive is sold with more.
const CAPACITY_MAX: u64 = 1 << 50;

fn invalid(place: &str, message: impl Into<String>) -> SpecError {
    SpecError::Invalid { place: place.into(), message: message.into() }
}

/// Reports faults of one table.
struct Place(&'static str);

impl Place {
    fn err<T>(&self, message: impl Into<String>) -> Result<T, SpecError> {
        Err(invalid(self.0, message))
    }

    fn rate(&self, key: &str, rate: Text<Rate>) -> Result<f64, SpecError> {
        match rate.0.0 {
            r if r.is_finite() && r > 0.0 => Ok(r),
            _ => self.err(format!(
                "{key} is zero: nothing would ever be transferred; write a rate such as \"125MB/s\""
            )),
        }
    }

    fn size(&self, key: &str, size: Text<Bytes>) -> Result<u64, SpecError> {
        match size.0.0 {
            0 => self.err(format!("{key} is zero; write a size such as \"1MiB\"")),
            n => Ok(n),
        }
    }

    fn capacity(&self, size: Text<Bytes>) -> Result<u64, SpecError> {
        let bytes = self.size("capacity", size)?;
        if bytes < 1 << 20 {
            return self.err(format!("capacity ({}) is below 1 MiB", size.0));
        }
        if bytes > CAPACITY_MAX {
            return self.err(format!("capacity ({}) is above 1 PiB", size.0));
        }
        Ok(bytes)
    }

    fn time(&self, key: &str, time: Text<Nanos>) -> Result<Nanos, SpecError> {
        match time.0 {
            Nanos::ZERO => self.err(format!("{key} is zero; write a time such as \"1ms\"")),
            t => Ok(t),
        }
    }

    fn count(&self, key: &str, n: u32, most: u32) -> Result<u32, SpecError> {
        match n {
            0 => self.err(format!("{key} = 0: nothing could be done; write at least 1")),
            n if n > most => self.err(format!("{key} = {n} is more than {most}")),
            n => Ok(n),
        }
    }

    fn share(&self, key: &str, share: f64) -> Result<f64, SpecError> {
        if (0.0..=1.0).contains(&share) {
            return Ok(share);
        }
        self.err(format!("{key} = {share} is not a share; write a number from 0 to 1"))
    }

    /// Both keys of a pause or neither.
    fn stall(
        &self,
        every: Option<Text<Bytes>>,
        length: Option<Text<Nanos>>,
    ) -> Result<(u64, Nanos), SpecError> {
        match (every, length) {
            (None, None) => Ok((0, Nanos::ZERO)),
            (Some(every), Some(length)) => {
                Ok((self.size("stall_every", every)?, self.time("stall", length)?))
            }
            _ => self.err("stall_every and stall belong together; give both or neither"),
        }
    }
}

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

impl RawDisk {
    fn check(self) -> Result<Medium, SpecError> {
        let place = Place("disk");
        let rpm = self.speed.0.0;
        if !(1_000.0..=30_000.0).contains(&rpm) {
            return place.err(format!("speed ({rpm}rpm) is no disk's; write 1000rpm to 30000rpm"));
        }
        let mechanics = DiskMechanics {
            capacity: place.capacity(self.capacity)?,
            revolution: Nanos::from_secs_f64(60.0 / rpm),
            outer_rate: place.rate("outer_rate", self.outer_rate)?,
            inner_rate: place.rate("inner_rate", self.inner_rate)?,
            heads: place.count("heads", self.heads, 32)?,
            head_switch: place.time("head_switch", self.head_switch)?,
            track_to_track: place.time("track_to_track", self.track_to_track)?,
            average_seek: place.time("average_seek", self.average_seek)?,
            full_stroke: place.time("full_stroke", self.full_stroke)?,
            write_settle: self.write_settle.0,
        };
        if mechanics.inner_rate > mechanics.outer_rate {
            return place.err(format!(
                "inner_rate ({}) is above outer_rate ({}): inner tracks are shorter",
                self.inner_rate.0, self.outer_rate.0
            ));
        }
        if mechanics.head_switch >= mechanics.revolution {
            return place.err(format!(
                "head_switch ({}) takes a whole turn or more",
                mechanics.head_switch
            ));
        }
        if seek_factors(&mechanics).is_none() {
            return place.err(format!(
                "no rising seek curve goes from {} (track_to_track) through {} (average_seek) to \
                 {} (full_stroke); \
                 an average is usually a third to a half of the full stroke",
                mechanics.track_to_track, mechanics.average_seek, mechanics.full_stroke
            ));
        }
        let write_cache = self.write_cache.0.0;
        if write_cache > mechanics.capacity {
            return place.err("write_cache is larger than the disk");
        }
        let shingles = self.shingles.map(|s| s.check(mechanics.capacity)).transpose()?;
        Ok(Medium::Disk(DiskParams {
            mechanics,
            command: self.command.0,
            link_rate: place.rate("link_rate", self.link_rate)?,
            queue_depth: place.count("queue_depth", self.queue_depth, 256)?,
            age_limit: self.age_limit.map_or(AGE_LIMIT, |t| t.0),
            read_ahead: self.read_ahead.0.0,
            segments: self.segments.unwrap_or(16),
            write_cache,
            shingles,
        }))
    }
}

impl RawShingles {
    fn check(self, capacity: u64) -> Result<DiskShingles, SpecError> {
        let place = Place("disk.shingles");
        let band = place.size("band", self.band)?;
        let media_cache = place.size("media_cache", self.media_cache)?;
        if media_cache > capacity || band > media_cache {
            return place.err("band, media_cache and capacity must rise in this order");
        }
        if self.map_entries == 0 {
            return place.err("map_entries = 0: no write could be held; write at least 1");
        }
        Ok(DiskShingles { band, media_cache, map_entries: self.map_entries, idle: self.idle.0 })
    }
}

impl RawFlash {
    fn check(self) -> Result<Medium, SpecError> {
        let place = Place("flash");
        let capacity = place.capacity(self.capacity)?;
        let page = place.size("page", self.page)?;
        let planes = place.count("planes", self.planes, 64)?;
        let program_unit = page * u64::from(planes);
        let block = place.size("block", self.block)?;
        let buffer = place.size("buffer", self.buffer)?;
        if block < program_unit {
            return place.err("block is smaller than page × planes, which one program writes");
        }
        if buffer > capacity {
            return place.err("buffer is larger than the drive");
        }
        let slc_size = self.slc_size.map_or(0, |s| s.0.0);
        if slc_size > capacity {
            return place.err("slc_size is larger than the drive");
        }
        if slc_size > 0 && self.slc_program.is_none() {
            return place.err("slc_size needs slc_program, the time of a program in that area");
        }
        if !(self.spare > 0.0 && self.spare <= 10.0) {
            return place.err(format!(
                "spare = {}: garbage collection needs flash beyond the capacity; write 0.07 for 7 %",
                self.spare
            ));
        }
        let program = place.time("program", self.program)?;
        let (stall_every, stall) = place.stall(self.stall_every, self.stall)?;
        Ok(Medium::Flash(FlashParams {
            capacity,
            read_latency: self.read_latency.0,
            write_latency: self.write_latency.0,
            command: self.command.0,
            link_rate: place.rate("link_rate", self.link_rate)?,
            dies: place.count("channels", self.channels, 64)?
                * place.count("dies_per_channel", self.dies_per_channel, 64)?,
            page,
            read: place.time("read", self.read)?,
            program_unit,
            program,
            slc_program: self.slc_program.map_or(program, |t| t.0),
            slc_size,
            block,
            erase: self.erase.0,
            suspend: self.suspend.map(|t| t.0),
            buffer,
            protected: self.power_loss_protection,
            spare: self.spare,
            filled: place.share("filled", self.filled)?,
            worn: self.worn,
            gc_burst: self.gc_burst.map_or(Nanos::ZERO, |t| t.0),
            idle: self.idle.map_or(Nanos::from_secs(1), |t| t.0),
            stall_every,
            stall,
        }))
    }
}

impl RawCheapFlash {
    fn check(self) -> Result<Medium, SpecError> {
        let place = Place("cheap_flash");
        let capacity = place.capacity(self.capacity)?;
        let erase_block = place.size("erase_block", self.erase_block)?;
        if erase_block > capacity {
            return place.err("erase_block is larger than the device");
        }
        let (stall_every, stall) = place.stall(self.stall_every, self.stall)?;
        Ok(Medium::CheapFlash(CheapFlashParams {
            capacity,
            read_latency: self.read_latency.0,
            write_latency: self.write_latency.0,
            read_rate: place.rate("read_rate", self.read_rate)?,
            write_rate: place.rate("write_rate", self.write_rate)?,
            copy_rate: place.rate("copy_rate", self.copy_rate)?,
            erase_block,
            erase: self.erase.0,
            open_blocks: place.count("open_blocks", self.open_blocks, 1024)?,
            stall_every,
            stall,
        }))
    }
}

impl RawCloud {
    fn check(self) -> Result<Medium, SpecError> {
        let place = Place("cloud");
        let positive = |key: &str, n: f64| match n {
            n if n.is_finite() && n > 0.0 => Ok(n),
            n => place.err(format!("{key} = {n} must be above zero")),
        };
        if !(0.0..=3.0).contains(&self.latency_sigma) {
            return place.err(format!(
                "latency_sigma = {} is out of range; write 0 to 3",
                self.latency_sigma
            ));
        }
        let credits = match self.credits {
            Some(c) => {
                Some((positive("credits.base", c.base.0.0)?, positive("credits.most", c.most)?))
            }
            None => None,
        };
        Ok(Medium::Cloud(CloudParams {
            capacity: place.capacity(self.capacity)?,
            iops: positive("iops", self.iops.0.0)?,
            iops_burst: positive("iops_burst", self.iops_burst)?,
            credits,
            rate: place.rate("rate", self.rate)?,
            rate_burst: place.size("rate_burst", self.rate_burst)? as f64,
            io_size: place.size("io_size", self.io_size)?,
            median: place.time("median_latency", self.median_latency)?,
            sigma: self.latency_sigma,
            floor: self.latency_floor.0,
            link_rate: place.rate("link_rate", self.link_rate)?,
        }))
    }
}

impl RawNull {
    fn check(self) -> Result<Medium, SpecError> {
        Ok(Medium::Null {
            capacity: Place("null").capacity(self.capacity)?,
            latency: self.latency.0,
        })
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
