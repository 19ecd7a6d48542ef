//! The duties of a page: show everything, request nothing, sort, show tooltips, fit a phone, follow
//! the theme.

use std::fs;
use std::sync::OnceLock;

use crate::chromium::{Browser, PHONE, Page, SCREEN, Viewport};
use crate::results::{Results, floodwall, text};
use crate::{Needs, Test};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "a_page_shows_everything_and_asks_for_nothing",
        needs: Needs::Chromium,
        body: shows_everything,
    },
    Test { name: "a_table_sorts_by_mouse_and_by_keyboard", needs: Needs::Chromium, body: sorts },
    Test { name: "a_figure_tells_what_is_under_the_pointer", needs: Needs::Chromium, body: hovers },
    Test { name: "a_figure_is_read_off_with_the_keyboard", needs: Needs::Chromium, body: keys },
    Test {
        name: "another_settings_course_is_shown_when_it_is_chosen",
        needs: Needs::Chromium,
        body: chooses,
    },
    Test { name: "a_phone_needs_no_scrolling_across", needs: Needs::Chromium, body: fits_a_phone },
    Test {
        name: "the_theme_follows_the_system_and_the_button",
        needs: Needs::Chromium,
        body: themes,
    },
    Test {
        name: "without_its_script_the_page_is_still_there",
        needs: Needs::Chromium,
        body: without_script,
    },
    Test { name: "figures_are_written_as_pictures", needs: Needs::Font, body: pictures },
];

/// Results are made once: a search takes seconds even in virtual time.
fn results() -> Result<&'static Results, String> {
    static RESULTS: OnceLock<Result<Results, String>> = OnceLock::new();
    RESULTS.get_or_init(Results::make).as_ref().map_err(Clone::clone)
}

/// Does something with a report in a browser, and then asks whether the page complained.
fn with(
    name: &str,
    viewport: Viewport,
    body: impl Fn(&Page<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let html = results()?.report(name)?;
    let browser = Browser::start()?;
    let page = browser.open(&html, viewport)?;
    body(&page)?;
    let complaints = page.complaints()?;
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}

pub(crate) fn equal<T: PartialEq + std::fmt::Debug>(
    what: &str,
    found: T,
    expected: T,
) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?}, not {expected:?}")) }
}

pub(crate) fn that(what: &str, holds: bool) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

fn shows_everything() -> Result<(), String> {
    for name in ["tune", "bench"] {
        with(name, SCREEN, |page| {
            let sections = page
                .text("[...document.querySelectorAll('main section')].map(s => s.id).join(' ')")?;
            let expected = match name {
                "tune" => "frontier time latency knobs tables machine repeat",
                _ => "time latency tables machine repeat",
            };
            equal("sections", sections.as_str(), expected)?;
            // Each part of a figure has a size on the screen.
            let empty = page.number(
                "[...document.querySelectorAll('.plot .wide svg')].filter(s => \
                s.getBoundingClientRect().height < 100).length",
            )?;
            equal("figures without height", empty, 0.0)?;
            let curves = page.number("document.querySelectorAll('.plot .wide svg path').length")?;
            that(&format!("only {curves} lines are drawn"), curves > 20.0)?;
            // One heading of the first rank, and no rank left out.
            let ranks = page.text(
                "[...document.querySelectorAll('h1,h2,h3,h4')].map(h => h.tagName[1]).join('')",
            )?;
            that(
                &format!("headings {ranks}"),
                ranks.starts_with("12") && !ranks[1..].contains('1') && !ranks.contains("24"),
            )?;
            let unnamed = page.number(
                "[...document.querySelectorAll('[tabindex], button, \
                select')].filter(e => !(e.getAttribute('aria-label') || \
                e.getAttribute('aria-labelledby') || e.textContent.trim() || \
                e.labels?.length)).length",
            )?;
            equal("controls without a name", unnamed, 0.0)
        })?;
    }
    Ok(())
}

/// Contents of a column of the table of settings, from top to bottom.
const COLUMN: &str =
    "[...document.querySelectorAll('#settings tbody tr')].map(r => r.cells[1].dataset.v)";

fn sorts() -> Result<(), String> {
    with("tune", SCREEN, |page| {
        let sorted =
            |page: &Page<'_>| page.text("document.querySelectorAll('#settings th')[1].ariaSort");
        let values = |page: &Page<'_>| -> Result<Vec<f64>, String> {
            let column = page.eval(COLUMN)?;
            let column = column.as_array().cloned().unwrap_or_default();
            Ok(column.iter().filter_map(|v| v.as_str()?.parse().ok()).collect())
        };
        let all = values(page)?.len();
        that("the table has too few rows", all > 3)?;
        page.click("#settings th:nth-child(2) button")?;
        equal("after a click", sorted(page)?, "descending".to_owned())?;
        let down = values(page)?;
        that(
            &format!("not descending: {down:?}"),
            down.len() == all && down.windows(2).all(|w| w[0] >= w[1]),
        )?;
        // The button has the focus now; the same by keyboard.
        page.press("Enter")?;
        equal("after Enter", sorted(page)?, "ascending".to_owned())?;
        let up = values(page)?;
        that(&format!("not ascending: {up:?}"), up.windows(2).all(|w| w[0] <= w[1]))?;
        page.press("Tab")?;
        page.press("Enter")?;
        equal("the column before", sorted(page)?, "none".to_owned())?;
        let next = page.text("document.querySelectorAll('#settings th')[2].ariaSort")?;
        equal("the next column", next, "descending".to_owned())
    })
}

