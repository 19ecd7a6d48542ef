//! What keys do, seen on the screen and in commands.

use floodwall_model::frame::Frame;
use floodwall_screen::{Command, Mode, Options, Screen};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::fixtures::{hundred_disks, quiet, stall, unguarded};
use crate::terminal::{COLOURED, drawn, enter, options, press, screen, text};

fn live(frames: Vec<Frame>) -> Screen {
    screen(options(COLOURED), frames)
}

fn replay(frames: Vec<Frame>) -> Screen {
    screen(Options { mode: Mode::Replay, ..options(COLOURED) }, frames)
}

/// The last row.
fn status(screen: &mut Screen) -> String {
    text(screen, 160, 40).lines().last().unwrap().to_owned()
}

/// The first cells of the rows of the table with this title.
fn rows_of(screen: &mut Screen, title: &str) -> Vec<String> {
    let page = text(screen, 100, 40);
    let rows = page.lines().skip_while(|line| !line.contains(title)).skip(1);
    rows.take_while(|line| line.len() > 20).map(|line| line.chars().take(26).collect()).collect()
}

#[test]
fn only_y_runs_the_command_that_is_shown() {
    let line = "floodwall guard pause --for 10m";
    for (code, expected) in [
        (KeyCode::Char('y'), true),
        (KeyCode::Char('n'), false),
        (KeyCode::Enter, false),
        (KeyCode::Esc, false),
        (KeyCode::Char('q'), false),
    ] {
        let mut screen = live(stall());
        assert_eq!(enter(&mut screen, "p"), None);
        assert!(text(&mut screen, 80, 24).contains(line));
        let run = press(&mut screen, code);
        let words = line.split(' ').skip(1).map(str::to_owned).collect();
        assert_eq!(run, expected.then_some(Command::Run(words)), "{code:?}");
        assert!(!text(&mut screen, 80, 24).contains(line), "the question is gone");
    }
}

#[test]
fn a_paused_guard_is_resumed() {
    let mut frames = stall();
    frames.last_mut().unwrap().guard.as_mut().unwrap().paused_s = Some(570);
    let mut screen = live(frames);
    assert!(text(&mut screen, 80, 24).contains("Paused for another 9 min 30 s"));
    assert_eq!(enter(&mut screen, "py"), Some(Command::Run(vec!["guard".into(), "resume".into()])));
}

#[test]
fn a_limit_is_that_of_why_for_the_selected_flood() {
    let mut screen = live(unguarded());
    press(&mut screen, KeyCode::Tab);
    let Some(Command::Run(words)) = enter(&mut screen, "ly") else { panic!("nothing is run") };
    let session = "user.slice/user-0.slice/session-3.scope";
    let limits =
        [format!("{session}:sda.io.max=wbps=60.0MB"), format!("{session}:memory.high=236MiB")];
    assert_eq!(words[..4], ["apply", "--for", "10m", "--yes"]);
    assert_eq!(words[4..], limits);
    press(&mut screen, KeyCode::Down);
    enter(&mut screen, "l");
    let why = "no limit for rsync (4810): floods of other groups fill the rest of sda";
    assert!(status(&mut screen).contains(why), "{}", status(&mut screen));
}

#[test]
fn without_root_the_command_is_only_shown() {
    let user = Options { is_root: false, ..options(COLOURED) };
    let mut screen = screen(user, stall());
    enter(&mut screen, "p");
    assert!(text(&mut screen, 80, 24).contains("sudo floodwall guard pause --for 10m"));
    assert_eq!(enter(&mut screen, "y"), None);
}

#[test]
fn nothing_is_run_on_a_recording_or_a_simulated_machine() {
    for (mode, told) in [(Mode::Replay, "a recording"), (Mode::Simulated, "simulated")] {
        for key in ["p", "l", "r"] {
            let options = Options { mode, ..options(COLOURED) };
            let mut screen = screen(options, unguarded());
            enter(&mut screen, key);
            assert!(status(&mut screen).contains(told), "{}", status(&mut screen));
            assert_eq!(enter(&mut screen, "y"), None);
        }
    }
}

