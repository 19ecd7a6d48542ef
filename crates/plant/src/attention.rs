//! Decides when the probe's tracepoints are open. They are while there are signs of a flood.
//! Without signs they are open for a moment now and then, in which the controller learns the
//! victims' wait alone. Pure.
//!
//! ```text
//! signs at a look ─ backlog, a process that dirties much, a held knob ─▶ open, and for 4 s after
//! none ─▶ open for 1 s in 8, else closed
//! between looks, while closed: the machine's dirty pages grow ─▶ open at once
//! ```
//!
//! The thresholds are half of the controller's own: it must never see a flood before this does.

use std::collections::HashMap;
use std::time::Duration;

use floodwall_model::plant::{Actor, DeviceObservation};

/// While tracepoints are closed, the machine's dirty pages are asked for so often between looks.
const GLANCE: Duration = Duration::from_millis(100);
/// The next look comes so long after tracepoints were opened for a flood, neither sooner nor later.
/// Victims have to be seen meanwhile.
const SOON: Duration = Duration::from_millis(150);

// The signs of a flood are half of what the guard acts on: the tracepoints are open before it acts.
/// Bytes dirty and under writeback on one device (guard: 8 MiB).
const SIGN_BACKLOG: u64 = 4 << 20;
/// Bytes a second that a process dirties (guard: 4 MB).
const SIGN_RATE: f64 = 2e6;
/// Bytes that a process dirties for each of its commits (guard: 4 MiB).
const SIGN_COMMIT: u64 = 2 << 20;
/// The tracepoints stay open for so long after the last sign. The guard takes a flood for present
/// for 3 s, and learns nothing about victims alone before that.
const LINGER: Duration = Duration::from_secs(4);
/// Without signs they are open so long …
const SAMPLE: Duration = Duration::from_secs(1);
/// … in each of these periods. The guard's base latency is the median of ten seconds of samples.
const PERIOD: Duration = Duration::from_secs(8);
/// A process that has committed counts as a committer for so long. One that goes on is seen again
/// in one of the next two samples.
const COMMITS: Duration = Duration::from_secs(20);

/// Waits with closed tracepoints. `glance` waits, and tells whether the tracepoints were opened for
/// a flood. Returns the time to the next look.
///
/// # Errors
/// Those of `glance`.
pub(crate) fn glances<E>(
    time: Duration,
    mut glance: impl FnMut(Duration) -> Result<bool, E>,
) -> Result<Duration, E> {
    let mut left = time;
    while left > GLANCE {
        if glance(GLANCE)? {
            return Ok(SOON);
        }
        left -= GLANCE;
    }
    Ok(left)
}

/// Whether operations of a window were seen from its begin to its end, if the tracepoints were open
/// for so much of it. A tenth is what a look takes on a machine with many devices.
pub(crate) fn sees_all(attached: Duration, window: Duration) -> bool {
    attached >= window - window / 10
}

/// Decides from look to look.
#[derive(Debug, Default)]
pub(crate) struct Attention {
    /// The last look with a sign.
    sign: Option<Duration>,
    /// When the last sample began.
    sample: Option<Duration>,
    /// Committers, and when each was last seen to commit.
    commits: HashMap<String, Duration>,
    /// The machine's dirty bytes at the last look.
    dirty: u64,
    /// They have grown since; and whether that was no flood of a device that is steered.
    alarm: bool,
    was_false: bool,
}

/// One look.
#[derive(Debug)]
pub(crate) struct Look<'a> {
    pub(crate) at: Duration,
    /// Time since the look before.
    pub(crate) window: Duration,
    /// Whether waits were seen through most of the window.
    pub(crate) sees_waits: bool,
    pub(crate) devices: &'a [DeviceObservation],
    /// Bytes dirty and under writeback in the whole machine.
    pub(crate) dirty: u64,
    /// Whether a knob holds another value than the administrator's.
    pub(crate) steers: bool,
}

