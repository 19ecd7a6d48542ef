//! `floodwall fix DIR --tune`: a search in the place of the first guess.

use std::time::{Duration, Instant};

use floodwall_model::units::human_duration;

use crate::commands::settings::trial::{Begun, Trial, TrialArgs};
use crate::commands::tune;
use crate::exit::{Exit, UsageError};
use crate::output::notice;

/// Asks, searches, and puts the recommended setting in force for a time.
pub(super) fn run(
    directory: &str,
    time: Duration,
    trial: &TrialArgs,
    origin: Instant,
) -> anyhow::Result<Exit> {
    if !std::path::Path::new(directory).is_dir() {
        let why = format!("'{directory}' is no directory: a search needs one on the disk");
        return Err(UsageError(why).into());
    }
    let question = format!(
        "Search for {}? It makes the stall that it measures, on the disk below '{directory}'",
        human_duration(time)
    );
    if !trial.agrees(&question)? {
        notice("nothing was changed");
        return Ok(Exit::Failed);
    }
    let limit = format!("{}ms", time.as_millis());
    let found = tune::recommend(&["--time", &limit, "--", directory], origin)?;
    let Some(found) = found.setting else { return Ok(found.exit) };
    let why = "floodwall fix --tune".to_owned();
    match Trial::begin(found.words, found.device, why, trial.clone())? {
        Begun::Trial(trial) => trial.keep(),
        Begun::Not(exit) => Ok(exit),
    }
}
