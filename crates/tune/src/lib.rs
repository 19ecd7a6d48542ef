//! Compares named settings and searches for the best, over any [`Runner`](floodwall_model::Runner).
//!
//! ```text
//! contest    named settings, interleaved rounds in random order
//! space      what there is to choose from on a host and device, and where to begin
//! objective  trials → what a setting keeps → one score to race by
//! pollution  whether somebody else had a hand in a trial
//! surrogate  scores so far → which untried settings look promising
//! race       candidates, trials, who is dropped
//! tuner      reference → race → winner against the default, afresh → recommendation
//! ```
//!
//! Pure: the runner, the clock and the seed are parameters, so that the search that runs in the
//! simulator is the search that runs on a host.

pub mod contest;
pub mod objective;
pub mod pollution;
pub mod race;
pub mod space;
mod surrogate;
#[cfg(test)]
mod testing;
pub mod tuner;
