//! `floodwall lab`: virtual devices behind the real kernel.

mod args;
mod command;
pub(crate) mod guest;
mod seeks;
mod text;

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use floodwall_device::{DeviceSpec, preset_names, preset_text};
use floodwall_lab::{Lab, LabError, LabStats, Role, UpOptions};
use floodwall_load::User;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use serde_json::json;

pub(crate) use args::{Fs, GuestProcess, LabArgs, ServerArgs};
use args::{KernelArgs, LabCommand, NameOrAll, UpArgs};
use command::{path_with_this_program, status_of};

use crate::exit::{Exit, MissingError, UsageError};
use crate::output::{self, notice};
use crate::signals;

/// The hidden command under which the program runs itself again as server and guardian.
pub(crate) const SERVER_COMMAND: &str = "lab-server";

/// What an ordinary user of `lab run` is told.
const NO_ROOT: &str = "the lab needs root (it mounts and makes loop devices); run as root, or \
    without root in a \
     kernel of its own (--kernel uml), or use 'floodwall sim'";

/// Runs the command.
///
/// # Errors
/// Any failure of the run; [`Exit::of`] turns it into a status.
pub(crate) fn run(args: &LabArgs) -> anyhow::Result<Exit> {
    let program =
        std::env::current_exe().context("can't tell where this program is, to start its server")?;
    let lab = Lab::new(program, [SERVER_COMMAND.to_owned()]);
    let lab = match &args.state {
        Some(root) => lab.with_root(root),
        None => lab,
    };
    match &args.command {
        LabCommand::List { json } => list(&lab, *json),
        LabCommand::Show { preset } => output::result(text_of_preset(preset)?).map(|()| Exit::Done),
        LabCommand::Up { up, json } => bring_up(&lab, up, *json),
        LabCommand::Stats { name, json } => {
            let stats = lab.stats(name)?;
            if *json {
                output::json(&to_json(&stats)?)?
            } else {
                output::result(&text::stats(&stats))?
            }
            Ok(Exit::Done)
        }
        LabCommand::Down(which) => take_down(&lab, which),
        LabCommand::Run { up, user, kernel, command } => {
            // Wrong usage is told before a kernel boots.
            options(up)?;
            match kernel {
                KernelArgs { kernel: Some(name), in_guest: false, .. } => guest::run(name, kernel),
                _ => run_in(&lab, up, user.as_deref(), command),
            }
        }
        LabCommand::Powercut { name } => {
            let cut = lab.powercut(name)?;
            output::result(&text::power_cut(name, &cut))?;
            Ok(Exit::Done)
        }
        LabCommand::Powerup { name } => {
            let info = lab.powerup(name)?;
            output::result(&text::lab(&info))?;
            Ok(Exit::Done)
        }
        LabCommand::Record { name, out, from_now, follow } => {
            record(&lab, name, out.as_deref(), !*from_now, *follow)
        }
        LabCommand::Seeks(args) => seeks::run(args),
    }
}

/// A lab device that something is measured on, from the beginning of the run.
pub(crate) struct Measured {
    lab: Lab,
    before: LabStats,
}

impl Measured {
    /// Watches `device` (`loop3`) from now on, if it is a lab's.
    pub(crate) fn begin(device: &str) -> Option<Self> {
        let lab = Lab::new(std::env::current_exe().ok()?, [SERVER_COMMAND.to_owned()]);
        let path = Path::new("/dev").join(device);
        let info =
            lab.list().ok()?.into_iter().find(|info| info.device.as_deref() == Some(&path))?;
        let before = lab.stats(&info.name).ok()?;
        Some(Self { lab, before })
    }

    /// What to know of the figures, if this machine was too slow for the device's model during the
    /// run.
    pub(crate) fn warning(&self) -> Option<String> {
        let now = self.lab.stats(&self.before.name).ok()?;
        text::late(&now.name, &now.timings.since(&self.before.timings))
    }
}

