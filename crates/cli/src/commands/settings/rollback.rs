//! `floodwall rollback`: puts back changed values that are still Floodwall's.

use floodwall_host::managers;
use floodwall_knobs::rehearsal::{RehearsedClock, RehearsedFiles, RehearsedStore};
use floodwall_knobs::{Intention, SystemClock};

use super::{Place, PlaceArgs, held, text};
use crate::exit::Exit;
use crate::output;

/// Put back what apply has changed
///
/// Newest change first. A knob that another program has changed since is left as it is, and named.
/// After a crash this is the command to run: it puts back a change that was cut short too. A change
/// from before the last boot is only closed: the boot has undone it. A guard that holds a knob is
/// asked to leave it alone first; without its answer nothing is changed.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  floodwall rollback           # everything
  floodwall rollback --to 3    # changes 4 and later; floodwall log numbers them
  floodwall rollback --dry-run")]
pub(crate) struct RollbackArgs {
    /// Keep changes up to this number
    #[arg(long, value_name = "N", default_value_t = 0)]
    to: u64,
    /// Print the exact writes and what would be left alone, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Runs the command.
///
/// # Errors
/// What could not be done; [`Exit::of`] turns it into a status.
pub(crate) fn run(args: &RollbackArgs) -> anyhow::Result<Exit> {
    let place = args.place.open()?;
    if args.dry_run {
        return rehearse(&place, args.to);
    }
    let store = place.lock_for(Intention::Rollback(args.to))?;
    let (recovery, undone) = place.session(&store, &place.clock(None))?.rollback(args.to)?;
    text::tell(&recovery);
    if undone.is_empty() && recovery.is_empty() {
        output::result("nothing to put back\n")?;
        // A guard puts its own values back. An administrator may take them for a change.
        let others = managers::floodwalls(&place.root, Some(std::process::id()));
        for guard in others.iter().filter(|name| name.ends_with(managers::STEERS)) {
            let pause = "floodwall guard pause puts back what it has set";
            output::notice(&format!("note: {guard}; {pause}"));
        }
    }
    for one in &undone {
        output::result(&text::undone(one))?;
    }
    let mut all = undone.iter().chain(&recovery.undone).chain(&recovery.expired);
    // The changes of an invalid journal have not been put back.
    let complete = recovery.set_aside.is_empty() && all.all(|one| one.is_complete());
    Ok(if complete { Exit::Done } else { Exit::Failed })
}

fn rehearse(place: &Place, to: u64) -> anyhow::Result<Exit> {
    let files = RehearsedFiles::new(&place.files);
    let mut left = Vec::new();
    if let Some(store) = place.read_journal()? {
        let (store, clock) = (RehearsedStore(&store), RehearsedClock(&SystemClock));
        let mut session = place.session(&store, &clock)?;
        session.files = &files;
        let (recovery, undone) = session.rollback(to)?;
        left = text::would_be_left(&recovery, &undone);
        if let Some(held) = place.in_the_way(Intention::Rollback(to))? {
            left.push(format!(
                "{}, which would be asked to put that back first",
                held::told(&held)
            ));
        }
    }
    output::result(&text::writes(&files.writes()))?;
    for line in &left {
        output::result(&format!("# {line}\n"))?;
    }
    Ok(Exit::Done)
}
