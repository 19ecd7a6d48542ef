//! Any command.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::sync::Arc;

use anyhow::Context;
use floodwall_host::SysRoot;
use floodwall_host::diskstats::requests_of_device;
use floodwall_model::units::human_duration;
use floodwall_model::{Bytes, DeviceId};
use floodwall_pace::command::{self, CommandError, Ended, FAILED, OUTER, Paced, Reach};
use floodwall_pace::{Goal, Pacer};

use super::args::PaceArgs;
use super::destination::destinations;
use super::disks::Disks;
use super::guarded::Guarded;
use super::lines::{StatusLines, yielded};
use crate::exit::Exit;
use crate::output::{self, notice};

/// A line is due above so many bytes in no known file, or of other programs. Metadata belongs to no
/// file.
const MUCH: u64 = 16 << 20;

/// Fewer bytes of the command than this count as none.
const LITTLE: u64 = 1 << 20;

/// The hidden command under which the program runs itself again, so that the calls of a strictly
/// paced command go on if the pacing process dies.
pub(crate) const KEEPER_COMMAND: &str = "pace-keeper";

/// `pace -- COMMAND`.
pub(super) fn run(args: &PaceArgs) -> anyhow::Result<Exit> {
    pace(args).or_else(|error| {
        let known = error.downcast_ref::<CommandError>().map(CommandError::status);
        notice(&format!("floodwall: pace: {}", output::message(&error)));
        Ok(Exit::Of(known.unwrap_or(FAILED)))
    })
}

fn pace(args: &PaceArgs) -> anyhow::Result<Exit> {
    let (program, arguments) = args.command.split_first().context("no command")?;
    let outer = std::env::var_os(OUTER);
    let strict = args.strict.then_some(OsStr::new(KEEPER_COMMAND));
    let runtime_directory = std::env::var_os("XDG_RUNTIME_DIR");
    let paced = Paced {
        program,
        arguments,
        outer: outer.as_deref(),
        strict,
        runtime_directory: runtime_directory.as_deref(),
    };
    let root = SysRoot::live()?;
    let named = args.dir.clone().map(|directory| vec![directory]);
    let disks = Disks::of(&root, named.unwrap_or_else(|| destinations(arguments)))?;
    let pacer = Arc::new(Pacer::open_one_of(&root, &disks.directories(), args.to, args.max)?);
    let guarded = Guarded::of(&pacer);
    let mut lines = args.status.then(|| StatusLines::new(&pacer, &guarded));
    let is_paced = |dev| disks.is_on(pacer.chosen(), dev);
    let reach = Reach { paced: &is_paced, known: &|dev| disks.has(dev) };
    let device = pacer.device();
    let before = written_to(&root, device);
    let ended = command::run(&paced, &pacer, &root, reach, &mut |look| {
        if let Some(disk) = disks.other(pacer.chosen(), look.by_filesystem) {
            pacer.choose(disk);
        }
        if let Some(lines) = &mut lines {
            lines.means(look.means);
            lines.at(look.dirtied.saturating_sub(look.backlog));
        }
    });
    let ended = ended?;
    if args.quiet {
        return Ok(Exit::Of(ended.status));
    }
    if ended.is_paced {
        notice(&summarised(&ended, &pacer));
        let on_disk = written_to(&root, device).zip(before);
        let on_disk = on_disk.map_or(0, |(now, before)| now.saturating_sub(before));
        unpaced(&ended, pacer.disk(), on_disk).iter().for_each(|line| notice(line));
    } else if args.strict
        || args.status
        || args.max.is_some()
        || args.dir.is_some()
        || args.to != Goal::default()
    {
        notice("pace: ran inside another pace, which paced it: the options here had no effect");
    }
    Ok(Exit::Of(ended.status))
}

/// [`KEEPER_COMMAND`].
pub(super) fn keep() -> anyhow::Result<Exit> {
    command::keep(std::io::stdin().as_fd())?;
    Ok(Exit::Done)
}

