//! A settings file as a setting to measure, knob by knob: it may come from another machine.
//!
//! ```text
//! FILE.toml ─▶ each knob: is it known, is it here, does this kernel and disk take the value
//!                ├ yes ─▶ Setting of those knobs
//!                └ no: a warning, and the setting's name says what is left out
//! ```

use floodwall_host::SysRoot;
use floodwall_knobs::{Change, Device, KernelFiles, PlanError, plan};

use crate::commands::settings::sources::SettingsFile;
use crate::exit::UsageError;

/// What of a file can be measured here.
#[derive(Debug)]
pub(super) struct Usable {
    pub(super) changes: Vec<Change>,
    /// Knobs that are left out, as the file names them.
    pub(super) left_out: Vec<String>,
    pub(super) warnings: Vec<String>,
}

/// Reads a file and checks each of its knobs. `device` is the disk that is measured.
///
/// # Errors
/// [`UsageError`]: no such file, no settings file, or nothing of it is possible here.
pub(super) fn read(root: &SysRoot, device: Option<&Device>, path: &str) -> anyhow::Result<Usable> {
    let file = SettingsFile::read(path)?;
    let mut usable = Usable { changes: Vec::new(), left_out: Vec::new(), warnings: Vec::new() };
    if let (Some(theirs), Some(ours)) = (&file.device, device)
        && Device::find(root, theirs).as_ref() != Ok(ours)
    {
        let ours = &ours.name;
        usable.warnings.push(format!(
            "'{path}' was written for {theirs}; its settings of a disk are tried on {ours}, the \
             one that is measured"
        ));
    }
    let leave_out = |usable: &mut Usable, knob: &str, why: &str| {
        usable.left_out.push(knob.to_owned());
        usable.warnings.push(format!("'{path}': {knob} is left out: {why}"));
    };
    let mut known = Vec::new();
    for (knob, value) in &file.pairs {
        match Change::parse(root, device, &format!("{knob}={value}")) {
            Ok(change) => known.push((knob, change)),
            Err(error) => leave_out(&mut usable, knob, &error.to_string()),
        }
    }
    let files = KernelFiles::new(root)?;
    let all: Vec<Change> = known.iter().map(|(_, change)| change.clone()).collect();
    // Some are only possible together: a device's limit above the machine's, which the file raises
    // as well.
    if impossible(&all, &files).is_none() {
        known.clear();
        usable.changes = all.clone();
    }
    // Else knob by knob, beside what others rest on: an elevator's tunables are only there together
    // with it, a device's limit is below the machine's.
    let ground: Vec<Change> = all
        .into_iter()
        .filter(|c| c.knob.name == "scheduler" || c.knob.name.starts_with("vm.dirty_"))
        .filter(|c| impossible(std::slice::from_ref(c), &files).is_none())
        .collect();
    for (knob, change) in known {
        let mut together = ground.clone();
        if !together.contains(&change) {
            together.push(change.clone());
        }
        match impossible(&together, &files) {
            None => usable.changes.push(change),
            Some(error) => leave_out(&mut usable, knob, &error.to_string()),
        }
    }
    if usable.changes.is_empty() {
        let why = usable.warnings.join("; ");
        return Err(
            UsageError(format!("nothing of '{path}' is possible on this machine: {why}")).into()
        );
    }
    Ok(usable)
}

/// Why changes can't be made here. Knobs that can't be read, and servers that could hang, are left
/// to the run, which reports them.
fn impossible(changes: &[Change], files: &KernelFiles) -> Option<PlanError> {
    let later =
        |e: &PlanError| matches!(e, PlanError::Unreadable { .. } | PlanError::WouldHang { .. });
    plan(changes, files).err().filter(|e| !later(e))
}
