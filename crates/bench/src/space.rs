//! How much space a scenario takes, and how it is made to fit.
//!
//! ```text
//! needed = Σ victim files + Σ flood spaces (half of a copy's is its source) + burst + margin
//! ```
//!
//! A flood whose size is not given gets 1.5 × the kernel's hard dirty limit. With less, all its
//! dirty pages fit under the limit, the kernel never throttles it, and the benchmark measures
//! memory.

use floodwall_model::scenario::{FloodKind, VictimKind};
use floodwall_model::{Bytes, Scenario};

/// The space for the files' metadata and the filesystem's reserve.
const MARGIN: Bytes = Bytes::mib(64);
/// A flood space below this says nothing about any device.
const SMALLEST_FLOOD: Bytes = Bytes::mib(64);
/// The least that can be timed.
const SMALLEST_BURST: Bytes = Bytes::mib(1);
/// When the limits can't be read.
const FALLBACK_FLOOD: Bytes = Bytes::gib(4);

/// The limits of the host.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Free for this user on the filesystem.
    pub free: Bytes,
    /// The most that the user lets the run take (`--size`).
    pub cap: Option<Bytes>,
    /// The kernel's hard dirty limit (`nr_dirty_threshold`), if it can be read.
    pub hard_limit: Option<Bytes>,
    /// RAM, if it can be read.
    pub ram: Option<Bytes>,
}

/// The scenario does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    /// Not enough free space.
    #[error("scenario '{scenario}' needs {needed} and {free} are free; free some space{remedy}")]
    TooLittle {
        /// Its name.
        scenario: String,
        /// The space needed.
        needed: Bytes,
        /// The free space.
        free: Bytes,
        /// `, or use --size N`, if that helps.
        remedy: String,
    },
    /// `--size` is too small for anything.
    #[error(
        "--size {cap} is too small for scenario '{scenario}'; use --size {smallest}, its smallest \
         useful size, or more",
        cap = cap.as_argument(),
        smallest = smallest.as_argument()
    )]
    CapTooSmall {
        /// Its name.
        scenario: String,
        /// The given size.
        cap: Bytes,
        /// The least that suffices.
        smallest: Bytes,
    },
    /// `--size` is more than there is.
    #[error(
        "--size {cap} is more than the {free} that are free; use --size {fits} or less",
        cap = cap.as_argument(),
        fits = fits.as_argument()
    )]
    CapTooLarge {
        /// The given size.
        cap: Bytes,
        /// The free space.
        free: Bytes,
        /// The largest size that fits.
        fits: Bytes,
    },
}

/// A scenario with every size settled.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The scenario; every flood has a size.
    pub scenario: Scenario,
    /// Bytes that it takes on disk, margin included.
    pub needed: Bytes,
    /// Notes for the user.
    pub warnings: Vec<String>,
}

/// Settles every size so that the scenario fits.
///
/// # Errors
/// [`SpaceError`], with what would fit.
pub fn fit(scenario: &Scenario, room: Room) -> Result<Fitted, SpaceError> {
    let mut warnings = Vec::new();
    let mut fitted = scenario.clone();
    if let (Some(burst), Some(ram)) = (fitted.burst, room.ram) {
        // A burst must fit in RAM several times over, or it measures the disk.
        let largest = Bytes(ram.0 / 8);
        if burst > largest {
            warnings.push(format!("the burst is {largest}, an eighth of RAM, not {burst}"));
            fitted.burst = Some(largest);
        }
    }
    let wanted_flood = room.hard_limit.map_or(FALLBACK_FLOOD, |limit| {
        Bytes((limit.0 + limit.0 / 2).next_multiple_of(1 << 20)).max(Bytes::gib(1))
    });
    for flood in &mut fitted.floods {
        // Half of a copy's space is its source, which is only read.
        let copies = if flood.kind == FloodKind::Copy { 2 } else { 1 };
        flood.size.get_or_insert(Bytes(wanted_flood.0 * copies));
    }
    let needed = needed_by(&fitted);
    match room.cap {
        Some(cap) if cap > room.free => {
            return Err(SpaceError::CapTooLarge { cap, free: room.free, fits: fits_in(room.free) });
        }
        Some(cap) if needed > cap => shrink(&mut fitted, cap, &mut warnings)?,
        Some(_) => {}
        None if needed > room.free => {
            let remedy = match shrink(&mut fitted, fits_in(room.free), &mut Vec::new()) {
                Ok(()) => {
                    format!(
                        ", or use --size {} to run a smaller one",
                        fits_in(room.free).as_argument()
                    )
                }
                Err(_) => String::new(),
            };
            return Err(SpaceError::TooLittle {
                scenario: scenario.name.clone(),
                needed,
                free: room.free,
                remedy,
            });
        }
        None => {}
    }
    if let Some(limit) = room.hard_limit {
        warnings.extend(too_small_to_throttle(&fitted, limit));
    }
    Ok(Fitted { needed: needed_by(&fitted), scenario: fitted, warnings })
}

