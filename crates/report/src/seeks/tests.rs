//! Pictures as a whole: their contents, not the place of each pixel.

use floodwall_model::PhaseKind;
use proptest::prelude::*;

use super::marks::{Class, Frame, Marks};
use super::span::Span;
use super::testing::{recording, request};
use super::*;
use crate::synthetic::Made;

/// How often elements of this kind with this text in their attributes are in a picture.
fn elements(svg: &str, tag: &str, attribute: &str) -> usize {
    svg.lines()
        .filter(|line| line.starts_with(&format!("<{tag} ")) && line.contains(attribute))
        .count()
}

/// Contents of the text elements.
fn texts(svg: &str) -> Vec<&str> {
    let content = |line| str::strip_suffix(line, "</text>")?.split_once('>').map(|(_, text)| text);
    svg.lines().filter_map(content).collect()
}

/// Ten reads far apart, five writes, two of them FUA, three flushes, a discard, a failure.
fn of_every_class() -> Recording {
    let mut requests: Vec<Request> = (0..10u32)
        .map(|i| request(f64::from(i) * 1e5, Operation::Read, u64::from(i) << 28))
        .collect();
    for i in 0..5u32 {
        let write = request(f64::from(i) * 1.5e5 + 5e4, Operation::Write, u64::from(i) << 29);
        requests.push(Request { fua: i < 2, ..write });
    }
    requests.extend((0..3u32).map(|i| request(f64::from(i) * 2e5, Operation::Flush, 0)));
    requests.push(request(7e5, Operation::Discard, 1 << 30));
    requests.push(Request { ok: false, ..request(8e5, Operation::Read, 1 << 31) });
    recording(requests)
}

fn draw(recording: &Recording) -> String {
    drawn(recording, None, &View::default())
}

fn drawn(recording: &Recording, document: Option<&Document>, view: &View) -> String {
    picture(recording, document, view).unwrap().to_svg("a picture")
}

#[test]
fn every_class_has_its_marks_and_its_legend() {
    let svg = draw(&of_every_class());
    // The legend's squares are opaque; its triangle, tick and ring are there besides the marks.
    assert_eq!(elements(&svg, "rect", "fill=\"#0072b2\" fill-opacity=\"0.60\""), 10);
    assert_eq!(elements(&svg, "rect", "fill=\"#d55e00\" fill-opacity=\"0.60\""), 3);
    assert_eq!(elements(&svg, "rect", "fill=\"#e69f00\" fill-opacity=\"0.60\""), 1);
    assert_eq!(elements(&svg, "path", "fill=\"#000000\""), 2 + 1);
    assert_eq!(elements(&svg, "path", "stroke=\"#009e73\""), 3 + 1);
    assert_eq!(elements(&svg, "circle", "stroke=\"#b00020\""), 1 + 1);
    let texts = texts(&svg);
    for text in [
        "What reached array (hdd-7200, 16 GiB)",
        "20 requests in 900 ms from 1970-01-01 00:16:40 UTC",
        "reads 10",
        "writes 3",
        "FUA writes 2",
        "flushes 3",
        "discards 1",
        "failed 1",
        "flushes",
        "offset, GiB",
        "per second",
        "MB/s",
        "time",
        "queue p50",
        "service p99",
        "seconds since the device came up",
    ] {
        assert!(texts.contains(&text), "'{text}' is not in {texts:?}");
    }
}

#[test]
fn a_picture_is_the_same_each_time() {
    assert_eq!(draw(&of_every_class()), draw(&of_every_class()));
}

#[test]
fn one_request_is_a_picture() {
    let svg = draw(&recording(vec![request(5.0, Operation::Flush, 0)]));
    assert!(
        texts(&svg).contains(&"1 requests in 1.00 ms from 1970-01-01 00:16:40 UTC"),
        "{:?}",
        texts(&svg)
    );
}

#[test]
fn what_was_not_recorded_and_who_is_not_known_is_said() {
    let silent = Recording { about: None, missing: 1_234, ..of_every_class() };
    let svg = draw(&silent);
    assert!(texts(&svg).contains(&"What reached a device that the recording does not name"));
    assert!(
        texts(&svg).contains(&"20 requests in 900 ms; 1,234 more were not recorded"),
        "{:?}",
        texts(&svg)
    );
}

