//! Signs of others while the command has the whole disk.

use std::time::Duration;

use super::listen::Silence;
use super::seen::Seen;

/// Length of the window in which requests are counted.
const WINDOW: Duration = Duration::from_secs(1);
/// So many requests per second that may be others' are a sign …
const SUSPICIOUS_PER_S: f64 = 2.0;
/// … besides this part of the command's own, where their number is an estimate.
const ESTIMATE: f64 = 0.03;
/// After a false alarm there is no full silence for so long, twice as long each time …
const CALM: Duration = Duration::from_secs(1);
/// … up to this. A lasting cause of false alarms then costs a fortieth of the time.
const CALM_MOST: Duration = Duration::from_secs(8);
/// Unless there are so many times more requests than at the last false alarm.
const MORE: f64 = 3.0;
/// Until then a sign of others leads to a glance. Glances are at least so far apart. They take 3 %
/// of the time.
const GLANCE_EVERY: Duration = Duration::from_secs(1);
/// Where commits need no flush, the requests of so many bytes are counted before the first silence.
const FIRST_BYTES: u64 = 8 << 20;

/// Counts requests that may be others'.
#[derive(Clone, Debug)]
pub(super) struct Alarm {
    window: Seen,
    /// No full silence before this moment, unless there are many more requests than at the last.
    calm_until: Duration,
    calm: Duration,
    /// No glance before this moment.
    glance_at: Duration,
    dismissed_per_s: f64,
    /// Write requests per byte of the command by itself; none before the first false alarm.
    per_byte: Option<f64>,
}

impl Alarm {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            window: Seen::default(),
            calm_until: now,
            calm: CALM,
            glance_at: now,
            dismissed_per_s: 0.0,
            per_byte: None,
        }
    }

    /// How to listen for others now, if at all.
    pub(super) fn observe(&mut self, seen: &Seen, now: Duration) -> Option<Silence> {
        if self.window.elapsed >= WINDOW {
            self.learn();
            self.window = Seen::default();
        }
        self.window = self.window.plus(seen);
        let per_s = self.others_per_s();
        let is_new = per_s > self.dismissed_per_s * MORE;
        let is_calm = now < self.calm_until && !is_new;
        let is_sign = per_s >= SUSPICIOUS_PER_S;
        if is_sign && !is_calm || self.is_unknown() || seen.others_reported {
            return Some(Silence::Full);
        }
        (is_sign && now >= self.glance_at).then_some(Silence::Glance)
    }

    /// A glance showed no request.
    pub(super) fn dismiss_glance(&mut self, now: Duration) {
        self.glance_at = now + GLANCE_EVERY;
        self.window = Seen::default();
    }

    /// A silence showed that the requests were the command's own: reads of its source, journal
    /// commits.
    pub(super) fn dismiss(&mut self, now: Duration) {
        self.dismissed_per_s = self.others_per_s();
        self.per_byte = self.window_per_byte().or(self.per_byte);
        self.calm_until = now + self.calm;
        self.calm = (self.calm * 2).min(CALM_MOST);
        self.dismiss_glance(now);
    }

    /// Others have gone: they are listened for at the first sign of their return.
    pub(super) fn expect(&mut self, now: Duration) {
        *self = Self { per_byte: self.per_byte, ..Self::new(now) };
    }

    /// Requests of the window that may be others', per second.
    fn others_per_s(&self) -> f64 {
        let window = &self.window;
        let seconds = window.elapsed.max(WINDOW).as_secs_f64();
        let Some(per_byte) = self.per_byte.filter(|_| window.flushless.is_some()) else {
            return window.others_ops() / seconds;
        };
        // An estimate, no upper bound: a victim behind a full queue commits so rarely that a bound
        // would hide it.
        let own = per_byte * window.own_bytes as f64;
        let others = window.writes.ops as f64 - own * (1.0 + ESTIMATE);
        (others.max(0.0) + window.others_reads().ops as f64) / seconds
    }

    /// Whether the command's requests per byte are needed and not known.
    fn is_unknown(&self) -> bool {
        let window = &self.window;
        window.flushless.is_some() && self.per_byte.is_none() && window.own_bytes >= FIRST_BYTES
    }

    /// Lowers the requests per byte to those of the window. Only a silence raises them: else
    /// requests of others would count as the command's.
    fn learn(&mut self) {
        if let (Some(known), Some(new)) = (self.per_byte, self.window_per_byte()) {
            self.per_byte = Some(known.min(new));
        }
    }

    fn window_per_byte(&self) -> Option<f64> {
        let window = &self.window;
        (window.own_bytes > 0).then(|| window.writes.ops as f64 / window.own_bytes as f64)
    }
}
