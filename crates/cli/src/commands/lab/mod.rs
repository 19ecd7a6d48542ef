//! `floodwall lab`: virtual devices behind the real kernel.

mod args;
mod seeks;
mod text;

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use floodwall_device::{DeviceSpec, preset_names, preset_text};
use floodwall_lab::{Lab, LabError, LabInfo, Role, UpOptions};
use serde_json::json;

pub(crate) use args::{LabArgs, ServerArgs};
use args::{LabCommand, NameOrAll, UpArgs};

use crate::exit::{Exit, UsageError};
use crate::output::{self, notice};
use crate::signals;

/// The hidden command under which the program runs itself again as server and guardian.
pub(crate) const SERVER_COMMAND: &str = "lab-server";

/// Runs the command.
///
/// # Errors
/// What could not be done; [`Exit::of`] turns it into a status.
pub(crate) fn run(args: &LabArgs) -> anyhow::Result<Exit> {
    let program = std::env::current_exe().context("can't tell where this program is, to start its server")?;
    let lab = Lab::new(program, [SERVER_COMMAND.to_owned()]);
    let lab = match &args.state {
        Some(root) => lab.with_root(root),
        None => lab,
    };
    match &args.command {
        LabCommand::List { json } => list(&lab, *json),
        LabCommand::Show { preset } => output::result(&device_text(preset)?).map(|()| Exit::Done),
        LabCommand::Up { up, json } => bring_up(&lab, up, *json),
        LabCommand::Stats { name, json } => {
            let stats = lab.stats(name)?;
            output::result(&if *json { to_json(&stats)? } else { text::stats(&stats) })?;
            Ok(Exit::Done)
        }
        LabCommand::Down(which) => take_down(&lab, which),
        LabCommand::Run { up, command } => run_in(&lab, up, command),
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

/// What to know of figures that were measured on a lab device, if `device` (`loop3`) is one and this machine was too slow for its model.
pub(crate) fn kept_up_warning(device: &str) -> Option<String> {
    let lab = Lab::new(std::env::current_exe().ok()?, [SERVER_COMMAND.to_owned()]);
    let path = Path::new("/dev").join(device);
    let info = lab.list().into_iter().find(|info| info.device.as_deref() == Some(&path))?;
    text::late(&lab.stats(&info.name).ok()?)
}

/// Runs as a lab's server or guardian.
///
/// # Errors
/// Why it could not start, or what could not be taken down.
pub(crate) fn serve(args: &ServerArgs) -> anyhow::Result<Exit> {
    let role = Role::from_name(&args.role)
        .ok_or_else(|| UsageError(format!("'{}' is no role; this command is not for people", args.role)))?;
    floodwall_lab::child(role, &args.state)?;
    Ok(Exit::Done)
}

/// The TOML text of a preset, or of a file that a user wrote.
fn device_text(preset: &str) -> anyhow::Result<String> {
    if let Some(text) = preset_text(preset) {
        return Ok(text.to_owned());
    }
    if preset.contains(['/', '.']) || Path::new(preset).exists() {
        return std::fs::read_to_string(preset)
            .map_err(|e| UsageError(format!("can't read the device file '{preset}': {e}")).into());
    }
    // The crate's own error names the nearest preset.
    DeviceSpec::preset(preset).map_err(LabError::from)?;
    Err(UsageError(format!("there is no preset '{preset}'")).into())
}

fn options(args: &UpArgs) -> anyhow::Result<UpOptions> {
    let text = device_text(&args.preset)?;
    DeviceSpec::parse(&text).map_err(|e| UsageError(format!("'{}': {e}", args.preset)))?;
    Ok(UpOptions {
        name: args.name.clone(),
        size: args.size,
        block_size: args.block_size,
        memory: args.memory,
        overflow: args.overflow(),
        mount: args.mount(),
        seed: args.seed,
        ..UpOptions::new(text)
    })
}

fn bring_up(lab: &Lab, args: &UpArgs, json: bool) -> anyhow::Result<Exit> {
    let stop = signals::stop_flag()?;
    let info = lab.up(&options(args)?, &stop)?;
    output::result(&if json { to_json(&info)? } else { text::lab(&info) })?;
    Ok(Exit::Done)
}

fn list(lab: &Lab, json: bool) -> anyhow::Result<Exit> {
    let labs: Vec<LabInfo> = lab.list();
    let presets: Vec<(&str, String, String)> = preset_names()
        .filter_map(|name| {
            DeviceSpec::preset(name).ok().map(|s| (name, s.model.clone(), s.description.clone()))
        })
        .collect();
    let shown = if json {
        let presets: Vec<_> = presets
            .iter()
            .map(|(name, model, description)| json!({"name": name, "model": model, "description": description}))
            .collect();
        to_json(&json!({ "presets": presets, "devices": labs }))?
    } else {
        text::list(&presets, &labs)
    };
    output::result(&shown)?;
    Ok(Exit::Done)
}

fn take_down(lab: &Lab, which: &NameOrAll) -> anyhow::Result<Exit> {
    let Some(name) = &which.name else {
        let mut exit = Exit::Done;
        for (name, result) in lab.down_all() {
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

/// Runs a command on a device that is there for it alone; its exit status becomes ours.
fn run_in(lab: &Lab, args: &UpArgs, command: &[String]) -> anyhow::Result<Exit> {
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
    let status = lab.run(&options, &mut child, &stop)?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(Exit::Failed, Exit::Of))
}

fn record(lab: &Lab, name: &str, out: Option<&Path>, from_start: bool, follow: bool) -> anyhow::Result<Exit> {
    let stop = if follow { signals::stop_flag()? } else { std::sync::Arc::new(AtomicBool::new(false)) };
    let Some(path) = out else {
        lab.record(name, from_start, follow, &mut std::io::stdout().lock(), &stop)?;
        return Ok(Exit::Done);
    };
    output::check_writable(path)?;
    let file = std::fs::File::create(path).with_context(|| format!("can't write '{}'", path.display()))?;
    let mut writer = std::io::BufWriter::new(file);
    lab.record(name, from_start, follow, &mut writer, &stop)?;
    writer.flush().with_context(|| format!("can't write '{}'", path.display()))?;
    Ok(Exit::Done)
}

fn to_json<T: serde::Serialize>(value: &T) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}
