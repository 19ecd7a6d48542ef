//! A damaged result: its readable and its lost parts.
//!
//! ```text
//! text ─ NaN, Infinity ─▶ null ─ cut end ─▶ closed ─▶ JSON ─ part by part ─▶ Document + one line for each part that is lost
//! ```
//!
//! Programs that know no null write NaN, disks fill up while a result is written, people edit. A
//! part that can't be read costs that part only: an interval, a histogram, a figure. Figures that
//! were lost are computed again from the raw data where that is whole. A trial is never taken out:
//! the indices of the others would change.

use floodwall_model::Setting;
use floodwall_model::trial::HostSample;
use floodwall_stats::figures::{Reference, Summary, summarise};
use floodwall_stats::quantiles::decode;
use floodwall_stats::versus::Compared;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::contest::{Contender, Recommended};
use super::wire::{self, IntervalDoc, LoadDoc, PhaseDoc, ResultDoc, TrialsRead};
use super::{Document, ResultDevice, ResultFilesystem, ResultHost, Run, SCHEMA, SchemaError};

/// A result that was read although it is damaged.
#[derive(Clone, Debug, PartialEq)]
pub struct Repaired {
    /// The readable part, and all that follows from it.
    pub document: Document,
    /// One line for each damaged part and its treatment. Empty if nothing is damaged.
    pub repairs: Vec<String>,
}

impl Document {
    /// Reads a result as [`Document::read`] does, and one that is damaged as far as it can be read.
    ///
    /// # Errors
    /// [`SchemaError`] for a document that is not of schema [`SCHEMA`], or not JSON from its
    /// beginning.
    pub fn read_damaged(text: &str) -> Result<Repaired, SchemaError> {
        match Self::read(text) {
            Ok(document) => Ok(Repaired { document, repairs: Vec::new() }),
            Err(error @ (SchemaError::NotAResult | SchemaError::OtherSchema { .. })) => Err(error),
            Err(_) => salvage(text),
        }
    }
}

fn salvage(text: &str) -> Result<Repaired, SchemaError> {
    let mut repairs = Vec::new();
    let (text, numbers) = without_nan(text);
    if numbers > 0 {
        repairs.push(format!("{numbers} numbers are NaN or infinite: taken as not known"));
    }
    let mut root: Value = match serde_json::from_str(&text) {
        Err(error) if error.is_eof() => {
            repairs.push("the file ends too early: what is behind its end is lost".into());
            serde_json::from_str(&closed(&text)).map_err(SchemaError::Json)?
        }
        parsed => parsed.map_err(SchemaError::Json)?,
    };
    match root.get("schema") {
        None => return Err(SchemaError::NotAResult),
        Some(Value::String(schema)) if schema == SCHEMA => {}
        Some(other) => return Err(SchemaError::OtherSchema { found: other.to_string() }),
    }
    let Some(object) = root.as_object_mut() else { return Err(SchemaError::NotAResult) };
    let mut fix = Fix { repairs };
    let lost_summary = fix.document(object);
    let doc: ResultDoc<TrialsRead> = serde_json::from_value(root).map_err(SchemaError::Json)?;
    let mut document = wire::document(doc)?;
    if lost_summary {
        document.summary = document.recomputed_summary();
    }
    summarise_again(&mut document);
    Ok(Repaired { document, repairs: fix.repairs })
}

/// With `null` in place of NaN and infinities, and how many there were. Text in quotes stays.
fn without_nan(text: &str) -> (String, usize) {
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut quoted, mut found) = (text, false, 0);
    while let Some(c) = rest.chars().next() {
        // The longer ones first, because "inf" begins "infinity".
        let word = ["Infinity", "infinity", "inf", "NaN", "nan"]
            .into_iter()
            .find(|w| !quoted && rest.strip_prefix('-').unwrap_or(rest).starts_with(w))
            .map(|w| w.len() + usize::from(rest.starts_with('-')));
        let (taken, written) = match (word, c) {
            (Some(length), _) => {
                found += 1;
                (length, "null")
            }
            (None, '\\') if quoted => {
                let two = rest.char_indices().nth(2).map_or(rest.len(), |(i, _)| i);
                (two, &rest[..two])
            }
            (None, c) => {
                quoted ^= c == '"';
                (c.len_utf8(), &rest[..c.len_utf8()])
            }
        };
        out.push_str(written);
        rest = &rest[taken..];
    }
    (out, found)
}

