//! Any command.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use floodwall_host::SysRoot;
use floodwall_model::Bytes;
use floodwall_model::units::human_duration;
use floodwall_pace::Pacer;
use floodwall_pace::command::{self, CommandError, Ended, OUTER, Paced};

use super::args::PaceArgs;
use super::told::{self, Told};
use crate::exit::Exit;
use crate::output::{self, notice};

/// `pace -- COMMAND`.
pub(super) fn run(args: &PaceArgs) -> anyhow::Result<Exit> {
    let (program, arguments) = args.command.split_first().context("no command")?;
    let outer = std::env::var_os(OUTER);
    let paced = Paced { program, arguments, outer: outer.as_deref() };
    let words: Vec<&OsStr> = arguments.iter().map(AsRef::as_ref).collect();
    let directory = args.dir.clone().unwrap_or_else(|| directory_of(&words));
    let root = SysRoot::live()?;
    let pacer = Pacer::open(&root, &directory, args.to, args.max)?;
    let device = directory
        .metadata()
        .with_context(|| format!("can't look at '{}'", directory.display()))?
        .dev();
    let mut told = args.status.then(|| Told::new(&pacer));
    let ended = command::run(&paced, &pacer, &root, &|dev| dev == device, &mut |look| {
        if let Some(told) = &mut told {
            told.at(look.dirtied.saturating_sub(look.backlog));
        }
    });
    match ended {
        Ok(ended) => {
            if !args.quiet && ended.is_paced {
                notice(&summarised(&ended, &pacer));
            }
            Ok(Exit::Of(ended.status))
        }
        Err(error @ (CommandError::NotFound { .. } | CommandError::NotExecutable { .. })) => {
            let status = error.status();
            notice(&format!("floodwall: pace: {}", output::message(&error.into())));
            Ok(Exit::Of(status))
        }
        Err(error) => Err(error.into()),
    }
}

/// The directory whose disk a command writes to, by its arguments: that of the last argument that
/// is a path, or the current directory. The path, or the directory of a new name, must exist. A
/// path may also follow `=` (`of=/srv/copy`) or the letter of an option (`-C/srv`).
fn directory_of(arguments: &[&OsStr]) -> PathBuf {
    let found = arguments.iter().rev().find_map(|word| {
        let bytes = word.as_bytes();
        let slash = bytes.iter().position(|byte| *byte == b'/');
        let after_equals = bytes.iter().position(|byte| *byte == b'=').map(|at| at + 1);
        let starts = [Some(0), after_equals, slash];
        starts.into_iter().flatten().find_map(|start| directory(OsStr::from_bytes(&bytes[start..])))
    });
    found.unwrap_or_else(|| PathBuf::from("."))
}

/// The directory at a path, or the directory of a file there, which may be new.
fn directory(path: &OsStr) -> Option<PathBuf> {
    let path = Path::new(path);
    if path.is_dir() {
        return Some(path.to_owned());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    match parent {
        Some(parent) => parent.is_dir().then(|| parent.to_owned()),
        // A bare word is a path only if it exists.
        None => path.exists().then(|| PathBuf::from(".")),
    }
}

fn summarised(ended: &Ended, pacer: &Pacer) -> String {
    let time = std::time::Duration::from_secs_f64(ended.seconds);
    let held = if ended.held.is_zero() {
        String::new()
    } else {
        format!("; stopped for moments, {} in all", human_duration(ended.held))
    };
    format!(
        "pace: {} written in {}{}{held}",
        Bytes(ended.dirtied).decimal(),
        human_duration(time),
        told::yielded(pacer)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_path_tells_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let (path, file) = (dir.path().display().to_string(), dir.path().join("file"));
        std::fs::write(&file, "").unwrap();
        let of = |words: &[&str]| {
            directory_of(&words.iter().map(|word| OsStr::new(*word)).collect::<Vec<_>>())
        };
        let new = format!("{path}/new");
        assert_eq!(of(&["xf", "/etc/passwd", "-C", &path]), dir.path());
        assert_eq!(of(&[&format!("-C{path}")]), dir.path());
        assert_eq!(of(&["if=/dev/zero", &format!("of={new}"), "bs=1M"]), dir.path());
        assert_eq!(of(&["/etc/passwd", file.to_str().unwrap()]), dir.path());
        assert_eq!(of(&["-j8"]), Path::new("."));
        assert_eq!(of(&["--flag", "/no/such/place"]), Path::new("."));
        assert_eq!(of(&[]), Path::new("."));
    }
}
