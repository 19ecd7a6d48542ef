//! Nothing breaks the screen: any frames, keys and sizes. No cell holds what a terminal would obey.

use floodwall_model::Severity;
use floodwall_model::diagnosis::Verdict;
use floodwall_model::frame::{
    Disk, Finding, Frame, Group, Guard, GuardedDisk, Machine, Process, Queue, Requests, Waits,
};
use floodwall_model::printable::is_unsafe;
use floodwall_model::workload::Workload;
use floodwall_screen::{Colours, Look, Mode, Options, Screen};
use jiff::tz::TimeZone;
use proptest::prelude::*;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};

use crate::fixtures::{hundred_disks, quiet, stall, unguarded, without_root};
use crate::terminal::{drawn, enter, press};

/// What a user or the program does.
#[derive(Clone, Debug)]
enum Deed {
    Push(Box<Frame>),
    Replace(Vec<Frame>),
    Key(KeyCode, bool),
    Draw(u16, u16),
    Say(String),
    Page(String),
    Files(u32, Result<Vec<String>, String>),
}

fn nasty() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{0,20}",
        "[\\x00-\\x1f\\x7f-\\u{9f}\\u{200b}-\\u{202e}日本é\\u{301}🙂 a-z]{0,40}",
        "(abc [\\u{1b}\\n\\t] ){0,30}",
        Just("日本語".repeat(40)),
    ]
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1..100_u64, any::<u64>(), Just(u64::MAX), 1_000..10_000_000_000_u64]
}

fn some() -> impl Strategy<Value = Option<u64>> {
    proptest::option::of(number())
}

fn percent() -> impl Strategy<Value = Option<f32>> {
    proptest::option::of(prop_oneof![0.0..100.0_f32, any::<f32>(), Just(f32::NAN)])
}

fn disk_name() -> impl Strategy<Value = String> {
    prop_oneof![3 => prop_oneof![Just("sda"), Just("sdb"), Just("nvme0n1")].prop_map(String::from),
        1 => nasty()]
}

prop_compose! {
    fn waits()(
        call in nasty(),
        numbers in (number(), number(), some(), number(), number()),
        octaves in proptest::collection::vec((any::<u8>(), number()), 0..5),
    ) -> Waits {
        let (count, p50_us, p99_us, max_us, sum_us) = numbers;
        Waits { call, count, p50_us, p99_us, max_us, sum_us, octaves }
    }
}

prop_compose! {
    fn process()(
        pid in prop_oneof![Just(0_u32), 1..5_u32, any::<u32>()],
        names in (nasty(), nasty(), nasty()),
        oldest_call in proptest::option::of(nasty()),
        disk in proptest::option::of(disk_name()),
        kinds in any::<(bool, bool, bool, bool)>(),
        waits in proptest::collection::vec(waits(), 0..3),
        numbers in (number(), number(), some(), number(), percent(), some()),
    ) -> Process {
        let (waiting, oldest_us, dirtied_bytes, throttled_ms, backlog_percent, memory_bytes) =
            numbers;
        let (name, unit, path) = names;
        let group = Group { path, memory_bytes, is_limited: false };
        Process {
            pid, name, disk, waits, waiting, oldest_us, oldest_call, dirtied_bytes, throttled_ms,
            backlog_percent,
            workload: Workload { unit: kinds.2.then_some(unit), ..Workload::default() },
            group: kinds.3.then_some(group),
            is_victim: kinds.0,
            is_flood: kinds.1,
        }
    }
}

