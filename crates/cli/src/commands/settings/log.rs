//! `floodwall log`: what was changed, when, by whom and why, and whether it stands.
//!
//! ```text
//! journals, oldest first ─▶ runs: changes that one process made and that are over
//!                             ─▶ the last of them ─▶ a paragraph each
//! ```

use std::collections::BTreeSet;
use std::fmt::Write;

use floodwall_knobs::journal::{
    Begin, Closing, Logged, Phase, Transaction, boot_id, is_alive, kept_aside, log,
};
use floodwall_knobs::plan::short;
use floodwall_knobs::{HeldCell, hold};
use floodwall_load::user_name;
use floodwall_model::calendar::moment;
use floodwall_model::message;
use floodwall_model::printable::printable;
use serde_json::{Value, json};

use super::PlaceArgs;
use crate::exit::Exit;
use crate::output;

/// Runs that are shown without `--last`: a screen or two.
const SHOWN: usize = 20;
/// Knobs that are named of a process that has steered or searched.
const STEERED_SHOWN: usize = 5;

/// Show what was changed, when, by whom and why
///
/// Newest last. The trials of one search are one entry. Journals that were kept aside because they
/// could not be believed are listed at the end.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  floodwall log
  floodwall log --last 3
  floodwall log --json")]
pub(crate) struct LogArgs {
    /// Show the newest N entries alone, 20 if not given; with --json changes, all if not given
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    /// Print JSON: one document, with every trial of a search too
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Runs the command.
///
/// # Errors
/// If the journal or stdout can't be used.
pub(crate) fn run(args: &LogArgs) -> anyhow::Result<Exit> {
    let place = args.place.open()?;
    let (mut logged, mut aside, mut living) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(store) = place.read_journal()? {
        (logged, aside) = (log(&store)?, kept_aside(&store)?);
        for begin in logged.iter().filter_map(|one| Some(&one.transaction.as_ref().ok()?.begin)) {
            if begin.steers && is_alive(&place.files, &store, begin)? {
                living.push(begin.id);
            }
        }
    }
    let boot = boot_id(&place.files);
    if args.json {
        let older = logged.len().saturating_sub(args.last.unwrap_or(usize::MAX));
        let changes: Vec<Value> =
            logged.iter().skip(older).map(|one| document(one, &boot, &living)).collect();
        let aside: Vec<Value> =
            aside.iter().map(|(name, why)| json!({ "file": name, "error": why })).collect();
        let all = json!({ "schema": "floodwall/log/1", "changes": changes, "kept_aside": aside });
        output::json(&format!("{}\n", serde_json::to_string_pretty(&all)?))?;
    } else if logged.is_empty() && aside.is_empty() {
        output::result("nothing has been changed\n")?;
    } else {
        let runs: Vec<&[Logged]> = logged.chunk_by(|a, b| is_one_run(a, b, &boot)).collect();
        let older = runs.len().saturating_sub(args.last.unwrap_or(SHOWN));
        if older > 0 {
            let all = runs.len();
            output::result(&format!("{older} older: floodwall log --last {all} shows them too\n"))?;
        }
        for run in runs.into_iter().skip(older) {
            output::folded(&match run {
                [one] => paragraph(one, &boot, &living),
                several => trials(several, &boot),
            })?;
        }
        for (name, why) in &aside {
            let file = place.journal.join(name);
            output::folded(&format!(
                "{}: kept aside, not to be believed ({why}); what it had changed was not put back; \
                 remove it when you have looked at it\n",
                file.display()
            ))?;
        }
    }
    Ok(Exit::Done)
}

/// Whether two changes are over and one process made both: trials of a search.
fn is_one_run(a: &Logged, b: &Logged, boot: &str) -> bool {
    let (Ok(a), Ok(b)) = (&a.transaction, &b.transaction) else { return false };
    let over = |t: &Transaction| {
        !t.begin.steers && (matches!(t.phase(), Phase::Closed(_)) || t.begin.boot_id != boot)
    };
    let process = |t: &Transaction| (t.begin.boot_id.clone(), t.begin.pid, t.begin.pid_start_ticks);
    over(a) && over(b) && process(a) == process(b)
}

/// The changes of one run.
fn trials(run: &[Logged], boot: &str) -> String {
    let all: Vec<&Transaction> =
        run.iter().filter_map(|one| one.transaction.as_ref().ok()).collect();
    let ([first, ..], Some(last)) = (all.as_slice(), all.last()) else { return String::new() };
    let (from, to) = (&first.begin, &last.begin);
    let entries = all.iter().flat_map(|one| &one.entries).filter(|entry| entry.new.is_some());
    let labels: BTreeSet<String> = entries.map(|entry| entry.label()).collect();
    let labels: Vec<String> = labels.into_iter().collect();
    format!(
        "changes {} to {}, {} changes of one process, first {}, last {}, {}\n  why: {}\n  \
         by: {}\n  knobs: {} (floodwall log --json has every value)\n",
        from.id,
        to.id,
        all.len(),
        moment(from.at_unix_s),
        moment(to.at_unix_s),
        ended(last, boot, &[]),
        printable(&to.why),
        by(to),
        message::first_of(&labels, STEERED_SHOWN)
    )
}

/// Who made a change.
fn by(begin: &Begin) -> String {
    let name = user_name(begin.uid).unwrap_or_else(|| format!("user {}", begin.uid));
    format!("{}, {}", printable(&name), printable(&begin.command))
}

/// Where a change is, for people, with the time at which it was put back.
fn ended(transaction: &Transaction, boot: &str, living: &[u64]) -> String {
    match (state(transaction, boot, living), transaction.closed_at_unix_s()) {
        // A value that another program has set since was left.
        ("put back", Some(at)) => format!("put back {} unless others had set it", moment(at)),
        (state, _) => state.to_owned(),
    }
}

/// Where a change is, in a word for programs. `living` are the holds whose process lives.
fn state(transaction: &Transaction, boot: &str, living: &[u64]) -> &'static str {
    match transaction.phase() {
        Phase::Closed(Closing::Undone) => "put back",
        Phase::Closed(Closing::EarlierBoot) => "ended by a boot",
        _ if transaction.begin.boot_id != boot => "ended by a boot",
        Phase::Standing => "stands",
        Phase::Steering | Phase::Undoing if living.contains(&transaction.begin.id) => "steers",
        Phase::Interrupted | Phase::Undoing | Phase::Steering => "interrupted",
    }
}