/// A round number of MiB, nine tenths of the free space.
fn fits_in(free: Bytes) -> Bytes {
    Bytes((free.0 - free.0 / 10) >> 20 << 20)
}

fn flood_bytes(flood: &floodwall_model::Flood) -> u64 {
    let space = flood.size.map_or(0, |s| s.0);
    match flood.kind {
        FloodKind::Command { .. } => 0,
        // A small file takes at least one block of the filesystem.
        FloodKind::Files { file } => {
            (space / file.0.max(1)).saturating_mul(file.0.next_multiple_of(4096))
        }
        FloodKind::Seq | FloodKind::Random | FloodKind::Mmap | FloodKind::Copy => space,
    }
}

fn victim_bytes(victim: &floodwall_model::Victim) -> u64 {
    if matches!(victim.kind, VictimKind::Command { .. }) { 0 } else { victim.size.0 }
}

/// The disk space of a scenario with settled sizes.
fn needed_by(scenario: &Scenario) -> Bytes {
    let victims: u64 = scenario.victims.iter().map(victim_bytes).sum();
    let floods: u64 = scenario.floods.iter().map(flood_bytes).sum();
    Bytes(victims + floods + scenario.burst.map_or(0, |b| b.0) + MARGIN.0)
}

/// Bytes that preparing a scenario writes, up to some blocks: the victims' files, the source of a
/// copy, and the files of floods that write in place. Other files grow while they are measured.
#[must_use]
pub fn prefill_bytes(scenario: &Scenario) -> Bytes {
    let victims: u64 = scenario
        .victims
        .iter()
        .filter(|v| !matches!(v.kind, VictimKind::Wal { preallocated: false, .. }))
        .map(floodwall_load::victim_bytes)
        .sum();
    let floods: u64 = scenario
        .floods
        .iter()
        .map(|f| match f.kind {
            FloodKind::Random | FloodKind::Mmap => flood_bytes(f),
            FloodKind::Copy => flood_bytes(f) / 2,
            FloodKind::Seq | FloodKind::Files { .. } | FloodKind::Command { .. } => 0,
        })
        .sum();
    Bytes(victims + floods)
}

/// Shrinks the floods to at least half of the space (they cost least), then the burst and the
/// victims' files by one factor.
fn shrink(
    scenario: &mut Scenario,
    cap: Bytes,
    warnings: &mut Vec<String>,
) -> Result<(), SpaceError> {
    let smallest = smallest(scenario);
    if cap < smallest {
        return Err(SpaceError::CapTooSmall { scenario: scenario.name.clone(), cap, smallest });
    }
    let usable = cap.0 - MARGIN.0;
    let has_floods = scenario.floods.iter().any(|f| flood_bytes(f) > 0);
    // A flood that is too small does no damage, so the other half is the floods'.
    let for_others = if has_floods { usable / 2 } else { usable };
    let burst = scenario.burst.map_or(0, |b| b.0);
    let others: u64 = scenario.victims.iter().map(victim_bytes).sum::<u64>() + burst;
    if others > for_others {
        let factor = for_others as f64 / others as f64;
        for victim in scenario.victims.iter_mut().filter(|v| victim_bytes(v) > 0) {
            let size = Bytes(
                ((victim.size.0 as f64 * factor) as u64 >> 12 << 12).max(smallest_victim(victim)),
            );
            warnings.push(format!(
                "--size: the files of victim '{}' are {size}, not {}",
                victim.name, victim.size
            ));
            victim.size = size;
        }
        if let Some(burst) = &mut scenario.burst {
            let size = Bytes(((burst.0 as f64 * factor) as u64 >> 20 << 20).max(SMALLEST_BURST.0));
            warnings.push(format!("--size: the burst is {size}, not {burst}"));
            *burst = size;
        }
    }
    let left = cap.0 - needed_by(&Scenario { floods: Vec::new(), ..scenario.clone() }).0;
    let floods: u64 = scenario.floods.iter().map(flood_bytes).sum();
    if floods > left {
        let factor = left as f64 / floods as f64;
        for flood in scenario.floods.iter_mut().filter(|f| flood_bytes(f) > 0) {
            let size = flood.size.map_or(0, |s| s.0) as f64 * factor;
            flood.size = Some(Bytes(size as u64 >> 20 << 20));
        }
    }
    Ok(())
}

