//! The lines, in the order of a run.
//!
//! ```text
//! START ─▶ INFO Starting pass ─▶ STAT, at each heartbeat ─▶ STAT Total … ─▶ END
//! ```
//!
//! ```text
//! | 2007/09/26-12:00:00 | STAT  | 14583 | v1.2.8 | /dev/sdb | Total read throughput: …
//! ```

use floodwall_model::printable;

use super::extent::Extent;
use super::figures::{Counts, Figures, rates, seconds};
use super::kinds::{Level, Seeks, Version};
use super::options::{Options, SECTOR};

/// More of the command line is cut off.
const MOST_ARGUMENTS: usize = 159;

/// The lines of a command line.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The command line.
    pub options: &'a Options,
    /// The process's number.
    pub pid: u32,
}

/// A direction's words.
struct Words {
    name: &'static str,
    done: &'static str,
    title: &'static str,
}

const READ: Words = Words { name: "read", done: "read", title: "Read" };
const WRITE: Words = Words { name: "write", done: "written", title: "Write" };

impl Report<'_> {
    /// A line at a moment like `2007/09/26-12:00:00`; nothing where `-q` leaves it out.
    #[must_use]
    pub fn line(&self, now: &str, level: Level, text: &str) -> String {
        if self.options.quiet && level == Level::Info {
            return String::new();
        }
        let text = printable::printable(text);
        if self.options.bare {
            return format!("{text}\n");
        }
        let (level, version) = (level.name(), self.options.version.name());
        let target = printable::printable(&self.options.target);
        format!("| {now} | {level:<5} | {} | {version} | {target} | {text}\n", self.pid)
    }

    /// The first line's text: the words, then in brackets what is assumed.
    #[must_use]
    pub fn start(&self, extent: &Extent) -> String {
        let options = self.options;
        let mut words = options.echo.clone();
        if !words.is_empty() {
            words.push(' ');
        }
        let mut assume = |is_written: bool, text: String| {
            if !is_written {
                words += &format!("({text}) ");
            }
        };
        let has = |letters: &str| letters.chars().any(|letter| options.has(letter));
        assume(has("I"), format!("-I {}", options.kind.letter()));
        assume(has("B"), format!("-B {}", options.block / SECTOR));
        assume(has("N"), format!("-N {}", extent.sectors));
        assume(has("K"), format!("-K {}", options.threads));
        assume(has("rw"), "-r".to_owned());
        assume(has("cz"), "-c".to_owned());
        assume(has("p"), "-p r".to_owned());
        if let Some(seeks) = extent.seeks {
            assume(has("L"), format!("-L {seeks}"));
        }
        let is_linear = options.seeks_as == Seeks::Linear;
        assume(!is_linear || options.order.contains('u'), "-p u".to_owned());
        if options.reads && options.writes && !has("D") {
            words += &format!("(-D {}:{})", options.duty.0, options.duty.1);
        }
        let words: String = words.chars().take(MOST_ARGUMENTS).collect();
        format!("Start args: {words}")
    }

    /// Texts of a heartbeat: since the begin in 1.2, since the last one in 1.4.
    #[must_use]
    pub fn heartbeat(&self, figures: &Figures) -> Vec<String> {
        let options = self.options;
        let is_new = options.version == Version::V1_4;
        let mut texts = Vec::new();
        let directions = self.directions(figures);
        if options.transfers {
            for (words, counts, _) in &directions {
                let Counts { transfers, bytes } = counts;
                texts.push(format!("{bytes} bytes {} in {transfers} transfers.", words.done));
            }
        }
        if options.throughput {
            for (words, counts, seconds) in &directions {
                let title = if is_new {
                    format!("Heartbeat {}", words.name)
                } else {
                    words.title.to_owned()
                };
                texts.push(format!("{title} throughput: {}", rates(*counts, *seconds)));
            }
        }
        texts
    }

    /// Texts of a whole run.
    #[must_use]
    pub fn totals(&self, figures: &Figures) -> Vec<String> {
        let options = self.options;
        let mut texts = Vec::new();
        let directions = self.directions(figures);
        if options.transfers {
            for (words, counts, _) in &directions {
                let Counts { transfers, bytes } = counts;
                let done = words.done;
                texts.push(format!("Total bytes {done} in {transfers} transfers: {bytes}"));
            }
        }
        if options.throughput {
            for (words, counts, seconds) in &directions {
                let name = words.name;
                texts.push(format!("Total {name} throughput: {}", rates(*counts, *seconds)));
            }
        }
        if options.runtime {
            for (words, _, seconds) in &directions {
                texts.push(format!("Total {} Time: {}", words.title, time(*seconds)));
            }
            texts.push(format!("Total overall runtime: {}", time(figures.seconds)));
        }
        texts
    }

    /// Those that take place, each with its counts and seconds.
    fn directions(&self, figures: &Figures) -> Vec<(Words, Counts, u64)> {
        let (options, all) = (self.options, figures.seconds);
        let (reads, writes) = options.duty;
        let both = [
            (options.reads, READ, figures.reads, reads),
            (options.writes, WRITE, figures.writes, writes),
        ];
        let some = both.into_iter().filter(|(takes_place, ..)| *takes_place);
        some.map(|(_, words, counts, share)| (words, counts, seconds(all, share))).collect()
    }
}