impl Attention {
    /// A look: whether the tracepoints are open until the next one.
    pub(crate) fn next(&mut self, look: &Look<'_>) -> bool {
        let Look { at, window, .. } = *look;
        self.dirty = look.dirty;
        let actors = || look.devices.iter().flat_map(|device| &device.actors);
        self.commits.retain(|_, seen| at.saturating_sub(*seen) < COMMITS);
        let mut floods = false;
        for actor in actors() {
            let much = actor.dirtied_bytes as f64 >= SIGN_RATE * window.as_secs_f64();
            let stays = actor.dirtied_bytes >= SIGN_COMMIT * actor.commits.count();
            if look.sees_waits && !actor.commits.is_empty() && !stays {
                self.commits.insert(actor.who.clone(), at);
            } else if look.sees_waits && much {
                self.commits.remove(&actor.who);
            }
            floods |= actor.dirtied_bytes > 0 && much && stays && !self.is_committer(actor);
            // It wants to know at once who waits.
            floods |= actor.paces_itself();
        }
        let backlog =
            |d: &DeviceObservation| d.dirty_bytes.unwrap_or(0) + d.writeback_bytes.unwrap_or(0);
        if look.steers || look.devices.iter().any(|d| backlog(d) >= SIGN_BACKLOG) || floods {
            self.sign = Some(at);
            self.was_false = false;
        } else if self.alarm {
            self.was_false = true;
        }
        self.alarm = false;
        if self.sign.is_some_and(|sign| at.saturating_sub(sign) < LINGER) {
            self.sample = None;
            return true;
        }
        let sample = *self.sample.get_or_insert(at);
        if at.saturating_sub(sample) >= PERIOD {
            self.sample = Some(at);
            self.was_false = false;
            return true;
        }
        at.saturating_sub(sample) < SAMPLE
    }

    /// Between two looks: whether the machine's dirty bytes have grown so much that a flood may
    /// have begun. After a false alarm the next sample comes first: a disk that is not steered
    /// may be flooded for hours.
    pub(crate) fn is_sign(&mut self, dirty: u64) -> bool {
        self.alarm = !self.was_false && dirty >= self.dirty.saturating_add(SIGN_BACKLOG);
        self.alarm
    }

    /// Whether an actor's dirtied bytes say nothing in a window without waits: it commits what it
    /// dirties, and its commits were not seen.
    pub(crate) fn is_committer(&self, actor: &Actor) -> bool {
        self.commits.contains_key(&actor.who)
    }
}

#[cfg(test)]
mod tests {
    use floodwall_guard::config::{BACKLOG, FLOOD_COMMIT, FLOOD_RATE};
    use floodwall_model::plant::{Claimant, DeviceKind};
    use floodwall_model::trial::DeviceSample;
    use floodwall_model::{DeviceId, LatencyCounts};

    use super::*;

    const TICK: Duration = Duration::from_millis(250);

    struct Bench {
        attention: Attention,
        at: Duration,
        open: bool,
    }

    impl Bench {
        fn new() -> Self {
            Self { attention: Attention::default(), at: Duration::ZERO, open: true }
        }

        fn look(&mut self, backlog: u64, actors: Vec<Actor>, steers: bool) -> bool {
            self.at += TICK;
            let devices = [DeviceObservation {
                id: DeviceId { major: 8, minor: 0 },
                kind: DeviceKind::Unknown,
                counters: DeviceSample::default(),
                dirty_bytes: Some(backlog),
                writeback_bytes: None,
                changing: false,
                actors,
            }];
            let (at, sees_waits) = (self.at, self.open);
            let look =
                Look { at, window: TICK, sees_waits, devices: &devices, dirty: backlog, steers };
            self.open = self.attention.next(&look);
            self.open
        }
    }

    fn writer(who: &str, dirtied_bytes: u64) -> Actor {
        Actor { who: who.into(), dirtied_bytes, ..Actor::default() }
    }

    /// 12 MB a second, in pages of 4 KiB.
    fn database(sees_waits: bool) -> Actor {
        let commits = LatencyCounts::from_values(vec![1_000_000; if sees_waits { 750 } else { 0 }]);
        Actor { commits, ..writer("db", 3 << 20) }
    }

    #[test]
    fn a_sign_is_half_of_what_the_guard_acts_on() {
        assert_eq!(2 * SIGN_BACKLOG, BACKLOG);
        assert_eq!((2.0 * SIGN_RATE, 2 * SIGN_COMMIT), (FLOOD_RATE, FLOOD_COMMIT));
    }

    #[test]
    fn without_signs_a_second_in_eight_is_looked_at() {
        let mut bench = Bench::new();
        let open: Vec<bool> =
            (0..96).map(|_| bench.look(1 << 20, vec![writer("log", 4096)], false)).collect();
        assert_eq!(open.iter().filter(|open| **open).count(), 96 / 8);
        for period in open.chunks(32) {
            assert_eq!(period, [[true; 4].as_slice(), &[false; 28]].concat());
        }
    }