#[test]
fn enter_opens_what_is_selected_and_esc_leaves_it() {
    let mut screen = live(stall());
    assert_eq!(press(&mut screen, KeyCode::Enter), Some(Command::Files(812)));
    assert!(text(&mut screen, 120, 40).contains("asking"));
    screen.tell_files(812, Ok(vec!["/srv/\u{1b}[31mred".into()]));
    assert!(text(&mut screen, 120, 40).contains(r"/srv/\u{1b}[31mred"));
    screen.tell_files(812, Err("permission denied".into()));
    assert!(text(&mut screen, 120, 40).contains("permission denied"));
    assert_eq!(enter(&mut screen, "f"), Some(Command::Files(812)));
    press(&mut screen, KeyCode::Esc);
    press(&mut screen, KeyCode::BackTab);
    press(&mut screen, KeyCode::Enter);
    assert!(text(&mut screen, 120, 40).starts_with("DISK sda"));
    press(&mut screen, KeyCode::Esc);
    press(&mut screen, KeyCode::BackTab);
    press(&mut screen, KeyCode::Down);
    assert_eq!(press(&mut screen, KeyCode::Enter), Some(Command::Explain("FW046".into())));
    assert_eq!(enter(&mut screen, "q"), Some(Command::Quit));
    assert_eq!(enter(&mut live(stall()), "e"), Some(Command::Explain("FW001".into())));
    assert_eq!(enter(&mut live(quiet()), "e"), None);
}

#[test]
fn a_dry_run_says_what_the_guard_would_do() {
    let mut frames = stall();
    frames.last_mut().unwrap().guard.as_mut().unwrap().dry_run = true;
    let page = text(&mut live(frames), 120, 40);
    assert!(page.contains("mode protect, dry run: nothing is written"), "{page}");
    assert!(
        page.contains("Would hold nr_requests 8 (yours: 64). Would: watch → protect"),
        "{page}"
    );
}

#[test]
fn a_process_that_is_gone_is_still_told_of() {
    let mut screen = live(stall());
    press(&mut screen, KeyCode::Enter);
    let mut later = quiet().pop().unwrap();
    later.at_unix_ms += 1_000;
    later.processes.clear();
    screen.push(later);
    let page = text(&mut screen, 120, 40);
    assert!(page.contains("Last seen at 2026-11-21 03:00:05"), "{page}");
}

#[test]
fn a_selection_stays_with_its_process() {
    let mut frames = stall();
    let last = frames.pop().unwrap();
    let mut screen = live(frames);
    press(&mut screen, KeyCode::Down);
    let mut later = last;
    for process in &mut later.processes {
        // Now it is the slowest.
        if process.pid == 2_290 {
            process.oldest_us = 99_000_000;
        }
    }
    screen.push(later);
    assert!(rows_of(&mut screen, "WHO WAITS")[0].contains("redis-server"));
    assert_eq!(press(&mut screen, KeyCode::Enter), Some(Command::Files(2_290)));
}

#[test]
fn a_table_is_ordered_by_each_of_its_columns() {
    let mut screen = live(stall());
    let first = |screen: &mut Screen| rows_of(screen, "WHO WAITS")[0].clone();
    assert!(first(&mut screen).contains("postgres"));
    let ordered = enter(&mut screen, "S");
    assert_eq!(ordered, None);
    assert!(text(&mut screen, 80, 24).contains("▼WHO WAITS"), "the column is marked");
    assert!(first(&mut screen).contains("postgres (812)"), "by name");
    for _ in 0..7 {
        enter(&mut screen, "S");
    }
    assert!(text(&mut screen, 80, 24).contains("▼SLOWEST"));
    enter(&mut screen, "SSS");
    assert!(text(&mut screen, 80, 24).contains("▼WHO WAITS"), "round again");
}

#[test]
fn a_filter_is_typed_kept_and_taken_back() {
    let mut screen = live(hundred_disks());
    enter(&mut screen, "/SDH");
    assert_eq!(press(&mut screen, KeyCode::Enter), None);
    assert!(
        rows_of(&mut screen, "WHO WAITS").iter().all(|row| row.contains("0") || row.is_empty())
    );
    assert!(status(&mut screen).contains("filter: SDH"));
    assert_eq!(rows_of(&mut screen, "DISK").len(), 1, "one disk");
    assert_eq!(enter(&mut screen, "q"), Some(Command::Quit), "no longer typed");
    enter(&mut screen, "/x");
    press(&mut screen, KeyCode::Esc);
    assert!(status(&mut screen).contains("filter: SDH"), "as it was");
    press(&mut screen, KeyCode::Esc);
    assert!(!status(&mut screen).contains("filter: "));
}

