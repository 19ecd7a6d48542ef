//! `floodwall persist`: keeps settings across boots, in a sysctl.d file, udev rules and drop-ins of
//! units that only Floodwall writes.
//!
//! ```text
//! settings, or what is applied now ─▶ knobs::persist::settle, or settle_removable
//!   ─▶ the difference to what is kept, who else has a say ─▶ ask ─▶ write the files
//! ```
//!
//! Nothing is changed in the kernel: that is `apply`'s, which can put it back.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use floodwall_host::managers;
use floodwall_knobs::journal::boot_id;
use floodwall_knobs::persist::{self, Etc, FileState, Kept, PersistError, Persisted, Written};
use floodwall_knobs::{Change, plan};

use super::{Place, PlaceArgs, ask, refuse_endless_real_time, refuse_victims, sources};
use crate::exit::{Exit, UsageError};
use crate::output::{self, notice};

/// Keep settings across boots
///
/// Writes a sysctl.d file for the machine's knobs, udev rules for disks', and a drop-in for each
/// unit of systemd's whose limits or priority are kept. Disks are known by what they are and not by
/// their names: also a disk that is unplugged and comes back gets its settings again. Without
/// settings it keeps the applied settings that are still in force. Kept settings stay unless they
/// are named again. Nothing is changed in the kernel, and no file of another program
/// is touched; floodwall unpersist removes exactly what this has written.
///
/// With --removable it keeps a limit of dirty data for every disk on USB, every disk with removable
/// media and every SD card. The limit is set when the disk is plugged in. Its default is what a
/// slow stick writes in about a second.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  floodwall apply limits.toml; floodwall persist    # what is applied now
  floodwall persist vm.dirty_bytes=64MiB vm.dirty_background_bytes=16MiB
  floodwall persist --device sda scheduler=bfq --dry-run
  floodwall persist --removable              # USB sticks, USB disks, SD cards
  floodwall persist --removable bdi.max_bytes=64MiB scheduler=bfq")]
