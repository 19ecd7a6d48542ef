//! The control law: how fast one command may write, by the counters of its disk. Pure.
//!
//! ```text
//!        requests that may be others'                  others' requests
//!  Alone ──────────────────────────────▶ Listen ──────────────────▶ Shared ──┐ every few
//!    ▲  no limit of the rate               │ a silence: how long     │  ▲    │ seconds: Listen
//!    │                                     │ do others wait without  │  └────┘
//!    ├── no request: a false alarm ◀───────┘ the command?            │
//!    └── no request for 2 s, or in two silences ◀────────────────────┘
//! ```
//!
//! - The signal is delay, as in LEDBAT (RFC 6817): the wait of others beside the command, compared
//!   with their wait in a silence. BBR measures its base in the same way (`ProbeRTT`,
//!   draft-cardwell-iccrg-bbr-congestion-control).
//! - The counters are those of /sys/dev/block/ID/stat, which every user may read. Flushes are
//!   commits of others, and reads are reads of others. The counters include the command's own
//!   requests. Only requests in a silence certainly belong to others.
//! - A running guard reports waiting programs (`others_reported`). A report is a sign of others,
//!   also of those that commit too seldom for the counters, and in a silence without a request.
//! - The share begins with half of the disk's idle time in a silence. A victim that takes all it
//!   can get leaves none. A victim at a third of the capacity leaves two thirds. The delay then
//!   corrects the share.

mod alarm;
mod capacity;
mod listen;
mod seen;
mod share;

use std::time::Duration;

pub use seen::{Seen, Waits};

use alarm::Alarm;
use capacity::Capacity;
use listen::{Heard, Listen, Silence};
use share::Share;

/// The goal of a paced command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// Others wait at most so many times as long as without the command, on average.
    Victim(f64),
    /// A rate in bytes per second, also while others wait.
    Rate(f64),
    /// A fraction of the capacity, while others wait.
    Share(f64),
}

impl Default for Goal {
    fn default() -> Self {
        Self::Victim(2.0)
    }
}

/// The limits of the command until the next step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance {
    /// Bytes per second; none for no limit, 0 in a silence.
    pub rate: Option<f64>,
    /// Bytes of one piece.
    pub piece: u64,
    /// Bytes under way at most, at least a piece.
    pub under_way: u64,
    /// Bytes dirty or under way at most, at least two pieces.
    pub in_flight: u64,
    /// While others wait: a piece starts once the disk has been idle for so long.
    pub idle_for: Option<Duration>,
}

/// The reason for the command's speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No other program waits for the disk.
    Alone,
    /// The command is silent, to show how long others wait without it.
    Listening,
    /// Others wait for the disk, and the command has a share.
    Yielding,
    /// The goal is a rate, whether others wait or not.
    Fixed,
}

/// Bounds of the time of a piece at the capacity, in seconds.
const PIECE_S: [f64; 2] = [0.0005, 0.1];
/// The time of a piece at the capacity while no other program waits, in seconds.
const LONG_PIECE_S: f64 = 0.02;
/// A disk that has been idle for this part of a piece's time serves no commit: the requests of one
/// follow each other at once.
const IDLE: f64 = 1.0 / 8.0;
/// Bounds of that time, in seconds. A look takes 20 µs, so looks at the lower one take less than a
/// tenth of a processor.
const IDLE_S: [f64; 2] = [0.0002, 0.001];
/// Time of the data under way while no other program waits, at most. A victim's first commit waits
/// as long.
const QUEUE_S: f64 = 0.2;
/// Time of the dirty data while no other program waits, at the measured capacity: the command
/// works on while the disk writes. Data that is not under way delays others only if it is synced.
const AHEAD_ALONE_S: f64 = 1.0;
/// Time of the dirty data while others wait, at the allowed rate. A stopped command goes on some
/// milliseconds late, and until then there must be pieces to write.
const AHEAD_S: f64 = 0.05;
/// Bounds of a piece, in bytes.
const PIECES: [u64; 2] = [128 << 10, 8 << 20];
/// Bounds of the data under way while no other program waits, in bytes. The upper one also bounds
/// the dirty data while others wait.
const QUEUES: [u64; 2] = [1 << 20, 64 << 20];
/// After so long without a request of others the command has the whole disk again.
const GONE: Duration = Duration::from_secs(2);
/// Time between two silences while others wait. They begin at multiples of it, so that several
/// paced commands are silent together. Otherwise each would take the delay by the others for the
/// wait without itself, and all would rise.
const LISTEN_EVERY: Duration = Duration::from_secs(4);
/// The same after the first silence, and after one without a request …
const LISTEN_AGAIN: Duration = Duration::from_secs(1);
/// After so many silences without a request in a row the others have gone.
const EMPTY: u32 = 2;
/// The longest silence without a request that ended, while a request is under way, and for others
/// that a guard tells of, until their wait is known. Some programs commit once a second.
const LISTEN_FOR_KNOWN: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
enum Phase {
    Alone,
    Listen(Box<Listen>),
    Shared { since: Duration, idle: Duration },
}