prop_compose! {
    fn disk()(
        name in disk_name(),
        verdict in prop_oneof![Just(Verdict::Quiet), Just(Verdict::Flooding),
            Just(Verdict::Unknown), Just(Verdict::Stalling)],
        mounts in proptest::collection::vec(nasty(), 0..3),
        model in proptest::option::of(nasty()),
        first in (some(), some(), some(), some(), some(), some(), some()),
        busy_percent in percent(),
        requests in proptest::collection::vec((nasty(), number(), number(), some()), 0..7),
    ) -> Disk {
        let request = |(class, count, bytes, us): (String, u64, u64, Option<u64>)| Requests {
            class, count, bytes,
            queue_p50_us: us, queue_p99_us: us, device_p50_us: us, device_p99_us: us,
            device_max_us: us,
        };
        Disk {
            id: name.clone(), name, verdict, mounts, busy_percent,
            queue: Queue { scheduler: model.clone(), nr_requests: first.0,
                max_sectors_kib: first.1, wbt_lat_us: first.2, strict_limit: Some(true) },
            model,
            backlog_bytes: first.0, drain_bytes_per_s: first.1, drain_ms: first.2,
            hard_limit_ms: first.3, limit_bytes: first.4, read_bytes_per_s: first.5,
            written_bytes_per_s: first.6, in_flight: first.0,
            requests: requests.into_iter().map(request).collect(),
            ..Disk::default()
        }
    }
}

prop_compose! {
    fn frame()(
        at_unix_ms in prop_oneof![Just(0), 1_000..200_000_u64, any::<u64>()],
        window_ms in prop_oneof![Just(0), Just(1000), any::<u64>()],
        source in prop_oneof![Just("bpf".to_owned()), Just("proc".to_owned()), nasty()],
        machine in (nasty(), some(), some(), percent()),
        disks in proptest::collection::vec(disk(), 0..5),
        processes in proptest::collection::vec(process(), 0..12),
        guard in proptest::option::of((nasty(), any::<bool>(), some(),
            proptest::collection::vec((disk_name(), nasty(), number(), percent()), 0..4))),
        texts in proptest::collection::vec(nasty(), 0..4),
        lost_events in number(),
    ) -> Frame {
        let steered = |(name, text, number, pressure_percent): (String, String, u64, Option<f32>)| {
            GuardedDisk {
                name, state: text.clone(), since_s: number, goal_us: number, pressure_percent,
                levers: Some(text.clone()), last: Some(text.clone()), held: vec![text],
            }
        };
        let finding = |text: &String| Finding {
            id: text.clone(), severity: Severity::Warning, title: text.clone(),
            subjects: vec![text.clone()],
        };
        Frame {
            at_unix_ms, window_ms, source, disks, processes, lost_events,
            machine: Machine {
                name: machine.0, ram_bytes: machine.1, dirty_bytes: machine.2,
                hard_limit_bytes: machine.1, waited_percent: machine.3, ..Machine::default()
            },
            guard: guard.map(|(mode, dry_run, paused_s, disks)| Guard {
                mode, dry_run, paused_s,
                disks: disks.into_iter().map(steered).collect(),
                left_out: texts.clone(),
            }),
            findings: texts.iter().map(finding).collect(),
            unseen: texts.clone(),
            root_would_add: texts,
        }
    }
}

fn code() -> impl Strategy<Value = KeyCode> {
    prop_oneof![
        3 => proptest::sample::select("tTbSplrefud/? qyn".chars().collect::<Vec<_>>())
            .prop_map(KeyCode::Char),
        3 => proptest::sample::select(vec![
            KeyCode::Up, KeyCode::Down, KeyCode::Left, KeyCode::Right, KeyCode::Tab,
            KeyCode::BackTab, KeyCode::Enter, KeyCode::Esc, KeyCode::Home, KeyCode::End,
            KeyCode::PageUp, KeyCode::PageDown, KeyCode::Backspace, KeyCode::F(1),
        ]),
        1 => any::<char>().prop_map(KeyCode::Char),
    ]
}