fn paragraph(logged: &Logged, boot: &str, living: &[u64]) -> String {
    let transaction = match &logged.transaction {
        Ok(transaction) => transaction,
        Err(why) => return format!("{}: not to be believed ({why})\n", logged.name),
    };
    let begin = &transaction.begin;
    let state = state(transaction, boot, living);
    let until = match begin.expires_at_unix_s {
        Some(at) if state == "stands" => format!(" until {}", moment(at)),
        _ => String::new(),
    };
    let state = ended(transaction, boot, living);
    let mut told = format!("change {}, {}, {state}{until}\n", begin.id, moment(begin.at_unix_s));
    let _ = writeln!(told, "  why: {}", printable(&begin.why));
    let _ = writeln!(told, "  by: {}", by(begin));
    for entry in transaction.entries.iter().filter(|entry| entry.new.is_some()) {
        let label = entry.label();
        let shown = |state: &Option<_>| {
            state.as_ref().map_or("(not there)".to_owned(), |state| short(&label, state))
        };
        let _ = writeln!(told, "  {label}: {} -> {}", shown(&entry.old), shown(&entry.new));
    }
    if begin.steers {
        steering(&mut told, transaction);
    }
    told
}

/// The knobs that a process holds now, without those that come and go with an elevator that it has
/// switched.
fn held(transaction: &Transaction) -> Vec<HeldCell> {
    let mut held = hold::held(transaction);
    held.retain(|cell| cell.saved.is_some() && cell.now.is_some() && cell.saved != cell.now);
    held
}

/// The knobs that a process holds now, and those that it has given up.
fn steering(told: &mut String, transaction: &Transaction) {
    let over = matches!(transaction.phase(), Phase::Closed(_));
    let held = if over { Vec::new() } else { held(transaction) };
    for cell in &held {
        let shown = |state: &Option<_>| {
            state.as_ref().map_or("(not there)".to_owned(), |state| short(&cell.label, state))
        };
        let _ = writeln!(
            told,
            "  {}: {} -> {} for now",
            cell.label,
            shown(&cell.saved),
            shown(&cell.now)
        );
    }
    if over {
        let touched = transaction.entries.iter().enumerate();
        let touched = touched.filter(|(index, _)| transaction.is_touched(*index));
        let labels: Vec<String> = touched.map(|(_, entry)| entry.label()).collect();
        let _ = match labels.as_slice() {
            [] => writeln!(told, "  nothing of it is left"),
            labels => writeln!(told, "  it steered {}", message::first_of(labels, STEERED_SHOWN)),
        };
    } else if held.is_empty() {
        let _ = writeln!(told, "  nothing is changed at this moment");
    }
    for (index, entry) in transaction.entries.iter().enumerate() {
        let _ = match transaction.yielded(index) {
            Some(true) => {
                writeln!(told, "  {}: left alone, another command has asked for it", entry.label())
            }
            Some(false) => {
                writeln!(told, "  {}: left alone, somebody else has set it", entry.label())
            }
            None => Ok(()),
        };
    }
}

fn document(logged: &Logged, boot: &str, living: &[u64]) -> Value {
    let transaction = match &logged.transaction {
        Ok(transaction) => transaction,
        Err(why) => return json!({ "file": logged.name, "error": why }),
    };
    let begin = &transaction.begin;
    let steered = held(transaction);
    let steered = steered
        .iter()
        .map(|cell| json!({ "knob": cell.label, "old": cell.saved, "new": cell.now }));
    let changed = transaction.entries.iter().filter(|entry| entry.new.is_some());
    let changed =
        changed.map(|entry| json!({ "knob": entry.label(), "old": entry.old, "new": entry.new }));
    let settings: Vec<Value> = if begin.steers { steered.collect() } else { changed.collect() };
    json!({
        "id": begin.id,
        "state": state(transaction, boot, living),
        "at_unix_s": begin.at_unix_s,
        "expires_at_unix_s": begin.expires_at_unix_s,
        "closed_at_unix_s": transaction.closed_at_unix_s(),
        "why": begin.why,
        "uid": begin.uid,
        "pid": begin.pid,
        "command": begin.command,
        "boot_id": begin.boot_id,
        "settings": settings,
    })
}
