//! Where a cell is measured: behind this machine's kernel, or in a guest of user-mode Linux.

use std::process::Command;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::source::Source;
use super::way::Way;
use crate::devices::{Floodwall, has_kept_up, output, run_accepting};

/// Exit statuses of `floodwall bench`. A status of 3 (not conclusive) has figures as well.
const MEASURED: [i32; 2] = [0, 3];
/// Memory of a guest. The copied file is in it.
const RAM: &str = "6GiB";

/// The kernel that a device is behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Place {
    /// This machine's.
    #[default]
    Host,
    /// A guest's, which has control groups (cgroup v2).
    Guest,
}

impl Place {
    pub(super) const ALL: [Self; 2] = [Self::Host, Self::Guest];

    /// Prefix of a stored file's name.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::Host => "",
            Self::Guest => "guest-",
        }
    }

    /// The ways that are measured there. A guest has a single file to copy.
    pub(super) fn ways(self) -> Vec<Way> {
        let needs_guest = |way: &Way| matches!(way, Way::IoMax10 | Way::IoMax40);
        match self {
            Self::Host => Way::ALL.into_iter().filter(|way| !needs_guest(way)).collect(),
            Self::Guest => vec![Way::Cp, Way::IoMax10, Way::IoMax40, Way::PaceCp, Way::Pace],
        }
    }

    /// Measures a scenario's victim beside a copy, on a fresh device. Returns the result of
    /// `floodwall bench`, and whether the lab kept up with its model.
    pub(super) fn measure(
        self,
        floodwall: &Floodwall,
        device: &str,
        scenario: &str,
        copy: &str,
        seconds: u32,
    ) -> anyhow::Result<(Value, Option<bool>)> {
        let seconds = format!("{seconds}s");
        let bench = "bench --json --progress never --no-burst --rounds 1 --flood none";
        let mut bench: Vec<&str> = bench.split(' ').collect();
        bench.extend(["--scenario", scenario, "--measure", &seconds, "--flood-cmd", copy]);
        let mut command = Command::new(&floodwall.program);
        let (json, kept_up) = match self {
            Self::Host => {
                let up = floodwall.up(device, &["--fs", "xfs"])?;
                let json = run_accepting(command.args(bench).arg(up.dir()?), &MEASURED)?;
                (json, up.kept_up()?)
            }
            Self::Guest => {
                let script = format!("{} && exec \"$@\" .", Source::script());
                command.args(["lab", "run", device, "--fs", "xfs", "--memory", "2GiB"]);
                command.args(["--kernel", "uml", "--ram", RAM, "--", "sh", "-c", &script, "sh"]);
                let output = output(command.arg(&floodwall.program).args(bench), &MEASURED)?;
                let kept_up = has_kept_up(&output);
                (String::from_utf8_lossy(&output.stdout).into_owned(), Some(kept_up))
            }
        };
        Ok((serde_json::from_str(&json).context("bench --json")?, kept_up))
    }
}