/// The text of a figure's tip; empty if it is hidden.
pub(crate) fn tip(page: &Page<'_>, figure: &str) -> Result<String, String> {
    page.text(&format!(
        "(() => {{ const t = document.querySelector('#{figure} .tip'); return \
        t.hidden ? '' : t.textContent; }})()"
    ))
}

fn hovers() -> Result<(), String> {
    with("tune", SCREEN, |page| {
        equal("before", tip(page, "frontier-f")?, String::new())?;
        // Over the mark of the setting that others are compared with.
        let at = page.eval(
            "(() => { const d = \
             JSON.parse(document.querySelector('#frontier-f script').textContent); \
             const p = d.points.find(p => p.name === 'default'); \
             const s = document.querySelector('#frontier-f .wide svg').viewBox.baseVal; \
             const [l, t, w, h] = d.plots[0]; \
             return [(l + p.at[0][0] * w) / s.width, (t + p.at[0][1] * h) / s.height]; })()",
        )?;
        let share = |i: usize| at[i].as_f64().unwrap_or(0.5);
        page.point_at("#frontier-f .wide svg", share(0), share(1))?;
        let said = tip(page, "frontier-f")?;
        that(
            &format!("over the reference: '{said}'"),
            said.starts_with("default")
                && said.contains("victim keeps")
                && said.contains("flood keeps"),
        )?;
        // The ring is where the mark is: the library's and the script's idea of a place are the
        // same.
        let off = page.number(
            "(() => { const r = \
             document.querySelector('#frontier-f .cursor').getBoundingClientRect(); \
             const [x, y] = [r.left + r.width / 2, r.top + r.height / 2]; \
             return Math.min(...[...document.querySelectorAll('#frontier-f .wide circle')]\
             .map(c => { const b = c.getBoundingClientRect(); \
             return Math.hypot(b.left + b.width / 2 - x, b.top + b.height / 2 - y); })); })()",
        )?;
        that(&format!("the ring is {off} pixels off"), off < 2.0)?;
        page.point_at("#time-0-f .wide svg", 0.5, 0.5)?;
        let said = tip(page, "time-0-f")?;
        that(
            &format!("over the course: '{said}'"),
            said.contains("round 1") && said.contains("dirty"),
        )?;
        page.point_at("#latency-f .wide svg", 0.5, 0.5)?;
        let said = tip(page, "latency-f")?;
        that(
            &format!("over the distribution: '{said}'"),
            said.contains('%') && said.contains("default"),
        )?;
        page.point_at("h1", 0.5, 0.5)?;
        equal("elsewhere", tip(page, "latency-f")?, String::new())
    })
}

fn keys() -> Result<(), String> {
    with("bench", SCREEN, |page| {
        page.eval("document.querySelector('#latency-f .plot').focus()")?;
        page.press("Home")?;
        let first = tip(page, "latency-f")?;
        page.press("ArrowRight")?;
        let second = tip(page, "latency-f")?;
        that(
            &format!("'{first}', then '{second}'"),
            !first.is_empty() && !second.is_empty() && first != second,
        )?;
        let spoken =
            page.text("document.querySelector('#latency-f .plot').getAttribute('aria-valuetext')")?;
        that(&format!("spoken: '{spoken}'"), spoken.contains('%') && spoken.contains("alone"))?;
        page.press("ArrowLeft")?;
        equal("back", tip(page, "latency-f")?, first)?;
        page.press("End")?;
        let now = page.text(
            "(p => p.getAttribute('aria-valuenow') + ' of ' + \
            p.getAttribute('aria-valuemax'))(document.querySelector('#latency-f .plot'))",
        )?;
        that(&now, now.split(" of ").collect::<std::collections::BTreeSet<_>>().len() == 1)?;
        page.press("Escape")?;
        equal("after Escape", tip(page, "latency-f")?, String::new())
    })
}

fn chooses() -> Result<(), String> {
    with("tune", SCREEN, |page| {
        let count = "document.querySelectorAll('#time figure').length";
        let before = page.number(count)?;
        page.eval(
            "(s => { s.selectedIndex = 1; s.dispatchEvent(new Event('change')); })\
             (document.getElementById('other'))",
        )?;
        equal("figures", page.number(count)?, before + 1.0)?;
        page.point_at("#other-time .plot", 0.5, 0.5)?;
        let said = page.text("document.querySelector('#other-time .tip').textContent")?;
        that(&format!("the new one says '{said}'"), said.contains("round"))
    })
}

