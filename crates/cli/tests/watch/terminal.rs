//! The screen in a real terminal: keys, resize, Ctrl-C, Ctrl-Z, signals. tmux is the terminal.

use std::process::Command;
use std::time::Duration;

use floodwall_testing::process::{done, lives, output, text};
use floodwall_testing::{ensure, until};

use crate::{FLOODWALL, Test};

pub(crate) const TESTS: &[Test] = &[
    Test { name: "the screen answers keys and fits a new size", needs: &["tmux"], body: keys },
    Test { name: "the terminal is as it was after every end", needs: &["tmux"], body: ends },
    Test { name: "Ctrl-Z stops the screen and fg brings it back", needs: &["tmux"], body: suspend },
    Test { name: "the screen ends with its terminal", needs: &["tmux"], body: gone },
    Test { name: "a screen that is too small says so", needs: &["tmux"], body: small },
];

/// How long a screen may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// What only the screen shows.
const SHOWN: &str = "simulated";

/// A terminal of its own; ended when it is dropped.
struct Tmux {
    socket: String,
}

impl Tmux {
    /// A shell in a terminal of this size.
    fn new(name: &str, columns: u32, lines: u32) -> Result<Self, String> {
        let socket = format!("floodwall-{name}-{}", std::process::id());
        let tmux = Self { socket };
        let (columns, lines) = (columns.to_string(), lines.to_string());
        tmux.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &columns,
            "-y",
            &lines,
            "env",
            "PS1=ready$ ",
            "LC_ALL=C.UTF-8",
            "sh",
            "-i",
        ])?;
        tmux.shows("ready$")?;
        Ok(tmux)
    }

    fn tmux(&self, words: &[&str]) -> Result<String, String> {
        done(Command::new("tmux").args(["-L", &self.socket]).args(words))
    }

    /// Types a command and Enter.
    fn run(&self, command: &str) -> Result<(), String> {
        self.tmux(&["send-keys", "-l", command])?;
        self.keys(&["Enter"])
    }

    fn keys(&self, keys: &[&str]) -> Result<(), String> {
        self.tmux(&[&["send-keys"], keys].concat()).map(drop)
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"]).unwrap_or_default()
    }

    /// Waits until the screen has this text.
    fn shows(&self, what: &str) -> Result<String, String> {
        until(PATIENCE, what, || self.screen().contains(what))
            .map_err(|e| format!("{e}\n{}", self.screen()))?;
        Ok(self.screen())
    }

    /// Opens the screen of a simulated machine.
    fn watch(&self) -> Result<String, String> {
        self.run(&format!("{FLOODWALL} watch --sim hdd-7200 --interval 200ms"))?;
        // The command line has the disk's name too.
        self.shows(SHOWN)
    }

    /// Whether the shell has its terminal back: its own screen, and lines.
    fn is_back(&self, status: &str) -> Result<(), String> {
        // Until it has ended it may take what is typed for its own.
        let ended = || !self.screen().contains(SHOWN) && watch_pid(self).is_err();
        until(PATIENCE, "the shell's screen", ended)?;
        self.run("echo status=$?; stty -a | grep -o ' -*icanon'")?;
        // The command line has the word too; its answer is a line of its own.
        let answer = |screen: &str| {
            let mut lines = screen.lines().map(str::trim);
            lines.rfind(|line| matches!(*line, "icanon" | "-icanon")).map(str::to_owned)
        };
        until(PATIENCE, "stty's answer", || answer(&self.screen()).is_some())?;
        let screen = self.screen();
        let is_so = screen.contains(&format!("status={status}"))
            && answer(&screen).as_deref() == Some("icanon");
        ensure(is_so, || screen)
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = output(Command::new("tmux").args(["-L", &self.socket, "kill-server"]));
    }
}

fn keys() -> Result<(), String> {
    let tmux = Tmux::new("keys", 100, 30)?;
    tmux.watch()?;
    // Ten seconds of its life on, the copy floods.
    tmux.shows("copy")?;
    tmux.keys(&["?"])?;
    tmux.shows("KEYS")?;
    tmux.keys(&["Escape"])?;
    tmux.shows("DRAINS AT")?;
    tmux.tmux(&["resize-window", "-x", "140", "-y", "40"])?;
    until(PATIENCE, "a wider screen", || {
        tmux.screen().lines().any(|line| line.chars().count() > 100)
    })?;
    tmux.keys(&["q"])?;
    tmux.is_back("0")
}

fn ends() -> Result<(), String> {
    let tmux = Tmux::new("ends", 100, 30)?;
    for end in ["C-c", "TERM", "HUP"] {
        tmux.watch()?;
        if end.starts_with("C-") {
            tmux.keys(&[end])?;
        } else {
            let pid = watch_pid(&tmux)?;
            done(Command::new("kill").args([&format!("-{end}"), &pid]))?;
        }
        tmux.shows("ready$").and_then(|_| tmux.is_back("0")).map_err(|e| format!("{end}: {e}"))?;
        tmux.run("clear")?;
    }
    Ok(())
}

/// The process number of the screen in this terminal.
fn watch_pid(tmux: &Tmux) -> Result<String, String> {
    let shell = tmux.tmux(&["display-message", "-p", "#{pane_pid}"])?;
    let children = done(Command::new("ps").args(["-o", "pid=", "--ppid", shell.trim()]))?;
    children.split_whitespace().next().map(str::to_owned).ok_or_else(|| "no child".to_owned())
}

/// A closed window, or a broken connection, leaves no process behind.
fn gone() -> Result<(), String> {
    let tmux = Tmux::new("gone", 100, 30)?;
    tmux.watch()?;
    let pid = watch_pid(&tmux)?.parse().map_err(|e| format!("{e}"))?;
    drop(tmux);
    until(PATIENCE, "its end", || !lives(pid))
}

fn suspend() -> Result<(), String> {
    let tmux = Tmux::new("stop", 100, 30)?;
    tmux.watch()?;
    tmux.keys(&["C-z"])?;
    tmux.shows("ready$")?;
    tmux.run("jobs; echo back")?;
    tmux.shows("Stopped")?;
    tmux.run("fg")?;
    tmux.shows(SHOWN)?;
    tmux.keys(&["q"])?;
    tmux.is_back("0")
}

fn small() -> Result<(), String> {
    let tmux = Tmux::new("small", 20, 5)?;
    tmux.run(&format!("clear; {FLOODWALL} watch --sim hdd-7200"))?;
    tmux.shows("needs")?;
    tmux.keys(&["q"])?;
    tmux.shows("ready$")?;
    // No terminal at all.
    let mut piped = Command::new(FLOODWALL);
    let output = output(piped.args(["watch", "--sim", "hdd-7200"]))?;
    let told = text(&output.stderr);
    let is_so = output.status.code() == Some(2) && told.contains("watch needs a terminal");
    ensure(is_so, || told)
}
