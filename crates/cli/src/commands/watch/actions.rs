//! What the screen asks for: floodwall's own commands, pages, and files of a process.

use std::process::{Command as Program, Stdio};

use anyhow::Context;
use floodwall_host::SysRoot;
use floodwall_host::open_files::read_written_files;
use floodwall_model::Reading;
use floodwall_screen::{Command, Screen};

use super::source::{Next, Source};
use super::terminal::Terminal;
use crate::commands::settings::explain;

/// Files of a process that are shown; it may have thousands open.
const FILES: usize = 200;

/// Does what the screen asks for.
///
/// # Errors
/// The terminal can't be written to.
pub(super) fn act(
    command: Command,
    screen: &mut Screen,
    source: &mut dyn Source,
    terminal: &mut Terminal,
) -> anyhow::Result<()> {
    match command {
        Command::Quit => {}
        Command::Suspend => terminal.stop()?,
        Command::Redraw => terminal.clear()?,
        Command::Step(by) => show(source.step(by), screen)?,
        Command::Jump(moment) => show(source.jump(&moment), screen)?,
        Command::Run(arguments) => run(&arguments, screen),
        Command::Explain(id) => match explain::page_of_finding(&id) {
            Some(page) => screen.show_text(id, page),
            None => screen.say(format!("floodwall explain knows no {id}")),
        },
        Command::Files(pid) => screen.tell_files(pid, files(pid)),
    }
    Ok(())
}

/// Shows what a source answers.
pub(super) fn show(next: Next, screen: &mut Screen) -> anyhow::Result<()> {
    match next {
        Next::Frame(frame) => screen.push(*frame),
        Next::Frames(frames) => screen.replace(frames),
        Next::Say(text) => screen.say(text),
        Next::Nothing => {}
        Next::Lost(error) => return Err(error),
    }
    Ok(())
}

/// Runs a command of floodwall's, as the user would type it. It asks nothing: the screen has.
fn run(arguments: &[String], screen: &mut Screen) {
    let line = format!("floodwall {}", arguments.join(" "));
    match output(arguments) {
        Ok((true, text)) if text.lines().count() <= 1 => {
            let text = text.trim();
            screen.say(if text.is_empty() { format!("done: {line}") } else { text.to_owned() });
        }
        Ok((_, text)) => screen.show_text(line, text),
        Err(error) => screen.say(format!("{error:#}")),
    }
}

/// What it printed, on stdout and stderr, and whether it succeeded.
fn output(arguments: &[String]) -> anyhow::Result<(bool, String)> {
    let program = std::env::current_exe().context("can't find the program itself")?;
    let output = Program::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("can't run floodwall {}", arguments.join(" ")))?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok((output.status.success(), text))
}

/// Files that a process has open for writing.
fn files(pid: u32) -> Result<Vec<String>, String> {
    let root = SysRoot::live().map_err(|e| e.to_string())?;
    match read_written_files(&root, pid) {
        Reading::Value(mut files) => {
            files.truncate(FILES);
            Ok(files)
        }
        other => Err(other.reason().unwrap_or_default().to_owned()),
    }
}
