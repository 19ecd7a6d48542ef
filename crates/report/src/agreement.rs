//! Sentence, text, table, cards, chart, Markdown and JSON of one result say the same. Each is read
//! as text and held against the trials' JSON.

use std::collections::BTreeMap;

use floodwall_model::Setting;
use floodwall_model::trial::PhaseKind;
use serde_json::Value;

use crate::html::{figures, page};
use crate::numbers::{count, duration_us, percent};
use crate::schema::Document;
use crate::schema::contest::{Contender, Contest, Outcome, Recommended};
use crate::study::json;
use crate::synthetic::{Made, run};
use crate::text::WIDTH;
use crate::{Study, contest, markdown};

const MS: u64 = 1_000_000;

/// Everything that is shown of a result.
struct Shown {
    stored: Value,
    report: Value,
    html: String,
    text: String,
    markdown: String,
    /// Lines under the pointer in the frontier, by setting.
    hover: BTreeMap<String, String>,
    sentence: String,
}

fn shown(document: &Document) -> Shown {
    let study = Study::of(document, "result.json");
    let sentence = study.sentence();
    let charts = figures(&study, None).unwrap();
    let report = json::document(&[&study]);
    let markdown = markdown::report(&study);
    let html = page(&[(study, charts)]);
    let data = |chunk: &str| serde_json::from_str::<Value>(chunk.split("</script>").next()?).ok();
    let points = html.split("<script type=\"application/json\">").filter_map(data);
    let mut hover = BTreeMap::new();
    for point in points.filter_map(|d| d.get("points").and_then(Value::as_array).cloned()).flatten()
    {
        let lines = point["lines"].as_array().cloned().unwrap_or_default();
        let name = point["name"].as_str().unwrap_or_default().to_owned();
        let said: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
        hover.entry(name).or_insert_with(|| said.join("\n"));
    }
    Shown {
        stored: serde_json::from_str(&document.to_json().unwrap()).unwrap(),
        report,
        html: unmarked(&html),
        // Wrapping is no difference.
        text: contest::text(document, WIDTH).split_whitespace().collect::<Vec<_>>().join(" "),
        markdown: markdown.replace('\\', ""),
        hover,
        sentence,
    }
}

/// A page without the entities that stand for characters.
fn unmarked(html: &str) -> String {
    html.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&#39;", "'")
        .replace("&quot;", "\"")
        .replace("&amp;", "&")
}

