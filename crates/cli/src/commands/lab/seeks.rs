//! `floodwall lab seeks`: a recording as a picture. Needs no privilege and no device.

use std::io;
use std::path::Path;

use floodwall_report::schema::Document;
use floodwall_report::seeks::{Recording, View, picture};

use super::args::SeeksArgs;
use crate::exit::{Exit, UsageError};
use crate::input;
use crate::output::{self, notice};

/// Runs the command.
///
/// # Errors
/// [`UsageError`] if the recording or the result is invalid or they don't belong together; else if
/// the picture can't be written.
pub(super) fn run(args: &SeeksArgs) -> anyhow::Result<Exit> {
    output::check_writable(&args.out)?;
    for input in [Some(&args.recording), args.result.as_ref()].into_iter().flatten() {
        if args
            .out
            .canonicalize()
            .is_ok_and(|out| input.canonicalize().is_ok_and(|input| input == out))
        {
            return Err(UsageError(format!(
                "'{}' would be overwritten by its picture; name another file for --out",
                input.display()
            ))
            .into());
        }
    }
    let wrong =
        |path: &Path, why: String| UsageError(format!("can't draw '{}': {why}", path.display()));
    let unread = |what: &str, path: &Path, e: io::Error| {
        UsageError(format!("can't read {what} '{}': {e}", path.display()))
    };
    let text = input::recording(&args.recording)
        .map_err(|e| unread("the recording", &args.recording, e))?;
    let recording = Recording::parse(&text).map_err(|e| wrong(&args.recording, e.to_string()))?;
    drop(text);
    if recording.cut {
        notice(&format!(
            "floodwall: '{}' ends within a line, which is left out",
            args.recording.display()
        ));
    }
    let document = match &args.result {
        None => None,
        Some(path) => {
            let json = input::result(path)
                .and_then(input::text)
                .map_err(|e| unread("the result", path, e))?;
            Some(
                Document::read(&json)
                    .map_err(|e| UsageError(format!("'{}': {e}", path.display())))?,
            )
        }
    };
    let view =
        View { phase: args.phase.map(Into::into), round: args.round, marks: args.marks as usize };
    let drawn = picture(&recording, document.as_ref(), &view)
        .map_err(|e| wrong(&args.recording, e.to_string()))?;
    let svg = drawn.to_svg("What reached the device");
    output::write_file(&args.out, |out| Ok(out.write_all(svg.as_bytes())?))?;
    Ok(Exit::Done)
}
