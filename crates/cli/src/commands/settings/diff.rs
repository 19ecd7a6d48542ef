//! `floodwall diff`: what is different now from a file, a preset, the kernel's defaults, or from
//! before our changes.

use std::fmt::Write;

use floodwall_knobs::journal::{Now, Phase, Transaction, boot_id, log};
use floodwall_knobs::plan::{defaults, short};
use floodwall_knobs::{Entry, Plan, plan};
use floodwall_model::calendar::moment;
use serde_json::{Value, json};

use super::others::Others;
use super::{Place, PlaceArgs, sources, text};
use crate::commands::check_captured;
use crate::exit::{Exit, UsageError};
use crate::output::{self, notice};

/// Show how settings differ from a file, a preset, the kernel's defaults, or from before
///
/// Nothing is changed. Lines read `KNOB: now -> wanted`; against the journal,
/// `KNOB: before -> now`. Below them: who else sets the same knobs, and how to settle that.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  floodwall diff                         # changed by floodwall, not put back
  floodwall diff default --device sda    # the kernel's defaults
  floodwall diff limits.toml
  floodwall diff preset:cachyos sda.scheduler=bfq --json")]
pub(crate) struct DiffArgs {
    /// journal or default, alone; else KNOB=VALUE, FILE.toml, preset:NAME, or - for a file on
    /// stdin
    #[arg(value_name = "WHAT", default_value = "journal")]
    what: Vec<String>,
    /// The device of knobs that name none, such as sda
    #[arg(long, value_name = "DEV")]
    device: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Runs the command.
///
/// # Errors
/// What could not be done; [`Exit::of`] turns it into a status.
pub(crate) fn run(args: &DiffArgs) -> anyhow::Result<Exit> {
    // Nothing is changed here: what would be refused is shown all the same.
    let place = args.place.open()?.allow_userspace_servers(true);
    check_captured(&place.root)?;
    let device = place.device(args.device.as_deref())?;
    let changes = match args.what.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["journal"] => return against_journal(&place, args.json),
        ["default"] => defaults(device.as_ref(), &place.files),
        several if several.iter().any(|what| matches!(*what, "journal" | "default")) => {
            let why = "'journal' and 'default' stand alone: name one of them, or settings";
            return Err(UsageError(why.to_owned()).into());
        }
        _ => sources::read(&place, device.as_ref(), &args.what)?.changes,
    };
    let plan = plan(&changes, &place.files)?;
    let others = Others::read(&place);
    if args.json {
        print_json(&json!({
            "schema": "floodwall/diff/1",
            "against": args.what,
            "settings": wanted(&plan),
            "notes": plan.notes,
            "others": others.document(&plan),
        }))?;
    } else {
        others.tell_unread();
        output::result(&format!("{}{}", text::difference(&plan), others.lines(&plan)))?;
    }
    Ok(Exit::Done)
}

fn print_json(document: &Value) -> anyhow::Result<()> {
    output::json(&format!("{}\n", serde_json::to_string_pretty(document)?))
}

/// A plan's changes, as `floodwall log --json` shows them.
fn wanted(plan: &Plan) -> Vec<Value> {
    let one =
        |entry: &Entry| json!({ "knob": entry.label(), "now": entry.old, "wanted": entry.new });
    plan.entries.iter().filter(|entry| entry.is_changed()).map(one).collect()
}

/// The effects of standing changes, newest first.
fn against_journal(place: &Place, as_json: bool) -> anyhow::Result<Exit> {
    let logged = match place.read_journal()? {
        Some(store) => log(&store)?,
        None => Vec::new(),
    };
    let boot = boot_id(&place.files);
    let mut standing = Vec::new();
    for logged in logged.into_iter().rev() {
        match logged.transaction {
            Err(why) => {
                notice(&format!("the journal {} is not to be believed ({why})", logged.name))
            }
            Ok(transaction)
                if !matches!(transaction.phase(), Phase::Closed(_))
                    && transaction.begin.boot_id == boot =>
            {
                standing.push(transaction);
            }
            Ok(_) => {}
        }
    }
    // As if all of it were done again: the same managers fight it.
    let entries =
        standing.iter().flat_map(|transaction| transaction.entries.iter().cloned()).collect();
    let plan = Plan { entries, ..Plan::default() };
    let others = Others::read(place);
    if as_json {
        let changes: Vec<Value> =
            standing.iter().map(|transaction| document(place, transaction)).collect();
        print_json(&json!({
            "schema": "floodwall/diff/1",
            "against": ["journal"],
            "changes": changes,
            "others": others.document(&plan),
        }))?;
    } else if standing.is_empty() {
        output::result("no difference\n")?;
    } else {
        let told: String =
            standing.iter().map(|transaction| paragraph(place, transaction)).collect();
        output::result(&format!("{told}{}", others.lines(&plan)))?;
    }
    Ok(Exit::Done)
}

fn paragraph(place: &Place, transaction: &Transaction) -> String {
    let begin = &transaction.begin;
    let mut told = format!("change {}, {}: {}\n", begin.id, moment(begin.at_unix_s), begin.why);
    for (index, entry) in transaction.entries.iter().enumerate() {
        let label = entry.label();
        let before =
            entry.old.as_ref().map_or("(not there)".to_owned(), |state| short(&label, state));
        let now = match transaction.now(index, &place.files) {
            None | Some(Now::AsBefore) => continue,
            Some(Now::At { state, ours: true }) => short(&label, &state),
            Some(Now::At { state, ours: false }) => {
                format!("{} (not by this change)", short(&label, &state))
            }
            Some(Now::Unknown(why)) => format!("({why})"),
        };
        let _ = writeln!(told, "  {label}: {before} -> {now}");
    }
    told
}

fn document(place: &Place, transaction: &Transaction) -> Value {
    let begin = &transaction.begin;
    let setting = |(index, entry): (usize, &Entry)| match transaction.now(index, &place.files)? {
        Now::AsBefore => None,
        Now::At { state, ours } => Some(json!({
            "knob": entry.label(), "before": entry.old, "now": state, "by_this_change": ours,
        })),
        Now::Unknown(why) => {
            Some(json!({ "knob": entry.label(), "before": entry.old, "now": null, "error": why }))
        }
    };
    let settings: Vec<Value> = transaction.entries.iter().enumerate().filter_map(setting).collect();
    json!({ "id": begin.id, "at_unix_s": begin.at_unix_s, "why": begin.why, "settings": settings })
}
