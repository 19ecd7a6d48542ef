//! `floodwall apply`: shows the difference, asks, and changes settings so that they can be put
//! back.
//!
//! ```text
//! parse ─▶ plan ─▶ recover what a crash left, plan again ─▶ look for victims ─▶ show, say who will
//!     fight it, ask ─▶ [timer] ─▶ the same plan again? or a guard yields ─▶ Session::apply_until
//! ```

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use floodwall_knobs::journal::{Store, cut_short};
use floodwall_knobs::{ApplyError, Change, InTheWay, Intention, Plan, plan};
use floodwall_model::calendar::moment;
use floodwall_model::units::{human_duration, parse_duration};

use super::others::Others;
use super::timer::Timer;
use super::{Place, PlaceArgs, ask, held, refuse_endless_real_time, refuse_victims, sources, text};
use crate::exit::Exit;
use crate::output::{self, notice};
use crate::signals;

/// Below a second the change would be over before it is read back; a month is not "for a time".
const TIMES: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(30 * 86_400);

/// Change settings so that they can be put back
///
/// Shows the difference first, with who else sets the same knobs and how to settle that, and asks.
/// Old and new values are in a journal on disk before the first write; every write is read back; a
/// failure midway puts back what was done. `floodwall rollback` puts everything back, after a crash
/// too. A guard that holds a knob is asked to put it back and leave it alone; without its answer
/// nothing is changed.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  floodwall apply vm.dirty_bytes=64MiB vm.dirty_background_bytes=16MiB
  floodwall apply --device sda scheduler=bfq nr_requests=64 --for 10m
  floodwall apply preset:2016-bandwidth-delay --dry-run
  floodwall size --link 1Gbit/s --toml > link.toml; floodwall apply link.toml
  floodwall size --link 1Gbit/s --toml | floodwall apply - --yes

floodwall explain lists every knob and preset.")]
pub(crate) struct ApplyArgs {
    /// KNOB=VALUE[,KNOB=VALUE…], FILE.toml, preset:NAME, or - for a file on stdin
    #[arg(required = true, value_name = "SETTING")]
    settings: Vec<String>,
    /// The device of knobs that name none, such as sda
    #[arg(long, value_name = "DEV")]
    device: Option<String>,
    #[command(flatten)]
    terms: Terms,
    /// Limit a control group also where a process in it waits for its commits
    #[arg(long)]
    allow_victims: bool,
    /// What for; kept in the journal
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    #[command(flatten)]
    place: PlaceArgs,
}

/// How a change is made.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct Terms {
    /// Put everything back after this time, such as 10m, even if the terminal is gone
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub(super) time: Option<Duration>,
    /// Do not ask
    #[arg(long, short)]
    pub(super) yes: bool,
    /// Print the exact writes and make none; needs no root
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Set limits also where they could hang a process that serves a block device of this machine
    /// (FW045).
    #[arg(long)]
    pub(super) allow_userspace_servers: bool,
}

impl Terms {
    /// Whether nothing was said about it.
    pub(super) fn is_empty(&self) -> bool {
        self.time.is_none() && !self.yes && !self.dry_run && !self.allow_userspace_servers
    }
}

pub(super) fn time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|e| e.to_string())?;
    if TIMES.contains(&time) {
        Ok(time)
    } else {
        Err(format!("'{text}' is out of range: write 1s to 720h"))
    }
}

/// Runs the command.
///
/// # Errors
/// What could not be done; [`Exit::of`] turns it into a status.
pub(crate) fn run(args: &ApplyArgs) -> anyhow::Result<Exit> {
    let place = args.place.open()?.allow_userspace_servers(args.terms.allow_userspace_servers);
    let place = place.allow_victims(args.allow_victims).rehearses(args.terms.dry_run);
    let device = place.device(args.device.as_deref())?;
    let asked = sources::read(&place, device.as_ref(), &args.settings)?;
    let why = match (&args.why, asked.why.as_slice()) {
        (Some(why), _) => why.clone(),
        (None, []) => args.settings.join(" "),
        (None, whys) => whys.join("; "),
    };
    Ok(make(&place, &asked.changes, &why, &args.terms)?.exit())
}

