//! Reports in a real browser, without a window: Chromium, spoken to over its debugging pipe. Where
//! there is no Chromium, or no font for PNGs, the tests are reported as ignored, with the reason.
//!
//! With `opening` alone it prints the size of a search's report and Chromium's time to open it:
//! `cargo test --release -p floodwall --test browser -- opening`. With `screenshots DIR` it writes
//! the pictures of docs/report.md.

#![allow(
    clippy::unwrap_used,
    reason = "a test binary, which clippy does not know without the harness"
)]

mod chromium;
mod night;
mod opening;
mod pages;
mod results;
mod screenshots;

use std::io::Write;
use std::path::Path;

/// A test, its name and what it needs.
pub(crate) struct Test {
    pub(crate) name: &'static str,
    pub(crate) needs: Needs,
    pub(crate) body: fn() -> Result<(), String>,
}

/// What a test needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    Chromium,
    Font,
}

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    if given.first().is_some_and(|first| first == "opening") {
        match missing(Needs::Chromium) {
            Some(why) => say(&format!("report in Chromium: left out, it {why}")),
            None => done(opening::figures().map(|figures| say(&figures))),
        }
        return;
    }
    if let [first, directory] = given.as_slice()
        && first == "screenshots"
    {
        done(screenshots::write(Path::new(directory)));
        return;
    }
    let tests = pages::TESTS.iter().chain(night::TESTS);
    let tests =
        tests.map(|test| floodwall_testing::test(test.name, || missing(test.needs), test.body));
    // A browser takes all cores for itself while it starts.
    floodwall_testing::run_alone(tests.collect())
}

/// A line on stdout; a closed stdout is ignored.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// Ends with status 1 and the reason if something failed.
fn done(result: Result<(), String>) {
    if let Err(why) = result {
        say(&why);
        std::process::exit(1);
    }
}

/// Why a test can't run here.
fn missing(needs: Needs) -> Option<String> {
    match needs {
        Needs::Chromium => chromium::program().is_none().then(|| "needs chromium".into()),
        Needs::Font => {
            let font = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf";
            (!Path::new(font).exists()).then(|| "needs fonts-dejavu-core".into())
        }
    }
}