/// The law of one command on one disk.
#[derive(Clone, Debug)]
pub struct Law {
    goal: Goal,
    /// Never more than this, in bytes per second.
    most: Option<f64>,
    /// Most dirty data while no other program waits, in bytes.
    most_ahead: u64,
    now: Duration,
    /// Time in which others waited for the disk.
    yielded: Duration,
    phase: Phase,
    alarm: Alarm,
    capacity: Capacity,
    /// The silences of the present others.
    heard: Heard,
    share: Share,
    /// Silences without a request of others, in a row.
    empty: u32,
}

impl Law {
    /// For a disk that was not measured yet. `most_ahead` limits the dirty data while no other
    /// program waits, in bytes. `now` is the time by a clock that all paced commands share.
    #[must_use]
    pub fn new(goal: Goal, most: Option<f64>, most_ahead: u64, now: Duration) -> Self {
        Self {
            goal,
            most,
            most_ahead,
            now,
            yielded: Duration::ZERO,
            phase: Phase::Alone,
            alarm: Alarm::new(now),
            capacity: Capacity::default(),
            heard: Heard::default(),
            share: Share::default(),
            empty: 0,
        }
    }

    /// Takes the counters since the last step, and returns the limits from now on.
    ///
    /// `seen` may cover a few milliseconds or minutes.
    pub fn step(&mut self, seen: &Seen) -> Allowance {
        self.now += seen.elapsed;
        if self.state() == State::Yielding {
            self.yielded += seen.elapsed;
        }
        let phase = std::mem::replace(&mut self.phase, Phase::Alone);
        self.phase = match phase {
            Phase::Alone => self.alone(seen),
            Phase::Listen(listen) => self.listen(listen, seen),
            Phase::Shared { since, idle } => self.shared(since, idle, seen),
        };
        self.allowance()
    }

    /// The reason for the command's speed.
    #[must_use]
    pub fn state(&self) -> State {
        match self.phase {
            Phase::Alone if matches!(self.goal, Goal::Rate(_)) => State::Fixed,
            Phase::Alone => State::Alone,
            Phase::Listen(_) => State::Listening,
            Phase::Shared { .. } => State::Yielding,
        }
    }

    /// Time in which others waited for the disk.
    #[must_use]
    pub fn yielded(&self) -> Duration {
        self.yielded
    }

    /// The rate at which the disk takes the command's data while no other program waits, in bytes
    /// per second.
    #[must_use]
    pub fn capacity(&self) -> f64 {
        self.capacity.bytes_per_s()
    }

    /// How long others wait now, as a multiple of their wait without the command; none if not
    /// known.
    #[must_use]
    pub fn wait_ratio(&self) -> Option<f64> {
        matches!(self.phase, Phase::Shared { .. }).then(|| self.share.last_ratio()).flatten()
    }

    fn alone(&mut self, seen: &Seen) -> Phase {
        self.capacity.observe(seen);
        let silence = self.alarm.observe(seen, self.now);
        let listens = match self.goal {
            Goal::Victim(_) => true,
            // A share of a guess would be any rate.
            Goal::Share(_) => self.capacity.is_measured(),
            Goal::Rate(_) => false,
        };
        match silence {
            Some(kind) if listens => Phase::Listen(Box::new(Listen::new(kind))),
            _ => Phase::Alone,
        }
    }

    fn listen(&mut self, mut listen: Box<Listen>, seen: &Seen) -> Phase {
        listen.observe(seen);
        let (heard, first) = (listen.heard(), !self.heard.is_known());
        let waits = heard.in_flight > 0;
        let is_missed = (seen.others_reported || waits) && heard.others_ops() < 1.0;
        let goes_on = is_missed && (first || waits) && heard.elapsed < LISTEN_FOR_KNOWN;
        // Programs that the command delays make many requests: the next one would come within a
        // silence.
        let has_ended = first && !seen.others_reported && listen.has_ended();
        if !listen.is_over() && !has_ended || goes_on {
            return Phase::Listen(listen);
        }
        if is_missed {
            // They wait too seldom for a silence: how long is not known.
            if first {
                self.share.begin(1.0);
            }
            self.empty = 0;
            self.share.forget_window();
            return Phase::Shared { since: self.now, idle: Duration::ZERO };
        }
        if heard.others_ops() < 1.0 || has_ended {
            self.empty += 1;
            if first || self.empty >= EMPTY {
                match (first, listen.kind()) {
                    (false, _) => self.alarm.expect(self.now),
                    (true, Silence::Full) => self.alarm.dismiss(self.now),
                    (true, Silence::Glance) => self.alarm.dismiss_glance(self.now),
                }
                (self.heard, self.empty) = (Heard::default(), 0);
                return Phase::Alone;
            }
            self.share.forget_window();
            return Phase::Shared { since: self.now, idle: Duration::ZERO };
        }
        self.empty = 0;
        // The first silence may have shown a disk that was still busy with the command's data.
        let begins = first || self.heard.is_first();
        self.heard.learn(&heard);
        if begins {
            self.share.begin(1.0 - self.heard.busy());
        }
        self.share.forget_window();
        Phase::Shared { since: self.now, idle: Duration::ZERO }
    }