/// What became of wanted changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    /// Everything is as wanted already, or this was a rehearsal.
    Nothing,
    /// The user said no.
    Declined,
    /// They are in force, as the change of this number.
    Applied(u64),
}

impl Made {
    /// The status that this stands for.
    pub(super) fn exit(self) -> Exit {
        match self {
            Self::Nothing | Self::Applied(_) => Exit::Done,
            Self::Declined => Exit::Failed,
        }
    }
}

/// Shows changes and the managers that will fight them, asks, and makes them.
///
/// # Errors
/// What could not be done; [`Exit::of`] turns it into a status.
pub(super) fn make(
    place: &Place,
    changes: &[Change],
    why: &str,
    terms: &Terms,
) -> anyhow::Result<Made> {
    if terms.time.is_none() {
        refuse_endless_real_time(changes)?;
    }
    if terms.dry_run {
        rehearse(place, changes, terms.time)?;
        return Ok(Made::Nothing);
    }
    let mut shown = plan(changes, &place.files)?;
    if recover(place)? {
        shown = plan(changes, &place.files)?;
    }
    refuse_victims::refuse(place, &shown)?;
    show(place, changes, &shown)?;
    // A value may be in force because a guard has written it for now.
    if !tell_held(place, changes, terms.time)? && shown.is_empty() {
        // A value may be in force for a time only. That is refused.
        return match place.read_journal()? {
            Some(_) => change(place, changes, &shown, why, None),
            None => Ok(Made::Nothing),
        };
    }
    let question = terms
        .time
        .map_or_else(|| "Apply?".to_owned(), |time| format!("Apply for {}?", human_duration(time)));
    if !terms.yes && !ask::confirm(&question)? {
        notice("nothing was changed");
        return Ok(Made::Declined);
    }
    change(place, changes, &shown, why, terms.time)
}

/// Prints the difference, and the other managers of the same knobs.
fn show(place: &Place, changes: &[Change], plan: &Plan) -> anyhow::Result<()> {
    let others = Others::read(place);
    if !plan.is_empty() {
        others.tell_unread();
    }
    let held = place.in_the_way(Intention::Apply(changes))?;
    let others = match held.is_some_and(|held| held.socket.is_some()) {
        true => others.lines_without_guards(plan),
        false => others.lines(plan),
    };
    output::result(&format!("{}{others}", text::difference(plan)))
}

/// Names the knobs that a guard has to yield; `false` without any.
fn tell_held(place: &Place, changes: &[Change], time: Option<Duration>) -> anyhow::Result<bool> {
    let held = place.in_the_way(Intention::Apply(changes))?;
    if let Some(held) = &held {
        notice(&yielding(held, place.rehearses, time));
    }
    Ok(held.is_some())
}

/// What becomes of knobs that a guard holds.
fn yielding(held: &InTheWay, rehearses: bool, time: Option<Duration>) -> String {
    let is = if rehearses { "would be" } else { "is" };
    let after = time.map_or_else(String::new, |time| {
        format!(
            "; after {} your value is restored, and the guard still leaves it alone",
            human_duration(time)
        )
    });
    format!(
        "note: {}, which {is} asked to put that back and leave it alone until it is started \
         again{after}",
        held::told(held)
    )
}

