//! The task of a search, and what it says while it runs.

use floodwall_model::Trial;

use crate::contest::Contender;
use crate::objective::Objective;

/// The task of a search.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The time that it may take, in seconds.
    pub seconds: f64,
    /// The score that it maximises.
    pub objective: Objective,
    /// Decides orders.
    pub seed: u64,
    /// Trials of an earlier, interrupted search on the same runner and scenario, each with its
    /// requested setting.
    pub earlier: Vec<Earlier>,
    /// Settings that race beside those of the space, each with its name.
    pub also: Vec<Contender>,
}

/// A setting that was tried before.
#[derive(Clone, Debug, Default)]
pub struct Earlier {
    /// Its name.
    pub name: String,
    /// The setting that was asked for.
    pub setting: floodwall_model::Setting,
    /// Its trials.
    pub trials: Vec<Trial>,
    /// Trials that others disturbed, or that ended early: kept, and not counted.
    pub disturbed: Vec<Trial>,
}

/// A search's source of time.
pub enum Clock<'a> {
    /// Seconds since it began.
    Wall(&'a mut dyn FnMut() -> f64),
    /// What trials say of themselves: each begins at 0 (a simulator's).
    Trials,
}

/// Part of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Victims and floods alone.
    Reference,
    /// Candidates against each other.
    Race,
    /// Whether the winner is better.
    Final,
}

/// A trial is about to run.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// Part of the search.
    pub stage: Stage,
    /// Counted from 1 over the whole search.
    pub round: u32,
    /// The candidate's name.
    pub name: &'a str,
    /// Time spent so far, in seconds.
    pub spent_s: f64,
}