/// A run that began 2 s after the recording's time 0, and requests every 5 ms for 300 s.
fn with_result() -> (Recording, Document) {
    let requests = (0..60_000u32).map(|i| {
        let operation = if i % 2 == 0 { Operation::Write } else { Operation::Read };
        request(f64::from(i) * 5e3, operation, u64::from(i.wrapping_mul(2_654_435_761)) * 4)
    });
    let mut document = Made::damage().document();
    document.run.started_at_unix_s = 1_002.0;
    (recording(requests.collect()), document)
}

#[test]
fn phases_are_shaded_in_every_panel_and_named() {
    let (recording, document) = with_result();
    let svg = drawn(&recording, Some(&document), &View::default());
    let phases: Vec<_> =
        document.trials.iter().flat_map(|t| t.phases.iter().map(|p| (t.round, p))).collect();
    let shown = |kind| {
        let inside = |p: &floodwall_model::Phase| p.kind == kind && p.start_s + 2.0 < 300.0;
        phases.iter().filter(|(_, p)| inside(p)).count()
    };
    // Names, flushes and four panels.
    assert!(shown(PhaseKind::Victim) >= 1 && shown(PhaseKind::Both) >= 1);
    for (kind, color) in [
        (PhaseKind::Victim, "#0072b2"),
        (PhaseKind::Flood, "#d55e00"),
        (PhaseKind::Both, "#cc79a7"),
    ] {
        let tinted = elements(&svg, "rect", &format!("fill=\"{color}\" fill-opacity=\"0.16\""));
        assert_eq!(tinted, 6 * shown(kind), "{kind:?}");
        // With its round where there is room for it.
        let named = texts(&svg).iter().filter(|t| t.split(' ').next() == Some(kind.name())).count();
        assert_eq!(named, shown(kind), "{kind:?}");
    }
    assert!(texts(&svg).contains(&"seconds since the run began"));
}

#[test]
fn a_phase_is_cut_out_with_its_warm_up() {
    let (recording, mut document) = with_result();
    for phase in document.trials.iter_mut().flat_map(|t| &mut t.phases) {
        phase.warmup.seconds = 1.0;
    }
    let both = document.trials[0].phases.iter().find(|p| p.kind == PhaseKind::Both).unwrap();
    let view = View { phase: Some(PhaseKind::Both), ..View::default() };
    let span = Span::new(&recording, Some(&document), &view).unwrap();
    assert_eq!(span.axis_s(span.start_us), both.start_s - 1.0);
    assert_eq!(span.axis_s(span.end_us), both.start_s + both.seconds);
    assert!(span.bands.iter().any(|b| b.warmup) && span.bands.iter().any(|b| !b.warmup));
    let svg = drawn(&recording, Some(&document), &view);
    assert!(texts(&svg)[0].ends_with("phase &#39;both&#39; of round 1"), "{:?}", texts(&svg)[0]);
    assert!(texts(&svg).contains(&"warm-up"));
    assert_eq!(elements(&svg, "rect", "fill=\"#cc79a7\" fill-opacity=\"0.06\""), 6);
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let (recording, document) = with_result();
    let both = |round| View { phase: Some(PhaseKind::Both), round, ..View::default() };
    let error = |recording: &Recording, document: Option<&Document>, view: &View| {
        picture(recording, document, view).unwrap_err()
    };
    assert_eq!(error(&recording, None, &both(None)), SeeksError::NoResult);
    let silent = Recording { about: None, ..recording.clone() };
    let no_time = |what| SeeksError::NoUnixTime { what };
    assert_eq!(error(&silent, Some(&document), &View::default()), no_time("recording"));
    let mut timeless = document.clone();
    timeless.run.started_at_unix_s = 0.0;
    assert_eq!(error(&recording, Some(&timeless), &View::default()), no_time("result"));
    let mut other_day = document.clone();
    other_day.run.started_at_unix_s += 86_400.0;
    let message = error(&recording, Some(&other_day), &View::default()).to_string();
    assert!(
        message.starts_with(
            "the recording covers 1970-01-01 00:16:40 UTC to 1970-01-01 00:21:39 UTC, but the run \
             ran from 1970-01-02"
        ),
        "{message}"
    );
    assert!(matches!(
        error(&recording, Some(&other_day), &both(None)),
        SeeksError::NotCovered { .. }
    ));
    let message = error(&recording, Some(&document), &both(Some(9))).to_string();
    assert!(
        message.starts_with("the result has no phase 'both' of round 9; it has: "),
        "{message}"
    );
    assert!(message.contains("both 3"), "{message}");
}

