//! `report --submit`: a stored result → a submission, shown and then written.
//!
//! Built field by field from what a submission may say. Nothing of the result is copied otherwise,
//! so that no path, comment or name of a host, user or process can be in it.

use std::fs;
use std::path::Path;

use floodwall_hwdb::measured::{drain_rate, sync_time};
use floodwall_hwdb::{
    Best, Figure, MOST_BYTES, Product, SCHEMA, SizeClass, Submission, VICTIMS, model_name, product,
    revision, setting_text, source_of,
};
use floodwall_model::calendar::moment;
use floodwall_model::{Bytes, Trial};
use floodwall_report::schema::contest::{Outcome, pick};
use floodwall_report::schema::{Document, ResultDevice, RunStatus};
use jiff::Zoned;
use jiff::civil::Date;

use crate::exit::{Exit, UsageError};
use crate::input;
use crate::output::{self, notice};

/// Stands for a submission that is only shown.
const STDOUT: &str = "-";
/// The identity of this installation (machine-id(5)).
const MACHINE_ID: &str = "/etc/machine-id";

/// Shows the submission on stdout, then writes it; `-` only shows it.
///
/// # Errors
/// [`UsageError`] if the result has nothing to submit, and if the file can't be written.
pub(super) fn run(document: &Document, out: &Path) -> anyhow::Result<Exit> {
    let source = fs::read_to_string(MACHINE_ID).ok().and_then(|text| source_of(&text));
    let is_anonymous = source.is_none();
    let submission = submission(document, source, Zoned::now().date())
        .map_err(|why| UsageError(format!("--submit: {why}")))?;
    let text = submission.to_text();
    output::json(&text)?;
    let confirms = |figure: &Option<Figure>| figure.is_some_and(|figure| figure.rounds > 1);
    if submission.drain_bytes_per_s.is_none() {
        notice("note: no drain rate: the flood alone did not keep the disk busy");
    } else if !confirms(&submission.drain_bytes_per_s) {
        notice("note: the drain rate is of one round, and confirms nothing; bench has several");
    }
    if is_anonymous && submission.modelled_by.is_none() {
        notice(&format!("note: without {MACHINE_ID} it has no source, and confirms nothing"));
    }
    if out == Path::new(STDOUT) {
        return Ok(Exit::Done);
    }
    output::write_file(out, |file| Ok(file.write_all(text.as_bytes())?))?;
    notice(&format!("floodwall: '{}' has this; nothing was sent anywhere", out.display()));
    Ok(Exit::Done)
}

/// Refuses to overwrite a file that is no submission.
pub(super) fn check(out: &Path) -> anyhow::Result<()> {
    if !out.is_file() || fs::metadata(out).is_ok_and(|meta| meta.len() == 0) {
        return Ok(());
    }
    let is_ours = input::small(out, MOST_BYTES as u64)
        .is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(SCHEMA));
    if is_ours {
        return Ok(());
    }
    let why = "is no submission; name another file, or move it away";
    Err(UsageError(format!("'{}' {why}", out.display())).into())
}

/// A result as a submission, or the reason why it can't be one.
fn submission(
    document: &Document,
    source: Option<String>,
    today: Date,
) -> Result<Submission, String> {
    let run = &document.run;
    if let RunStatus::Partial { .. } = run.status {
        return Err("the run did not come to its end; submit a whole one".to_owned());
    }
    let device = run.device.as_ref().ok_or("the result is of no block device")?;
    let disk = match device.leaves.as_slice() {
        [] => device,
        [disk] => disk,
        _ => return Err("several disks drain together; submit a result of one disk".to_owned()),
    };
    let modelled = modelled(document, device)?;
    let (model, size, firmware) = match modelled {
        Some(product) => (product.model.to_owned(), product.size(), None),
        None => {
            let (model, size, firmware) = measured(disk)?;
            (model, size, Some(firmware))
        }
    };
    let date = match modelled {
        // A simulated run has no day.
        Some(_) => today.to_string(),
        None => moment(run.started_at_unix_s.max(0.0) as u64).chars().take(10).collect(),
    };
    let trials = in_force(document);
    let submission = Submission {
        schema: SCHEMA.to_owned(),
        // A model confirms nothing.
        source: source.filter(|_| modelled.is_none()),
        modelled_by: modelled.map(|product| product.preset.to_owned()),
        model,
        firmware,
        size_class: size.to_string(),
        kernel: release(run.host.kernel.as_deref().ok_or("the kernel is not known")?),
        ram_gib: gib(run.host.ram_bytes.ok_or("the RAM is not known")?),
        filesystem: filesystem(document),
        date,
        drain_bytes_per_s: drain_rate(&trials).map(Figure::from),
        sync_us: sync_time(&trials).map(Figure::from),
        best: best(document)?,
    };
    submission.check(today).map_err(|e| e.to_string())?;
    Ok(submission)
}