/// The least on which "random" means anything: sixteen blocks a file.
fn smallest_victim(victim: &floodwall_model::Victim) -> u64 {
    victim.block.0.saturating_mul(u64::from(victim.files)).saturating_mul(16).min(victim.size.0)
}

/// The least space in which a scenario can run: half for the floods, each with its least, half for
/// the others likewise.
fn smallest(scenario: &Scenario) -> Bytes {
    let others: u64 =
        scenario.victims.iter().filter(|v| victim_bytes(v) > 0).map(smallest_victim).sum::<u64>()
            + scenario.burst.map_or(0, |_| SMALLEST_BURST.0);
    // In proportion to what they ask for, so the smallest share decides.
    let total: u64 = scenario.floods.iter().map(flood_bytes).sum();
    let floods = scenario
        .floods
        .iter()
        .filter(|f| flood_bytes(f) > 0)
        .map(|f| {
            let least = SMALLEST_FLOOD.0.max(f.block.0 * u64::from(f.streams)) as f64;
            (least * total as f64 / f.size.map_or(1, |s| s.0.max(1)) as f64).ceil() as u64
        })
        .max()
        .unwrap_or(0);
    let usable = if floods > 0 { 2 * others.max(floods) } else { others };
    Bytes((usable + MARGIN.0 + (2 << 20)).next_multiple_of(1 << 20))
}

