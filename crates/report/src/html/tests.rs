use super::*;
use crate::Study;
use crate::chart::palette;
use crate::schema::Document;
use crate::synthetic::{Made, contest};

fn html(document: &Document) -> String {
    let study = Study::of(document, "result.json");
    let figures = figures(&study, None).unwrap();
    page(&[(study, figures)])
}

/// Ids of the charts of a result.
fn charts(document: &Document) -> Vec<String> {
    let study = Study::of(document, "result.json");
    figures(&study, None).unwrap().charts.into_iter().map(|c| c.id).collect()
}

#[test]
fn a_single_setting_has_a_course_and_a_distribution() {
    let document = Made::damage().document();
    assert_eq!(charts(&document), ["time-0", "latency"]);
    let html = html(&document);
    for part in [
        "commits fell from 1,516/s to 40.8/s (2.7 %)",
        "<h2 id=\"machine-h\">",
        "Linux 6.18.5",
        "ATA ST1000DM003",
        "vm.dirty_ratio",
        "floodwall bench --scenario scenario.toml",
        "[[victim]]",
    ] {
        assert!(html.contains(part), "{part}");
    }
}

#[test]
fn several_settings_have_a_frontier_and_knobs_too() {
    let document = contest(true);
    assert_eq!(charts(&document), ["frontier", "time-0", "time-1", "latency", "knobs"]);
    let html = html(&document);
    assert!(
        html.contains("(recommended)") && html.contains("floodwall apply --device sda"),
        "{}",
        html.len()
    );
    assert!(html.contains("the kernel refused"), "what failed is said");
}

#[test]
fn a_page_puts_a_recommendation_in_force_in_one_way() {
    let page = |kernel: &str, knob: &str, value: &str| {
        let mut document = contest(true);
        document.run.host.kernel = Some(kernel.into());
        let recommended = document.contest.as_mut().unwrap().recommended.as_mut().unwrap();
        recommended.setting = [(knob.to_owned(), value.to_owned())].into_iter().collect();
        document.judge();
        html(&document)
    };
    // A simulated device has the name of its model.
    let simulated = page("6.18 (simulated)", "nr_requests", "8");
    assert!(simulated.contains("floodwall apply --device DISK \\\n  nr_requests=8"), "{simulated}");
    let paced = page("6.18.5", "flood:io.max", "wbps=180000000");
    let command = "floodwall apply --device sda unit:FLOOD.service:io.max=wbps=180000000B";
    assert_eq!(paced.matches("floodwall apply").count(), 1, "{paced}");
    assert!(paced.contains(command) && paced.contains("floodwall persist --device sda"), "{paced}");
}

#[test]
fn a_comparison_of_many_says_how_many_differ() {
    let mut document = contest(false);
    let few = Study::of(&document, "r.json").sentence();
    assert!(few.starts_with("2010-15MB against default: better: commits 7.39×"), "{few}");
    let contest = document.contest.as_mut().unwrap();
    let cured = contest.contenders[1].clone();
    contest.contenders.push(cured);
    assert_eq!(
        Study::of(&document, "r.json").sentence(),
        "3 settings beside default: 2 better in something and worse in nothing, 1 failed."
    );
}

#[test]
fn nothing_is_loaded_and_names_are_text() {
    let mut document = contest(true);
    document.run.warnings.push("<script>alert(1)</script>".into());
    document.contest.as_mut().unwrap().contenders[1].name =
        "</script><img onerror=alert(1)>".into();
    let html = html(&document);
    assert!(!html.contains("<script>alert") && !html.contains("<img"), "names are text everywhere");
    for loads in ["http:", "https:", "src=", "@import", "url("] {
        assert!(!html.contains(loads), "{loads}");
    }
}

#[test]
fn figures_that_are_not_there_leave_their_charts_out() {
    let mut document = contest(true);
    for contender in &mut document.contest.as_mut().unwrap().contenders {
        contender.summary = None;
        contender.versus.clear();
    }
    assert_eq!(charts(&document), ["time-0", "time-1", "latency"]);
    document.trials.clear();
    for contender in &mut document.contest.as_mut().unwrap().contenders {
        contender.trials.clear();
    }
    assert_eq!(charts(&document), Vec::<String>::new());
    let html = html(&document);
    for part in ["2010-15MB (recommended)", "Every trial (0)", "the kernel refused", "</html>"] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("<figure"), "a chart of nothing");
}

#[test]
fn numbers_that_are_none_are_drawn_nowhere() {
    let mut document = contest(true);
    let summary = document.contest.as_mut().unwrap().contenders[1].summary.as_mut().unwrap();
    summary.victim_kept.as_mut().unwrap().value = f64::NAN;
    document.trials[0].phases[0].intervals[3].seconds = f64::NAN;
    let html = html(&document);
    assert!(!html.contains("NaN") && !html.contains("inf "), "{}", html.find("NaN").unwrap_or(0));
}

#[test]
fn every_colour_of_the_charts_has_one_for_a_dark_ground() {
    let css = include_str!("style.css");
    for color in palette::ALL.map(palette::rgb).map(crate::chart::css) {
        let name = color.trim_start_matches('#');
        for rule in [
            format!("--c{name}: light-dark({color},"),
            format!("[fill=\"{color}\"]"),
            format!("[stroke=\"{color}\"]"),
        ] {
            assert!(css.contains(&rule), "style.css lacks {rule}");
        }
    }
}

#[test]
fn ids_are_unique_also_with_several_results() {
    let documents = [Made::damage().document(), contest(true), contest(false)];
    let results: Vec<_> = documents
        .iter()
        .map(|d| {
            let study = Study::of(d, "r.json");
            let figures = figures(&study, None).unwrap();
            (study, figures)
        })
        .collect();
    let html = page(&results);
    let mut ids: Vec<&str> =
        html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
    for link in html.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(ids.contains(&link), "#{link} leads nowhere");
    }
}
