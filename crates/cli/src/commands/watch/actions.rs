//! What the screen asks for: floodwall's own commands, pages, and files of a process.
//!
//! ```text
//! command ─▶ Runner: a thread ─▶ its line and what it printed ─▶ screen
//! ```
//!
//! A command may wait for a queue to run dry, and the screen goes on meanwhile.

use std::process::{Command as Program, Stdio};
use std::sync::mpsc::{self, Receiver, RecvError, TryRecvError};

use anyhow::Context;
use floodwall_host::SysRoot;
use floodwall_host::open_files::read_written_files;
use floodwall_model::Reading;
use floodwall_screen::{Command, Screen};

use super::source::{Next, Source};
use super::terminal::Terminal;
use crate::commands::settings::explain;
use crate::output;

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
    runner: &mut Runner,
    terminal: &mut Terminal,
) -> anyhow::Result<()> {
    match command {
        Command::Quit => {}
        Command::Suspend => terminal.stop()?,
        Command::Redraw => terminal.clear()?,
        Command::Step(by) => show(source.step(by), screen)?,
        Command::Jump(moment) => show(source.jump(&moment), screen)?,
        Command::Run(arguments) => {
            let line = format!("floodwall {}", arguments.join(" "));
            screen.say(runner.start(line, move || printed(&arguments)));
        }
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

/// What a command printed, and whether it succeeded.
type Printed = anyhow::Result<(bool, String)>;

/// Runs floodwall's commands beside the screen, one at a time.
#[derive(Default)]
pub(super) struct Runner {
    /// The command line, and where its end is told.
    running: Option<(String, Receiver<Printed>)>,
}

impl Runner {
    /// Runs a command unless one runs, and tells what to say of it.
    fn start(&mut self, line: String, run: impl FnOnce() -> Printed + Send + 'static) -> String {
        if let Some((other, _)) = &self.running {
            return format!("not begun, because this still runs: {other}");
        }
        let (send, receive) = mpsc::sync_channel(1);
        std::thread::spawn(move || send.send(run()));
        let said = format!("running {line} …");
        self.running = Some((line, receive));
        said
    }

    /// The command that has ended since the last call, if one has.
    fn ended(&mut self) -> Option<(String, Printed)> {
        let printed = match self.running.as_ref()?.1.try_recv() {
            Ok(printed) => printed,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err(RecvError.into()),
        };
        self.running.take().map(|(line, _)| (line, printed))
    }

    /// Shows what a command printed, once it has ended. It asks nothing: the screen has.
    pub(super) fn look(&mut self, screen: &mut Screen) -> bool {
        let Some((line, printed)) = self.ended() else { return false };
        match printed {
            Ok((true, text)) if text.lines().count() <= 1 => {
                let text = text.trim();
                screen.say(if text.is_empty() { format!("done: {line}") } else { text.to_owned() });
            }
            Ok((_, text)) => screen.show_text(line, text),
            Err(error) => screen.say(format!("{error:#}")),
        }
        true
    }

    /// Waits for the command that runs, after the screen has ended.
    pub(super) fn finish(self) {
        let Some((line, receive)) = self.running else { return };
        output::notice(&format!("floodwall: waiting for {line}"));
        match receive.recv().map_err(Into::into).and_then(|printed| printed) {
            Ok((_, text)) => output::notice(text.trim_end()),
            Err(error) => output::notice(&format!("floodwall: {error:#}")),
        }
    }
}

/// Runs a command of floodwall's, as the user would type it.
fn printed(arguments: &[String]) -> Printed {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_command_runs_at_a_time_and_the_screen_goes_on() {
        let (end, ends) = mpsc::channel();
        let mut runner = Runner::default();
        let said = runner.start("floodwall apply".into(), move || {
            ends.recv()?;
            Ok((true, "applied".into()))
        });
        assert_eq!(said, "running floodwall apply …");
        assert!(runner.ended().is_none());
        let said = runner.start("floodwall guard pause".into(), || Ok((true, "paused".into())));
        assert!(said.contains("still runs: floodwall apply"), "{said}");
        end.send(()).unwrap();
        let (line, printed) = loop {
            match runner.ended() {
                Some(ended) => break ended,
                None => std::thread::yield_now(),
            }
        };
        assert_eq!((line.as_str(), printed.unwrap().1.as_str()), ("floodwall apply", "applied"));
        assert!(runner.start("next".into(), || Ok((true, String::new()))).starts_with("running"));
    }
}