/// Runs as a lab's server or guardian.
///
/// # Errors
/// Why it could not start, or what could not be taken down.
pub(crate) fn serve(args: &ServerArgs) -> anyhow::Result<Exit> {
    let role = Role::from_name(&args.role).ok_or_else(|| {
        UsageError(format!("'{}' is no role; this command is not for people", args.role))
    })?;
    floodwall_lab::child(role, &args.state)?;
    Ok(Exit::Done)
}

/// The TOML text of a preset.
fn text_of_preset(name: &str) -> anyhow::Result<&'static str> {
    // The crate's own error names the nearest preset.
    let unknown = || match DeviceSpec::preset(name) {
        Err(e) => UsageError(e.to_string()),
        Ok(_) => UsageError(format!("there is no preset '{name}'")),
    };
    Ok(preset_text(name).ok_or_else(unknown)?)
}

/// The TOML text of a preset, or of a file that a user wrote.
fn device_text(preset: &str) -> anyhow::Result<String> {
    let path = Path::new(preset);
    let is_file =
        preset.contains('/') || path.extension().is_some_and(|e| e == "toml") || path.exists();
    if preset_text(preset).is_none() && is_file {
        return std::fs::read_to_string(path)
            .map_err(|e| UsageError(format!("can't read the device file '{preset}': {e}")).into());
    }
    text_of_preset(preset).map(str::to_owned)
}

/// A preset's text, or a file's, if it describes a device.
///
/// # Errors
/// [`UsageError`]: there is no such preset or file, or it is not one.
pub(crate) fn check_preset(preset: &str) -> anyhow::Result<String> {
    let text = device_text(preset)?;
    DeviceSpec::parse(&text).map_err(|e| UsageError(format!("'{preset}': {e}")))?;
    Ok(text)
}

fn options(args: &UpArgs) -> anyhow::Result<UpOptions> {
    let text = check_preset(&args.preset)?;
    Ok(UpOptions {
        name: args.name.clone(),
        size: args.size,
        block_size: args.block_size,
        memory: args.memory,
        overflow: args.overflow(),
        mount: args.mount(),
        scheduler: args.scheduler.clone(),
        seed: args.seed,
        ..UpOptions::new(text)
    })
}

fn bring_up(lab: &Lab, args: &UpArgs, json: bool) -> anyhow::Result<Exit> {
    let stop = signals::stop_flag()?;
    let info = lab.up(&options(args)?, &stop)?;
    let spec = DeviceSpec::parse(&device_text(&args.preset)?).ok();
    if let Some(note) = spec.as_ref().and_then(text::depends_on_use) {
        notice(&format!("{}: {note}", info.name));
    }
    if json {
        output::json(&to_json(&info)?)?
    } else {
        output::result(&text::lab(&info))?
    }
    Ok(Exit::Done)
}

fn list(lab: &Lab, json: bool) -> anyhow::Result<Exit> {
    let labs = match lab.list() {
        // Every user may see the presets.
        Err(e @ LabError::Private { .. }) => Err(e),
        labs => Ok(labs?),
    };
    let presets: Vec<(&str, String, String)> = preset_names()
        .filter_map(|name| {
            DeviceSpec::preset(name).ok().map(|s| (name, s.model.clone(), s.description.clone()))
        })
        .collect();
    if json {
        let presets: Vec<_> = presets
            .iter()
            .map(|(name, model, what)| json!({"name": name, "model": model, "description": what}))
            .collect();
        // Not an empty list: a user without access to the devices must not read that none exist.
        output::json(&to_json(&json!({ "presets": presets, "devices": labs.ok() }))?)?;
    } else {
        output::folded(&text::list(&presets, &labs))?;
    }
    Ok(Exit::Done)
}

fn take_down(lab: &Lab, which: &NameOrAll) -> anyhow::Result<Exit> {
    let Some(name) = &which.name else {
        let mut exit = Exit::Done;
        let all = lab.down_all()?;
        if all.is_empty() {
            output::result("no device was up\n")?;
        }
        for (name, result) in all {
            match result {
                Ok(()) => output::result(&format!("{name} is down\n"))?,
                Err(e) => {
                    notice(&format!("floodwall: {name}: {e}"));
                    exit = Exit::Failed;
                }
            }
        }
        return Ok(exit);
    };
    lab.down(name)?;
    output::result(&format!("{name} is down\n"))?;
    Ok(Exit::Done)
}

