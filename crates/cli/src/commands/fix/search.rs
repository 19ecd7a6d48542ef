//! `floodwall fix --tune`: a search in the place of the first guess.

use std::time::Instant;

use floodwall_model::diagnosis::Diagnosis;

use super::FixArgs;
use crate::commands::settings::trial::{Begun, Trial};
use crate::commands::tune;
use crate::exit::{Exit, UsageError};
use crate::output::notice;

/// Searches, and puts the recommended setting in force for a time.
pub(super) fn run(args: &FixArgs, before: &Diagnosis, origin: Instant) -> anyhow::Result<Exit> {
    let directory = directory(args, before)?;
    notice(&format!(
        "searching for {}: the disk below '{directory}' is loaded meanwhile, and each setting is \
         taken back; Ctrl-C ends it",
        args.search_time
    ));
    let found = tune::recommend(&["--time", &args.search_time, &directory], origin)?;
    let Some(found) = found.setting else { return Ok(found.exit) };
    let why = "floodwall fix --tune".to_owned();
    match Trial::begin(found.words, found.device, why, args.trial.clone())? {
        Begun::Trial(trial) => trial.keep(),
        Begun::Not(exit) => Ok(exit),
    }
}

/// The directory that was named, or one on the disk that a process waits for.
fn directory(args: &FixArgs, before: &Diagnosis) -> Result<String, UsageError> {
    let named = args.about.as_ref().filter(|about| std::path::Path::new(about).is_dir());
    let mount = || before.disks.first()?.mounts.first();
    named.or_else(mount).cloned().ok_or_else(|| {
        UsageError(
            "a search needs a directory on the disk: floodwall fix /var/lib/postgresql --tune"
                .to_owned(),
        )
    })
}