/// Says so where the kernel will never throttle the floods.
fn too_small_to_throttle(scenario: &Scenario, hard_limit: Bytes) -> Option<String> {
    let own: Vec<u64> = scenario
        .floods
        .iter()
        .filter(|f| !matches!(f.kind, FloodKind::Command { .. }))
        .map(|f| f.size.map_or(0, |s| if f.kind == FloodKind::Copy { s.0 / 2 } else { s.0 }))
        .collect();
    let total: u64 = own.iter().sum();
    (!own.is_empty() && total < hard_limit.0).then(|| {
        format!(
            "the flood has {} to go round in, less than the kernel's dirty limit ({hard_limit}): \
             it will hardly be throttled, \
             and a real flood does more damage; give it more space",
            Bytes(total)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use floodwall_model::scenario::builtin;

    fn scenario() -> Scenario {
        builtin("copy-vs-database").unwrap().unwrap()
    }

    fn room(free: Bytes, cap: Option<Bytes>) -> Room {
        Room { free, cap, hard_limit: Some(Bytes::gib(4)), ram: Some(Bytes::gib(24)) }
    }

    #[test]
    fn a_flood_without_a_size_passes_the_dirty_limit() {
        let fitted = fit(&scenario(), room(Bytes::gib(100), None)).unwrap();
        assert_eq!(fitted.scenario.floods[0].size, Some(Bytes::gib(6)));
        assert_eq!(fitted.needed, Bytes(Bytes::gib(8).0 + MARGIN.0));
        assert_eq!(fitted.warnings, Vec::<String>::new());
    }

    #[test]
    fn too_little_space_is_refused_with_a_size_that_then_fits() {
        let small = room(Bytes::gib(3), None);
        let message = fit(&scenario(), small).unwrap_err().to_string();
        assert!(message.contains("needs 8256 MiB and 3 GiB are free"), "{message}");
        let size = message.split("--size ").nth(1).unwrap().split(' ').next().unwrap();
        let fitted = fit(&scenario(), room(Bytes::gib(3), Some(size.parse().unwrap()))).unwrap();
        assert!(fitted.needed <= Bytes::gib(3));
        assert!(
            fitted.warnings.iter().any(|w| w.contains("hardly be throttled")),
            "{:?}",
            fitted.warnings
        );
    }

    #[test]
    fn every_cap_that_is_accepted_is_kept() {
        for cap in (100..9_000).step_by(100).map(Bytes::mib) {
            for name in floodwall_model::scenario::builtin_names() {
                let s = builtin(name).unwrap().unwrap();
                match fit(&s, room(Bytes::gib(100), Some(cap))) {
                    Ok(fitted) => assert!(fitted.needed <= cap, "{name} {cap} {}", fitted.needed),
                    Err(e) => {
                        assert!(matches!(e, SpaceError::CapTooSmall { .. }), "{name} {cap} {e}")
                    }
                }
            }
        }
    }

    #[test]
    fn a_cap_beyond_the_free_space_is_refused() {
        let message =
            fit(&scenario(), room(Bytes::gib(3), Some(Bytes::gib(5)))).unwrap_err().to_string();
        assert!(message.contains("more than the 3 GiB that are free"), "{message}");
    }

    #[test]
    fn every_size_that_a_message_names_can_be_pasted() {
        for (room, pasted) in [
            (room(Bytes::gib(3), None), &["2764MiB"][..]),
            (room(Bytes::gib(3), Some(Bytes::gib(5))), &["5GiB", "2764MiB"]),
            (room(Bytes::gib(100), Some(Bytes::mib(64))), &["64MiB", "194MiB"]),
        ] {
            let message = fit(&scenario(), room).unwrap_err().to_string();
            let named: Vec<&str> = message
                .split("--size ")
                .skip(1)
                .filter_map(|rest| rest.split([' ', ',']).next())
                .collect();
            assert_eq!(named, pasted, "{message}");
        }
        // … and the smallest that is named is accepted.
        fit(&scenario(), Room { cap: Some(Bytes::mib(194)), ..room(Bytes::gib(100), None) })
            .unwrap();
    }

    #[test]
    fn what_is_prefilled_is_what_preparing_writes() {
        use floodwall_model::scenario::{parse_flood, parse_victim};
        let (dir, stop) = (tempfile::tempdir().unwrap(), std::sync::atomic::AtomicBool::new(false));
        let scratch = floodwall_load::Dir::open(dir.path()).unwrap();
        let nobody = Scenario { victims: Vec::new(), floods: Vec::new(), ..scenario() };
        let victims =
            ["commit,threads=2,files=3", "wal", "wal,preallocated=false", "read", "mixed", "true"];
        let floods =
            ["seq", "random,streams=2", "files,file_size=16KiB", "mmap", "copy,streams=2", "true"];
        for (n, text) in victims.into_iter().enumerate() {
            let victim = match text {
                "true" => floodwall_model::scenario::command_victim(text),
                spec => parse_victim(&format!("{spec},block=4KiB,size=3MiB,name=v{n}")),
            };
            let victim = victim.unwrap();
            let mut written = 0;
            floodwall_load::prepare_victim(
                &scratch,
                &victim,
                None,
                1,
                &mut |bytes| written += bytes,
                &stop,
            )
            .unwrap();
            let expected = prefill_bytes(&Scenario { victims: vec![victim], ..nobody.clone() });
            assert_eq!(written, expected.0, "{text}");
        }
        for (n, text) in floods.into_iter().enumerate() {
            let flood = match text {
                "true" => floodwall_model::scenario::command_flood(text),
                spec => parse_flood(&format!("{spec},block=64KiB,size=4MiB,name=f{n}")),
            };
            let flood = flood.unwrap();
            let mut written = 0;
            floodwall_load::prepare_flood(
                &scratch,
                &flood,
                None,
                1,
                &mut |bytes| written += bytes,
                &stop,
            )
            .unwrap();
            let expected = prefill_bytes(&Scenario { floods: vec![flood], ..nobody.clone() });
            assert_eq!(written, expected.0, "{text}");
        }
    }

    #[test]
    fn a_burst_larger_than_an_eighth_of_ram_is_cut_and_said() {
        let tiny = Room { ram: Some(Bytes::gib(1)), ..room(Bytes::gib(100), None) };
        let fitted = fit(&scenario(), tiny).unwrap();
        assert_eq!(fitted.scenario.burst, Some(Bytes::mib(128)));
        assert!(fitted.warnings[0].contains("an eighth of RAM"));
    }
}