#[test]
fn a_paused_screen_stays_and_goes_on() {
    let mut frames = stall();
    let last = frames.pop().unwrap();
    let mut screen = live(frames);
    enter(&mut screen, " ");
    assert!(status(&mut screen).contains("PAUSED"));
    let before = drawn(&mut screen, 80, 24);
    screen.push(last);
    assert_eq!(drawn(&mut screen, 80, 24), before);
    enter(&mut screen, " ");
    assert!(status(&mut screen).contains("03:00:05"));
}

#[test]
fn a_recording_is_moved_in() {
    let mut frames = stall();
    let last = frames.pop().unwrap();
    let mut screen = replay(frames);
    assert_eq!(enter(&mut screen, "t"), Some(Command::Step(1)));
    screen.push(last);
    assert!(status(&mut screen).contains("2026-11-21 03:00:05"), "and is shown");
    assert_eq!(enter(&mut screen, "T"), Some(Command::Step(-1)));
    enter(&mut screen, " ");
    assert!(status(&mut screen).contains("a recording stands still"));
    enter(&mut screen, "b02:59x");
    press(&mut screen, KeyCode::Backspace);
    assert_eq!(press(&mut screen, KeyCode::Enter), Some(Command::Jump("02:59".into())));
    enter(&mut screen, "b");
    assert_eq!(press(&mut screen, KeyCode::Enter), None, "nothing was typed");
    screen.replace(quiet());
    assert!(text(&mut screen, 80, 24).starts_with("Nothing waits long"));
    let mut now = live(stall());
    for key in ["t", "T", "b"] {
        assert_eq!(enter(&mut now, key), None);
        assert!(status(&mut now).contains("this is the machine now"));
    }
}

#[test]
fn control_keys_work_everywhere() {
    for before in ["", "/", "p", "?"] {
        let mut screen = live(stall());
        enter(&mut screen, before);
        let mut control = |c| screen.key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL));
        assert_eq!(control('z'), Some(Command::Suspend));
        assert_eq!(control('l'), Some(Command::Redraw));
        assert_eq!(control('c'), Some(Command::Quit));
    }
    let release =
        KeyEvent::new_with_kind(KeyCode::Char('q'), KeyModifiers::NONE, KeyEventKind::Release);
    assert_eq!(live(stall()).key(release), None);
}

#[test]
fn a_page_is_scrolled_and_left() {
    let mut screen = live(stall());
    let lines: Vec<String> = (1..=100).map(|n| format!("line {n}")).collect();
    screen.show_text("explain".into(), lines.join("\n"));
    press(&mut screen, KeyCode::End);
    let last = text(&mut screen, 80, 24);
    assert!(last.contains("79 to 100 of 100 lines") && last.contains("line 100"));
    press(&mut screen, KeyCode::Up);
    assert!(text(&mut screen, 80, 24).contains("78 to 99 of 100 lines"));
    assert_eq!(enter(&mut screen, "q"), None, "q leaves the page alone");
    assert!(!text(&mut screen, 80, 24).contains("line 1"));
}

#[test]
fn a_message_stays_until_the_next_key() {
    let mut screen = live(stall());
    screen.say("paused\u{1b}[0m: everything is put back".into());
    assert!(status(&mut screen).contains(r"paused\u{1b}[0m: everything is put back"));
    press(&mut screen, KeyCode::Down);
    assert!(!status(&mut screen).contains("everything"));
}

#[test]
fn one_disk_alone_is_shown_if_asked_for() {
    for device in ["sdj", "65:9"] {
        let device = Some(device.to_owned());
        let mut screen = screen(Options { device, ..options(COLOURED) }, hundred_disks());
        let page = text(&mut screen, 120, 40);
        assert!(page.starts_with("▲ rsync"), "{page}");
        assert!(page.contains("sdj") && !page.contains("sdh"), "{page}");
    }
}
