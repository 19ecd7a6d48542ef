//! `floodwall diff`: what is different now from a file, a preset, the kernel's defaults, or from before our changes.

use std::fmt::Write;

use floodwall_knobs::catalogue::{Scope, knobs};
use floodwall_knobs::cell::Cell;
use floodwall_knobs::journal::{Phase, Transaction};
use floodwall_knobs::plan::short;
use floodwall_knobs::session::{boot_id, log};
use floodwall_knobs::value::{Form, check};
use floodwall_knobs::{Change, Device, Target, plan};
use floodwall_model::Reading;

use super::{Place, PlaceArgs, sources, text};
use crate::exit::Exit;
use crate::output::{self, notice};

/// Show how settings differ from a file, a preset, the kernel's defaults, or from before
///
/// Nothing is changed. Lines read `KNOB: now -> wanted`; against the journal, `KNOB: before -> now`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  floodwall diff                        what floodwall has changed and not put back
  floodwall diff default --device sda   the kernel's defaults
  floodwall diff limits.toml
  floodwall diff preset:cachyos sda.scheduler=bfq")]
pub(crate) struct DiffArgs {
    /// journal, default, KNOB=VALUE, FILE.toml, or preset:NAME
    #[arg(value_name = "WHAT", default_value = "journal")]
    what: Vec<String>,
    /// The device of knobs that name none, such as sda
    #[arg(long, value_name = "DEV")]
    device: Option<String>,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Runs the command.
///
/// # Errors
/// What could not be done; [`Exit::of`] turns it into a status.
pub(crate) fn run(args: &DiffArgs) -> anyhow::Result<Exit> {
    let place = args.place.open()?;
    let device = place.device(args.device.as_deref())?;
    let difference = match args.what.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["journal"] => journal(&place)?,
        ["default"] => text::difference(&plan(&defaults(&place, device.as_ref()), &place.files)?),
        _ => {
            let asked = sources::read(&place, device.as_ref(), &args.what)?;
            text::difference(&plan(&asked.changes, &place.files)?)
        }
    };
    output::result(&difference)?;
    Ok(Exit::Done)
}

/// The defaults that are the same on every machine, of what is there.
fn defaults(place: &Place, device: Option<&Device>) -> Vec<Change> {
    let mut cells = Vec::new();
    let mut changes = Vec::new();
    for knob in knobs() {
        let target = match (knob.scope, device) {
            (Scope::Global, _) => Target::Machine,
            (Scope::Queue | Scope::Elevator(_) | Scope::Bdi, Some(device)) => Target::Device(device.clone()),
            _ => continue,
        };
        // Where the default depends on the device it is a sentence, and no value.
        let Ok(value) = check(knob, knob.default, Form::Kernel) else { continue };
        let cell = Cell::of(knob, &target, &place.files);
        if cell.read(&place.files).value().is_some() && !cells.contains(&cell) {
            cells.push(cell);
            changes.push(Change { knob, target, value });
        }
    }
    changes
}

/// What our changes that stand have changed, newest first.
fn journal(place: &Place) -> anyhow::Result<String> {
    let mut told = String::new();
    let logged = match place.read_journal()? {
        Some(store) => log(&store)?,
        None => Vec::new(),
    };
    let boot = boot_id(&place.files);
    for logged in logged.into_iter().rev() {
        match logged.transaction {
            Err(why) => notice(&format!("the journal {} is not to be believed ({why})", logged.name)),
            Ok(transaction)
                if !matches!(transaction.phase(), Phase::Closed(_)) && transaction.begin.boot_id == boot =>
            {
                told.push_str(&one(place, &transaction));
            }
            Ok(_) => {}
        }
    }
    Ok(if told.is_empty() { "no difference\n".to_owned() } else { told })
}

fn one(place: &Place, transaction: &Transaction) -> String {
    let begin = &transaction.begin;
    let mut told = format!("change {}, {}: {}\n", begin.id, text::moment(begin.at_unix_s), begin.why);
    for (index, entry) in transaction.entries.iter().enumerate() {
        let before = entry.old.as_ref().map_or("(not there)".to_owned(), short);
        let now = match entry.cell.read(&place.files) {
            Reading::Value(now) if entry.old.as_ref().is_some_and(|old| entry.cell.same(old, &now)) => {
                continue;
            }
            Reading::Value(now) if transaction.owns(index, &now) => short(&now),
            Reading::Value(now) => format!("{} (not by this change)", short(&now)),
            Reading::Absent(why) | Reading::Unreadable(why) => format!("({why})"),
        };
        let _ = writeln!(told, "  {}: {before} -> {now}", entry.label());
    }
    told
}
