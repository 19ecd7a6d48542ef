//! What measured numbers mean: percentiles, steady state, stalls, confidence intervals, the four
//! figures.
//!
//! ```text
//! recorder    live latency counters ─▶ LatencyCounts
//! quantiles   LatencyCounts ─▶ percentiles
//! hlog        Trials ─▶ HdrHistogram interval log
//! interval_store  a phase's intervals in bounded memory
//! phase       loads on a host ─▶ warm-up, seconds measured ─▶ Phase
//! steady      a series ─▶ is the load warmed up?
//! stalls      operations second by second ─▶ dead seconds, stalls
//! estimate    rounds of seconds ─▶ a rate or a ratio of rates with its 95 % interval
//! share       rounds ─▶ a share of time with its interval
//! p99         rounds of latencies ─▶ p99 with its interval
//! figures     Trials ─▶ victim_kept, flood_kept, burst_kept, dead_seconds
//! versus      Trials of several settings, a reference ─▶ ratios with intervals,
//!                                                        which differences are real
//! frontier    figures of several settings ─▶ those that no other beats
//! random      a seed ─▶ random numbers
//! student     t distribution: p-values and quantiles
//! ```
//!
//! Pure: no file, no clock, no environment, no unseeded random number. Which statistic is used for
//! what, and why, is in docs/statistics.md.

#[cfg(test)]
mod coverage;
pub mod estimate;
pub mod figures;
pub mod frontier;
pub mod hlog;
pub mod interval_store;
mod p99;
pub mod phase;
pub mod quantiles;
pub mod random;
pub mod recorder;
mod share;
pub mod stalls;
pub mod steady;
pub mod student;
mod variance;
pub mod versus;