/// A text that was cut, up to its last whole element and with its brackets closed.
fn closed(text: &str) -> String {
    let (mut open, mut quoted, mut escaped) = (Vec::new(), false, false);
    // The end of the whole part, and the brackets open there.
    let mut whole: (usize, Vec<char>) = (0, Vec::new());
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '{' | '[' => {
                open.push(if c == '{' { '}' } else { ']' });
                // An empty list is whole.
                whole = (i + 1, open.clone());
            }
            '}' | ']' => {
                open.pop();
                whole = (i + 1, open.clone());
            }
            ',' => whole = (i, open.clone()),
            _ => {}
        }
    }
    let mut out = text[..whole.0].to_owned();
    out.extend(whole.1.iter().rev());
    out
}

/// Whether a value has a type.
fn is<T: DeserializeOwned>(value: &Value) -> bool {
    serde_json::from_value::<T>(value.clone()).is_ok()
}

/// Removes unreadable fields, and notes them.
struct Fix {
    repairs: Vec<String>,
}

impl Fix {
    fn note(&mut self, text: impl Into<String>) {
        self.repairs.push(text.into());
    }

    /// Removes each field of an object that does not parse as the type's when put alone beside
    /// `base`.
    fn fields<T: DeserializeOwned>(&mut self, object: &mut Map<String, Value>, base: &Value, place: &str) {
        object.retain(|key, value| {
            let mut alone = base.clone();
            if let Some(fields) = alone.as_object_mut() {
                fields.insert(key.clone(), value.clone());
            }
            let fits = is::<T>(&alone);
            if !fits {
                self.repairs.push(format!("{place}{key} can't be read: left out"));
            }
            fits
        });
    }

    /// The whole document; whether its summary is lost.
    fn document(&mut self, root: &mut Map<String, Value>) -> bool {
        for key in ["host", "device", "filesystem"] {
            if let Some(Value::Object(inner)) = root.get_mut(key) {
                let place = format!("{key}.");
                match key {
                    "host" => self.fields::<ResultHost>(inner, &json!({}), &place),
                    "device" => self.fields::<ResultDevice>(inner, &json!({}), &place),
                    _ => self.fields::<ResultFilesystem>(inner, &json!({}), &place),
                }
            }
        }
        self.fields::<Run>(root, &json!({}), "");
        root.entry("scenario").or_insert(Value::Null);
        for key in ["trials", "baseline"] {
            match (key, root.get_mut(key)) {
                ("trials", Some(Value::Array(trials))) => self.trials(trials, "trials"),
                ("trials", _) => {
                    self.note("trials can't be read: there are none");
                    root.insert("trials".into(), json!([]));
                }
                (_, Some(Value::Object(baseline))) => {
                    if let Some(Value::Array(trials)) = baseline.get_mut("trials") {
                        self.trials(trials, "baseline.trials");
                    }
                }
                _ => {}
            }
        }
        let trials = root.get("trials").and_then(Value::as_array).map_or(0, Vec::len);
        self.contest(root, trials);
        let lost = !root.get("summary").is_some_and(is::<Summary>);
        if lost {
            self.note("summary can't be read: computed again from the trials");
            root.insert("summary".into(), json!(summarise(&[], Reference::InForce)));
        }
        lost
    }

