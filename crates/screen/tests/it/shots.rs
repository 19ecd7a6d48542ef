//! Snapshots of every view at three sizes: text and styles.

use floodwall_model::frame::Frame;
use floodwall_screen::{Colours, Look, Mode, Options, Screen};
use ratatui::crossterm::event::KeyCode;

use crate::fixtures::{hundred_disks, quiet, stall, unguarded, without_root};
use crate::terminal::{COLOURED, enter, options, picture, press, screen, text};

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (300, 100)];

/// Compares a view at every size.
fn check(name: &str, options: &Options, frames: &[Frame], open: impl Fn(&mut Screen)) {
    for (width, height) in SIZES {
        let mut screen = screen(options.clone(), frames.to_vec());
        open(&mut screen);
        let shot = picture(&mut screen, width, height);
        insta::assert_snapshot!(format!("{name}-{width}x{height}"), shot);
    }
}

fn live() -> Options {
    options(COLOURED)
}

#[test]
fn main_view() {
    check("stall", &live(), &stall(), |_| {});
    check("quiet", &live(), &quiet(), |_| {});
    check("without-root", &Options { is_root: false, ..live() }, &without_root(), |_| {});
    check("hundred-disks", &live(), &hundred_disks(), |_| {});
}

#[test]
fn main_view_in_other_colours() {
    let ascii = Look { colours: Colours::Sixteen, ascii: true };
    check("stall-16-ascii", &options(ascii), &stall(), |_| {});
    let plain = Look { colours: Colours::None, ascii: false };
    check("stall-no-color", &options(plain), &stall(), |_| {});
}

#[test]
fn a_call_that_has_not_ended_is_named_if_it_is_known() {
    let mut frames = stall();
    for process in frames.iter_mut().flat_map(|frame| &mut frame.processes) {
        if process.is_victim {
            process.waits.clear();
            (process.waiting, process.oldest_us) = (1, 2_000_000 + u64::from(process.pid));
            process.oldest_call = (process.pid != 812).then(|| "sync_write".into());
        }
    }
    let text = text(&mut screen(live(), frames), 90, 30);
    assert!(text.contains("has waited up to 2.00 s for sync write"), "{text}");
    let rows = text.lines().skip_while(|line| !line.contains("WHO WAITS")).take(4);
    insta::assert_snapshot!(rows.collect::<Vec<_>>().join("\n"), @"
    ▼ WHO WAITS                 IN                FOR                  p50     p99 SLOWEST NOW
    ● redis-server (2290)       shop/cache-0:red… sync write             –       –  2.00 s   1
    ● postgres (812)            postgresql@15-ma… –                      –       –  2.00 s   1
      systemd-journal (301)     systemd-journald  fsync            22.3 ms       – 22.3 ms
    ");
}

#[test]
fn device() {
    check("device", &live(), &stall(), |screen| {
        enter(screen, "d");
    });
}

#[test]
fn process() {
    check("process", &live(), &stall(), |screen| {
        press(screen, KeyCode::Enter);
        let files = (0..40).map(|n| format!("/var/lib/postgresql/15/main/base/5/{n}")).collect();
        screen.tell_files(812, Ok(files));
    });
}

#[test]
fn workload() {
    check("workload", &live(), &stall(), |screen| {
        enter(screen, "u");
    });
}

#[test]
fn help() {
    check("help", &live(), &stall(), |screen| {
        enter(screen, "?");
    });
}

#[test]
fn page() {
    check("page", &live(), &stall(), |screen| {
        let line = "A page of text that is longer than the screen is wide is broken between \
                    words; lines keep their indent.";
        let text = format!("FW001\n\n{line}\n    floodwall apply vm.dirty_bytes=64MiB\n{line}\n");
        screen.show_text("explain FW001".into(), text);
    });
}

#[test]
fn question() {
    check("question", &live(), &unguarded(), |screen| {
        enter(screen, "l");
    });
    let user = Options { is_root: false, ..live() };
    check("question-without-root", &user, &unguarded(), |screen| {
        enter(screen, "r");
    });
}

#[test]
fn filter_line() {
    check("filter", &live(), &hundred_disks(), |screen| {
        enter(screen, "/sdh");
    });
}

#[test]
fn jump_line() {
    let replay = Options { mode: Mode::Replay, ..live() };
    check("jump", &replay, &stall(), |screen| {
        enter(screen, " b03:00");
    });
}

#[test]
fn a_small_screen_says_the_sentence_and_what_it_needs() {
    let mut small = screen(live(), stall());
    insta::assert_snapshot!(text(&mut small, 20, 5), @"
    ● postgres (812,
    postgresql@15-main.…
    has waited up to
    3.14 s for fdatasyn…
    needs 60 x 14
    ");
    insta::assert_snapshot!(text(&mut small, 50, 4), @"
    ● postgres (812, postgresql@15-main.service) has
    waited up to 3.14 s for fdatasync on sda, because
    ▲ cp (4711, session-3.scope) dirties 360 MB/s (on…
    needs 60 x 14, has 50 x 4
    ");
    let mut empty = screen(live(), Vec::new());
    assert!(text(&mut empty, 80, 24).starts_with("Looking. The first answer takes a second."));
}