fn fits_a_phone() -> Result<(), String> {
    for name in ["tune", "bench"] {
        with(name, PHONE, |page| {
            page.eval("document.querySelectorAll('details').forEach(d => d.open = true)")?;
            let wide = page.number("document.documentElement.scrollWidth")?;
            equal("width of the page", wide, f64::from(PHONE.width))?;
            // The drawing is made for the width: letters of 13 pixels stay 12 or more.
            let small = page.number(
                "Math.min(...[...document.querySelectorAll('.plot')].map(p => { \
                 const s = p.querySelector('.narrow svg'); \
                 return s.getBoundingClientRect().width / s.viewBox.baseVal.width * 26; }))",
            )?;
            that(&format!("letters of {small} pixels"), small >= 12.0)?;
            page.point_at("#latency-f .narrow svg", 0.5, 0.5)?;
            that("no tip", !tip(page, "latency-f")?.is_empty())?;
            let outside = page.number(
                "(b => Math.max(0, b.right - innerWidth, \
                -b.left))(document.querySelector('#latency-f .tip').getBoundingClientRect())",
            )?;
            equal("the tip sticks out", outside, 0.0)
        })?;
    }
    Ok(())
}

fn themes() -> Result<(), String> {
    // The ground of the page, and the colour of the first letters of a figure, as sums of red,
    // green and blue.
    let light = "(c => c.match(/[\\d.]+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0))";
    let ground = format!("{light}(getComputedStyle(document.body).backgroundColor)");
    let letters = format!("{light}(getComputedStyle(document.querySelector('.plot text')).fill)");
    for dark in [false, true] {
        with("bench", Viewport { dark, ..SCREEN }, |page| {
            let is_dark = |page: &Page<'_>| -> Result<bool, String> {
                let (ground, letters) = (page.number(&ground)?, page.number(&letters)?);
                that(
                    &format!("letters of {letters} on {ground}"),
                    (ground - letters).abs() > 200.0,
                )?;
                Ok(ground < 200.0)
            };
            equal("as the system has it", is_dark(page)?, dark)?;
            page.click("#theme")?;
            equal("after the button", is_dark(page)?, !dark)?;
            equal(
                "pressed",
                page.text("document.getElementById('theme').ariaPressed")?,
                (!dark).to_string(),
            )?;
            page.click("#theme")?;
            equal("after it again", is_dark(page)?, dark)
        })?;
    }
    Ok(())
}

fn without_script() -> Result<(), String> {
    let html = results()?.report("tune")?;
    let page_text = fs::read_to_string(&html).map_err(|e| e.to_string())?;
    let cut = page_text.rfind("<script>").ok_or("no script")?;
    let bare = results()?.path("bare.html");
    fs::write(&bare, &page_text[..cut]).map_err(|e| e.to_string())?;
    let browser = Browser::start()?;
    let page = browser.open(&bare, SCREEN)?;
    let drawn = page.number(
        "[...document.querySelectorAll('.plot .wide svg')].filter(s => \
        s.getBoundingClientRect().height > 100).length",
    )?;
    that(&format!("{drawn} figures"), drawn >= 4.0)?;
    // What would do nothing is not shown.
    let dead = page.number(
        "[...document.querySelectorAll('#theme, .copy, .chooser')].filter(e => \
         e.offsetParent).length",
    )?;
    equal("dead controls", dead, 0.0)
}

/// Width and height of a PNG, from its header.
fn size_of(png: &[u8]) -> Option<(u32, u32)> {
    let word = |at: usize| Some(u32::from_be_bytes(png.get(at..at + 4)?.try_into().ok()?));
    (png.get(..8)? == b"\x89PNG\r\n\x1a\n" && png.get(12..16)? == b"IHDR")
        .then_some((word(16)?, word(20)?))
}

fn pictures() -> Result<(), String> {
    let results = results()?;
    let directory = text(&results.path("figures"));
    floodwall(&[
        "report",
        &text(&results.path("tune.json")),
        "--svg",
        &directory,
        "--png",
        &directory,
    ])?;
    let mut names: Vec<String> = fs::read_dir(&directory)
        .map_err(|e| e.to_string())?
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    for name in ["frontier", "knobs", "latency", "time-0-default"] {
        that(
            &format!("{name} is not among {names:?}"),
            ["svg", "png"].iter().all(|e| names.contains(&format!("{name}.{e}"))),
        )?;
        let read = |ending: &str| {
            fs::read(format!("{directory}/{name}.{ending}")).map_err(|e| e.to_string())
        };
        let svg = String::from_utf8(read("svg")?).map_err(|e| e.to_string())?;
        let length = |attribute: &str| -> Option<u32> {
            svg.split_once(&format!(" {attribute}=\""))?.1.split('"').next()?.parse().ok()
        };
        let (width, height) =
            (length("width").ok_or("no width")?, length("height").ok_or("no height")?);
        let png = read("png")?;
        equal("pixels of the PNG", size_of(&png), Some((2 * width, 2 * height)))?;
        that(&format!("{name}.png holds only {} bytes", png.len()), png.len() > 10_000)?;
    }
    Ok(())
}
