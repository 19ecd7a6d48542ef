//! The page of a night, of a recording that is made here.

use floodwall_model::frame::{Disk, Frame, Process};
use floodwall_record::{Limits, Writer};

use crate::chromium::{Browser, PHONE, Page, SCREEN, Viewport};
use crate::pages::{equal, that, tip};
use crate::results::{floodwall, text};
use crate::{Needs, Test};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "a_nights_page_shows_its_stall_and_asks_for_nothing",
        needs: Needs::Chromium,
        body: shows_everything,
    },
    Test { name: "a_nights_page_fits_a_phone", needs: Needs::Chromium, body: fits_a_phone },
];

/// 2026-11-27 02:00:00 UTC.
const NIGHT_MS: u64 = 1_795_744_800_000;

/// Ten minutes of a disk, with a stall of half a minute.
fn frame(second: u64) -> Frame {
    let is_stalling = (300..330).contains(&second);
    let process = Process {
        pid: 812,
        name: "postgres".into(),
        disk: Some("sda".into()),
        is_victim: is_stalling,
        waiting: 1,
        oldest_us: if is_stalling { (second - 299) * 1_000_000 } else { 5_000 },
        ..Process::default()
    };
    let disk = Disk {
        name: "sda".into(),
        drain_ms: Some(second * 10),
        written_bytes_per_s: Some(90_000_000),
        ..Disk::default()
    };
    Frame {
        at_unix_ms: NIGHT_MS + second * 1_000,
        window_ms: 1_000,
        disks: vec![disk],
        processes: vec![process],
        ..Frame::default()
    }
}

/// Does something with the page, and then asks whether it complained.
fn with(viewport: Viewport, body: impl Fn(&Page<'_>) -> Result<(), String>) -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(|e| e.to_string())?;
    let mut writer =
        Writer::open(directory.path(), Limits::default()).map_err(|e| e.to_string())?;
    for second in 1..=600 {
        let _ = writer.append(&frame(second)).map_err(|e| e.to_string())?;
    }
    let html = directory.path().join("night.html");
    let (from, to) = ("2026-11-27T02:00:00Z", "2026-11-27T02:10:00Z");
    let dir = text(directory.path());
    floodwall(&["report", "--from", from, "--to", to, "--dir", &dir, "--out", &text(&html)])?;
    let browser = Browser::start()?;
    let page = browser.open(&html, viewport)?;
    body(&page)?;
    let complaints = page.complaints()?;
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}

fn shows_everything() -> Result<(), String> {
    with(SCREEN, |page| {
        let sections = "[...document.querySelectorAll('main section')].map(s => s.id).join(' ')";
        equal("sections", page.text(sections)?.as_str(), "stalls time minute missing")?;
        let heading = page.text("document.querySelector('h1').textContent")?;
        equal("heading", heading.as_str(), "One stall of 30.0 s")?;
        let rows = page.number("document.querySelectorAll('#stall-list tbody tr').length")?;
        equal("stalls", rows, 1.0)?;
        let moments = page.number("document.querySelectorAll('#minute-list tbody tr').length")?;
        equal("seconds of the worst minute", moments, 60.0)?;
        page.point_at("#disk-sda-f .wide svg", 0.55, 0.3)?;
        let said = tip(page, "disk-sda-f")?;
        that(&format!("the tip says '{said}'"), said.contains("slowest wait"))?;
        page.click("#minute-list th:nth-child(3) button")?;
        let first = page.text("document.querySelector('#minute-list tbody tr').textContent")?;
        that(&format!("first is {first}"), first.contains("30.0 s"))
    })
}

fn fits_a_phone() -> Result<(), String> {
    with(PHONE, |page| {
        let wide = page.number("document.documentElement.scrollWidth")?;
        equal("width of the page", wide, f64::from(PHONE.width))?;
        page.point_at("#disk-sda-f .narrow svg", 0.55, 0.3)?;
        that("no tip", !tip(page, "disk-sda-f")?.is_empty())
    })
}
