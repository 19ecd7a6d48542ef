//! Lab devices, brought up and taken down through the binary as a user would.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, bail};
use processes::interrupt;
use serde_json::Value;

/// The binary.
pub(crate) struct Floodwall {
    pub(crate) program: PathBuf,
}

/// A lab device; dropping it takes it down.
pub(crate) struct Device<'a> {
    floodwall: &'a Floodwall,
    pub(crate) name: String,
    /// `/dev/loopN`.
    pub(crate) path: PathBuf,
    /// Where it is mounted, if it is.
    pub(crate) mount: Option<PathBuf>,
}

impl Floodwall {
    pub(crate) fn new(program: &Path) -> anyhow::Result<Self> {
        let program = program
            .canonicalize()
            .with_context(|| format!("no floodwall at '{}'", program.display()))?;
        Ok(Self { program })
    }

    /// Brings a device up under a unique name.
    pub(crate) fn up(&self, preset: &str, more: &[&str]) -> anyhow::Result<Device<'_>> {
        self.up_as(&format!("bench-{}", std::process::id()), preset, more)
    }

    /// The same under this name, beside another one.
    pub(crate) fn up_as(
        &self,
        name: &str,
        preset: &str,
        more: &[&str],
    ) -> anyhow::Result<Device<'_>> {
        let args = [&["lab", "up", preset, "--json", "--name", name], more].concat();
        let info = run(Command::new(&self.program).args(args))?;
        let info: Value = serde_json::from_str(&info).context("lab up --json")?;
        let path = info["device"].as_str().context("lab up named no device")?.into();
        let mount = info["mounts"][0].as_str().map(PathBuf::from);
        Ok(Device { floodwall: self, name: name.to_owned(), path, mount })
    }
}

impl Device<'_> {
    /// Its counters.
    pub(crate) fn stats(&self) -> anyhow::Result<Value> {
        let stats = run(
            Command::new(&self.floodwall.program).args(["lab", "stats", &self.name, "--json"])
        )?;
        serde_json::from_str(&stats).context("lab stats --json")
    }

    /// Whether the lab kept up with its model; `None` if it can't tell.
    pub(crate) fn kept_up(&self) -> anyhow::Result<Option<bool>> {
        Ok(self.stats()?.pointer("/timings/kept_up").and_then(Value::as_bool))
    }

    /// A benchmark of it, in full.
    pub(crate) fn bench(&self, scenario: &str) -> anyhow::Result<Value> {
        let file = scenario_file(scenario)?;
        let mut command = Command::new(&self.floodwall.program);
        command
            .args(["bench", "--json", "--progress", "never", "--scenario"])
            .arg(file.path())
            .arg(self.dir()?);
        // 3: measured, not conclusive; the figures count all the same.
        let json = run_accepting(&mut command, &[0, 3])?;
        serde_json::from_str(&json).context("bench --json")
    }

    /// Where it is mounted.
    pub(crate) fn dir(&self) -> anyhow::Result<&Path> {
        self.mount.as_deref().context("the device is not mounted")
    }
}

impl Drop for Device<'_> {
    fn drop(&mut self) {
        // This runs to its end even after an interruption.
        let mut down = Command::new(&self.floodwall.program);
        let output = down.args(["lab", "down", &self.name]).stdin(Stdio::null()).output();
        let done = output
            .context("can't run floodwall")
            .and_then(|output| succeeded(&output, "lab down", &[0]));
        if let Err(error) = done {
            eprintln!("{error:#}");
        }
    }
}

/// Whether the lab of a `floodwall lab run` kept up with its model, by what that wrote.
pub(crate) fn has_kept_up(run: &Output) -> bool {
    !String::from_utf8_lossy(&run.stderr).contains("did not keep up with its model")
}

/// A file with a scenario; gone when dropped.
pub(crate) fn scenario_file(text: &str) -> anyhow::Result<tempfile::NamedTempFile> {
    let file =
        tempfile::Builder::new().suffix(".toml").tempfile().context("a file for the scenario")?;
    std::fs::write(file.path(), text).context("can't write the scenario")?;
    Ok(file)
}

/// Runs a command to its end and returns what it printed.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<String> {
    run_accepting(command, &[0])
}

/// The same, with other exit statuses that are no failure.
pub(crate) fn run_accepting(command: &mut Command, accepted: &[i32]) -> anyhow::Result<String> {
    Ok(String::from_utf8_lossy(&output(command, accepted)?.stdout).into_owned())
}

/// The same, with what it wrote to standard error.
pub(crate) fn output(command: &mut Command, accepted: &[i32]) -> anyhow::Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = interrupt::output(
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()),
    )?;
    succeeded(&output, &name, accepted)?;
    Ok(output)
}

fn succeeded(output: &Output, name: &str, accepted: &[i32]) -> anyhow::Result<()> {
    if !output.status.code().is_some_and(|code| accepted.contains(&code)) {
        bail!(
            "'{name}' failed with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}
