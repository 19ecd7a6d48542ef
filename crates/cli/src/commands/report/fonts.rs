//! Fonts for pictures: those of the system, or a named one.

use std::path::{Path, PathBuf};

use floodwall_report::sheet::png::Font;

use crate::exit::{MissingError, UsageError};

/// Where systems keep fonts.
const DIRECTORIES: &[&str] =
    &["/usr/share/fonts", "/usr/local/share/fonts", "/run/current-system/sw/share/X11/fonts"];
/// Sans-serif fonts that systems come with, with their bold ones; the best first.
const NAMES: &[(&str, &str)] = &[
    ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf"),
    ("NotoSans-Regular.ttf", "NotoSans-Bold.ttf"),
    ("LiberationSans-Regular.ttf", "LiberationSans-Bold.ttf"),
    ("Roboto-Regular.ttf", "Roboto-Bold.ttf"),
    ("FreeSans.ttf", "FreeSansBold.ttf"),
    ("Arimo-Regular.ttf", "Arimo-Bold.ttf"),
];
/// How deep below a directory fonts are looked for: `truetype/dejavu` is two.
const DEPTH: usize = 4;

/// The font for letters and the one for bold letters.
///
/// # Errors
/// [`UsageError`] if the named file is no font; [`MissingError`] if none is named and the system
/// has none that is known.
pub(super) fn find(named: Option<&Path>) -> anyhow::Result<(Font, Font)> {
    if let Some(path) = named {
        return Ok((read(path)?, read(path)?));
    }
    let mut files = Vec::new();
    DIRECTORIES.iter().for_each(|d| list(Path::new(d), DEPTH, &mut files));
    let file = |name: &str| files.iter().find(|f| f.file_name().is_some_and(|n| n == name));
    let found = NAMES
        .iter()
        .find_map(|(regular, bold)| file(regular).map(|r| (r, file(bold).unwrap_or(r))));
    let Some((regular, bold)) = found else {
        let why = format!(
            "no known font below {}: install fonts-dejavu-core, or name one with --font",
            DIRECTORIES.join(", ")
        );
        return Err(MissingError(why).into());
    };
    Ok((read(regular)?, read(bold)?))
}

fn read(path: &Path) -> anyhow::Result<Font> {
    let wrong =
        |why: String| UsageError(format!("can't read the font '{}': {why}", path.display()));
    let file = std::fs::read(path).map_err(|e| wrong(e.to_string()))?;
    Ok(Font::of(file).map_err(|e| wrong(e.to_string()))?)
}

/// Files below a directory; unreadable ones are left out.
fn list(directory: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 0 => list(&path, depth - 1, files),
            _ => files.push(path),
        }
    }
}
