//! `floodwall fix`: from a diagnosis to a setting in force.
//!
//! ```text
//! look ─▶ diagnosis ─▶ its first action that applies a setting ─┐
//! --tune: a search's recommendation ────────────────────────────┴▶ Trial: shown, asked, applied
//!        kept, or undone by itself ◀─ asked ◀─ what it gained ◀─ look again ◀────────┘
//! ```

mod search;

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use floodwall_host::SysRoot;
use floodwall_host::findings::{About, Look, diagnose, drain_of, wait_of};
use floodwall_load::sleep_until;
use floodwall_model::diagnosis::{Diagnosis, Verdict};
use floodwall_model::printable::printable;
use floodwall_model::units::parse_duration;
use floodwall_probe::Probe;
use floodwall_report::status::table::wrap;
use floodwall_report::why::{self as report, actions, gained, sentence};

use crate::commands::look;
use crate::commands::settings::trial::{Begun, Trial, TrialArgs};
use crate::commands::why::target;
use crate::exit::{Exit, MissingError};
use crate::output::{self, notice};
use crate::terminal::style;

/// Before it is seen what a setting gains: what stood in the queue is written by then.
const SETTLE: Duration = Duration::from_secs(3);
/// How often that is looked at while the change has not helped.
const LOOKS: u32 = 3;
/// A change has helped if the victim waits this share of what it waited before.
const HELPED: f64 = 0.25;

/// End a stall: find a setting, try it for ten minutes, keep it if you like
///
/// Begins with the diagnosis of floodwall why. Then it shows the change that is most likely to
/// help, with its gain and price, and asks. Before it asks, it waits up to six seconds for the
/// victim's current call to end, and judges the change by that call's duration. After a yes the
/// change is in force for ten minutes, and a second look tells what it gained. After another yes it
/// is kept across boots; otherwise it is undone by itself. With --tune a search of ten minutes
/// takes the place of the first guess and of the second look. Needs root.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  floodwall fix
  floodwall fix /var/lib/postgresql
  floodwall fix sda --dry-run
  floodwall fix sda --for 1h --yes
  floodwall fix /srv --tune --time 30m

Exit status: 0 a change is in force and has helped, or no process waits long; 1 it failed, was \
declined, or has not helped: the process still waits more than a quarter of what it waited before; \
2 wrong usage; 4 a privilege or kernel feature is missing.")]
pub(crate) struct FixArgs {
    /// Only this: a directory, a device (sda, 8:0), a process number, or the name of a process or
    /// unit
    #[arg(value_name = "DIR|DEVICE|PID|NAME")]
    about: Option<String>,
    /// Search for the best setting instead: it loads the disk below DIR for --time, and has no dry
    /// run
    #[arg(long, requires = "about", conflicts_with = "dry_run")]
    tune: bool,
    /// How long the search may take
    #[arg(
        long = "time",
        value_name = "DURATION",
        default_value = "10m",
        value_parser = parse_duration,
        requires = "tune"
    )]
    search_time: Duration,
    #[command(flatten)]
    trial: TrialArgs,
}

/// Runs the command.
///
/// # Errors
/// What could not be done; [`Exit::of`] turns it into a status.
pub(crate) fn run(args: &FixArgs, origin: Instant) -> anyhow::Result<Exit> {
    if !args.trial.dry_run && !rustix::process::geteuid().is_root() {
        let why = "only root can change settings: run sudo floodwall fix; --dry-run needs no root";
        return Err(MissingError(why.to_owned()).into());
    }
    if args.tune {
        let directory = args.about.as_deref().unwrap_or_default();
        return search::run(directory, args.search_time, &args.trial, origin);
    }
    let root = SysRoot::live()?;
    let about = target::about(&root, args.about.as_deref())?;
    let (status, seen, mut probe) = look::look(&root)?;
    let mut before = diagnose(seen.as_look(&status), &about);
    print(&before)?;
    let mut changes = before.actions.iter().filter(|action| !action.settings.is_empty());
    let guess = changes.next().filter(|_| before.verdict == Verdict::Stalling);
    let Some(guess) = guess.cloned() else { return nothing_to_apply(&before) };
    output::result(&format!("\n{}\n", report::guess(&guess, style())))?;
    if !args.trial.dry_run {
        follow(&root, &mut probe, &mut before)?;
    }
    drop(probe);
    let why = format!("floodwall fix: {}", guess.what);
    match Trial::begin(guess.settings, None, why, args.trial.clone())? {
        Begun::Trial(trial) => judge(&root, &about, &before, *trial),
        Begun::Not(exit) => Ok(exit),
    }
}