/// `3605 seconds (0d1h0m5s)`.
fn time(all: u64) -> String {
    let (days, hours, minutes) = (all / 86_400, all / 3_600 % 24, all / 60 % 60);
    format!("{all} seconds ({days}d{hours}h{minutes}m{}s)", all % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The moment of the lines, and the process.
    const NOW: &str = "2026/11/27-09:30:14";

    fn options(line: &str) -> Options {
        Options::parse(&line.split(' ').collect::<Vec<_>>()).unwrap()
    }

    fn run(line: &str, sectors: u64, figures: &Figures) -> String {
        let options = options(line);
        let report = Report { options: &options, pid: 12948 };
        let extent = Extent::of(&options, Some(sectors * SECTOR), true).unwrap();
        let mut text = report.line(NOW, Level::Start, &report.start(&extent));
        text += &report.line(NOW, Level::Info, "Starting pass");
        for stat in report.heartbeat(figures).into_iter().chain(report.totals(figures)) {
            text += &report.line(NOW, Level::Stat, &stat);
        }
        text + &report.line(NOW, Level::End, "Test Done (Passed)")
    }

    /// Transfers of 4 KiB.
    fn figures(seconds: u64, reads: u64, writes: u64) -> Figures {
        let counts = |transfers| Counts { transfers, bytes: transfers * 4096 };
        Figures { seconds, reads: counts(reads), writes: counts(writes) }
    }

    #[test]
    fn lines_are_those_that_were_printed() {
        let line = "-B 4k -h 1 -I FD -K 4 -p l -P T -T 3 -r tfile";
        let before = |level| format!("| {NOW} | {level} | 12948 | v1.2.8 | tfile | ");
        let rates = "135529813.3B/s (129.25MB/s), IOPS 33088.3/s.";
        let wanted = [
            before("START")
                + "Start args: -B 4k -h 1 -I FD -K 4 -p l -P T -T 3 -r (-N 131072) (-c) (-p u) ",
            before("INFO ") + "Starting pass",
            before("STAT ") + "Read throughput: " + rates,
            before("STAT ") + "Total read throughput: " + rates,
            before("END  ") + "Test Done (Passed)\n",
        ];
        assert_eq!(run(line, 131_072, &figures(3, 99_265, 0)), wanted.join("\n"));
    }

    #[test]
    fn both_directions_have_their_share_of_the_seconds() {
        let line = "-B 4k -r -w -D 30:70 -p r -P A -T 3 -Q -q t";
        let wanted =
            "Start args: -B 4k -r -w -D 30:70 -p r -P A -T 3 -Q -q (-I f) (-N 8192) (-K 4) \
                      (-c) 
3072000 bytes read in 750 transfers.
6963200 bytes written in 1700 transfers.
Read throughput: 3072000.0B/s (2.93MB/s), IOPS 750.0/s.
Write throughput: 3481600.0B/s (3.32MB/s), IOPS 850.0/s.
Total bytes read in 750 transfers: 3072000
Total bytes written in 1700 transfers: 6963200
Total read throughput: 3072000.0B/s (2.93MB/s), IOPS 750.0/s.
Total write throughput: 3481600.0B/s (3.32MB/s), IOPS 850.0/s.
Total Read Time: 1 seconds (0d0h0m1s)
Total Write Time: 2 seconds (0d0h0m2s)
Total overall runtime: 3 seconds (0d0h0m3s)
Test Done (Passed)
";
        let text = run(line, 8192, &figures(3, 750, 1700));
        assert_eq!(text, wanted);
    }

    #[test]
    fn the_new_version_has_heartbeats_and_assumes_more() {
        let text = run("--dialect=1.4 -w -P T -T 30 t", 100, &figures(30, 0, 300));
        assert!(text.contains("| v1.4.2 | t | Heartbeat write throughput: 40960.0B/s"), "{text}");
        let assumed = "Start args: -w -P T -T 30 (-I f) (-B 1) (-N 100) (-K 4) (-c) (-p r) \n";
        assert!(text.contains(assumed), "{text}");
        let both = run("-r -w -pl -K1 t", 8, &figures(1, 1, 1));
        let assumed = "(-I f) (-B 1) (-N 8) (-c) (-L 16) (-p u) (-D 50:50)\n";
        assert!(both.contains(assumed), "{both}");
        let long = options(&format!("-P {} t", "T".repeat(200)));
        let report = Report { options: &long, pid: 1 };
        let extent = Extent::of(&long, Some(1 << 20), true).unwrap();
        assert_eq!(report.start(&extent).len(), "Start args: ".len() + 159);
    }

    #[test]
    fn times_are_spelt_out() {
        assert_eq!(time(93_784), "93784 seconds (1d2h3m4s)");
    }

    #[test]
    fn a_targets_name_brings_no_control_characters() {
        let options = options("a\x1b[2J");
        let line = Report { options: &options, pid: 1 }.line(NOW, Level::Stat, "x");
        assert!(!line.contains('\x1b'), "{line}");
    }
}