/// Runs a command on a device made for it alone; the command's exit status becomes this program's.
fn run_in(
    lab: &Lab,
    args: &UpArgs,
    user: Option<&str>,
    command: &[String],
) -> anyhow::Result<Exit> {
    let [program, arguments @ ..] = command else {
        return Err(UsageError("give a command after --".into()).into());
    };
    let stop = signals::stop_flag()?;
    let mut options = options(args)?;
    if options.mount.is_none() && !args.raw {
        options.mount = Some((floodwall_lab::Filesystem::Ext4, None));
    }
    let mut child = Command::new(program);
    child.args(arguments);
    if let Some(user) = user.map(User::named).transpose()? {
        user.runs(&mut child);
        let (uid, gid) = user.ids();
        options.owner = Some((uid.as_raw(), gid.as_raw()));
    }
    if let Some(path) = path_with_this_program() {
        child.env("PATH", path);
    }
    let ran = lab.run(&options, &mut child, &stop).map_err(|error| match error {
        LabError::NoRoot => MissingError(NO_ROOT.into()).into(),
        error => anyhow::Error::from(error),
    })?;
    // Floodwall's measuring commands say it of the device that they measured.
    let ours =
        std::env::current_exe().is_ok_and(|exe| exe.file_name() == Path::new(program).file_name());
    if let Some(late) =
        ran.stats.as_ref().filter(|_| !ours).and_then(|s| text::late(&s.name, &s.timings))
    {
        notice(&format!("floodwall: {late}"));
    }
    Ok(status_of(ran.status))
}

fn record(
    lab: &Lab,
    name: &str,
    out: Option<&Path>,
    from_start: bool,
    follow: bool,
) -> anyhow::Result<Exit> {
    let stop = if follow { signals::stop_flag()? } else { Arc::new(AtomicBool::new(false)) };
    let Some(path) = out else {
        if follow {
            stop_when_nobody_reads(Arc::clone(&stop));
        }
        return match lab.record(name, from_start, follow, &mut std::io::stdout().lock(), &stop) {
            // `| head` has seen enough.
            Err(LabError::Io { errno: Errno::PIPE, .. }) => Ok(Exit::Done),
            recorded => Ok(recorded.map(|()| Exit::Done)?),
        };
    };
    output::check_writable(path)?;
    // A wrong name must not empty an existing file.
    lab.stats(name)?;
    let file =
        std::fs::File::create(path).with_context(|| format!("can't write '{}'", path.display()))?;
    let mut writer = std::io::BufWriter::new(file);
    lab.record(name, from_start, follow, &mut writer, &stop)?;
    writer.flush().with_context(|| format!("can't write '{}'", path.display()))?;
    Ok(Exit::Done)
}

/// Raises `stop` when the reader of stdout is gone. An idle device has nothing to write, so no
/// write would fail.
fn stop_when_nobody_reads(stop: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        let stdout = std::io::stdout();
        // No event is asked for: errors and hang-ups are always told (poll(2)).
        while rustix::event::poll(&mut [PollFd::new(&stdout, PollFlags::empty())], None)
            == Err(Errno::INTR)
        {}
        stop.store(true, Ordering::Relaxed);
    });
}

fn to_json<T: serde::Serialize>(value: &T) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_preset_and_no_file_gets_the_nearest_preset() {
        let said = |preset: &str| device_text(preset).unwrap_err().to_string();
        assert_eq!(said("cloud.gp3"), "there is no preset 'cloud.gp3'; did you mean 'cloud-gp3'?");
        assert!(
            said("./hdd-7200").starts_with("can't read the device file './hdd-7200': No such file")
        );
        assert!(
            said("mine.toml").starts_with("can't read the device file 'mine.toml': No such file")
        );
        // A file is no preset, even if it is there.
        assert!(text_of_preset("/etc/passwd").is_err());
    }
}
