//! Where a byte lies on a disk: zones, tracks, angles, and how long the arm takes between
//! cylinders.
//!
//! Zones (zoned bit recording). The sustained rate falls linearly from the outermost zone to the
//! innermost; [`ZONES`] zones of equally many cylinders. A track of a zone with sustained rate `r`
//! holds `r × (revolution + head switch)` bytes. A datasheet's sustained rate is that of a long
//! transfer, which switches heads once a track. Addresses fill a cylinder track by track, then the
//! next cylinder inwards.
//!
//! Skew. Track `k` begins at angle `k × switch / revolution` (in turns). So a transfer going on to
//! the next track finds its first sector just arriving: sequential streams lose no revolutions.
//!
//! Seek curve (Ruemmler and Wilkes, "An introduction to disk drive modeling", IEEE Computer 1994:
//! square root for short seeks, linear for long ones). For a distance `x` as a fraction of the full
//! stroke: `t(x) = track_to_track + a·√x + b·x`. Here `t(1)` is the full-stroke time, and the mean
//! over independent random pairs (`E√x = 8/15`, `Ex = 1/3`) is the average seek time. So
//! `a = 5·(A − F/3)` and `b = F − a`, where `A` and `F` are the average and full-stroke times less
//! the track-to-track time.

use crate::time::{Nanos, float, whole};

/// Zones on a surface. Drives have 15 to 30; more of them changes rates by under 2 %.
const ZONES: usize = 24;
/// Entries of the table that leads from an offset to its zone: parts much smaller than a zone.
const INDEX: usize = 256;

/// What a datasheet says about the mechanics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mechanics {
    /// Bytes on all surfaces.
    pub capacity: u64,
    /// One turn: 8.33 ms at 7,200 rpm.
    pub revolution: Nanos,
    /// Sustained transfer at the outermost cylinder, in bytes per second.
    pub outer_rate: f64,
    /// The same at the innermost.
    pub inner_rate: f64,
    /// Surfaces in use, each with a head.
    pub heads: u32,
    /// From one head or track to the next while streaming.
    pub head_switch: Nanos,
    /// Seek to the neighbouring cylinder.
    pub track_to_track: Nanos,
    /// Mean seek over random pairs of cylinders.
    pub average_seek: Nanos,
    /// Seek from the outermost cylinder to the innermost.
    pub full_stroke: Nanos,
    /// Added to a seek before a write: the head must be nearer the middle of the track than for a
    /// read.
    pub write_settle: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Zone {
    first_byte: u64,
    first_track: u64,
    track_bytes: u64,
}

/// Which track a byte is on, and where on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) track: u64,
    /// Bytes from the beginning of the track.
    within: u64,
    /// Bytes of a track there.
    track_bytes: u64,
}

/// Where something lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spot {
    pub(crate) place: Place,
    cylinder: u64,
    /// Angle in turns, 0 to 1.
    angle: f64,
}

/// Where a head stands; its angle follows from the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parked {
    track: u64,
    cylinder: u64,
}

impl Parked {
    /// On the outermost track.
    pub(crate) const OUTSIDE: Self = Self { track: 0, cylinder: 0 };
}

/// The layout that follows from [`Mechanics`].
pub(crate) struct Geometry {
    m: Mechanics,
    zones: Vec<Zone>,
    /// The zone of the first byte of each of [`INDEX`] equal parts of the disk, of `2^index_shift`
    /// bytes each.
    index: Vec<u8>,
    index_shift: u32,
    heads: u64,
    cylinders: u64,
    skew: f64,
    sqrt_ns: f64,
    linear_ns: f64,
}

/// The curve's factors `a` and `b`, in nanoseconds; `None` if no rising curve has these three
/// times.
pub(crate) fn seek_factors(m: &Mechanics) -> Option<(f64, f64)> {
    let average = m.average_seek.0 as f64 - m.track_to_track.0 as f64;
    let full = m.full_stroke.0 as f64 - m.track_to_track.0 as f64;
    let a = 5.0 * (average - full / 3.0);
    let b = full - a;
    // The slope a/(2√x) + b is positive everywhere if it is so at both ends.
    (a >= 0.0 && a / 2.0 + b >= 0.0).then_some((a, b))
}