    fn contest(&mut self, root: &mut Map<String, Value>, trials: usize) {
        let Some(Value::Array(contenders)) = root.get_mut("contenders") else {
            for key in ["contenders", "frontier", "recommended"] {
                if root.get(key).is_some_and(|v| !v.is_null()) {
                    self.note(format!("{key} can't be read: left out"));
                    root.remove(key);
                }
            }
            return;
        };
        for (i, contender) in contenders.iter_mut().enumerate() {
            let place = format!("contenders[{i}].");
            if !contender.is_object() {
                self.note(format!("contenders[{i}] can't be read: it has a name only"));
                *contender = json!({});
            }
            let Some(object) = contender.as_object_mut() else { continue };
            if let Some(Value::Array(versus)) = object.get_mut("versus") {
                let all = versus.len();
                versus.retain(is::<Compared>);
                if versus.len() < all {
                    self.note(format!(
                        "{place}versus: {} of {all} comparisons can't be read: left out",
                        all - versus.len()
                    ));
                }
            }
            self.fields::<Contender>(object, &json!({"name": "", "setting": {}, "trials": []}), &place);
            object.entry("name").or_insert_with(|| json!(format!("setting {}", i + 1)));
            object.entry("setting").or_insert_with(|| json!({}));
            object.entry("trials").or_insert_with(|| json!([]));
            for key in ["trials", "final_trials", "disturbed"] {
                self.indices(object.get_mut(key), trials, &format!("{place}{key}"));
            }
        }
        let contenders = contenders.len();
        if !root.get("frontier").is_none_or(is::<Option<Vec<usize>>>) {
            self.note("frontier can't be read: left out");
            root.remove("frontier");
        }
        self.indices(root.get_mut("frontier"), contenders, "frontier");
        if let Some(Value::Object(recommended)) = root.get_mut("recommended") {
            let base = json!({"outcome": "not_measured", "setting": {}, "why": ""});
            self.fields::<Recommended>(recommended, &base, "recommended.");
            let outside = |v: &Value| v.as_u64().is_some_and(|v| v >= contenders as u64);
            if recommended.get("contender").is_some_and(outside) {
                recommended.remove("contender");
            }
            for (key, value) in base.as_object().into_iter().flatten() {
                recommended.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
    }

    /// Removes indices that point outside the list.
    fn indices(&mut self, list: Option<&mut Value>, there: usize, place: &str) {
        let Some(Value::Array(list)) = list else { return };
        let all = list.len();
        list.retain(|v| v.as_u64().is_some_and(|v| v < there as u64));
        if list.len() < all {
            self.note(format!("{place} names {} that are not there: left out", all - list.len()));
        }
    }

    fn trials(&mut self, trials: &mut [Value], place: &str) {
        for (i, trial) in trials.iter_mut().enumerate() {
            let place = format!("{place}[{i}]");
            let whole = trial.is_object();
            if !whole {
                *trial = json!({});
            }
            let Some(object) = trial.as_object_mut() else { continue };
            let phases = match object.remove("phases") {
                Some(Value::Array(phases)) => phases,
                _ => {
                    self.note(format!("{place} can't be read: it counts as a trial without phases"));
                    Vec::new()
                }
            };
            let phases = phases
                .into_iter()
                .enumerate()
                .filter_map(|(p, v)| self.phase(v, &format!("{place}.phases[{p}]")));
            let phases: Vec<Value> = phases.collect();
            object.insert("phases".into(), Value::Array(phases));
            if !object.get("setting").is_some_and(is::<Setting>) {
                object.insert("setting".into(), json!({}));
                self.note(format!("{place}.setting can't be read: not known"));
            }
            if !object.get("round").is_some_and(is::<u32>) {
                object.insert("round".into(), json!(0));
                self.note(format!("{place}.round can't be read: 0"));
            }
        }
    }

    /// A phase without its unreadable parts; `None` if not even its kind is readable.
    fn phase(&mut self, mut phase: Value, place: &str) -> Option<Value> {
        type Doc = PhaseDoc<Vec<IntervalDoc>>;
        if !is::<Doc>(&phase) {
            let Some(object) = phase.as_object_mut() else {
                self.note(format!("{place} can't be read: left out"));
                return None;
            };
            self.intervals(object, place);
            for key in ["victims", "floods"] {
                if let Some(Value::Array(loads)) = object.get_mut(key) {
                    let all = loads.len();
                    loads.retain(is::<LoadDoc>);
                    if loads.len() < all {
                        self.note(format!(
                            "{place}.{key}: {} of {all} can't be read: left out",
                            all - loads.len()
                        ));
                    }
                }
            }
            self.fields::<Doc>(
                object,
                &json!({"name": "both", "seconds": 1.0, "intervals": []}),
                &format!("{place}."),
            );
            if !object.contains_key("name") {
                self.note(format!("{place} does not say what ran: left out"));
                return None;
            }
            object.entry("intervals").or_insert_with(|| json!([]));
            if !object.contains_key("seconds") {
                let intervals = object.get("intervals").and_then(Value::as_array).into_iter().flatten();
                let seconds: f64 = intervals.filter_map(|i| i.get("seconds")?.as_f64()).sum();
                object.insert("seconds".into(), json!(seconds));
                self.note(format!("{place}.seconds: taken from its intervals"));
            }
        }
        let lost = histograms(&mut phase);
        if lost > 0 {
            self.note(format!("{place}: {lost} histograms can't be read: those latencies are lost"));
        }
        Some(phase)
    }

    fn intervals(&mut self, phase: &mut Map<String, Value>, place: &str) {
        let Some(Value::Array(intervals)) = phase.get_mut("intervals") else { return };
        let all = intervals.len();
        let mut blind = 0;
        for interval in intervals.iter_mut() {
            let host = interval.get("host").is_some_and(|h| !is::<HostSample>(h));
            if let (true, Some(object)) = (host, interval.as_object_mut()) {
                object.remove("host");
                blind += 1;
            }
        }
        intervals.retain(is::<IntervalDoc>);
        if blind > 0 {
            self.note(format!(
                "{place}: the host's counters of {blind} of {all} intervals can't be read: not known"
            ));
        }
        if intervals.len() < all {
            self.note(format!(
                "{place}: {} of {all} intervals can't be read: left out",
                all - intervals.len()
            ));
        }
    }
}

/// Takes out histograms that can't be decoded, wherever they are; how many.
fn histograms(value: &mut Value) -> usize {
    match value {
        Value::Object(object) => {
            let broken = |(key, value): (&String, &Value)| {
                let kind = key.strip_suffix("_hdr")?;
                let text = value.as_str()?;
                decode(text, 0, 0).is_err().then(|| kind.to_owned())
            };
            let kinds: Vec<String> = object.iter().filter_map(broken).collect();
            for kind in &kinds {
                for ending in ["hdr", "sum_ns", "max_ns"] {
                    object.remove(&format!("{kind}_{ending}"));
                }
            }
            kinds.len() + object.values_mut().map(histograms).sum::<usize>()
        }
        Value::Array(list) => list.iter_mut().map(histograms).sum(),
        _ => 0,
    }
}

/// Figures of contenders that have none but have trials.
fn summarise_again(document: &mut Document) {
    let Some(contest) = &mut document.contest else { return };
    for i in 0..contest.contenders.len() {
        if contest.contenders[i].summary.is_none() {
            contest.contenders[i].summary = contest.summary_of(i, &document.trials);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{Made, contest};

    fn repaired(json: &str) -> Repaired {
        Document::read_damaged(json).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn a_whole_result_is_read_as_it_is() {
        let document = contest(true);
        let read = repaired(&document.to_json().unwrap());
        assert_eq!((read.document, read.repairs), (document, Vec::new()));
    }

    #[test]
    fn numbers_that_json_does_not_know_cost_what_they_stand_for() {
        let document = Made::damage().document();
        let json = document.to_json().unwrap().replacen("\"start_s\": 100.0,", "\"start_s\": NaN,", 1);
        let read = repaired(&json);
        assert_eq!(
            read.repairs,
            [
                "1 numbers are NaN or infinite: taken as not known",
                "trials[0].phases[0].start_s can't be read: left out"
            ]
        );
        let mut expected = document;
        expected.trials[0].phases[0].start_s = 0.0;
        assert_eq!(read.document, expected, "everything else is as it was");
    }

    #[test]
    fn a_text_that_says_nan_stays() {
        assert_eq!(
            without_nan(r#"{"a": "NaN \" NaN", "b": [NaN, -Infinity]}"#),
            (r#"{"a": "NaN \" NaN", "b": [null, null]}"#.to_owned(), 2)
        );
    }

    #[test]
    fn every_spelling_of_a_number_that_is_none_is_taken() {
        let all = "[nan, -nan, NaN, -NaN, inf, -inf, infinity, -infinity, Infinity, -Infinity, -1]";
        let nulls = format!("[{}-1]", "null, ".repeat(10));
        assert_eq!(without_nan(all), (nulls, 10));
    }

    #[test]
    fn lost_figures_are_computed_again() {
        for key in ["value", "low", "victim_kept"] {
            let document = Made::damage().document();
            let mut json: Value = serde_json::from_str(&document.to_json().unwrap()).unwrap();
            if key == "victim_kept" {
                json["summary"] = json!({});
            } else {
                json["summary"]["victim_kept"][key] = Value::Null;
            }
            let read = repaired(&json.to_string());
            assert_eq!(read.document, document);
            assert_eq!(read.repairs, ["summary can't be read: computed again from the trials"]);
        }
    }

    #[test]
    fn a_settings_lost_figures_are_computed_again() {
        let document = contest(true);
        let mut json: Value = serde_json::from_str(&document.to_json().unwrap()).unwrap();
        json["contenders"][1]["summary"]["of_seconds"] = Value::Null;
        json["contenders"][1]["versus"][0]["verdict"] = Value::Null;
        let read = repaired(&json.to_string());
        let mut expected = document;
        expected.contest.as_mut().unwrap().contenders[1].versus.remove(0);
        assert_eq!(read.document, expected);
        assert_eq!(read.repairs.len(), 2, "{:?}", read.repairs);
    }

    #[test]
    fn an_interval_a_histogram_and_a_counter_cost_only_themselves() {
        let document = Made::damage().document();
        let mut json: Value = serde_json::from_str(&document.to_json().unwrap()).unwrap();
        let phase = &mut json["trials"][1]["phases"][0];
        phase["intervals"][2]["seconds"] = Value::Null;
        phase["intervals"][3]["host"]["dirty_bytes"] = json!("many");
        phase["intervals"][4]["victim"]["commit_hdr"] = json!("HISTFAAA!");
        let read = repaired(&json.to_string());
        let mut expected = document.clone();
        let phase = &mut expected.trials[1].phases[0];
        phase.intervals[4].latencies.commit = Default::default();
        phase.intervals[3].host = HostSample::default();
        phase.intervals.remove(2);
        assert_eq!(read.document.trials, expected.trials);
        assert_eq!(read.document.summary, document.summary, "the stored figures are of the whole data");
        assert_eq!(read.repairs.len(), 3, "{:?}", read.repairs);
    }

    #[test]
    fn a_cut_file_is_read_up_to_its_end() {
        let document = contest(true);
        let json = document.to_json().unwrap();
        let (mut most, step) = (0, json.len() / 10);
        for cut in (step..json.len()).step_by(step).chain([json.len() - 2]) {
            let Ok(read) = Document::read_damaged(&json[..cut]) else {
                assert!(cut < 400, "cut at {cut} of {}", json.len());
                continue;
            };
            assert!(read.repairs[0].contains("ends too early"), "{:?}", read.repairs);
            assert!(read.document.trials.len() >= most);
            most = read.document.trials.len();
            let trials = read.document.trials.iter().zip(&document.trials);
            assert!(
                trials.take(most.saturating_sub(1)).all(|(a, b)| a == b),
                "whole trials are as they were"
            );
        }
        assert_eq!(most, document.trials.len());
    }

    #[test]
    fn what_is_no_result_stays_refused() {
        for text in
            ["", "[]", "{}", "NaN", "{\"schema\": \"other/1\"}", "{\"schema\": \"floodwall/result/1\""]
        {
            let Err(error) = Document::read_damaged(text) else { panic!("'{text}' is taken for a result") };
            assert!(error.to_string().starts_with("can't read the result: "), "{text}: {error}");
        }
    }
}