/// Sees how long the first victim waits without the change: the look may have ended before its
/// call did.
fn follow(root: &SysRoot, probe: &mut Probe, before: &mut Diagnosis) -> anyhow::Result<()> {
    let Some(disk) = before.disks.first_mut() else { return Ok(()) };
    let Some(victim) = disk.victims.first_mut() else { return Ok(()) };
    if victim.oldest_s > 0.0 {
        let (name, seconds) = (printable(&victim.process.name), look::FOLLOWED_S);
        notice(&format!("waiting for the call under way of {name} to end, {seconds} s at most"));
    }
    let waited = look::longest_until_it_ends(root, probe, victim.process.pid, disk.id)?;
    victim.oldest_s = victim.oldest_s.max(waited.unwrap_or(0.0));
    Ok(())
}

/// Names the other actions where no setting is worth a try.
fn nothing_to_apply(diagnosis: &Diagnosis) -> anyhow::Result<Exit> {
    let (said, exit) = match diagnosis.verdict {
        Verdict::Quiet => (
            "There is nothing to fix now. floodwall guard waits for a flood and acts then; \
             floodwall fix DIR --tune searches for the best setting of a disk.",
            Exit::Done,
        ),
        Verdict::Flooding => {
            ("There is nothing to fix now. What can be done about the flood:", Exit::Done)
        }
        Verdict::Unknown => ("Nothing can be guessed from that.", Exit::Missing),
        Verdict::Stalling => (
            "No setting is likely to help, or those that would are in force. What else can be \
             done:",
            Exit::Failed,
        ),
    };
    let mut text = format!("\n{}\n", wrap(said, style().prose()).join("\n"));
    if !diagnosis.actions.is_empty() && diagnosis.verdict >= Verdict::Flooding {
        text.push_str(&(actions(&diagnosis.actions, style()) + "\n"));
    }
    output::result(&text)?;
    Ok(exit)
}

/// Looks again, tells what the change gained, and asks whether to keep it.
fn judge(root: &SysRoot, about: &About, before: &Diagnosis, trial: Trial) -> anyhow::Result<Exit> {
    let mut looks = 1;
    let (now, helped) = loop {
        // A signal ends the process: the change's timer puts it back.
        sleep_until(Instant::now() + SETTLE, &AtomicBool::new(false));
        let (status, seen, _probe) = look::look(root)?;
        let (now, told, helped) = compare(before, seen.as_look(&status), about);
        if helped || looks == LOOKS {
            output::result(&format!("\n{told}\n"))?;
            break (now, helped);
        }
        looks += 1;
    };
    if now.verdict == Verdict::Stalling {
        print(&now)?;
    }
    if !helped {
        notice(&format!(
            "that did not help; floodwall rollback --to {} undoes the change now, and floodwall \
             fix DIR --tune searches for a better one",
            trial.before()
        ));
        return Ok(Exit::Failed);
    }
    trial.keep()
}

/// The diagnosis of a look after a change, what it gained the victim, and whether that is enough.
fn compare(before: &Diagnosis, look: Look<'_>, about: &About) -> (Diagnosis, String, bool) {
    let now = diagnose(look, about);
    let Some(disk) = before.disks.first() else { return (now, String::new(), true) };
    let victim = disk.victims.first();
    let wait = victim.and_then(|victim| wait_of(look, victim.process.pid, disk.id));
    let helped = match (victim, wait) {
        (Some(victim), Some(now_s)) => now_s <= HELPED * victim.longest_s(),
        _ => now.verdict != Verdict::Stalling,
    };
    let helped = helped || now.verdict != Verdict::Stalling;
    (now, gained(disk, wait, drain_of(look, disk.id), style()), helped)
}

/// Prints a diagnosis' paragraph.
fn print(diagnosis: &Diagnosis) -> anyhow::Result<()> {
    output::screen(&(sentence(diagnosis, style()).join("\n") + "\n"))
}