pub(crate) struct PersistArgs {
    /// KNOB=VALUE, FILE.toml, preset:NAME, or - for a file on stdin; nothing for what is applied
    /// now
    #[arg(value_name = "SETTING")]
    settings: Vec<String>,
    /// The device of knobs that name none, such as sda
    #[arg(long, value_name = "DEV")]
    device: Option<String>,
    /// Keep a limit for every removable disk: bdi.max_bytes (16MiB if not given), and scheduler if
    /// it is given
    #[arg(long, conflicts_with = "device")]
    removable: bool,
    /// Keep these settings alone, instead of beside those that are kept already
    #[arg(long)]
    replace: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Print the exact files and write none
    #[arg(long)]
    dry_run: bool,
    /// Keep limits also where they could hang a process that serves a block device of this machine
    /// (FW045).
    #[arg(long)]
    allow_userspace_servers: bool,
    /// Keep limits also of a control group in which a process waits for its commits
    #[arg(long)]
    allow_victims: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

impl PersistArgs {
    /// To keep `settings`, beside those that are kept already.
    pub(super) fn of(
        settings: Vec<String>,
        device: Option<String>,
        place: PlaceArgs,
        allow_userspace_servers: bool,
    ) -> Self {
        Self {
            settings,
            device,
            removable: false,
            place,
            allow_userspace_servers,
            replace: false,
            // The caller has asked.
            yes: true,
            dry_run: false,
            // They are in force already.
            allow_victims: true,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// What could not be done; [`Exit::of`] turns it into a status.
pub(crate) fn run(args: &PersistArgs) -> anyhow::Result<Exit> {
    let place = args.place.open()?.allow_userspace_servers(args.allow_userspace_servers);
    let place = place.allow_victims(args.allow_victims);
    let changes = if args.removable { Vec::new() } else { asked(&place, args)? };
    refuse_endless_real_time(&changes)?;
    // A change without a plan now is refused below, or is for the next boot alone.
    if let Ok(plan) = plan(&changes, &place.files) {
        refuse_victims::refuse(&place, &plan)?;
    }
    let kept = persist::read(&place.root);
    let base = if args.replace { Persisted::default() } else { kept.settings.clone() };
    let settled = if args.removable {
        let values = persist::removable_values(&args.settings, &base.removable)
            .map_err(PersistError::from)?;
        persist::settle_removable(&place.root, &place.files, &base, values)?
    } else {
        persist::settle(&place.root, &place.files, &base, &changes)?
    };
    let files = settled.settings.files();
    kept.refuse_foreign(&place.root, &files)?;
    let difference = kept.settings.difference(&settled.settings);
    let mut shown: String = difference.iter().map(|line| format!("{line}\n")).collect();
    if difference.is_empty() {
        shown.push_str("no difference\n");
    }
    for note in &settled.notes {
        let _ = writeln!(shown, "note: {note}");
    }
    output::result(&shown)?;
    if args.dry_run {
        output::result(&rehearsed(&place, &kept, &files))?;
        return Ok(Exit::Done);
    }
    // The files are written again even so: their form may have changed.
    if !difference.is_empty() && !args.yes && !ask::confirm("Keep this across boots?")? {
        notice("nothing was written");
        return Ok(Exit::Failed);
    }
    let etc = Etc::open(&place.root).map_err(as_root)?;
    if persist::read(&place.root) != kept {
        anyhow::bail!(
            "nothing was written: somebody has changed what is kept meanwhile; run it again"
        );
    }
    let written = etc.write(files).map_err(as_root)?;
    for one in &written {
        notice(&told(&place, one));
    }
    reload(&place, &written);
    for line in persist::others(&managers::read(&place.root).claims) {
        notice(&line);
    }
    if !settled.not_in_force.is_empty() {
        notice(
            "not in force before the next boot, or until the disk is plugged in again or systemd \
             reads the unit's files again; floodwall apply does it now:",
        );
        for line in &settled.not_in_force {
            notice(&format!("  {line}"));
        }
    }
    Ok(Exit::Done)
}

/// The settings that are named, or those that are applied.
fn asked(place: &Place, args: &PersistArgs) -> anyhow::Result<Vec<Change>> {
    if !args.settings.is_empty() {
        let device = place.device(args.device.as_deref())?;
        return Ok(sources::read(place, device.as_ref(), &args.settings)?.changes);
    }
    let applied = match place.read_journal()? {
        Some(store) => persist::applied(&store, &place.files, &boot_id(&place.files))?,
        None => persist::Applied::default(),
    };
    for note in &applied.notes {
        notice(&format!("note: {note}"));
    }
    if applied.changes.is_empty() {
        let why =
            "nothing is applied that could be kept; name settings, or floodwall apply them first";
        return Err(UsageError(why.to_owned()).into());
    }
    Ok(applied.changes)
}

/// The files as they would be.
fn rehearsed(place: &Place, kept: &Kept, files: &[(String, Option<String>)]) -> String {
    let mut text = String::new();
    for (path, content) in files {
        let there = *kept.state_of(path) == FileState::Ours;
        let path = below(place, path);
        match content {
            Some(content) => {
                let _ = write!(text, "\n==> {} <==\n{content}", path.display());
            }
            None if there => {
                let _ = writeln!(text, "\n{} would be removed", path.display());
            }
            None => {}
        }
    }
    let gone = |path: &str| !files.iter().any(|(other, _)| other == path);
    for (path, _) in kept.files().filter(|(path, state)| **state == FileState::Ours && gone(path)) {
        let _ = writeln!(text, "\n{} would be removed", below(place, path).display());
    }
    text
}

/// Says what to do where /etc may not be written.
pub(super) fn as_root(error: PersistError) -> anyhow::Error {
    let may_not = matches!(error, PersistError::Io { .. }) && error.lacks_requirement();
    let error = anyhow::Error::from(error);
    if may_not { error.context("run this as root, where /etc can be written") } else { error }
}

/// Where udevadm may be; the environment's PATH is not asked.
const UDEVADM: [&str; 3] = ["/usr/bin/udevadm", "/bin/udevadm", "/sbin/udevadm"];

/// Has a running udev read changed rules now. By itself it checks them only with an event, and not
/// within three seconds of its last check. A systemd reload is left out, because it would put
/// changed drop-ins in force at once.
pub(super) fn reload(place: &Place, written: &[Written]) {
    let changed = |one: &Written| {
        matches!(one, Written::Replaced(path) | Written::Removed(path)
            if path == persist::RULES_PATH)
    };
    let of_unit = |one: &Written| {
        matches!(one, Written::Replaced(path) | Written::Removed(path)
            if path != persist::RULES_PATH && path != persist::SYSCTL_PATH)
    };
    if written.iter().any(of_unit) {
        notice(
            "note: systemd reads drop-ins at the next boot, or at the next systemctl daemon-reload",
        );
    }
    if !place.root.is_live() || !written.iter().any(changed) {
        return;
    }
    let Some(udevadm) = UDEVADM.iter().find(|path| Path::new(path).exists()) else { return };
    let quiet = Stdio::null;
    let done = Command::new(udevadm)
        .args(["control", "--reload"])
        .stdin(quiet())
        .stdout(quiet())
        .stderr(quiet())
        .status()
        .is_ok_and(|status| status.success());
    if !done {
        notice(
            "note: udev did not answer; it reads changed rules when it is started, or by itself \
             after some seconds",
        );
    }
}

/// The outcome for a file.
pub(super) fn told(place: &Place, written: &Written) -> String {
    match written {
        Written::Replaced(path) => format!("{} written", below(place, path).display()),
        Written::Removed(path) => format!("{} removed", below(place, path).display()),
        Written::Left(path, state) => {
            format!("{} {state}: left as it is", below(place, path).display())
        }
    }
}

/// A path on the machine or in the captured tree.
pub(super) fn below(place: &Place, path: &str) -> PathBuf {
    place.root.path().join(path.trim_start_matches('/'))
}
