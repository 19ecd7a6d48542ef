//! Hostile submissions: whatever a file says, it is refused or can do nothing but name a value.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::testing::{TODAY, best, evidence, submission};
use crate::{Database, Refused, Submission, merge};

fn read(value: &Value) -> Result<Submission, Refused> {
    Submission::read(value.to_string().as_bytes(), TODAY)
}

fn good() -> Value {
    let said =
        Submission { best: Some(best("nr_requests=8,scheduler=bfq")), ..submission(1, 121.0) };
    serde_json::from_str(&said.to_text()).unwrap()
}

/// A good submission with one value changed.
fn with(pointer: &str, value: Value) -> Value {
    let mut all = good();
    *all.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is not there")) = value;
    all
}

const TEXTS: [&str; 9] = [
    "/schema",
    "/source",
    "/model",
    "/firmware",
    "/size_class",
    "/kernel",
    "/filesystem",
    "/date",
    "/best/setting",
];
const FIGURES: [&str; 4] =
    ["/drain_bytes_per_s", "/sync_us", "/best/victim_kept", "/best/flood_kept"];

#[test]
fn a_good_submission_is_read_as_it_was_written() {
    let said = read(&good()).unwrap();
    assert_eq!(serde_json::to_value(&said).unwrap(), good());
    assert_eq!(Submission::read(said.to_text().as_bytes(), TODAY), Ok(said));
}

#[test]
fn each_refusal_names_the_field() {
    for (pointer, value, part) in [
        ("/schema", json!("floodwall/device-result/9"), "schema"),
        ("/source", json!("jane's laptop"), "source"),
        ("/model", json!("*"), "model"),
        ("/model", json!("ST1000DM003:fwrev:*"), "model"),
        ("/model", json!("a"), "it names no device"),
        ("/firmware", json!("*"), "firmware"),
        ("/firmware", Value::Null, "a measured disk has one"),
        ("/size_class", json!("*"), "size_class"),
        ("/kernel", json!("6.18.5-jane"), "kernel"),
        ("/ram_gib", json!(0), "ram_gib"),
        ("/ram_gib", json!(-1), "invalid value"),
        ("/date", json!("2026-11-31"), "date"),
        ("/date", json!("2027-01-01"), "no day on which"),
        ("/date", json!("1970-01-01"), "no day on which"),
        ("/modelled_by", json!("sata-ssd"), "firmware"),
        ("/drain_bytes_per_s/value", json!(121.0), "out of range"),
        ("/drain_bytes_per_s/value", json!(-1e8), "out of range"),
        ("/drain_bytes_per_s/low", json!(2e8), "its interval does not hold it"),
        ("/drain_bytes_per_s/low", Value::Null, "one round has no interval"),
        ("/drain_bytes_per_s/rounds", json!(1), "one round has no interval"),
        ("/drain_bytes_per_s/value", json!("121 MB/s"), "invalid type"),
        ("/best/victim", json!("root"), "victim"),
        ("/best/setting", json!("scheduler=bfq\nX=1"), "setting"),
    ] {
        let said = read(&with(pointer, value)).unwrap_err().to_string();
        assert!(said.contains(part), "{pointer}: {said}");
        assert!(!said.contains(char::is_control), "{said:?}");
    }
}

