//! The last row: what was said or is typed, else the keys of the view; at its right where the
//! frames come from, and when.

use floodwall_model::counts::whole;
use floodwall_model::printable::printable;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::parts::{put, set_line};
use crate::figures::moment;
use crate::history::History;
use crate::state::{Mode, Options, Pane, Prompt, Shown, View};
use crate::text::width;

/// Draws it, and tells where the terminal's cursor is while a line is typed.
pub(super) fn draw(
    options: &Options,
    history: &History,
    shown: &Shown,
    buffer: &mut Buffer,
    area: Rect,
) -> Option<Position> {
    let look = options.look;
    let right = right(options, history, shown);
    let wide = (right.width() as u16).min(area.width);
    let typed = match &shown.prompt {
        Some(Prompt::Filter(_)) => Some(format!("filter: {}", printable(&shown.filter.text))),
        Some(Prompt::Jump(text)) => Some(format!("jump to (03:00, -1h): {}", printable(text))),
        None => None,
    };
    // A message matters more than the time.
    let takes_all = shown
        .message
        .as_ref()
        .is_some_and(|message| width(message) + usize::from(wide) + 2 > usize::from(area.width));
    let left = match takes_all {
        true => area,
        false => {
            let at = Rect { x: area.right() - wide, width: wide, ..area };
            set_line(buffer, at, &right);
            Rect { width: area.width.saturating_sub(wide + 2), ..area }
        }
    };
    if let Some(text) = typed {
        put(buffer, left, look, &text, look.strong());
        let x = left.x + (width(&text) as u16).min(left.width.saturating_sub(1));
        return Some(Position::new(x, left.y));
    }
    if let Some(message) = &shown.message {
        put(buffer, left, look, &look.text(message), look.warning());
        return None;
    }
    keys(options, shown, buffer, left);
    None
}

/// `web1  2026-11-21 03:00:05  live`.
fn right(options: &Options, history: &History, shown: &Shown) -> Line<'static> {
    let look = options.look;
    let mut line = Line::default();
    let mut add = |text: String, style: Style| {
        if !text.is_empty() {
            line.push_span(Span::raw("  "));
            line.push_span(Span::styled(text, style));
        }
    };
    if !shown.filter.text.is_empty() && shown.prompt.is_none() {
        add(format!("filter: {}", printable(&shown.filter.text)), look.warning());
    }
    let frame = history.shown();
    if let Some(frame) = frame.filter(|frame| frame.lost_events > 0) {
        add(format!("{} events lost", whole(frame.lost_events)), look.warning());
    }
    if let Some(frame) = frame {
        add(printable(&frame.machine.name).into_owned(), Style::new());
        let when = moment(frame.at_unix_ms, &options.zone);
        // Today's date is known.
        let when = match options.mode {
            Mode::Replay => when,
            Mode::Live | Mode::Simulated => when.get(11..).unwrap_or_default().to_owned(),
        };
        add(when, look.strong());
    }
    match (shown.is_paused, options.mode) {
        (true, _) => add("PAUSED".to_owned(), look.warning()),
        (false, Mode::Live) => add("live".to_owned(), look.guard()),
        (false, Mode::Simulated) => add("simulated".to_owned(), look.warning()),
        (false, Mode::Replay) => add("recording".to_owned(), look.warning()),
    }
    line
}

/// Keys that the view has, the most useful first.
fn keys(options: &Options, shown: &Shown, buffer: &mut Buffer, area: Rect) {
    let main = &shown.main;
    let mut keys: Vec<(&str, &str)> = vec![("?", "help")];
    match shown.views.last() {
        Some(View::Help(_) | View::Page(..)) => keys = vec![("q", "back"), ("PgDn", "further")],
        Some(View::Process(..)) => {
            keys.extend([("Esc", "back"), ("u", "unit"), ("d", "disk"), ("f", "files")]);
        }
        Some(View::Device(..) | View::Workload(..)) => {
            keys.extend([("Esc", "back"), ("Enter", "process")]);
        }
        None if main.focus == Pane::Findings => {
            keys.extend([("Enter", "explain"), ("Tab", "next")])
        }
        None => keys.extend([("Enter", "open")]),
    }
    let is_text = matches!(shown.views.last(), Some(View::Help(_) | View::Page(..)));
    if !is_text {
        match options.mode {
            Mode::Live => keys.extend([("l", "limit"), ("r", "raise"), ("p", "guard")]),
            Mode::Replay => keys.extend([("t", "next"), ("T", "before"), ("b", "jump")]),
            Mode::Simulated => {}
        }
        keys.extend([("q", "quit"), ("/", "filter"), ("S", "sort")]);
        if options.mode != Mode::Replay {
            keys.push(("space", "pause"));
        }
        keys.push(("Tab", "next table"));
    }
    let look = options.look;
    let mut line = Line::default();
    let mut used = 0;
    for (key, does) in keys {
        let wide = key.len() + does.len() + 3;
        if used + wide > usize::from(area.width) + 2 {
            break;
        }
        line.push_span(Span::styled(key, look.strong()));
        line.push_span(Span::styled(format!(" {does}  "), look.dim()));
        used += wide;
    }
    set_line(buffer, area, &line);
}
