//! Pictures of a report for the documents: `cargo test --release -p floodwall --test browser --
//! screenshots DIR`.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::chromium::{Browser, PHONE, Viewport};
use crate::results::{floodwall, text};

/// What `tune` is given, beside the time: the array of the story that the documents tell.
const SEARCH: &[&str] =
    &["--device", "raid10-bbwc-2010", "--victim", "commit,threads=10,block=16KiB", "--seed", "1"];

/// Writes `report.png`, `report-dark.png` and `report-phone.png`.
pub(crate) fn write(directory: &Path) -> Result<(), String> {
    let scratch = tempfile::tempdir().map_err(|e| e.to_string())?;
    let (json, html) = (scratch.path().join("tune.json"), scratch.path().join("tune.html"));
    let json_text = text(&json);
    let fixed = ["tune", "--sim", "--time", "10m", "--progress", "never", "--out", &json_text];
    floodwall(&[&fixed, SEARCH].concat())?;
    floodwall(&["report", &json_text, "--out", &text(&html)])?;
    let screen = Viewport { width: 1_200, height: 1_400, dark: false };
    for (name, viewport) in [
        ("report", screen),
        ("report-dark", Viewport { dark: true, ..screen }),
        ("report-phone", Viewport { height: 1_750, ..PHONE }),
    ] {
        let browser = Browser::start()?;
        let page = browser.open(&html, viewport)?;
        page.call("Emulation.setScrollbarsHidden", serde_json::json!({"hidden": true}))?;
        if viewport.width == screen.width {
            // The tooltip belongs to the picture; the keyboard leaves the page where it is.
            page.eval("document.querySelector('#frontier-f .plot').focus({preventScroll: true})")?;
            page.press("Home")?;
            page.eval("document.activeElement.style.outline = 'none'")?;
        }
        let png = STANDARD.decode(page.screenshot()?).map_err(|e| e.to_string())?;
        fs::write(directory.join(format!("{name}.png")), png).map_err(|e| e.to_string())?;
    }
    Ok(())
}
