//! What measured numbers mean: percentiles, steady state, stalls, confidence intervals, the four figures.
//!
//! ```text
//! recorder    live latency counters ─▶ LatencyCounts
//! quantiles   LatencyCounts ─▶ percentiles; HdrHistogram's forms and back
//! hlog        Trials ─▶ HdrHistogram interval log
//! intervals   a phase's intervals in bounded memory
//! steady      a series ─▶ is the load warmed up?
//! stalls      operations second by second ─▶ dead seconds, stalls
//! bootstrap   rounds of seconds ─▶ a figure's 95 % interval
//! figures     Trials ─▶ victim_kept, flood_kept, burst_kept, dead_seconds
//! versus      Trials of several settings, a reference ─▶ ratios, which differences are real
//! frontier    figures of several settings ─▶ those that no other beats
//! student     t distribution: p-values and quantiles
//! ```
//!
//! Pure: no file, no clock, no environment, no unseeded random number. Which statistic is used for what, and why, is in
//! docs/statistics.md.

pub mod bootstrap;
pub mod figures;
pub mod frontier;
pub mod hlog;
pub mod intervals;
pub mod quantiles;
mod random;
pub mod recorder;
pub mod stalls;
pub mod steady;
pub mod student;
pub mod versus;
