//! A disk of arithmetic: one server, first come first served, with a volatile cache. Its waits
//! follow from the bytes before a request, and from nothing else.

use std::time::Duration;

use super::{MB, TICK};
use crate::law::{Allowance, Law, Seen, Waits};

/// A disk that takes so many bytes a second, and a victim that commits.
#[derive(Clone, Copy)]
pub(super) struct Disk {
    pub(super) bytes_per_s: f64,
    /// Seconds that a commit takes alone.
    pub(super) commit_s: f64,
    /// Commits a second; none: one after the other.
    pub(super) rate: Option<f64>,
}

/// What came of a run.
#[derive(Default)]
pub(super) struct Outcome {
    /// Of all commands.
    pub(super) own_bytes: f64,
    /// Of each command.
    pub(super) each_bytes: Vec<f64>,
    pub(super) commits: f64,
    pub(super) wait_s: f64,
}

impl Disk {
    /// Runs the law for so long; the victim commits in `victim`.
    pub(super) fn run(self, law: &mut Law, seconds: f64, victim: std::ops::Range<f64>) -> Outcome {
        self.run_together(&mut [law], seconds, victim)
    }

    /// The same with several commands, each with a law.
    pub(super) fn run_together(
        self,
        laws: &mut [&mut Law],
        seconds: f64,
        victim: std::ops::Range<f64>,
    ) -> Outcome {
        let dt = TICK.as_secs_f64();
        let mut allowances: Vec<_> =
            laws.iter_mut().map(|law| law.step(&Seen::default())).collect();
        let (mut out, mut credit) = (Outcome::default(), 0.0);
        out.each_bytes = vec![0.0; laws.len()];
        for tick in 0..(seconds / dt) as u32 {
            let now = f64::from(tick) * dt;
            // Of each: what is allowed, at most what the disk takes.
            let wanted = allowances.iter().map(|a| a.rate.map_or(f64::MAX, |rate| rate * dt));
            let wanted_s: Vec<f64> =
                wanted.map(|bytes| (bytes / self.bytes_per_s).min(dt)).collect();
            let all_s: f64 = wanted_s.iter().sum();
            let saturated = all_s >= dt;
            let own_s: Vec<f64> = wanted_s.iter().map(|s| s * (dt / all_s).min(1.0)).collect();
            let queue = |a: &Allowance| if saturated { a.under_way } else { a.piece };
            let (mut commits, mut wait_s) = (0.0, self.commit_s);
            if victim.contains(&now) {
                // A commit meets our pieces as often as we are there, and waits for half of one.
                for (a, own_s) in allowances.iter().zip(&own_s).filter(|(_, s)| **s > 0.0) {
                    let before_s = queue(a) as f64 / self.bytes_per_s;
                    wait_s += before_s * if saturated { 1.0 } else { own_s / dt / 2.0 };
                }
                let most = dt / wait_s;
                credit += self.rate.map_or(most, |rate| (rate * dt).min(most));
                commits = f64::floor(credit);
                credit -= commits;
            }
            let others_s = match self.rate {
                None if victim.contains(&now) => dt,
                _ => commits * self.commit_s,
            };
            let left = if saturated { 1.0 - commits * self.commit_s / dt } else { 1.0 };
            out.commits += commits;
            out.wait_s += commits * wait_s;
            for (at, law) in laws.iter_mut().enumerate() {
                let own = (own_s[at] * self.bytes_per_s * left).max(0.0);
                out.own_bytes += own;
                out.each_bytes[at] += own;
                allowances[at] = law.step(&Seen {
                    elapsed: TICK,
                    own_bytes: own as u64,
                    own: Waits {
                        ops: own as u64 / allowances[at].piece.max(1),
                        wait: Duration::from_secs_f64(own_s[at]),
                    },
                    own_under_way: if own_s[at] > 0.0 { queue(&allowances[at]) } else { 0 },
                    backlogged: saturated && own_s[at] > 0.0,
                    flushes: Waits {
                        ops: commits as u64,
                        wait: Duration::from_secs_f64(commits * wait_s),
                    },
                    busy: Duration::from_secs_f64((own_s.iter().sum::<f64>() + others_s).min(dt)),
                    in_flight: u64::from(victim.contains(&now)),
                    ..Seen::default()
                });
            }
        }
        out
    }
}

pub(super) fn hard_disk(rate: Option<f64>) -> Disk {
    Disk { bytes_per_s: 120.0 * MB, commit_s: 0.008, rate }
}
