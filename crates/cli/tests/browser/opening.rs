//! How large a report is and how long a browser takes to open it.

use std::fs;

use crate::chromium::{Browser, SCREEN};
use crate::results::{floodwall, text};

/// Trials of the search that is reported.
const TRIALS: usize = 100;
/// How often it is opened, each time in a new browser.
const TIMES: usize = 7;

/// Both figures, in a line, for a search of [`TRIALS`] trials or more.
pub(crate) fn figures() -> Result<String, String> {
    let directory = tempfile::tempdir().map_err(|e| e.to_string())?;
    let (json, html) = (directory.path().join("tune.json"), directory.path().join("tune.html"));
    let mut minutes = 34;
    let trials = loop {
        let time = format!("{minutes}m");
        floodwall(&[
            "tune",
            "--sim",
            "--device",
            "sata-ssd",
            "--time",
            &time,
            "--seed",
            "1",
            "--progress",
            "never",
            "--out",
            &text(&json),
        ])?;
        let document = fs::read(&json).map_err(|e| e.to_string())?;
        let document: serde_json::Value =
            serde_json::from_slice(&document).map_err(|e| e.to_string())?;
        let trials = document["trials"].as_array().map_or(0, Vec::len);
        if trials >= TRIALS || minutes > 120 {
            break trials;
        }
        minutes += 4;
    };
    floodwall(&["report", &text(&json), "--out", &text(&html)])?;
    let size = fs::metadata(&html).map_err(|e| e.to_string())?.len();
    let (mut loaded, mut painted) = (Vec::new(), Vec::new());
    for _ in 0..TIMES {
        let browser = Browser::start()?;
        let page = browser.open(&html, SCREEN)?;
        loaded.push(
            page.number("performance.timing.loadEventEnd - performance.timing.navigationStart")?,
        );
        // Until everything is laid out and on the screen.
        page.screenshot()?;
        painted.push(page.number(
            "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1",
        )?);
    }
    loaded.sort_by(f64::total_cmp);
    painted.sort_by(f64::total_cmp);
    Ok(format!(
        "report of {trials} trials: {:.2} MB; opens in Chromium in {:.0} ms ({:.0} to {:.0} over \
         {TIMES} runs, navigation to load), first paint after {:.0} ms",
        size as f64 / 1e6,
        loaded[TIMES / 2],
        loaded[0],
        loaded[TIMES - 1],
        painted[TIMES / 2],
    ))
}