fn deed() -> impl Strategy<Value = Deed> {
    let size = || prop_oneof![0..30_u16, 50..140_u16, Just(300)];
    prop_oneof![
        3 => frame().prop_map(|frame| Deed::Push(Box::new(frame))),
        1 => proptest::collection::vec(frame(), 0..4).prop_map(Deed::Replace),
        6 => (code(), proptest::bool::weighted(0.05)).prop_map(|(code, c)| Deed::Key(code, c)),
        4 => (size(), size()).prop_map(|(width, height)| Deed::Draw(width, height)),
        1 => nasty().prop_map(Deed::Say),
        1 => nasty().prop_map(Deed::Page),
        1 => (0..5_u32, prop_oneof![
            proptest::collection::vec(nasty(), 0..9).prop_map(Ok), nasty().prop_map(Err)
        ]).prop_map(|(pid, files)| Deed::Files(pid, files)),
    ]
}

prop_compose! {
    fn any_options()(
        colours in prop_oneof![Just(Colours::Okabe), Just(Colours::Sixteen), Just(Colours::None)],
        ascii in any::<bool>(),
        mode in prop_oneof![Just(Mode::Live), Just(Mode::Simulated), Just(Mode::Replay)],
        device in proptest::option::weighted(0.2, disk_name()),
        is_root in any::<bool>(),
    ) -> Options {
        Options { look: Look { colours, ascii }, zone: TimeZone::UTC, mode, device, is_root }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nothing_breaks_it_and_no_cell_is_obeyed(
        options in any_options(),
        deeds in proptest::collection::vec(deed(), 1..40),
    ) {
        let mut screen = Screen::new(options);
        for deed in deeds.into_iter().chain([Deed::Draw(80, 24), Deed::Draw(120, 40)]) {
            match deed {
                Deed::Push(frame) => screen.push(*frame),
                Deed::Replace(frames) => screen.replace(frames),
                Deed::Key(code, control) => {
                    let held = if control { KeyModifiers::CONTROL } else { KeyModifiers::NONE };
                    screen.key(KeyEvent::new(code, held));
                }
                Deed::Say(text) => screen.say(text),
                Deed::Page(text) => screen.show_text(text.clone(), text),
                Deed::Files(pid, files) => screen.tell_files(pid, files),
                Deed::Draw(width, height) => {
                    let buffer = drawn(&mut screen, width, height);
                    for cell in &buffer.content {
                        prop_assert!(!cell.symbol().contains(is_unsafe), "{:?}", cell.symbol());
                    }
                }
            }
        }
    }
}

/// Every view of every machine.
fn every_view(options: &Options, mut seen: impl FnMut(&ratatui::buffer::Buffer)) {
    let opened = ["", "d", "u", "?", "p", "l", "r", "/sda", "b03:00", " ", "SS", "x"];
    let few = [stall(), quiet(), unguarded(), without_root()].map(|frames| (frames, &opened[..]));
    for (frames, opened) in few.into_iter().chain([(hundred_disks(), &opened[..1])]) {
        for keys in opened {
            let mut screen = crate::terminal::screen(options.clone(), frames.clone());
            enter(&mut screen, keys);
            if *keys == "x" {
                press(&mut screen, KeyCode::Enter);
            }
            for (width, height) in [(20, 5), (80, 24), (120, 40), (300, 100)] {
                seen(&drawn(&mut screen, width, height));
            }
        }
    }
}

#[test]
fn an_ascii_screen_has_no_other_signs() {
    for mode in [Mode::Live, Mode::Replay] {
        let look = Look { colours: Colours::Sixteen, ascii: true };
        let options = Options { mode, ..crate::terminal::options(look) };
        every_view(&options, |buffer| {
            for cell in &buffer.content {
                assert!(cell.symbol().chars().all(|c| (' '..='~').contains(&c)), "{cell:?}");
            }
        });
    }
}

#[test]
fn without_colours_there_is_bold_dim_and_reverse_alone() {
    let look = Look { colours: Colours::None, ascii: false };
    let plain = Modifier::BOLD | Modifier::DIM | Modifier::REVERSED;
    every_view(&crate::terminal::options(look), |buffer| {
        for cell in &buffer.content {
            assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset));
            assert!(plain.contains(cell.modifier), "{cell:?}");
        }
    });
}