/// The product that a simulated result stands for; `None` of a measured one.
fn modelled(
    document: &Document,
    device: &ResultDevice,
) -> Result<Option<&'static Product>, String> {
    let is_simulated =
        document.run.command == "sim" || device.model.as_deref() == Some("simulated");
    if !is_simulated {
        return Ok(None);
    }
    let preset = &device.name;
    product(preset).map(Some).ok_or_else(|| {
        format!("'{preset}' stands for a class of devices; no disk has its name in the kernel")
    })
}

/// Model, size class and firmware of a measured disk.
fn measured(disk: &ResultDevice) -> Result<(String, SizeClass, String), String> {
    let name = &disk.name;
    let model = disk.model.as_deref().and_then(model_name);
    let model = model.ok_or_else(|| {
        format!("{name} has no model: it is a virtual disk, or the kernel does not tell it")
    })?;
    let size = disk.size_bytes.ok_or_else(|| format!("the size of {name} is not known"))?;
    let firmware = disk.firmware.as_deref().and_then(revision).ok_or_else(|| {
        format!(
            "the firmware of {name} is not in the result: the kernel does not tell it, or an \
             older floodwall measured; measure again"
        )
    })?;
    Ok((model, SizeClass::of(size), firmware))
}

/// The trials of the setting in force: all, or of several settings the reference's.
fn in_force(document: &Document) -> Vec<Trial> {
    let reference = document.contest.as_ref().and_then(|contest| contest.contenders.first());
    match reference {
        Some(reference) => pick(&document.trials, &reference.trials),
        None => document.trials.clone(),
    }
}

/// The numbers of a release: what follows them may be a name.
fn release(text: &str) -> String {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let parts: Vec<&str> = text[..end].split('.').filter(|part| !part.is_empty()).collect();
    parts[..parts.len().min(3)].join(".")
}

/// A size in GiB, rounded up: RAM less what the kernel has reserved.
fn gib(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(Bytes::gib(1).0)).unwrap_or(u32::MAX)
}

fn filesystem(document: &Document) -> String {
    // tune's simulated results name none, and the model's is xfs.
    document.run.filesystem.as_ref().map_or_else(|| "xfs".to_owned(), |it| it.kind.clone())
}

/// What a search recommends for the one kind of its victims.
fn best(document: &Document) -> Result<Option<Best>, String> {
    let recommended = document.contest.as_ref().and_then(|contest| contest.recommended.as_ref());
    let Some(recommended) = recommended.filter(|it| it.outcome == Outcome::Recommended) else {
        return Ok(None);
    };
    let victims = document.scenario["victims"].as_array().map(Vec::as_slice).unwrap_or_default();
    let kinds: Vec<&str> = victims.iter().filter_map(|v| v["kind"].as_str()).collect();
    let kind = kinds.first().filter(|kind| {
        VICTIMS.contains(kind) && kinds.len() == victims.len() && kinds.iter().all(|k| k == *kind)
    });
    let Some(kind) = kind else {
        return Err("its victims are of several kinds, or commands; submit a search for one \
            kind"
            .to_owned());
    };
    let summary = recommended.summary.as_ref();
    let kept = summary.and_then(|summary| summary.victim_kept.zip(summary.flood_kept));
    let Some((victim_kept, flood_kept)) = kept else { return Ok(None) };
    let setting = match setting_text(&recommended.setting) {
        Ok(setting) => setting,
        Err(why) => {
            notice(&format!("note: without the recommended setting: {why}"));
            return Ok(None);
        }
    };
    Ok(Some(Best {
        victim: (*kind).to_owned(),
        setting,
        victim_kept: victim_kept.into(),
        flood_kept: flood_kept.into(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_cut_where_names_begin() {
        for (text, numbers) in [
            ("6.18.5", "6.18.5"),
            ("6.18.5-janes-kernel", "6.18.5"),
            ("6.1.0-18-amd64", "6.1.0"),
            ("6.18 (simulated)", "6.18"),
            ("2.6.32.71", "2.6.32"),
            ("6.18.", "6.18"),
        ] {
            assert_eq!(release(text), numbers);
        }
        assert_eq!(gib((16 << 30) - 1), 16);
    }
}
