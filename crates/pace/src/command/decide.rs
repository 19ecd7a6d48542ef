//! Decides whether a command runs or is stopped, and when to look again. Pure.
//!
//! ```text
//!          backlog > window, and it ran 50 ms or dirtied half a window;
//!          backlog > 2 windows, and it dirtied a page; a silence
//!  Running ─────────────────────────────────────────────────────────▶ Held
//!     ▲                                                                │
//!     └── backlog < half a window and no silence, or held for 2 s ◀────┘
//! ```

use std::time::Duration;

/// The longest stop. Peers in a network would give up a command that is stopped for longer.
const LONGEST: Duration = Duration::from_secs(2);
/// The least time that it runs after a stop …
const LEAST: Duration = Duration::from_millis(50);
/// … unless it dirties the window divided by this before, …
const PART: u64 = 2;
/// … or one page while the backlog is more than this many windows. On a slow disk the backlog
/// would grow from stop to stop, and after 30 s the kernel would write it all at once
/// (`vm.dirty_expire_centisecs`).
const FAR: u64 = 2;
/// Rate in bytes per second at which programs dirty pages at most.
pub(super) const FASTEST: f64 = 5e9;
/// Bounds of the time between two looks while it dirties pages, and the least time while it dirties
/// none.
pub(super) const BUSY: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(20)];
/// The same while more is dirty than the window. The command is stopped soon then, after [`LEAST`]
/// at the latest.
const SOON: Duration = Duration::from_micros(200);
/// Rate in bytes per second below which a command counts as dirtying no pages …
const SLOW_PER_S: f64 = 100e3;
/// … and the factor by which its rate falls from look to look, so that looks stay frequent for a
/// while.
const FADING: f64 = 0.5;
/// The pause is at least so many times as long as the processor time of a look, while the command
/// dirties pages …
const BUSY_SHARE: u32 = 10;
/// … and while it dirties none.
const QUIET_SHARE: u32 = 100;
/// The longest pause, however much a look takes …
const RARELY: Duration = Duration::from_secs(2);
/// … and while the command is stopped. A stop is longer than [`LONGEST`] by that at most.
const RARELY_HELD: Duration = Duration::from_millis(100);

/// The decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Run,
    Hold,
}

/// The present state of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// It has run for `elapsed` and dirtied so many bytes meanwhile.
    Running { elapsed: Duration, dirtied: u64 },
    /// It has been stopped for `elapsed`.
    Held { elapsed: Duration },
}

/// Decides from the backlog, from its limit `in_flight`, from the state of the command, and whether
/// it is to be silent: it may read and sync by itself, which no limit of dirty data ends.
pub(super) fn decide(backlog: u64, in_flight: u64, is_silent: bool, doing: Doing) -> Wish {
    let holds = match doing {
        Doing::Held { elapsed } => (is_silent || backlog >= in_flight / 2) && elapsed < LONGEST,
        Doing::Running { .. } if is_silent => true,
        Doing::Running { elapsed, dirtied } => {
            let is_far = backlog > in_flight.saturating_mul(FAR);
            let enough = if is_far { 1 } else { in_flight / PART };
            backlog > in_flight && (elapsed >= LEAST || dirtied >= enough)
        }
    };
    if holds { Wish::Hold } else { Wish::Run }
}

/// The inputs of [`pause`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) backlog: u64,
    pub(super) in_flight: u64,
    pub(super) is_held: bool,
    /// Whether it can be stopped.
    pub(super) may_hold: bool,
    /// Bytes that the command dirties per second while it runs, by [`speed`].
    pub(super) dirtied_per_s: f64,
    /// Bytes that are written back per second.
    pub(super) written_per_s: f64,
    /// Processor time of this look. The time on the clock would be longer on a busy machine: a
    /// command that goes on takes the processor from the look that let it.
    pub(super) took: Duration,
}

/// The rate at which the command dirties pages, by the rate before and that since the last look. It
/// rises at once and falls slowly, because a stopped command goes on as fast as before.
pub(super) fn speed(before: f64, now: f64) -> f64 {
    now.max(before * FADING)
}