#[test]
fn what_is_not_a_submission_is_refused() {
    let text = submission(1, 121.0).to_text();
    let double = text.replacen("\"model\"", "\"model\": \"ST2\", \"model\"", 1);
    let more = text.replacen("\"model\"", "\"comment\": \"by jane\", \"model\"", 1);
    let unit = text.replacen("drain_bytes_per_s", "drain_mb_per_s", 1);
    let infinite = text.replacen("121000000.0", "1e999", 1);
    let nan = text.replacen("121000000.0", "NaN", 1);
    for (text, part) in [
        (double, "duplicate field `model`"),
        (more, "unknown field `comment`"),
        (unit, "unknown field `drain_mb_per_s`"),
        (infinite, "out of range"),
        (nan, "expected"),
        (" ".repeat(20_000) + &text, "more than"),
        ("[".repeat(10_000), "not a submission"),
        (String::new(), "not a submission"),
    ] {
        let said = Submission::read(text.as_bytes(), TODAY).unwrap_err().to_string();
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(Submission::read(&[b'"', 0xff, b'"'], TODAY), Err(Refused::Size));
}

/// A character that a match, a file or a terminal obeys.
fn hostile() -> impl Strategy<Value = char> {
    prop_oneof![
        proptest::sample::select(r#"*?[]{}\:=#"'`$%&;|<>"#.chars().collect::<Vec<_>>()),
        proptest::char::range('\0', '\u{1f}'),
        proptest::char::range('\u{7f}', '\u{9f}'),
        proptest::char::range('\u{2028}', '\u{202e}'),
        proptest::char::range('\u{100}', '\u{10ffff}'),
    ]
}

proptest! {
    #[test]
    fn a_hostile_character_is_refused_anywhere(c in hostile(), at in 0usize..40, i in 0..9usize) {
        let field = TEXTS[i];
        let own = good().pointer(field).unwrap().as_str().unwrap().to_owned();
        let mut text: Vec<char> = own.chars().collect();
        text.insert(at.min(text.len()), c);
        prop_assert!(read(&with(field, json!(text.into_iter().collect::<String>()))).is_err());
    }

    #[test]
    fn any_text_is_refused_or_makes_one_key_that_is_read_again(
        i in 2..4usize,
        text in prop_oneof![any::<String>(), "[ -~]{0,70}", "[a-zA-Z0-9 ._/-]{1,40}"],
    ) {
        let Ok(said) = read(&with(TEXTS[i], json!(text))) else { return Ok(()) };
        let source = Some("2".repeat(16));
        let other = Submission { source, ram_gib: said.ram_gib + 1, ..said.clone() };
        let merged = merge(&[evidence(said.clone()), evidence(other)]).database;
        let file = merged.to_text();
        let keys: Vec<&str> = file.lines().filter(|l| l.starts_with("floodwall:")).collect();
        prop_assert_eq!(keys.len(), 1);
        prop_assert!(!keys[0].contains(['*', '?', '[', ']', '\\']));
        let properties = file.lines().filter(|l| !l.starts_with(['#', 'f']) && !l.is_empty());
        for line in properties {
            prop_assert!(line.starts_with(" FLOODWALL_"), "{}", line);
        }
        prop_assert_eq!(Database::read(&file), (merged.clone(), vec![]));
        let firmware = said.firmware.unwrap();
        prop_assert!(merged.find(&said.model, &firmware, 1_000_000_000_000).is_some());
    }

    #[test]
    fn a_figure_that_is_read_is_in_order(
        i in 0..4usize,
        (value, low, high) in (any::<f64>(), any::<f64>(), any::<f64>()),
        rounds in any::<u32>(),
    ) {
        let figure = json!({"value": value, "low": low, "high": high, "rounds": rounds});
        let Ok(said) = read(&with(FIGURES[i], figure)) else { return Ok(()) };
        let best = said.best.unwrap();
        let all = [said.drain_bytes_per_s.unwrap(), said.sync_us.unwrap(), best.victim_kept,
            best.flood_kept];
        for figure in all {
            prop_assert!(figure.value.is_finite() && figure.value >= 0.0 && figure.value <= 1e11);
            prop_assert!(figure.low <= Some(figure.value) && Some(figure.value) <= figure.high);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Submission::read(&bytes, TODAY);
        let (database, _) = Database::read(&String::from_utf8_lossy(&bytes));
        prop_assert!(database.entries().len() <= bytes.len());
    }

    #[test]
    fn a_changed_file_gives_no_value_out_of_range(
        line in 0usize..20, text in "[ A-Z_=a-z0-9*:.,-]{0,40}",
    ) {
        let said = [1, 2].map(|n| {
            let best = Some(best("nr_requests=8,scheduler=bfq"));
            evidence(Submission { best, ..submission(n, 121.0) })
        });
        let file = merge(&said).database.to_text();
        let mut lines: Vec<&str> = file.lines().collect();
        let at = line % lines.len();
        lines[at] = &text;
        let (read, _) = Database::read(&lines.join("\n"));
        for entry in read.entries() {
            prop_assert!(entry.drain_bytes_per_s.is_none_or(|rate| (1e5..=1e11).contains(&rate)));
            for setting in entry.settings.values() {
                prop_assert!(crate::parse_setting(&setting.to_string()).is_ok());
            }
        }
    }
}
