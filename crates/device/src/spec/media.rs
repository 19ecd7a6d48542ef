//! Media: disks, flash and cloud volumes, from their tables.

use super::place::Place;
use super::raw::*;
use super::{Medium, SpecError};
use crate::cheap::CheapFlashParams;
use crate::cloud::CloudParams;
use crate::disk::geometry::seek_factors;
use crate::disk::{DiskMechanics, DiskParams, DiskShingles};
use crate::flash::FlashParams;
use crate::time::Nanos;

/// A command may be passed over for this long when a file does not say. A full queue of 32 takes
/// 0.6 s in order of arrival. With a limit near that, a busy disk would fall back to that order and
/// stay there.
const AGE_LIMIT: Nanos = Nanos::from_secs(2);

impl RawDisk {
    pub(super) fn check(self) -> Result<Medium, SpecError> {
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
    pub(super) fn check(self, capacity: u64) -> Result<DiskShingles, SpecError> {
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
    pub(super) fn check(self) -> Result<Medium, SpecError> {
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
                "spare = {}: garbage collection needs flash beyond the capacity; write 0.07 \
                 for 7 %",
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
    pub(super) fn check(self) -> Result<Medium, SpecError> {
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
    pub(super) fn check(self) -> Result<Medium, SpecError> {
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
    pub(super) fn check(self) -> Result<Medium, SpecError> {
        Ok(Medium::Null {
            capacity: Place("null").capacity(self.capacity)?,
            latency: self.latency.0,
        })
    }
}