fn summarised(ended: &Ended, pacer: &Pacer) -> String {
    let time = std::time::Duration::from_secs_f64(ended.seconds);
    let held = if ended.held.is_zero() {
        String::new()
    } else {
        format!("; stopped for moments, {} in all", human_duration(ended.held))
    };
    let waited = match ended.held_calls {
        0 => String::new(),
        1 => "; 1 of its writes waited".to_owned(),
        calls => format!("; {calls} of its writes waited"),
    };
    let disk = pacer.disk().filter(|_| ended.dirtied > 0);
    let on = disk.map_or_else(String::new, |disk| format!(", paced on {disk}"));
    format!(
        "pace: {} written in {}{on}{}{held}{waited}",
        Bytes(ended.dirtied).decimal(),
        human_duration(time),
        yielded(pacer)
    )
}

/// Bytes that all programs have written to a disk since it came up.
fn written_to(root: &SysRoot, disk: Option<DeviceId>) -> Option<u64> {
    Some(requests_of_device(root, disk?).into_value()?.written_bytes)
}

/// The parts of a command that were not paced, and why. All programs wrote `on_disk` bytes to the
/// disk meanwhile.
fn unpaced(ended: &Ended, disk: Option<&str>, on_disk: u64) -> Vec<String> {
    let mut lines = Vec::new();
    if ended.dirtied < LITTLE && ended.unread_processes == 0 && on_disk > MUCH {
        lines.push(format!(
            "others wrote {} to {} meanwhile: if a server did so for the command, it was not paced",
            Bytes(on_disk).decimal(),
            disk.unwrap_or("its disk")
        ));
    }
    if !ended.is_guarded {
        lines.push("its processes were never stopped: /bin/sh can't be run".to_owned());
    }
    match ended.unread_processes {
        0 => {}
        1 => lines.push("a process of it was another user's: its data was not counted".to_owned()),
        n => lines.push(format!("{n} processes were other users': their data was not counted")),
    }
    if ended.refused_files > 0 {
        lines.push(format!(
            "{} of its files may not be read, and were not written back early",
            ended.refused_files
        ));
    }
    if ended.is_incomplete {
        lines.push("it closed files so fast that not all were written back early".to_owned());
    }
    if ended.unfound_bytes > MUCH && ended.unfound_bytes > ended.dirtied / 2 {
        lines.push(format!(
            "{} of its data is in no file that was found on {}; --dir names the disk that it \
             writes to",
            Bytes(ended.unfound_bytes).decimal(),
            disk.unwrap_or("its filesystem")
        ));
    }
    if ended.left_bytes > LITTLE {
        let left = Bytes(ended.left_bytes).decimal();
        lines.push(format!("interrupted: {left} of its data is left to the kernel"));
    }
    if ended.has_pieces_under_way {
        let disk = disk.unwrap_or("the filesystem");
        lines.push(format!(
            "{disk} has not answered for 2 s: the last data was not waited for; the kernel keeps \
             this process until the disk answers"
        ));
    }
    match ended.left_processes {
        0 => {}
        1 => lines.push("a process that it left behind runs on unpaced".to_owned()),
        n => lines.push(format!("{n} processes that it left behind run on unpaced")),
    }
    lines.into_iter().map(|line| format!("pace: {line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_paced_has_a_line_each() {
        let paced =
            Ended { is_paced: true, is_guarded: true, dirtied: 1 << 30, ..Ended::default() };
        let beside = |ended: &Ended, on_disk| unpaced(ended, Some("sda"), on_disk);
        let unpaced = |ended: &Ended| beside(ended, 2 << 30);
        assert!(unpaced(&paced).is_empty());
        let idle = Ended { dirtied: 4096, ..paced };
        assert!(beside(&idle, MUCH).is_empty());
        assert!(beside(&idle, 2 << 30)[0].starts_with("pace: others wrote 2.15 GB to sda"));
        assert!(unpaced(&Ended { unfound_bytes: 1 << 28, ..paced }).is_empty(), "a small part");
        let lines = unpaced(&Ended {
            is_guarded: false,
            unread_processes: 2,
            refused_files: 3,
            is_incomplete: true,
            unfound_bytes: 1 << 30,
            left_bytes: 1 << 28,
            has_pieces_under_way: true,
            left_processes: 1,
            ..paced
        });
        assert_eq!(lines.len(), 8);
        assert!(lines[1].starts_with("pace: 2 processes were other users'"), "{lines:?}");
        assert!(lines[4].contains("1.07 GB of its data is in no file that was found on sda"));
        assert!(lines[6].starts_with("pace: sda has not answered for 2 s"), "{lines:?}");
        assert!(lines[7].ends_with("left behind runs on unpaced"), "{lines:?}");
    }
}
