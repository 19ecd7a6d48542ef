//! The page of a night: what stalled, who waited and why, each disk over time, the worst minute.

use std::fmt::Write;

use floodwall_model::stall::Stall;

use super::document::document;
use super::figures::element;
use super::markup::escaped;
use super::table::{Cell, table};
use crate::chart::{Chart, ChartError, night as chart};
use crate::local_time::{date_time, length};
use crate::night::{self, Course, Night};
use crate::numbers::{UNKNOWN, duration_us, whole};
use crate::stalls::{BELOW, COLUMNS, cells, sentence, sort_key};

/// Disks that have a picture: more would make the page too large.
const PICTURES: usize = 8;

/// Stalls that are listed; the longest count.
const LISTED: usize = 500;

/// A night as one HTML document.
///
/// # Errors
/// [`ChartError`] if the drawing library fails.
pub fn night_page(night: &Night<'_>) -> Result<String, ChartError> {
    let drawn: Vec<&Course> =
        night.courses.iter().filter(|course| course.is_used()).take(PICTURES).collect();
    let charts: Vec<Chart> =
        drawn.iter().map(|course| chart::chart(night, course)).collect::<Result<_, _>>()?;
    let mut main = String::with_capacity(1 << 19);
    main.push_str("<article aria-labelledby=\"top\">\n");
    hero(&mut main, night);
    let mut links = Vec::new();
    let mut section = |id: &str, heading: &str, body: &mut dyn FnMut(&mut String)| {
        let _ = writeln!(
            main,
            "<section id=\"{id}\" aria-labelledby=\"{id}-h\">\n<h2 id=\"{id}-h\">{}</h2>",
            escaped(heading)
        );
        body(&mut main);
        main.push_str("</section>\n");
        links.push((id.to_owned(), heading.to_owned()));
    };
    section("stalls", "Stalls", &mut |out| stalls(out, night));
    if !charts.is_empty() {
        section("time", "Over time", &mut |out| {
            charts.iter().for_each(|one| element(out, one, "", true));
            others(out, night, &drawn);
        });
    }
    if night.minute.is_some() {
        section("minute", "Worst minute", &mut |out| minute(out, night));
    }
    section("missing", "Missing", &mut |out| missing(out, night));
    main.push_str("</article>\n");
    let end = "Everything here is computed from the recording; <code>floodwall report</code> \
               writes it again, on any machine.";
    Ok(document(&title(night), ("To the stalls", &links), &main, end))
}

fn title(night: &Night<'_>) -> String {
    let time = night.time();
    let (from, to) = (date_time(time.start, night.zone()), date_time(time.end, night.zone()));
    let of = if night.machine.is_empty() { String::new() } else { format!("{}, ", night.machine) };
    format!("{of}{from} to {to}")
}

/// Title, sentence, large numbers.
fn hero(out: &mut String, night: &Night<'_>) {
    let totals = &night.totals;
    let heading = match totals.stalls {
        0 if night.frames == 0 => "Nothing was recorded".to_owned(),
        0 => "No stall".to_owned(),
        1 => format!("One stall of {}", length(totals.stalled_ms)),
        many => format!("{} stalls, {} in all", whole(many), length(totals.stalled_ms)),
    };
    let _ = writeln!(
        out,
        "<header class=\"hero\">\n<p class=\"eyebrow\">{}</p>\n<h1 id=\"top\">{}</h1>",
        escaped(&title(night)),
        escaped(&heading)
    );
    let worst = night.listing.stalls.iter().rev().max_by_key(|stall| stall.slowest_us());
    if let Some(worst) = worst {
        let said = sentence(worst, night.zone());
        let lead = if totals.stalls > 1 { "The worst: " } else { "" };
        let _ = writeln!(out, "<p class=\"lead\">{lead}{}.</p>", escaped(&said));
    }
    out.push_str("<ul class=\"tiles\">\n");
    for (what, value, beside) in tiles(night) {
        let _ = writeln!(
            out,
            "<li><span class=\"what\">{}</span><strong>{}</strong><span \
             class=\"beside\">{}</span></li>",
            escaped(what),
            escaped(&value),
            escaped(&beside)
        );
    }
    out.push_str("</ul>\n");
    if !night.missing.sentences(night.zone()).is_empty() {
        out.push_str(
            "<ul class=\"notices\" aria-label=\"Notes\">\n<li>Not all was seen: <a \
             href=\"#missing\">what is missing</a>.</li>\n</ul>\n",
        );
    }
    out.push_str("</header>\n");
}

fn tiles(night: &Night<'_>) -> Vec<(&'static str, String, String)> {
    let totals = &night.totals;
    let longest = night.listing.stalls.iter().map(Stall::lasted_ms).max();
    let mut tiles = vec![("stalls", whole(totals.stalls), String::new())];
    if let Some(longest) = longest {
        let beside = format!("the longest {}", length(longest));
        tiles.push(("stalled", length(totals.stalled_ms), beside));
        let by = totals.slowest_victim.clone().unwrap_or_default();
        tiles.push(("the slowest wait", duration_us(totals.slowest_us as f64), by));
    }
    if let Some(flood) = &totals.most_frequent_flood {
        let (times, of) = (totals.most_frequent_flood_stalls, totals.stalls);
        let workload = totals.most_frequent_flood_workload.as_ref();
        let workload = workload.map_or_else(String::new, |label| format!("{label}, "));
        let beside = format!("{workload}in {} of {}", whole(times), whole(of));
        tiles.push(("most frequent flood", flood.clone(), beside));
    }
    tiles
}

