//! A file a figure.

use std::path::{Path, PathBuf};

use anyhow::Context;
use floodwall_report::Study;
use floodwall_report::html::Figures;
use floodwall_report::sheet::Sheet;
use floodwall_report::sheet::png::Fonts;

use super::fonts;
use crate::output;

/// Writes every figure of every result into the directories that were named; they are made if they
/// are not there.
///
/// # Errors
/// If a directory or file can't be written, or there is no font for PNGs.
pub(super) fn write(
    results: &[(Study<'_>, Figures)],
    svg: Option<&Path>,
    png: Option<&Path>,
    font: Option<&Path>,
) -> anyhow::Result<()> {
    for directory in [svg, png].into_iter().flatten() {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("can't make the directory '{}'", directory.display()))?;
    }
    let letters = png.map(|_| fonts::find(font)).transpose()?;
    for (i, (study, figures)) in results.iter().enumerate() {
        // Of several results the names differ by which one it is.
        let prefix = if results.len() > 1 { format!("{}-", i + 1) } else { String::new() };
        for (name, title, sheet) in sheets(study, figures) {
            let file = |directory: &Path, ending: &str| -> PathBuf {
                directory.join(format!("{prefix}{name}.{ending}"))
            };
            if let Some(directory) = svg {
                let text = sheet.to_svg(&title);
                output::write_file(&file(directory, "svg"), |out| {
                    Ok(out.write_all(text.as_bytes())?)
                })?;
            }
            if let (Some(directory), Some((regular, bold))) = (png, &letters) {
                let bytes = sheet.to_png(Fonts { regular, bold })?;
                output::write_file(&file(directory, "png"), |out| Ok(out.write_all(&bytes)?))?;
            }
        }
    }
    Ok(())
}

/// Every figure with a name for its file and a title. A file stands alone: charts carry their title
/// and legend.
fn sheets(study: &Study<'_>, figures: &Figures) -> Vec<(String, String, Sheet)> {
    let charts =
        figures.charts.iter().map(|c| (c.file_name(study), c.title.clone(), c.standing_alone()));
    let seeks = figures
        .seeks
        .iter()
        .map(|s| ("seeks".to_owned(), "What reached the device".to_owned(), s.clone()));
    charts.chain(seeks).collect()
}