    #[test]
    fn each_sign_of_a_flood_keeps_the_tracepoints_open_and_for_a_while_after() {
        let pace = Claimant { pid: 7, start_ticks: 100 };
        let paced = Actor { paced_by: Some(pace), ..writer("cp", 0) };
        let signs: [(&str, u64, Vec<Actor>, bool); 4] = [
            ("a backlog", SIGN_BACKLOG, vec![], false),
            ("a writer", 0, vec![writer("cp", 600_000)], false),
            ("a flood that paces itself", 0, vec![paced], false),
            ("a knob that is held", 0, vec![], true),
        ];
        for (what, backlog, actors, steers) in signs {
            let mut bench = Bench::new();
            for _ in 0..10 {
                bench.look(0, vec![], false);
            }
            assert!(!bench.open, "{what}");
            for _ in 0..100 {
                assert!(bench.look(backlog, actors.clone(), steers), "{what}");
            }
            let after = (0..200).take_while(|_| bench.look(0, vec![], false)).count() as u32;
            // The lingering, and the first sample, in which the base is learnt.
            assert_eq!((after + 1) * TICK, LINGER + SAMPLE, "{what}");
        }
    }

    #[test]
    fn between_looks_growing_dirty_pages_are_a_sign() {
        let mut bench = Bench::new();
        bench.look(SIGN_BACKLOG - 1, vec![], false);
        assert!(!bench.attention.is_sign(2 * SIGN_BACKLOG - 2));
        assert!(bench.attention.is_sign(2 * SIGN_BACKLOG - 1));
        // A flood of another device: the next alarm is heard after the next sample began.
        bench.look(0, vec![], false);
        let deaf = (0..100).take_while(|_| {
            let is_deaf = !bench.attention.is_sign(2 * SIGN_BACKLOG);
            bench.look(0, vec![], false);
            is_deaf
        });
        assert_eq!(deaf.count() as u32 * TICK, PERIOD - TICK);
        // A real one.
        bench.look(0, vec![], false);
        bench.look(SIGN_BACKLOG, vec![], false);
        assert!(bench.attention.is_sign(3 * SIGN_BACKLOG));
    }

    #[test]
    fn a_look_after_a_sign_has_seen_waits_for_long_enough_to_judge() {
        for tick in [TICK, 2 * TICK] {
            for sign in 1..=5 {
                let (mut waited, mut opened) = (Duration::ZERO, None);
                let left = glances(tick, |glance| {
                    waited += glance;
                    opened = (waited == sign * GLANCE).then_some(waited);
                    Ok::<_, ()>(opened.is_some())
                });
                let look = waited + left.unwrap();
                match opened {
                    Some(opened) => assert_eq!(look - opened, SOON, "{sign} of {tick:?}"),
                    None => assert_eq!(look, tick),
                }
                // A flood is met within half a second. The glance before did not see it.
                assert!(opened.is_none_or(|opened| look - (opened - GLANCE) <= 2 * TICK));
            }
        }
    }

    #[test]
    fn a_look_that_opens_the_tracepoints_late_has_missed_waits() {
        let ms = Duration::from_millis;
        for (attached, window, all) in
            [(250, 250, true), (240, 250, true), (150, 250, false), (0, 500, false)]
        {
            assert_eq!(sees_all(ms(attached), ms(window)), all, "{attached} of {window} ms");
        }
    }

    #[test]
    fn a_database_that_commits_what_it_dirties_is_no_sign() {
        let mut bench = Bench::new();
        let mut open = 0;
        for _ in 0..320 {
            let seen = database(bench.open);
            open += u32::from(bench.look(0, vec![seen], false));
        }
        // It is met unseen once at the most.
        assert!(open <= 320 / 8 + 24, "open at {open} of 320 looks");
        assert!(bench.attention.is_committer(&database(false)));
        // It stops committing, and dirties on.
        let unseen = (0..400).take_while(|_| {
            let seen = database(false);
            !bench.look(0, vec![seen], false)
                || bench.attention.sign.is_none_or(|sign| sign < bench.at)
        });
        assert!(unseen.count() as u32 * TICK <= PERIOD);
        assert!((0..40).all(|_| bench.look(0, vec![database(false)], false)));
    }
}