impl Geometry {
    /// The times must fit a curve ([`seek_factors`]); if they do not, seeks are linear between the
    /// shortest and the longest.
    pub(crate) fn new(m: Mechanics) -> Self {
        let turn_s = (m.revolution + m.head_switch).as_secs_f64();
        let track_bytes: Vec<u64> = (0..ZONES)
            .map(|z| {
                let inward = (z as f64 + 0.5) / ZONES as f64;
                let rate = m.outer_rate + (m.inner_rate - m.outer_rate) * inward;
                ((rate * turn_s) as u64).max(4096)
            })
            .collect();
        let heads = u64::from(m.heads.max(1));
        let per_cylinder_of_each: u64 = track_bytes.iter().sum::<u64>() * heads;
        let cylinders_per_zone = m.capacity.div_ceil(per_cylinder_of_each).max(1);
        let tracks_per_zone = cylinders_per_zone * heads;
        let mut first_byte = 0;
        let zones: Vec<Zone> = track_bytes
            .iter()
            .enumerate()
            .map(|(z, bytes)| {
                let zone = Zone {
                    first_byte,
                    first_track: z as u64 * tracks_per_zone,
                    track_bytes: *bytes,
                };
                first_byte += tracks_per_zone * bytes;
                zone
            })
            .collect();
        let linear = (m.full_stroke.0 as f64 - m.track_to_track.0 as f64).max(0.0);
        let (sqrt_ns, linear_ns) = seek_factors(&m).unwrap_or((0.0, linear));
        // The smallest power of two for the part size with which INDEX parts cover the whole disk.
        let index_shift = (m.capacity / INDEX as u64 + 1).next_power_of_two().trailing_zeros();
        let zone_of = |part: usize| {
            zones.partition_point(|z| z.first_byte <= (part as u64) << index_shift) - 1
        };
        let index = (0..INDEX).map(|part| zone_of(part) as u8).collect();
        Self {
            index,
            index_shift,
            heads,
            skew: m.head_switch.0 as f64 / m.revolution.0 as f64,
            cylinders: cylinders_per_zone * ZONES as u64,
            m,
            zones,
            sqrt_ns,
            linear_ns,
        }
    }

    fn zone(&self, offset: u64) -> &Zone {
        let mut z = usize::from(self.index[((offset >> self.index_shift) as usize).min(INDEX - 1)]);
        while self.zones.get(z + 1).is_some_and(|next| next.first_byte <= offset) {
            z += 1;
        }
        &self.zones[z]
    }

    /// The track of a byte, and its place there.
    #[inline]
    pub(crate) fn place(&self, offset: u64) -> Place {
        let zone = self.zone(offset);
        let from_zone = offset - zone.first_byte;
        let track_bytes = zone.track_bytes;
        Place {
            track: zone.first_track + from_zone / track_bytes,
            within: from_zone % track_bytes,
            track_bytes,
        }
    }

    /// Where a byte lies.
    pub(crate) fn locate(&self, offset: u64) -> Spot {
        let place = self.place(offset);
        let along = float(place.within) / float(place.track_bytes);
        let turns = along + float(place.track) * self.skew;
        // As `fract`, which is a call of the C library on x86-64 before SSE 4.1; turns are far
        // below 2^63.
        let angle = turns - turns as i64 as f64;
        Spot { place, cylinder: place.track / self.heads, angle }
    }

    /// A head over a byte.
    pub(crate) fn parked_at(&self, offset: u64) -> Parked {
        self.parked_on(self.place(offset).track)
    }

    /// A head over the last of `len` bytes from a spot at `offset` on.
    pub(crate) fn parked_after(&self, spot: &Spot, offset: u64, len: u64) -> Parked {
        // Most transfers end on the track on which they begin.
        if len > 0 && spot.place.within + len <= spot.place.track_bytes {
            return Parked { track: spot.place.track, cylinder: spot.cylinder };
        }
        self.parked_at((offset + len).saturating_sub(1))
    }

    fn parked_on(&self, track: u64) -> Parked {
        Parked { track, cylinder: track / self.heads }
    }

    /// Time to pass over `len` bytes from a place on, head switches included.
    pub(crate) fn transfer(&self, from: &Place, len: u64) -> Nanos {
        let last = (from.within + len).saturating_sub(1);
        let switches = if last < from.track_bytes { 0 } else { last / from.track_bytes };
        let turning = float(len) / float(from.track_bytes) * float(self.m.revolution.0);
        Nanos(whole(turning) + switches * self.m.head_switch.0)
    }

    /// Bytes that pass under the head in `time` from a place on, head switches included.
    pub(crate) fn passed(&self, from: &Place, time: Nanos) -> u64 {
        let turn = float((self.m.revolution + self.m.head_switch).0);
        whole(float(time.0) / turn * float(from.track_bytes))
    }

    /// Cylinders that the arm crosses from where the head stands to a spot.
    pub(crate) fn cylinders(&self, parked: Parked, to: &Spot) -> u64 {
        parked.cylinder.abs_diff(to.cylinder)
    }

    /// From where the head stands to a spot: arm, then rotation.
    pub(crate) fn position(&self, now: Nanos, parked: Parked, to: &Spot, write: bool) -> Nanos {
        self.position_within(now, parked, to, write, Nanos::MAX)
    }