/// The row of a setting in the page's table of settings: its cells, by column.
fn row(html: &str, name: &str) -> BTreeMap<String, String> {
    let table = html.split("<table class=\"sortable\" id=\"settings\">").nth(1).unwrap_or_default();
    let table = table.split("</table>").next().unwrap_or_default();
    let plain = |cell: &str| {
        let mut out = String::new();
        let mut tag = false;
        for c in cell.chars() {
            match c {
                '<' => (tag, out) = (true, out + " "),
                '>' => tag = false,
                c if !tag => out.push(c),
                _ => {}
            }
        }
        out.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let heads: Vec<String> = table
        .split("<th scope=\"col\"")
        .skip(1)
        .map(|h| plain(&format!("<{}", h.split("</th>").next().unwrap_or_default())))
        .collect();
    let rows = table.split("<tr>").skip(2);
    let cells = rows
        .map(|r| {
            let cells = r.split("</th>").flat_map(|part| part.split("</td>"));
            cells.map(plain).filter(|c| c != "</tr>").collect::<Vec<_>>()
        })
        .find(|cells| cells.first().is_some_and(|first| first.starts_with(name)))
        .unwrap_or_else(|| panic!("the table has no row of '{name}'"));
    heads.into_iter().zip(cells).collect()
}

/// The card of a figure: its value, and the text beside it.
fn card(html: &str, what: &str) -> (String, String) {
    let after = |text: &str, from: &str, to: &str| {
        let rest = text.split(from).nth(1).unwrap_or_default();
        rest.split(to).next().unwrap_or_default().to_owned()
    };
    let card =
        html.split("<span class=\"what\">").skip(1).find(|c| c.starts_with(&format!("{what}<")));
    let card = card.unwrap_or_else(|| panic!("no card of '{what}'"));
    (after(card, "<strong>", "</strong>"), after(card, "<span class=\"beside\">", "</span>"))
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64()
}

/// As people read a figure of the JSON, with and without what tables leave to their heading.
fn written(figure: &str, value: f64) -> (String, String) {
    match figure {
        "victim_iops" => (format!("{}/s", count(value)), count(value)),
        "victim_p99_us" | "victim_slowest_us" => (duration_us(value), duration_us(value)),
        "dead_share" => (format!("{} %", percent(value)), format!("{} %", percent(value))),
        _ => {
            let rate = floodwall_model::units::Rate(value).to_string();
            (rate.clone(), rate)
        }
    }
}

/// Holds every place where a figure of a contender is shown against the result's JSON.
fn assert_agreement(document: &Document) {
    let all = shown(document);
    let (stored, report) = (&all.stored["contenders"], &all.report["results"][0]["settings"]);
    let recommended = &all.stored["recommended"];
    let answer = recommended["contender"].as_u64().map(|i| i as usize);
    let two = stored.as_array().is_some_and(|c| c.len() == 2);
    assert!(
        all.text.contains(&all.sentence.split_whitespace().collect::<Vec<_>>().join(" "))
            || recommended.is_null()
    );
    assert!(all.markdown.contains(&all.sentence), "{}", all.markdown);
    assert_eq!(all.report["results"][0]["sentence"], all.sentence.as_str());
    let operations = Study::of(document, "").operations();
    let head = format!("{operations}/s");
    let of_figure = BTreeMap::from([
        ("victim_iops", (head.as_str(), format!("{operations} beside the flood"))),
        ("victim_p99_us", ("p99", "p99".to_owned())),
        ("victim_slowest_us", ("slowest", "slowest".to_owned())),
        ("dead_share", ("seconds stalled", "seconds stalled".to_owned())),
        ("flood_bytes_per_s", ("flood keeps", "flood".to_owned())),
        ("burst_bytes_per_s", ("bursts keep", "bursts".to_owned())),
    ]);
    let reference = row(&all.html, stored[0]["name"].as_str().unwrap());
    for (i, contender) in stored.as_array().unwrap().iter().enumerate() {
        let versus = contender["versus"].as_array().cloned().unwrap_or_default();
        assert_eq!(&Value::Array(versus.clone()), &report[i]["versus"]);
        assert_eq!(contender["passed_over"], report[i]["passed_over"]);
        let name = contender["name"].as_str().unwrap();
        if let Some(why) = contender["passed_over"].as_str() {
            for (place, said) in
                [("page", &all.html), ("Markdown", &all.markdown), ("text", &all.text)]
            {
                assert!(
                    said.contains(why),
                    "{place} does not say why {name} is not recommended: {why}"
                );
            }
            assert!(
                all.hover[name].contains(why),
                "the chart does not say why {name} is not recommended"
            );
        }
        if versus.is_empty() || contender["trials"].as_array().is_none_or(Vec::is_empty) {
            continue;
        }
        let cells = row(&all.html, name);
        let slowest = versus.iter().any(|c| c["figure"] == "victim_slowest_us");
        for c in &versus {
            let (figure, verdict) = (c["figure"].as_str().unwrap(), c["verdict"].as_str().unwrap());
            let (column, card_name) = &of_figure[figure];
            let word = match verdict {
                "same" => "the same",
                "untold" => "could not be told",
                other => other,
            };
            let is_rate = figure.ends_with("bytes_per_s");
            // The table has shares of the rates alone; their quotient is the ratio.
            for (cells, value) in
                [(&cells, number(&c["value"])), (&reference, number(&c["reference"]))]
            {
                let cell = &cells[*column];
                match value {
                    _ if is_rate => {}
                    Some(v) => {
                        let (_, cell_text) = written(figure, v);
                        assert!(
                            cell.starts_with(&cell_text),
                            "{name}, {figure}: {cell_text} in '{cell}'"
                        );
                    }
                    None if figure == "victim_p99_us" => {
                        assert!(cell.starts_with('–'), "{name}: {cell}")
                    }
                    None => {}
                }
            }
            if verdict != "unknown" {
                assert!(
                    cells[*column].ends_with(word),
                    "{name}, {figure}: {word} in {:?}",
                    cells[*column]
                );
                assert!(all.markdown.contains(word), "{name}: {word} in Markdown");
            }
            let shown = !(figure == "victim_p99_us" && slowest);
            if !shown || number(&c["value"]).is_none() {
                continue;
            }
            assert!(
                verdict == "unknown"
                    || all.hover.is_empty()
                    || all.hover[name].contains(&format!("{word}: ")),
                "{name}, {figure}: {word} in the chart: {:?}",
                all.hover.get(name)
            );
            if answer != Some(i) && !(recommended.is_null() && two) {
                continue;
            }
            let value = written(figure, number(&c["value"]).unwrap()).0;
            let before = number(&c["reference"]).map(|v| written(figure, v).0);
            let (strong, beside) = card(&all.html, card_name);
            assert_eq!(strong, value, "{name}, {figure}: the card");
            let before = before.unwrap_or_default();
            assert!(beside.contains(&before), "{name}, {figure}: {before} in {beside}");
            let unsure = ["same", "untold"].contains(&verdict);
            assert_eq!(
                beside.contains(word),
                unsure,
                "{name}, {figure}: {word} in the card: {beside}"
            );
            if recommended["outcome"] != "recommended" {
                continue;
            }
            let said = match figure {
                "victim_p99_us" | "victim_slowest_us" => {
                    format!("{card_name} from {before} to {value}")
                }
                "dead_share" if verdict == "better" => {
                    format!("stalled seconds {value} of the time instead of {before}")
                }
                "flood_bytes_per_s" => {
                    format!(
                        "the flood runs at {} %",
                        percent(c["difference"]["value"].as_f64().unwrap())
                    )
                }
                "burst_bytes_per_s" => {
                    format!(
                        "bursts are accepted at {} %",
                        percent(c["difference"]["value"].as_f64().unwrap())
                    )
                }
                _ => continue,
            };
            let said = if verdict == "same" { format!("{said} ({word})") } else { said };
            let said = if verdict == "untold" { format!("{said} ({word}: ") } else { said };
            assert!(all.sentence.contains(&said), "'{said}' in '{}'", all.sentence);
        }
    }
}

/// A search over invented settings: a default, a recommended one, and one that the race measured
/// beside it.
fn search(default: &Made, best: &Made, other: &Made, finals: std::ops::Range<usize>) -> Document {
    let settings = [("default", None), ("bfq", Some("bfq")), ("kyber", Some("kyber"))];
    let (mut trials, mut contenders) = (Vec::new(), Vec::new());
    for ((name, elevator), made) in settings.into_iter().zip([default, best, other]) {
        let from = trials.len();
        let mut own = made.trials();
        if name != "default" {
            // A search measures the loads alone only under the setting in force.
            own.iter_mut().for_each(|t| {
                t.phases.retain(|p| matches!(p.kind, PhaseKind::Both | PhaseKind::Burst));
            });
        }
        if name == "kyber" {
            // A little more of the flood, by no more than rounds differ.
            let both = own.iter_mut().flat_map(|t| t.phases.iter_mut().map(|p| (t.round, p)));
            for (round, phase) in both.filter(|(_, p)| p.kind == PhaseKind::Both) {
                let more = [6_000_000, 9_000_000, 2_000_000][round as usize % 3];
                phase.intervals.iter_mut().for_each(|i| i.flood_bytes += more);
            }
        }
        trials.extend(own);
        let setting: Setting =
            elevator.map(|e| ("scheduler".to_owned(), e.to_owned())).into_iter().collect();
        let of = |range: std::ops::Range<usize>| range.map(|i| from + i).collect::<Vec<_>>();
        contenders.push(Contender {
            name: name.into(),
            setting,
            trials: of(0..made.rounds as usize),
            final_trials: if name == "kyber" { Vec::new() } else { of(finals.clone()) },
            score: Some(if name == "bfq" { 0.5 } else { 0.3 }),
            ..Contender::default()
        });
    }
    let recommended = Recommended {
        outcome: Outcome::Recommended,
        contender: Some(1),
        setting: contenders[1].setting.clone(),
        why: String::new(),
        summary: None,
        settle_s: None,
        score_ratio: Some(20.0),
        p99_target_us: None,
        keep: None,
    };
    let contest = Contest { contenders, frontier: Vec::new(), recommended: Some(recommended) };
    Document::of_contest(run(), &default.scenario, trials, contest).unwrap()
}

/// A device with two states: in some rounds a handful of operations, in others many.
fn bistable() -> Made {
    Made { beside: |_, s| (u32::from(s % 6 == 0), 3_000 * MS), rounds: 6, ..Made::damage() }
}

fn fast() -> Made {
    Made {
        beside: |round, s| (280 + 5 * round + s as u32 % 3, 24 * MS),
        rounds: 6,
        ..Made::damage()
    }
}

#[test]
fn a_search_on_a_bistable_device_says_the_same_everywhere() {
    let document = search(&bistable(), &fast(), &fast(), 3..6);
    let why = &document.contest.as_ref().unwrap().recommended.as_ref().unwrap().why;
    assert!(why.contains("slowest from 3.20 s to 3.20 s"), "{why}");
    assert!(!why.contains("p99"), "6 operations in 3 rounds have no p99: {why}");
    let versus = &document.contest.as_ref().unwrap().contenders[1].versus;
    let p99 =
        versus.iter().find(|c| c.figure == floodwall_stats::versus::Figure::VictimP99Us).unwrap();
    assert_eq!((p99.reference, p99.difference), (None, None));
    assert_agreement(&document);
}

#[test]
fn a_search_whose_price_can_not_be_told_says_the_same_everywhere() {
    let unsure =
        Made { beside: |round, s| (100 + 150 * (round % 3) + s as u32 % 3, 24 * MS), ..fast() };
    assert_agreement(&search(&Made { rounds: 6, ..Made::damage() }, &unsure, &fast(), 3..6));
    assert_agreement(&search(&Made { rounds: 6, ..Made::damage() }, &fast(), &unsure, 3..6));
    // One deciding round tells nothing, and says so.
    assert_agreement(&search(&Made { rounds: 6, ..Made::damage() }, &fast(), &unsure, 5..6));
}

#[test]
fn a_comparison_says_the_same_everywhere() {
    assert_agreement(&crate::synthetic::contest(false));
    assert_agreement(&crate::synthetic::contest(true));
}

/// The stored search on a simulated array of 2010, by a version whose table, cards and sentence
/// disagreed.
#[test]
fn a_result_that_an_older_version_judged_is_judged_anew_and_says_the_same_everywhere() {
    let mut document = Document::read(include_str!("../tests/data/search-bistable.json")).unwrap();
    document.judge();
    let again = document.clone();
    document.judge();
    assert_eq!(document, again, "judged once more nothing changes");
    assert_agreement(&document);
    let said = Study::of(&document, "").sentence();
    assert!(!said.contains("no real difference"), "{said}");
}

#[test]
fn a_setting_above_and_to_the_right_of_the_recommended_one_has_its_reason() {
    let faster = Made { beside: |_, s| (400 + s as u32 % 3, 12 * MS), rounds: 1, ..Made::damage() };
    let document = search(&Made { rounds: 6, ..Made::damage() }, &fast(), &faster, 3..6);
    let contender = |d: &Document, i: usize| d.contest.as_ref().unwrap().contenders[i].clone();
    let why = contender(&document, 2).passed_over.expect("a reason");
    assert!(why.contains("too few rounds in the race (1) to be told apart"), "{why}");
    assert!(why.contains("score 30 % instead of 50 %"), "{why}");
    assert_eq!(contender(&document, 0).passed_over, None, "the setting in force is below it");
    assert_agreement(&document);
    // With more rounds of the race that it lost by one of them.
    let uneven = Made {
        beside: |round, s| (if round == 1 { 5 } else { 460 } + s as u32 % 3, 12 * MS),
        rounds: 3,
        ..faster
    };
    let document = search(&Made { rounds: 6, ..Made::damage() }, &fast(), &uneven, 3..6);
    let why = contender(&document, 2).passed_over.expect("a reason");
    assert!(why.contains("its worst round had"), "{why}");
    assert!(why.contains("not told apart in the race, over 3 rounds: victim"), "{why}");
    assert_agreement(&document);
}
