//! `floodwall report`: stored results in every form, and files that it refuses.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use floodwall_model::printable::is_unsafe;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;

use crate::{floodwall, stderr, stdout, tmpfs};

/// A directory with the result of a short simulated run in it, what that run printed, and a
/// function that makes paths in it.
fn directory() -> (tempfile::TempDir, String, impl Fn(&str) -> String) {
    let dir = tmpfs();
    let path = dir.path().to_owned();
    let of = move |name: &str| path.join(name).to_string_lossy().into_owned();
    let output = floodwall(&[
        "sim",
        "--device",
        "hdd-7200",
        "--rounds",
        "2",
        "--measure",
        "2s",
        "--victim",
        "commit,size=64MiB",
        "--flood",
        "seq",
        "--out",
        &of("r.json"),
    ]);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", stderr(&output));
    (dir, stdout(&output), of)
}

/// Stdout of a run that must succeed.
fn shown(args: &[&str]) -> String {
    let output = floodwall(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
    stdout(&output)
}

/// The message of a run that must end with status 2.
fn refused(args: &[&str]) -> String {
    let output = floodwall(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
    stderr(&output)
}

/// Words of a text, without the marks of a quotation.
fn words(text: &str) -> String {
    text.split_whitespace().filter(|word| *word != ">").collect::<Vec<_>>().join(" ")
}

#[test]
fn what_the_readme_shows_is_what_its_stored_results_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = words(&fs::read_to_string(root.join("README.md")).unwrap());
    for result in ["tune.json", "sim-quick.json"] {
        let path = root.join("docs/data").join(result);
        let report = shown(&["report", path.to_str().unwrap()]);
        let sentence = words(report.trim_end().rsplit("\n\n").next().unwrap());
        assert!(readme.contains(&sentence), "{result}: the README does not have '{sentence}'");
    }
}

#[test]
fn a_stored_result_is_shown_in_every_form() {
    let (_dir, printed, of) = directory();
    let result = of("r.json");
    assert_eq!(shown(&["report", &result]), printed, "what the run printed");
    let markdown = shown(&["report", &result, "--markdown"]);
    assert!(markdown.starts_with("**") && markdown.contains("| `victim_kept` |"), "{markdown}");
    let json: Value = serde_json::from_str(&shown(&["report", &result, "--json"])).unwrap();
    assert_eq!(json["schema"], "floodwall/report/1");
    let history = &json["results"][0]["settings"][0]["history"];
    // Two rounds of three phases of two seconds.
    assert_eq!(history["at_s"].as_array().unwrap().len(), 12);
    assert_eq!(history["phase"].as_array().unwrap().len(), 12);
    let html = of("r.html");
    assert_eq!(shown(&["report", &result, "--out", &html]), "");
    let page = fs::read_to_string(&html).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    assert_eq!(shown(&["report", &result, "--svg", &of("svg")]), "");
    let svg = fs::read_to_string(of("svg/latency.svg")).unwrap();
    assert!(svg.starts_with("<svg xmlns=") && svg.contains("How long commits take"));
    assert_eq!(shown(&["report", &result, "--out", &of("again.html")]), "");
    assert_eq!(
        fs::read_to_string(of("again.html")).unwrap(),
        page,
        "the same result gives the same page"
    );
    assert_eq!(shown(&["report", &result, "--out", &html]), "", "a page of ours may be replaced");
}

#[test]
fn several_results_are_one_page() {
    let (_dir, _, of) = directory();
    fs::copy(of("r.json"), of("other.json")).unwrap();
    shown(&[
        "report",
        &of("r.json"),
        &of("other.json"),
        "--out",
        &of("both.html"),
        "--svg",
        &of("svg"),
    ]);
    let page = fs::read_to_string(of("both.html")).unwrap();
    assert_eq!(page.matches("<article ").count(), 2);
    assert!(page.contains("href=\"#r2-top\"") && page.contains("id=\"r2-top\""));
    for name in ["1-latency", "2-latency", "1-time", "2-time"] {
        assert!(Path::new(&of(&format!("svg/{name}.svg"))).exists(), "{name}");
    }
}

#[test]
fn a_damaged_result_is_refused_with_its_place_and_the_remedy() {
    let (_dir, _, of) = directory();
    let text = fs::read_to_string(of("r.json")).unwrap();
    let damaged = text.replacen("\"seconds\": 1.0,", "\"seconds\": NaN,", 1);
    let line = 1 + damaged.lines().position(|line| line.contains("NaN")).unwrap();
    let nan = format!("can't read the result: expected value at line {line} column");
    let cut = &text[..text.len() * 2 / 3];
    let cut_off =
        format!("can't read the result: it is cut off at line {};", cut.matches('\n').count() + 1);
    let not_text = [text.as_bytes(), b"\xff"].concat();
    for (name, bytes, said, remedy) in [
        ("nan.json", damaged.as_bytes(), nan.as_str(), "take an unchanged copy"),
        ("cut.json", cut.as_bytes(), cut_off.as_str(), "repeat the run with --out FILE"),
        ("bytes.json", not_text.as_slice(), "it is not UTF-8 text", "invalid utf-8 sequence"),
    ] {
        fs::write(of(name), bytes).unwrap();
        let message = refused(&["report", &of(name), "--out", &of("d.html")]);
        for part in [name, said, remedy] {
            assert!(message.contains(part), "{name}: '{part}' is not in {message}");
        }
        assert!(!Path::new(&of("d.html")).exists(), "{name}");
    }
}

#[test]
fn what_is_no_result_is_refused() {
    let (_dir, _, of) = directory();
    let (result, html) = (of("r.json"), of("x.html"));
    assert!(refused(&["report", &of("none.json")]).contains("can't read the result"));
    for (text, said) in [
        ("{}", "not a floodwall result"),
        ("{\"schema\": \"a/2\"}", "its schema is"),
        ("hello", "not a floodwall result"),
        ("root:x:0:0:root:/root:/bin/sh\n", "not a floodwall result"),
        ("PAR1\u{0}\u{0}PAR1", "it is a Parquet file and no result; read it with duckdb -c"),
        ("{\"cell\":0,\"sweep\":\"3f\",\"of_cells\":2}\n{\"cell\":1}", "the rows of a sweep"),
    ] {
        fs::write(of("bad.json"), text).unwrap();
        let message = refused(&["report", &of("bad.json"), "--out", &html]);
        assert!(message.contains(said) && message.contains("bad.json"), "{message}");
    }
    assert!(
        refused(&["report", &result, "--out", &of("no/such.html")])
            .contains("there is no directory")
    );
    assert!(refused(&["report", &result, "--out", &result]).contains("would be overwritten"));
    for (name, text) in
        [("foreign.conf", "vm.dirty_ratio = 5\n"), ("foreign.html", "<!doctype html>\n<html>\n")]
    {
        fs::write(of(name), text).unwrap();
        let message = refused(&["report", &result, "--out", &of(name)]);
        assert!(message.contains("was not written by floodwall report"), "{message}");
        assert_eq!(fs::read_to_string(of(name)).unwrap(), text);
    }
    let message = refused(&["report", &result, "--out", &of("page.pdf")]);
    assert!(message.contains("an HTML page") && message.contains("page.html"), "{message}");
    assert!(!Path::new(&of("page.pdf")).exists());
    refused(&["report", &result, "--json", "--markdown"]);
    refused(&["report", &result, "--font", &of("f.ttf")]);
    fs::write(of("f.ttf"), "no font").unwrap();
    let message = refused(&["report", &result, "--png", &of("png"), "--font", &of("f.ttf")]);
    assert!(message.contains("can't read the font"), "{message}");
    assert!(!Path::new(&html).exists());
}

#[test]
fn a_result_is_read_from_standard_input_and_behind_a_byte_order_mark() {
    let (_dir, printed, of) = directory();
    let piped = |args: &[&str]| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_floodwall"));
        let output =
            child.args(args).stdin(fs::File::open(of("r.json")).unwrap()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
        stdout(&output)
    };
    assert_eq!(piped(&["report", "-"]), printed);
    piped(&["report", "-", "--out", &of("piped.html")]);
    assert!(fs::read_to_string(of("piped.html")).unwrap().starts_with("<!doctype html>"));
    let marked = format!("\u{feff}{}", fs::read_to_string(of("r.json")).unwrap());
    fs::write(of("marked.json"), marked).unwrap();
    assert_eq!(shown(&["report", &of("marked.json")]), printed);
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let result = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/data/tune.json");
    for form in [&["--json"][..], &["--markdown"], &[]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_floodwall"));
        child.arg("report").arg(&result).args(form).stdin(Stdio::null());
        let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Nothing is read: the first write finds the pipe closed.
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{form:?}");
    }
}

/// Characters that a terminal or a browser would obey, and their visible form.
const EVIL: &str = "\u{1b}]0;root\u{7}\u{9b}2J\u{202e}\u{200b}";
const SHOWN: &str = r"\u{1b}]0;root\u{7}\u{9b}2J\u{202e}\u{200b}";

#[test]
fn names_in_a_result_do_nothing_to_a_terminal() {
    let (_dir, _, of) = directory();
    let mut stored: Value =
        serde_json::from_str(&fs::read_to_string(of("r.json")).unwrap()).unwrap();
    stored["scenario"]["description"] = format!("a copy {EVIL} *fast*").into();
    fs::write(of("evil.json"), stored.to_string()).unwrap();
    let text = shown(&["report", &of("evil.json")]);
    let markdown = shown(&["report", &of("evil.json"), "--markdown"]);
    let json = shown(&["report", &of("evil.json"), "--json"]);
    shown(&["report", &of("evil.json"), "--out", &of("evil.html"), "--svg", &of("svg")]);
    let page = fs::read_to_string(of("evil.html")).unwrap();
    let svg = fs::read_to_string(of("svg/latency.svg")).unwrap();
    for document in [&text, &markdown, &json, &page, &svg] {
        let found = document.find(|c| is_unsafe(c) && !matches!(c, '\n' | '\t'));
        assert_eq!(found.map(|at| &document[at.saturating_sub(40)..]), None);
    }
    // JSON has its own escapes, Markdown those of its markup: a backslash before a backslash, and
    // before the asterisks.
    assert!(text.contains(SHOWN) && page.contains(SHOWN), "{text}");
    assert!(markdown.contains(&format!(r"{} \*fast\*", SHOWN.replace('\\', r"\\"))), "{markdown}");
    let seen: Value = serde_json::from_str(&json).unwrap();
    assert!(
        seen.to_string().contains(serde_json::to_string(EVIL).unwrap().trim_matches('"')),
        "{json}"
    );
    // The same on stderr, where a file that is refused is named.
    fs::write(of("nul\u{1b}[2J.json"), "{").unwrap();
    assert!(refused(&["report", &of("nul\u{1b}[2J.json")]).contains(r"nul\u{1b}[2J.json"));
}

#[test]
fn what_can_not_be_read_whole_is_refused_at_once() {
    let dir = tmpfs();
    let of = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    mknodat(CWD, of("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let large = fs::File::create(of("large.json")).unwrap();
    large.set_len((256 << 20) + 1).unwrap();
    let [fifo, large] = [of("fifo"), of("large.json")];
    let runs: [&[&str]; 3] = [
        &["report", &fifo],
        &["bench", "--baseline", &fifo, dir.path().to_str().unwrap()],
        &["tune", "--resume", &fifo, dir.path().to_str().unwrap()],
    ];
    for args in runs {
        let said = refused(args);
        assert!(
            said.contains(&format!("'{fifo}': it is a pipe; name a regular file")),
            "{args:?}: {said}"
        );
    }
    let said = refused(&["report", &large]);
    let why = format!("'{large}': it has more than 256 MiB, the most that is read");
    assert!(said.contains(&why), "{said}");
}

#[test]
fn a_recording_of_the_same_time_is_shown_and_another_is_refused() {
    let (_dir, _, of) = directory();
    let recording = "time_us,offset_bytes,size_bytes,operation,fua,depth,queue_us,service_us,\
        lateness_us,result\n\
        # {\"name\":\"disk\",\"preset\":\"hdd-7200\",\"size_bytes\":8589934592,\
        \"time_zero_unix_s\":1795229426.5}\n\
        1000.000,0,4096,read,0,1,0.000,8000.000,50.000,ok\n\
        90000000.000,1048576,4096,write,0,2,7000.000,4000.000,50.000,ok\n";
    fs::write(of("rec.csv"), recording).unwrap();
    let args = ["report", &of("r.json"), "--seeks", &of("rec.csv"), "--out", &of("s.html")];
    assert!(refused(&args).contains("--seeks: the result does not say its Unix time"));
    let text = fs::read_to_string(of("r.json")).unwrap();
    fs::write(
        of("r.json"),
        text.replace("\"started_at_unix_s\": 0.0", "\"started_at_unix_s\": 1795229427.0"),
    )
    .unwrap();
    shown(&args);
    let page = fs::read_to_string(of("s.html")).unwrap();
    assert!(
        page.contains("figure class=\"seeks\"")
            && page.contains("What reached disk (hdd-7200, 8 GiB)")
    );
}