    /// The same, if it is below `limit`; else something that is not: the way of the arm alone may
    /// settle that.
    pub(crate) fn position_within(
        &self,
        now: Nanos,
        parked: Parked,
        to: &Spot,
        write: bool,
        limit: Nanos,
    ) -> Nanos {
        let cylinders = self.cylinders(parked, to);
        let arm = if to.place.track == parked.track {
            Nanos::ZERO
        } else if to.place.track == parked.track + 1 || cylinders == 0 {
            self.m.head_switch
        } else {
            let seek = self.seek(cylinders);
            if write { seek + self.m.write_settle } else { seek }
        };
        if arm >= limit {
            return arm;
        }
        arm + self.rotation(now + arm, to.angle)
    }

    /// Time of the arm over a number of cylinders, at least 1.
    fn seek(&self, cylinders: u64) -> Nanos {
        let x = float(cylinders) / float(self.cylinders);
        Nanos(whole(float(self.m.track_to_track.0) + self.sqrt_ns * x.sqrt() + self.linear_ns * x))
    }

    /// Time until an angle comes by.
    fn rotation(&self, now: Nanos, angle: f64) -> Nanos {
        let revolution = self.m.revolution.0;
        let here = float(now.0 % revolution) / float(revolution);
        // Both are in [0, 1): this is `rem_euclid(1.0)` without its division.
        let ahead = angle - here;
        let turns = if ahead < 0.0 { ahead + 1.0 } else { ahead };
        let wait = whole(turns * float(revolution));
        // A sector that has just begun to pass by (rounding) is not missed.
        if wait + MISS_NS >= revolution { Nanos::ZERO } else { Nanos(wait) }
    }

    /// Shortest time for anything that needs the arm or the disk to turn: none, if the head happens
    /// to be there.
    pub(crate) fn mechanics(&self) -> &Mechanics {
        &self.m
    }
}

/// How late a head may be and still catch its sector: a fraction of a 512-byte sector's 5 to 10 µs.
const MISS_NS: u64 = 2_000;

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn barracuda() -> Mechanics {
        Mechanics {
            capacity: 1_000_204_886_016,
            revolution: Nanos(8_333_333),
            outer_rate: 125e6,
            inner_rate: 60e6,
            heads: 4,
            head_switch: Nanos::from_micros(800),
            track_to_track: Nanos::from_micros(1_000),
            average_seek: Nanos::from_micros(8_500),
            full_stroke: Nanos::from_micros(18_000),
            write_settle: Nanos::from_micros(1_000),
        }
    }

    #[test]
    fn the_seek_curve_goes_through_its_three_times() {
        let g = Geometry::new(barracuda());
        assert!(g.seek(1).0.abs_diff(1_000_000) < 30_000, "{}", g.seek(1));
        assert!(g.seek(g.cylinders).0.abs_diff(18_000_000) < 1_000);
        let n = 400;
        let pairs = (0..n).flat_map(|i| (0..n).map(move |j| (i, j))).filter(|(i, j)| i != j);
        let times: Vec<f64> = pairs
            .map(|(i, j): (u64, u64)| g.seek(i.abs_diff(j) * g.cylinders / n).as_secs_f64())
            .collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        assert!((mean - 0.0085).abs() < 0.0002, "{mean}");
    }

    #[test]
    fn no_rising_curve_has_an_average_above_the_full_stroke() {
        assert_eq!(
            seek_factors(&Mechanics { average_seek: Nanos::from_millis(19), ..barracuda() }),
            None
        );
        assert_eq!(
            seek_factors(&Mechanics { average_seek: Nanos::from_millis(2), ..barracuda() }),
            None
        );
    }

    #[test]
    fn a_long_transfer_has_the_sustained_rate_of_its_zone() {
        let g = Geometry::new(barracuda());
        let rate = |offset: u64| 256e6 / g.transfer(&g.place(offset), 256_000_000).as_secs_f64();
        assert!((rate(0) / 125e6 - 1.0).abs() < 0.02, "{}", rate(0));
        let last = barracuda().capacity - 256_000_000;
        assert!((rate(last) / 60e6 - 1.0).abs() < 0.05, "{}", rate(last));
    }

    #[test]
    fn going_on_to_the_next_track_waits_for_the_head_switch_only() {
        let g = Geometry::new(barracuda());
        let track = g.zones[0].track_bytes;
        for k in 0..50 {
            let here = g.locate(k * track);
            // The moment at which the last sector of track k has passed is an angle equal to the
            // track's first.
            let turn = 8_333_333_u64;
            let now = Nanos((k + 3) * turn + (here.angle * turn as f64) as u64);
            let wait =
                g.position(now, g.parked_on(here.place.track), &g.locate((k + 1) * track), true);
            assert!(wait.0 <= 800_000 + 10, "track {k}: {wait}");
        }
    }
}
