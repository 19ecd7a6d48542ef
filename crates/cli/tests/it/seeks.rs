//! `floodwall lab seeks`: a recording as a picture, and invalid recordings.

use std::fs;
use std::path::Path;

use crate::{floodwall, stderr, stdout, tmpfs};

const RECORDING: &str = "\
time_us,offset_bytes,size_bytes,operation,fua,depth,queue_us,service_us,lateness_us,result
# {\"name\":\"disk\",\"preset\":\"hdd-7200\",\"size_bytes\":8589934592,\
\"time_zero_unix_s\":1795229426.5}
1000.000,0,4096,read,0,1,0.000,8000.000,50.000,ok
2000.000,1048576,4096,write,0,2,7000.000,4000.000,50.000,ok
13000.000,0,0,flush,0,1,0.000,5000.000,50.000,ok
";

/// A directory with the recording in it, and a function that makes paths in it.
fn directory() -> (tempfile::TempDir, impl Fn(&str) -> String) {
    let dir = tmpfs();
    let path = dir.path().to_owned();
    let of = move |name: &str| path.join(name).to_string_lossy().into_owned();
    fs::write(of("rec.csv"), RECORDING).unwrap();
    (dir, of)
}

/// The message of a run that must end with status 2 and leave no picture.
fn refused(args: &[&str], picture: &str) -> String {
    let output = floodwall(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
    assert!(!Path::new(picture).exists(), "{args:?} left a picture");
    stderr(&output)
}

#[test]
fn a_recording_becomes_a_picture() {
    let (_dir, of) = directory();
    let output = floodwall(&["lab", "seeks", &of("rec.csv"), "-o", &of("a.svg")]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!((stdout(&output), stderr(&output)), (String::new(), String::new()));
    let svg = fs::read_to_string(of("a.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("What reached disk (hdd-7200, 8 GiB)"));
}

#[test]
fn a_line_that_was_cut_is_said_and_left_out() {
    let (_dir, of) = directory();
    fs::write(of("rec.csv"), RECORDING.trim_end()).unwrap();
    let output = floodwall(&["lab", "seeks", &of("rec.csv"), "-o", &of("a.svg")]);
    assert!(output.status.success());
    assert!(
        stderr(&output).contains("ends within a line, which is left out"),
        "{}",
        stderr(&output)
    );
    assert!(fs::read_to_string(of("a.svg")).unwrap().contains("2 requests in"));
}

#[test]
fn what_is_no_recording_is_refused_with_its_line() {
    let (_dir, of) = directory();
    let (recording, svg) = (of("rec.csv"), of("a.svg"));
    let draw = ["lab", "seeks", &recording, "-o", &svg];
    for (text, said) in [
        (RECORDING.replace("2000.000", "soon"), "line 4: time_us is 'soon'"),
        (RECORDING.replace(",fua", ""), "line 1: the heading has 0 columns 'fua'"),
        ("{}\n".into(), "line 1: a recording begins with the names of its columns"),
        (
            RECORDING.lines().take(1).map(|l| format!("{l}\n")).collect(),
            "the recording has no requests",
        ),
    ] {
        fs::write(&recording, text).unwrap();
        let message = refused(&draw, &svg);
        assert!(message.contains(said) && message.contains(&recording), "{message}");
    }
    fs::write(&recording, [0xff, 0xfe]).unwrap();
    assert!(refused(&draw, &svg).contains("UTF-8"));
    let message = refused(&["lab", "seeks", &of("none.csv"), "-o", &svg], &svg);
    assert!(
        message.contains("can't read the recording") && message.contains("none.csv"),
        "{message}"
    );
}

#[test]
fn a_result_that_does_not_fit_is_refused() {
    let (_dir, of) = directory();
    let (recording, result, svg) = (of("rec.csv"), of("res.json"), of("a.svg"));
    let draw = ["lab", "seeks", &recording, "--result", &result, "-o", &svg];
    assert!(refused(&draw, &svg).contains("can't read the result"));
    fs::write(&result, "{}").unwrap();
    let message = refused(&draw, &svg);
    assert!(
        message.contains("not a floodwall result") && message.contains("res.json"),
        "{message}"
    );
    for phase in [&["--phase", "both"][..], &["--result", "x", "--phase", "all"], &["--round", "1"]]
    {
        let args: Vec<&str> = ["lab", "seeks", &recording, "-o", &svg]
            .into_iter()
            .chain(phase.iter().copied())
            .collect();
        refused(&args, &svg);
    }
}

#[test]
fn no_input_is_overwritten_and_no_place_is_invented() {
    let (_dir, of) = directory();
    let recording = of("rec.csv");
    let output = floodwall(&["lab", "seeks", &recording, "-o", &recording]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("would be overwritten"), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(&recording).unwrap(), RECORDING);
    let nowhere = of("no/such/a.svg");
    assert!(
        refused(&["lab", "seeks", &recording, "-o", &nowhere], &nowhere).contains("no directory")
    );
}