#[test]
fn a_large_recording_stays_a_small_file_and_dense_areas_stay_visible() {
    let (recording, _) = with_result();
    let svg = draw(&recording);
    assert!(svg.len() < 2_000_000, "{}", svg.len());
    let marks = |text: &str| elements(&svg, "rect", text);
    assert!(marks("fill=\"#0072b2\"/>") > 1_000, "marks for many requests are opaque");
    let few = drawn(&recording, None, &View { marks: 1_000, ..View::default() });
    assert!(few.len() < 150_000, "{}", few.len());
}

fn operations() -> impl Strategy<Value = Operation> {
    prop::sample::select(vec![
        Operation::Read,
        Operation::Write,
        Operation::Flush,
        Operation::Discard,
    ])
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let one = (
        0.0..1e9f64,
        operations(),
        0..(1u64 << 40),
        0u64..2048,
        any::<bool>(),
        0..20u8,
        0.0..1e6f64,
    );
    let one = one.prop_map(|(time_us, operation, offset, blocks, fua, luck, service_us)| Request {
        fua: fua && operation == Operation::Write,
        ok: luck > 0,
        size_bytes: if operation == Operation::Flush { 0 } else { blocks * 512 },
        service_us,
        ..request(time_us, operation, if operation == Operation::Flush { 0 } else { offset })
    });
    prop::collection::vec(one, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn marks_stand_for_every_request_and_keep_the_outline(
        requests in requests(), most in 100usize..400
    ) {
        let recording = recording(requests);
        let span = Span::new(&recording, None, &View::default()).unwrap();
        let frame = Frame { span: &span, offsets: 0..=1 << 40, width_px: 1_000, height_px: 300 };
        let marks = Marks::new(&recording.requests, &frame, most);
        prop_assert!(marks.marks.len() <= most, "{} marks", marks.marks.len());
        for class in Class::ALL {
            let of_class: Vec<&Request> =
                recording.requests.iter().filter(|r| Class::of(r) == class).collect();
            let drawn: Vec<_> = marks.marks.iter().filter(|m| m.class == class).collect();
            let stands_for: u64 = drawn.iter().map(|m| u64::from(m.requests)).sum();
            prop_assert_eq!(stands_for, of_class.len() as u64);
            prop_assert_eq!(marks.requests[class as usize], of_class.len() as u64);
            let times = |drawn: bool| -> Vec<f64> {
                let marks = marks.marks.iter().filter(|m| m.class == class).map(|m| m.time_us);
                let all = of_class.iter().map(|r| r.time_us);
                let mut times: Vec<f64> = if drawn { marks.collect() } else { all.collect() };
                times.sort_by(f64::total_cmp);
                times
            };
            prop_assert_eq!(times(true).first().copied(), times(false).first().copied());
            prop_assert_eq!(times(true).last().copied(), times(false).last().copied());
            let with_place = |r: &&&Request| r.operation != Operation::Flush;
            let offsets: Vec<u64> = drawn.iter().filter_map(|m| m.offset_bytes).collect();
            // Failed flushes have no place, and the lowest failure may be one.
            if class != Class::Error {
                let all = || of_class.iter().filter(with_place).map(|r| r.offset_bytes);
                prop_assert_eq!(offsets.iter().min().copied(), all().min());
                prop_assert_eq!(offsets.iter().max().copied(), all().max());
            }
        }
    }

    #[test]
    fn everything_is_drawn_within_the_picture(requests in requests()) {
        let svg = draw(&recording(requests));
        for line in svg.lines().filter(|l| l.contains("width=\"3\" \
            height=\"3\"") || l.starts_with("<circle")) {
            let number = |names: [&str; 2]| names.iter().find_map(|name| {
                let value = line.split_once(&format!(" {name}=\""))?.1.split('"').next()?;
                value.parse::<i32>().ok()
            });
            let (x, y) = (number(["x", "cx"]).unwrap(), number(["y", "cy"]).unwrap());
            // The legend's circle is above the panels.
            prop_assert!((84 - 4..=1_184).contains(&x), "{line}");
            prop_assert!((60..=982).contains(&y), "{line}");
        }
    }
}