/// The time until the next look, which is about when the decision may change.
pub(super) fn pause(pace: &Pace) -> Duration {
    let half = pace.in_flight / 2;
    let in_time = |bytes: u64, per_s: f64| {
        let seconds = (bytes as f64 / per_s.max(1.0)).min(1.0);
        Duration::from_secs_f64(seconds).clamp(BUSY[0], BUSY[1])
    };
    if pace.is_held {
        let next = in_time(pace.backlog.saturating_sub(half), pace.written_per_s);
        next.max(pace.took * BUSY_SHARE).min(RARELY_HELD)
    } else if pace.dirtied_per_s >= SLOW_PER_S {
        if pace.backlog > pace.in_flight && pace.may_hold {
            return SOON;
        }
        let next = in_time(pace.in_flight.saturating_sub(pace.backlog), pace.dirtied_per_s);
        next.max(pace.took * BUSY_SHARE).min(RARELY)
    } else {
        BUSY[1].max(pace.took * QUIET_SHARE).min(RARELY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 1000;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn it_is_stopped_above_the_window_and_runs_on_below_half_of_it() {
        let running = Doing::Running { elapsed: ms(500), dirtied: 1 };
        assert_eq!(decide(WINDOW, WINDOW, false, running), Wish::Run);
        assert_eq!(decide(WINDOW + 1, WINDOW, false, running), Wish::Hold);
        let held = Doing::Held { elapsed: ms(30) };
        assert_eq!(decide(WINDOW / 2, WINDOW, false, held), Wish::Hold);
        assert_eq!(decide(WINDOW / 2 - 1, WINDOW, false, held), Wish::Run);
        assert_eq!(decide(u64::MAX, u64::MAX, false, running), Wish::Run);
    }

    #[test]
    fn it_is_stopped_in_a_silence_whatever_is_dirty() {
        let running = Doing::Running { elapsed: ms(0), dirtied: 0 };
        assert_eq!(decide(0, WINDOW, true, running), Wish::Hold);
        assert_eq!(decide(0, WINDOW, true, Doing::Held { elapsed: ms(1900) }), Wish::Hold);
        assert_eq!(decide(0, WINDOW, true, Doing::Held { elapsed: ms(2000) }), Wish::Run);
    }

    #[test]
    fn it_is_never_stopped_for_long_and_then_runs_for_a_moment() {
        let much = WINDOW * 100;
        assert_eq!(decide(much, WINDOW, false, Doing::Held { elapsed: ms(1999) }), Wish::Hold);
        assert_eq!(decide(much, WINDOW, false, Doing::Held { elapsed: ms(2000) }), Wish::Run);
        let running = |elapsed, dirtied| Doing::Running { elapsed: ms(elapsed), dirtied };
        assert_eq!(decide(much, WINDOW, false, running(49, 0)), Wish::Run);
        assert_eq!(decide(much, WINDOW, false, running(50, 0)), Wish::Hold);
        assert_eq!(decide(much, WINDOW, false, running(2, 1)), Wish::Hold);
        assert_eq!(decide(WINDOW + 1, WINDOW, false, running(49, 499)), Wish::Run);
        assert_eq!(decide(WINDOW + 1, WINDOW, false, running(2, 500)), Wish::Hold);
    }

    #[test]
    fn looks_are_frequent_while_it_dirties_and_cheap_while_it_does_not() {
        let mut pace = Pace {
            backlog: 0,
            in_flight: 1_000_000,
            is_held: false,
            may_hold: true,
            dirtied_per_s: 1e6,
            written_per_s: 1e6,
            took: Duration::from_micros(50),
        };
        assert_eq!(pause(&pace), ms(20));
        pace.dirtied_per_s = 1e8;
        assert_eq!(pause(&pace), ms(10));
        pace.dirtied_per_s = 1e10;
        assert_eq!(pause(&pace), ms(2));
        pace.took = ms(1);
        assert_eq!(pause(&pace), ms(10));
        (pace.is_held, pace.took, pace.backlog) = (true, ms(0), 503_000);
        assert_eq!(pause(&pace), ms(3));
        pace.backlog = 900_000;
        assert_eq!(pause(&pace), ms(20));
        pace.took = ms(5000);
        assert_eq!(pause(&pace), ms(100));
        pace.took = ms(0);
        pace.is_held = false;
        pace.backlog = 1_000_001;
        assert_eq!(pause(&pace), SOON);
        pace.may_hold = false;
        assert_eq!(pause(&pace), ms(2));
        pace.dirtied_per_s = 0.0;
        assert_eq!(pause(&pace), ms(20));
        pace.took = ms(5);
        assert_eq!(pause(&pace), ms(500));
        pace.took = ms(5000);
        assert_eq!(pause(&pace), ms(2000));
        assert_eq!((speed(100.0, 300.0), speed(300.0, 0.0)), (300.0, 150.0));
    }
}
