//! `floodwall lab run --kernel`: the same command line once more, as root inside a separate kernel.
//!
//! ```text
//! host   floodwall lab run hdd-7200 --kernel uml --ram 4GiB -- CMD
//! guest  floodwall lab run hdd-7200 --kernel uml --ram 4GiB --in-guest -- CMD
//! ```

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use floodwall_guest::{CommandIo, Guest, GuestError, Image, Kernel, Order, Uml, memory};
use floodwall_host::SysRoot;
use floodwall_host::memory::read_memory;
use floodwall_model::Bytes;

use super::args::{GuestProcess, GuestRole, KernelArgs};
use super::command::{path_with_this_program, status_of};
use crate::exit::{Exit, UsageError};
use crate::output::notice;
use crate::signals;

/// The hidden command under which the program is the guest's first process, or becomes another one.
pub(crate) const COMMAND: &str = "lab-guest";
/// Tells the guest's command where it runs.
const IN_GUEST: &str = "FLOODWALL_GUEST";
/// The user-mode kernel, looked for where packages put it.
const UML: &str = "uml";
/// The longest silence of a guest, which says something every second, before it is ended.
const SILENCE: Duration = Duration::from_secs(60);
/// What the guest's root, the lab's stack, its filesystems and the elevators need.
const MODULES: [&str; 9] =
    ["overlay", "fuse", "loop", "ext4", "xfs", "btrfs", "mq_deadline", "kyber_iosched", "bfq"];
/// The host's journal is of another kernel.
const JOURNALS: &str = "/var/lib/floodwall";

/// Runs this program's command line in a guest.
///
/// # Errors
/// [`GuestError`]; wrong usage.
pub(super) fn run(kernel: &OsStr, args: &KernelArgs) -> anyhow::Result<Exit> {
    let stop = signals::stop_flag()?;
    let mut guest = guest(kernel, args.ram, CommandIo::Inherit)?;
    let writable = args.out.iter().map(|dir| writable(dir)).collect::<anyhow::Result<_>>()?;
    let order = order(&guest, in_guest(std::env::args_os().skip(1)), writable)?;
    guest.use_kvm_if_it_works()?;
    let status =
        guest.run(&order, &stop, &mut |text| notice(&format!("floodwall: guest: {text}")))?;
    Ok(status_of(status))
}

/// What a guest is to run: this program with `args`, which may write to the directories `writable`
/// of the host.
///
/// # Errors
/// [`GuestError::NoModules`]; no current directory; a path that is no UTF-8.
pub(crate) fn order(
    guest: &Guest,
    args: Vec<OsString>,
    writable: Vec<PathBuf>,
) -> anyhow::Result<Order> {
    let modules_dir = guest.kernel.modules().map(Path::to_owned);
    if let (Kernel::Uml { uml, .. }, None) = (&guest.kernel, &modules_dir) {
        let (kernel, version) = (uml.kernel.clone(), uml.version.clone());
        return Err(GuestError::NoModules { kernel, version }.into());
    }
    let kind = match guest.kernel {
        Kernel::Uml { .. } => UML,
        Kernel::Image { .. } => "qemu",
    };
    let own_path = path_with_this_program().map(|path| ("PATH".into(), path));
    let dir = std::env::current_dir().context("can't tell the current directory")?;
    if let Some(path) = writable.iter().chain([&dir]).find(|path| path.to_str().is_none()) {
        let why = format!("'{}' is no UTF-8; a guest can't be told of it", path.display());
        return Err(UsageError(why).into());
    }
    Ok(Order {
        program: guest.program.clone(),
        args,
        env: std::env::vars_os().chain(own_path).chain([(IN_GUEST.into(), kind.into())]).collect(),
        dir,
        modules: MODULES.map(str::to_owned).into(),
        modules_dir,
        fresh: vec![JOURNALS.into()],
        writable,
    })
}

/// Runs as one of the guest's processes.
///
/// # Errors
/// Why it could not.
pub(crate) fn process(args: &GuestProcess) -> anyhow::Result<Exit> {
    match &args.role {
        GuestRole::Init { .. } => {
            let program =
                std::env::args().next().context("the guest's first process has no name")?;
            let launcher = [&program, COMMAND, "launch"].map(str::to_owned);
            floodwall_guest::init::serve(&launcher)?;
            Ok(Exit::Done)
        }
        GuestRole::Launch { role, command } => Err(floodwall_guest::launch(role, command).into()),
    }
}

/// The guest of a kernel: `uml`, a user-mode kernel's file, or an image, which is emulated. Nothing
/// is booted yet.
///
/// # Errors
/// [`GuestError`] if it can't be had here; [`UsageError`] inside a guest.
pub(crate) fn guest(kernel: &OsStr, ram: Option<Bytes>, io: CommandIo) -> anyhow::Result<Guest> {
    if std::env::var_os(IN_GUEST).is_some() {
        return Err(
            UsageError("a guest can't have a guest; leave --kernel out in here".into()).into()
        );
    }
    let path = std::env::var_os("PATH");
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let image = if kernel == UML { None } else { Image::at(Path::new(kernel))? };
    let available = read_memory(&SysRoot::live()?).available_bytes.into_value().map(Bytes);
    let (kernel, ram) = match image {
        Some(image) => {
            (Kernel::image(image, path.as_deref())?, memory::of_the_host(ram, available)?)
        }
        None => {
            let uml = if kernel == UML {
                Uml::find(path.as_deref(), home.as_deref())?
            } else {
                Uml::at(Path::new(kernel))?
            };
            let named = std::env::var_os("TMPDIR").map(PathBuf::from);
            let dirs: Vec<PathBuf> = named.into_iter().chain(["/dev/shm".into()]).collect();
            let (memory_dir, ram) = memory::choose(&dirs, ram, available)?;
            (Kernel::Uml { uml, memory_dir }, ram)
        }
    };
    let program = std::env::current_exe()
        .context("can't tell where this program is, to start it in the guest")?;
    Ok(Guest {
        kernel,
        program,
        init_args: [COMMAND, "init"].map(str::to_owned).into(),
        launch_args: [COMMAND, "launch"].map(str::to_owned).into(),
        ram,
        silence: SILENCE,
        io,
    })
}

/// A command line of `lab run` as the guest gets it: marked, so that it does not start a guest
/// again.
pub(crate) fn in_guest(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.collect();
    let end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    args.insert(end, "--in-guest".into());
    args
}

/// A directory of the host that the guest may write to.
fn writable(dir: &Path) -> anyhow::Result<PathBuf> {
    let refused = |why: String| UsageError(format!("--out '{}': {why}", dir.display()));
    let found =
        dir.canonicalize().map_err(|e| refused(format!("{e}; name a directory that exists")))?;
    if !found.is_dir() {
        return Err(refused("it is no directory".into()).into());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_comes_before_the_command_whatever_the_command_says() {
        let line =
            |words: &str| in_guest(words.split(' ').map(OsString::from)).join(OsStr::new(" "));
        assert_eq!(
            line("lab run hdd --kernel uml -- sh -c x"),
            "lab run hdd --kernel uml --in-guest -- sh -c x"
        );
        assert_eq!(line("lab run hdd -- env -- ls"), "lab run hdd --in-guest -- env -- ls");
    }
}
