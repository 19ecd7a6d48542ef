//! Prints the screen of a made-up machine as text with ANSI colours, to be looked at.
//!
//! ```text
//! cargo run -p floodwall-screen --example shot -- 120x40 MACHINE KEYS OPTIONS
//! ```
//!
//! MACHINE is `stall` (also if it is left out), `quiet`, `unguarded`, `no-root` or `disks`.
//! KEYS are typed one after another: `e` and the like for themselves, `⏎` Enter, `⇥` Tab, `↓` Down.
//! Options: `--ascii`, `--16`, `--mono`, `--replay`, `--user`, and `--time` for what drawing costs.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::disallowed_types,
    reason = "a program for a terminal"
)]
#![expect(clippy::unwrap_used, reason = "it ends with the mistake")]

#[path = "../tests/it/fixtures.rs"]
mod fixtures;

use std::time::{Duration, Instant};

use floodwall_model::frame::Frame;
use floodwall_screen::{Colours, Look, Mode, Options, Screen};
use jiff::tz::TimeZone;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, CellWidth};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};

fn main() {
    let (options, words): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word.starts_with("--"));
    let is_set = |name: &str| options.iter().any(|option| option == name);
    let size = words.first().map_or("120x40", String::as_str);
    let (width, height) = size.split_once('x').unwrap();
    let colours = match (is_set("--mono"), is_set("--16")) {
        (true, _) => Colours::None,
        (false, true) => Colours::Sixteen,
        (false, false) => Colours::Okabe,
    };
    let mut screen = Screen::new(Options {
        look: Look { colours, ascii: is_set("--ascii") },
        zone: TimeZone::UTC,
        mode: if is_set("--replay") { Mode::Replay } else { Mode::Live },
        device: None,
        is_root: !is_set("--user"),
    });
    let machine = words.get(1).map_or("stall", String::as_str);
    screen.replace(frames(machine).unwrap());
    for key in words.get(2).map_or("", String::as_str).chars() {
        let code = match key {
            '⏎' => KeyCode::Enter,
            '⇥' => KeyCode::Tab,
            '↓' => KeyCode::Down,
            key => KeyCode::Char(key),
        };
        screen.key(KeyEvent::new(code, KeyModifiers::NONE));
    }
    let backend = TestBackend::new(width.parse().unwrap(), height.parse().unwrap());
    let mut terminal = Terminal::new(backend).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    if is_set("--time") {
        return time(&mut screen, &mut terminal);
    }
    print!("{}", ansi(terminal.backend().buffer()));
}

/// A machine by its name.
fn frames(name: &str) -> Option<Vec<Frame>> {
    Some(match name {
        "quiet" => fixtures::quiet(),
        "stall" => fixtures::stall(),
        "unguarded" => fixtures::unguarded(),
        "no-root" => fixtures::without_root(),
        "disks" => fixtures::hundred_disks(),
        _ => return None,
    })
}

/// What one drawing takes: the screen's own part, and with the comparison of cells that follows.
fn time(screen: &mut Screen, terminal: &mut Terminal<TestBackend>) {
    const TIMES: u32 = 300;
    let (mut own, begin) = (Duration::ZERO, Instant::now());
    for _ in 0..TIMES {
        terminal
            .draw(|frame| {
                let begin = Instant::now();
                screen.draw(frame);
                own += begin.elapsed();
            })
            .unwrap();
    }
    println!("{:?} a drawing, {:?} with ratatui's part", own / TIMES, begin.elapsed() / TIMES);
}

/// A buffer as text with escapes of colours.
fn ansi(buffer: &Buffer) -> String {
    let mut out = String::new();
    for y in 0..buffer.area.height {
        let mut last = None;
        let mut skip = 0;
        for x in 0..buffer.area.width {
            let cell = &buffer[(x, y)];
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let style = (cell.fg, cell.bg, cell.modifier);
            if last != Some(style) {
                out.push_str("\u{1b}[0");
                for (modifier, code) in
                    [(Modifier::BOLD, ";1"), (Modifier::DIM, ";2"), (Modifier::REVERSED, ";7")]
                {
                    if cell.modifier.contains(modifier) {
                        out.push_str(code);
                    }
                }
                out.push_str(&colour(cell.fg, 30));
                out.push_str(&colour(cell.bg, 40));
                out.push('m');
                last = Some(style);
            }
            out.push_str(cell.symbol());
            skip = cell.cell_width().saturating_sub(1);
        }
        out.push_str("\u{1b}[0m\n");
    }
    out
}

fn colour(colour: Color, base: u8) -> String {
    match colour {
        Color::Indexed(index) => format!(";{};5;{index}", base + 8),
        Color::Black => format!(";{base}"),
        Color::Green => format!(";{}", base + 2),
        Color::Yellow => format!(";{}", base + 3),
        Color::Blue => format!(";{}", base + 4),
        Color::Cyan => format!(";{}", base + 6),
        Color::Gray => format!(";{}", base + 7),
        Color::LightRed => format!(";{}", base + 61),
        Color::White => format!(";{}", base + 67),
        _ => String::new(),
    }
}
