//! What the guard does or would do, and why.

use floodwall_model::frame::{Frame, Guard, GuardedDisk};
use floodwall_model::printable::printable;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Span;

use super::parts::{plain, prose, take};
use crate::figures::{micros, seconds};
use crate::theme::Look;

/// The bar over it.
pub(super) fn title(frame: &Frame, more: &str) -> String {
    match &frame.guard {
        None => format!("GUARD{more}"),
        Some(guard) => {
            let mode = printable(&guard.mode);
            let dry = if guard.dry_run { ", dry run: nothing is written" } else { "" };
            format!("GUARD{more}: mode {mode}{dry}")
        }
    }
}

/// Draws it into all rows of an area, with a line about the probe's gaps.
pub(super) fn draw(buffer: &mut Buffer, mut area: Rect, look: Look, frame: &Frame) {
    if frame.source != "proc" && !frame.unseen.is_empty() && area.height > 1 {
        let unseen = format!("Not seen: {}.", frame.unseen.join("; "));
        let last = super::parts::take_below(&mut area, 1);
        plain(buffer, last, look, &printable(&unseen), look.dim());
    }
    let Some(guard) = &frame.guard else {
        let text = "No guard runs. 'floodwall guard' limits a flood while a process waits for the \
                    same disk; l limits the flood's unit for ten minutes.";
        plain(buffer, area, look, text, look.dim());
        return;
    };
    let told = told(guard, look);
    let each = (area.height / (told.len() as u16).max(1)).max(1);
    for words in told {
        let rows = take(&mut area, each);
        prose(buffer, rows, look, &words);
    }
}

/// A paragraph for each disk that the guard acts on. Without such a disk, one for the guard.
fn told(guard: &Guard, look: Look) -> Vec<Vec<Span<'static>>> {
    let raw = |text: String| Span::raw(look.text(&text).into_owned());
    if let Some(left) = guard.paused_s {
        let end = match left {
            0 => "until 'floodwall guard resume' (p)".to_owned(),
            left => format!("for another {} (p resumes it)", seconds(left)),
        };
        let paused = Span::styled("Paused", look.warning());
        return vec![vec![paused, raw(format!(" {end}: everything is put back."))]];
    }
    let acts = |disk: &&GuardedDisk| !matches!(disk.state.as_str(), "free" | "watch");
    let mut told: Vec<Vec<Span<'static>>> =
        guard.disks.iter().filter(acts).map(|disk| named(guard, disk, look)).collect();
    if told.is_empty() {
        let names: Vec<&str> = guard.disks.iter().map(|disk| disk.name.as_str()).collect();
        let names = floodwall_model::message::first_of(&names, 6);
        let text = match guard.disks.is_empty() {
            true => "It steers no disk.".to_owned(),
            false => format!("It watches {} and has nothing to do.", printable(&names)),
        };
        told.push(vec![raw(text)]);
    }
    if !guard.left_out.is_empty() {
        let text = format!("Not steered: {}.", guard.left_out.join("; "));
        told.push(vec![Span::styled(look.text(&printable(&text)).into_owned(), look.dim())]);
    }
    told
}

/// A disk with its name, `sda: protect …`.
fn named(guard: &Guard, disk: &GuardedDisk, look: Look) -> Vec<Span<'static>> {
    let mut words = vec![Span::styled(format!("{}: ", printable(&disk.name)), look.strong())];
    words.extend(of_disk(guard, disk, look));
    words
}

/// `protect for 12.0 s, goal 234 ms. Holds nr_requests 8 (yours: 64). The last decision.`
pub(super) fn of_disk(guard: &Guard, disk: &GuardedDisk, look: Look) -> Vec<Span<'static>> {
    let raw = |text: String| Span::raw(look.text(&printable(&text)).into_owned());
    let mut words = vec![
        Span::styled(printable(&disk.state).into_owned(), look.guard()),
        raw(format!(" for {}, goal {}.", seconds(disk.since_s), micros(disk.goal_us))),
    ];
    let verb = if guard.dry_run { "Would hold" } else { "Holds" };
    if !disk.held.is_empty() {
        words.push(raw(format!(" {verb} {}.", disk.held.join(", "))));
    } else if let Some(levers) = &disk.levers {
        words.push(raw(format!(" {verb} {levers}.")));
    }
    if let Some(last) = &disk.last {
        let would = if guard.dry_run { "Would: " } else { "" };
        words.push(raw(format!(" {would}{last}")));
    }
    words
}