    fn shared(&mut self, since: Duration, idle: Duration, seen: &Seen) -> Phase {
        let nobody = seen.others_ops() < 1.0 && seen.in_flight == 0 && !seen.others_reported;
        let idle = if nobody { idle + seen.elapsed } else { Duration::ZERO };
        if idle >= GONE {
            self.heard = Heard::default();
            self.alarm.expect(self.now);
            return Phase::Alone;
        }
        if let Goal::Victim(most) = self.goal
            && let Some(rate) =
                self.share.observe(seen, &self.heard, most, self.capacity.bytes_per_s())
        {
            self.capacity.raise(rate);
        }
        // The next silence begins at the first multiple that is half a pause away or more.
        let pause =
            if self.empty > 0 || self.heard.is_first() { LISTEN_AGAIN } else { LISTEN_EVERY };
        if self.now >= next_multiple(since + pause / 2, pause) {
            return Phase::Listen(Box::default());
        }
        Phase::Shared { since, idle }
    }

    fn allowance(&self) -> Allowance {
        let capacity = self.capacity.bytes_per_s();
        let alone = matches!(self.phase, Phase::Alone);
        let limit = match (&self.phase, self.goal) {
            (_, Goal::Rate(rate)) => Some(rate),
            (Phase::Alone, _) => None,
            (Phase::Listen(_), _) => Some(0.0),
            (_, Goal::Share(share)) => Some(share * capacity),
            (Phase::Shared { .. }, Goal::Victim(_)) => Some(self.share.share() * capacity),
        };
        let rate = match (limit, self.most) {
            (Some(limit), Some(most)) => Some(limit.min(most)),
            (limit, most) => limit.or(most),
        };
        let bytes = |per_s: f64, seconds: f64, [least, most]: [u64; 2]| {
            ((per_s * seconds) as u64).clamp(least, most) / PIECES[0] * PIECES[0]
        };
        if alone {
            let per_s = rate.map_or(capacity, |rate| rate.min(capacity));
            let (piece, queue) =
                (bytes(per_s, LONG_PIECE_S, PIECES), bytes(per_s, QUEUE_S, QUEUES));
            let under_way = queue.max(2 * piece);
            // A guess may be far too high for a slow disk. Beside a fixed rate others may wait.
            let is_rate = matches!(self.goal, Goal::Rate(_));
            let ahead = if self.capacity.is_measured() && !is_rate {
                bytes(per_s, AHEAD_ALONE_S, [under_way, self.most_ahead.max(under_way)])
            } else {
                under_way
            };
            return Allowance { rate, piece, under_way, in_flight: ahead, idle_for: None };
        }
        // In the first silence the disk may still have served our data.
        let longest = if self.heard.is_first() { LONG_PIECE_S } else { PIECE_S[1] };
        // As long as the disk serves one operation of others. A longer piece delays them more, and
        // a shorter one costs the disk more seeks.
        let seconds = self.heard.service_s().unwrap_or(LONG_PIECE_S).clamp(PIECE_S[0], longest);
        let piece = bytes(capacity, seconds, PIECES);
        let idle_for = Duration::from_secs_f64((seconds * IDLE).clamp(IDLE_S[0], IDLE_S[1]));
        // Dirty data that is not under way delays no other program.
        let ahead = rate.map_or(0, |rate| (rate * AHEAD_S) as u64);
        let in_flight = ahead.clamp(2 * piece, QUEUES[1]);
        Allowance { rate, piece, under_way: piece, in_flight, idle_for: Some(idle_for) }
    }
}

/// The first multiple of `step` that is not before `at`.
fn next_multiple(at: Duration, step: Duration) -> Duration {
    Duration::from_millis((at.as_millis() as u64).next_multiple_of(step.as_millis() as u64))
}

#[cfg(test)]
mod tests;