fn stalls(out: &mut String, night: &Night<'_>) {
    let all = night.listing.stalls;
    if all.is_empty() {
        out.push_str("<p>No process waited too long for a disk for more than a second.</p>\n");
        return;
    }
    let mut listed: Vec<&Stall> = all.iter().collect();
    let mut caption = "Bytes dirtied are those of all floods within the stall; the backlog is the \
        largest, with the time that it took. A heading sorts."
        .to_owned();
    if listed.len() > LISTED {
        listed.sort_by_key(|stall| std::cmp::Reverse(stall.lasted_ms()));
        listed.truncate(LISTED);
        listed.sort_by_key(|stall| stall.began_unix_ms);
        let (listed, all) = (whole(LISTED as u64), whole(all.len() as u64));
        caption.push_str(&format!(
            " Listed are the longest {listed} of {all}; floodwall stalls lists all."
        ));
    }
    // The last column is the guard's, and few machines have one.
    let guarded = all.iter().any(|stall| stall.guard.is_some());
    let most = if guarded { COLUMNS.len() } else { COLUMNS.len() - 1 };
    let shown = COLUMNS.iter().enumerate().take(most).filter(|(at, _)| !BELOW.contains(at));
    let columns: Vec<String> = shown.map(|(_, column)| column.title.to_lowercase()).collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut rows: Vec<Vec<Cell>> = listed.iter().map(|stall| row(stall, night)).collect();
    rows.iter_mut().for_each(|row| row.truncate(columns.len()));
    table(out, "stall-list", &caption, &columns, &rows);
}

/// What a process runs in stands below its name, the call below its wait, the time below the
/// backlog.
fn row(stall: &Stall, night: &Night<'_>) -> Vec<Cell> {
    let texts = cells(stall, night.zone());
    let cell = |column: usize, text: &String| {
        let below = texts.get(column + 1).filter(|text| *text != UNKNOWN);
        let small = below.filter(|_| BELOW.contains(&(column + 1))).cloned().unwrap_or_default();
        let made = match sort_key(stall, column) {
            Some(key) => Cell::number(Some(text.clone()), Some(key)),
            None => Cell::text(text.clone()),
        };
        Cell { small, ..made }
    };
    let columns = texts.iter().enumerate().filter(|(column, _)| !BELOW.contains(column));
    columns.map(|(column, text)| cell(column, text)).collect()
}

/// Disks without a picture.
fn others(out: &mut String, night: &Night<'_>, drawn: &[&Course]) {
    let is_drawn = |course: &&Course| drawn.iter().any(|one| one.disk == course.disk);
    let others = night.courses.iter().filter(|course| !is_drawn(course));
    let (used, idle): (Vec<&Course>, Vec<&Course>) = others.partition(|course| course.is_used());
    for (what, courses) in [("Less busy", used), ("Idle", idle)] {
        if !courses.is_empty() {
            let names: Vec<&str> = courses.iter().map(|course| course.disk.as_str()).collect();
            let _ = writeln!(out, "<p>{what}: {}.</p>", escaped(&names.join(", ")));
        }
    }
}

fn minute(out: &mut String, night: &Night<'_>) {
    let Some(minute) = &night.minute else { return };
    let _ = writeln!(out, "<p>{}</p>", escaped(&night::heading(night, minute)));
    if minute.moments.is_empty() {
        out.push_str("<p>Its frames are missing.</p>\n");
        return;
    }
    let caption = "Each row is a window of the recorder. DIRTIED is the rate of the process that \
        dirtied most.";
    let columns = night::COLUMNS.map(|column| column.title.to_lowercase());
    let rows: Vec<Vec<Cell>> = minute
        .moments
        .iter()
        .map(|moment| {
            let keys = night::sort_keys(moment);
            let texts = night::cells(moment, night).into_iter().zip(keys);
            let cells = texts.map(|(text, key)| match key {
                Some(key) => Cell::number(Some(text), Some(key)),
                None => Cell::text(text),
            });
            cells.collect()
        })
        .collect();
    table(out, "minute-list", caption, &columns.each_ref().map(String::as_str), &rows);
}

fn missing(out: &mut String, night: &Night<'_>) {
    let sentences = night.missing.sentences(night.zone());
    let frames = whole(night.frames);
    if sentences.is_empty() {
        let _ = writeln!(out, "<p>Nothing: {frames} frames without a hole.</p>");
        return;
    }
    out.push_str("<ul class=\"said\">\n");
    for sentence in sentences {
        let _ = writeln!(out, "<li>{}</li>", escaped(&sentence));
    }
    let _ = writeln!(out, "</ul>\n<p>{frames} frames were read.</p>");
}