/// Prints what would be done.
fn rehearse(place: &Place, changes: &[Change], time: Option<Duration>) -> anyhow::Result<()> {
    if place.hides_its_journal() {
        notice(
            "note: only root can read the journal: changes that would be put back first, and \
             knobs that a guard holds, are not known",
        );
    }
    if let Some(store) = place.read_journal()? {
        for id in cut_short(&store, &place.files)? {
            notice(&format!(
                "change {id} was interrupted and would be put back first: see floodwall \
                 rollback --dry-run"
            ));
        }
    }
    let plan = plan(changes, &place.files)?;
    refuse_victims::refuse(place, &plan)?;
    show(place, changes, &plan)?;
    tell_held(place, changes, time)?;
    if !plan.is_empty() {
        let back = time.map_or_else(String::new, |time| {
            format!("# after {} it would be put back by itself\n", human_duration(time))
        });
        output::result(&format!("{}{back}", text::writes(&plan.writes())))?;
    }
    Ok(())
}

/// Puts back what a crash left, so that the difference is shown against what will be there. Says
/// whether there was anything.
fn recover(place: &Place) -> anyhow::Result<bool> {
    if place.read_journal()?.is_none() {
        return Ok(false);
    }
    let store = place.lock()?;
    let recovery = place.session(&store, &place.clock(None))?.recover()?;
    text::tell(&recovery);
    Ok(!recovery.is_empty())
}

fn change(
    place: &Place,
    changes: &[Change],
    shown: &Plan,
    why: &str,
    time: Option<Duration>,
) -> anyhow::Result<Made> {
    // From here on a signal stops the change and puts back what was done.
    let clock = place.clock(Some(signals::stop_flag()?));
    // Before the first write: from then on something is there that will put it back.
    let _timer = time.map(|_| Timer::start(place)).transpose()?;
    let expires_at_unix_s = time.map(deadline);
    let mut store = place.lock()?;
    let of = Intention::Apply(changes);
    if place.session(&store, &clock)?.in_the_way(of)?.is_some() {
        // The values that a guard holds change all the time.
        drop(store);
        store = place.lock_for(of)?;
    } else if !plan(changes, &place.files)?.finds_the_same_as(shown) {
        anyhow::bail!(
            "nothing was changed: somebody has changed these settings meanwhile; run it again"
        );
    }
    let session = place.session(&store as &dyn Store, &clock)?;
    let applied = match session.apply_until(changes, why, expires_at_unix_s) {
        Err(ApplyError::RolledBack { cause, undone }) => {
            notice(text::undone(&undone).trim_end());
            return Err(ApplyError::RolledBack { cause, undone }.into());
        }
        other => other?,
    };
    text::tell(&applied.recovery);
    for line in &applied.adjusted {
        notice(&format!("note: {line}"));
    }
    let Some(id) = applied.id else { return Ok(Made::Nothing) };
    let below = id.saturating_sub(1);
    let end = match (time, expires_at_unix_s) {
        (Some(time), Some(at)) => format!(
            "put back by itself after {}, at {}; floodwall rollback --to {below} does it now",
            human_duration(time),
            moment(at)
        ),
        _ => format!("floodwall rollback --to {below} puts it back"),
    };
    notice(&format!("change {id} applied; {end}"));
    Ok(Made::Applied(id))
}

/// The first whole second at which the time is over.
fn deadline(time: Duration) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let end = now.saturating_add(time);
    end.as_secs() + u64::from(end.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_for_a_time_says_that_the_guard_does_not_take_its_knob_again() {
        let held = InTheWay {
            by: "pid 4711 (floodwall guard)".into(),
            socket: None,
            knobs: Vec::new(),
            labels: vec!["sda.nr_requests".into()],
        };
        let for_good = yielding(&held, false, None);
        insta::assert_snapshot!(for_good, @"note: sda.nr_requests is held by pid 4711 \
            (floodwall guard), which is asked to put that back and leave it alone until it is \
            started again");
        let for_a_time = yielding(&held, false, Some(Duration::from_secs(5)));
        insta::assert_snapshot!(for_a_time, @"note: sda.nr_requests is held by pid 4711 (floodwall \
            guard), which is asked to put that back and leave it alone until it is started again; \
            after 5.00 s your value is restored, and the guard still leaves it alone");
    }
}
