//! Every check with its identifier, title and page: the one table that `floodwall status`,
//! `floodwall explain` and docs/findings share.
//!
//! Identifiers are never given to another check, and none is left out: a check that is dropped
//! keeps its number and its page says so.

use floodwall_model::finding::{Finding, Severity};

use super::facts::Facts;
use super::found::Found;
use super::{
    cache, control, filesystem, groups, journal, limits, others, priority, queue, server, share,
    starvation, times, unflooded,
};

/// One check.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// `FW001` …
    pub id: &'static str,
    /// The fault that it finds, in a few words.
    pub title: &'static str,
    /// The worst that it reports.
    pub worst: Severity,
    /// Its page, in Markdown: what it means, why it hurts, how it is detected, what to do, when to
    /// ignore it, sources.
    pub page: &'static str,
    look: fn(Facts<'_>) -> Option<Found>,
}

impl Check {
    /// Runs the check, and returns its findings.
    #[must_use]
    pub fn look(&self, facts: Facts<'_>) -> Option<Finding> {
        (self.look)(facts).map(|found| found.named(self.id, self.title, self.worst))
    }
}

macro_rules! check {
    ($id:literal, $worst:ident, $look:path, $title:literal) => {
        Check {
            id: $id,
            title: $title,
            worst: Severity::$worst,
            page: include_str!(concat!("../../../../docs/findings/", $id, ".md")),
            look: $look,
        }
    };
}

/// All of them, in the order of their identifiers.
pub static CHECKS: &[Check] = &[
    // The machine's limits and times.
    check!("FW001", Critical, limits::long_drain, "the hard limit takes long to drain"),
    check!(
        "FW002",
        Critical,
        limits::below_chunk,
        "the hard limit is near or below the flusher's chunk"
    ),
    check!("FW003", Warning, limits::halved, "the background limit is not below the hard limit"),
    check!("FW004", Critical, limits::zero, "the hard limit is zero"),
    check!("FW005", Critical, limits::divides_by_zero, "this kernel may divide by a limit of zero"),
    check!(
        "FW006",
        Warning,
        limits::small_background,
        "the background limit is below the flusher's chunk"
    ),
    check!("FW007", Warning, times::no_periodic_writeback, "periodic writeback is off"),
    check!("FW008", Note, times::long_age, "dirty data stays in memory for minutes"),
    check!(
        "FW009",
        Warning,
        limits::counter_error,
        "the hard limit is near the error of the kernel's counters"
    ),
    check!("FW010", Note, limits::real_time_reader, "the limits were read by a real-time task"),
    check!(
        "FW011",
        Critical,
        limits::impossible_counters,
        "the kernel's counters of dirty pages are wrong"
    ),
    check!("FW012", Critical, times::backlog, "what is dirty now takes long to drain"),
    // Devices' shares of the limits.
    check!(
        "FW013",
        Warning,
        share::shared_with_fast,
        "a slow device shares the limit with a fast one"
    ),
    check!("FW014", Warning, share::share_not_strict, "a device's limit does not hold"),
    check!("FW015", Critical, share::zero_share, "a device's limit is zero"),
    check!(
        "FW016",
        Warning,
        share::strict_after_idleness,
        "a strict limit stops a device that was idle"
    ),
    check!("FW017", Warning, share::scaled_twice, "this kernel scales devices' shares wrongly"),
    // Queues and elevators.
    check!("FW018", Warning, queue::deep, "a full queue takes long to work off"),
    check!("FW019", Note, queue::bfq_and_wbt, "bfq and writeback throttling don't go together"),
    check!("FW020", Warning, queue::wbt_target, "writeback throttling aims at the wrong medium"),
    check!("FW021", Warning, queue::rotational_lie, "the rotational flag can't be believed"),
    check!("FW022", Warning, queue::no_elevator, "a rotating disk has no elevator"),
    check!("FW023", Note, queue::nothing_reserved, "writes may take every request of the queue"),
    check!("FW024", Note, queue::short_read_ahead, "a rotating disk hardly reads ahead"),
    check!("FW025", Note, queue::no_merges, "a rotating disk's requests are not merged"),
    // Caches and filesystems.
    check!("FW026", Critical, cache::flushes_dropped, "flushes don't reach a volatile cache"),
    check!(
        "FW027",
        Note,
        cache::controller_flushes,
        "a RAID controller's cache is taken for volatile"
    ),
    check!(
        "FW028",
        Critical,
        cache::no_barriers,
        "a filesystem without barriers is on a volatile cache"
    ),
    check!("FW029", Warning, filesystem::entangled_journal, "an fsync writes other files' data"),
    check!("FW030", Note, filesystem::mounted_sync, "a filesystem is mounted with sync"),
    check!(
        "FW031",
        Warning,
        filesystem::more_than_the_link,
        "a network mount may hold more than its link carries"
    ),
    check!("FW032", Note, filesystem::cached_twice, "a loop device's data is cached twice"),
    check!("FW033", Note, filesystem::long_commit, "a journal is committed seldom"),
    // Missing control and sight.
    check!(
        "FW034",
        Note,
        control::no_cgroup_writeback,
        "control groups can't hold buffered writes"
    ),
    check!("FW035", Note, control::no_pressure, "pressure stall information is off"),
    check!("FW036", Note, control::no_debugfs, "drain rates can't be seen"),
    check!("FW037", Note, control::swap_behind_flood, "swap is in use on a disk that takes floods"),
    // Other managers, and Floodwall itself.
    check!("FW038", Warning, others::disagreement, "two managers set the same knob"),
    check!("FW039", Note, others::lost_at_boot, "settings in force will not survive a reboot"),
    check!("FW040", Warning, others::both_names, "a configuration sets both names of one limit"),
    check!("FW041", Warning, journal::stale, "a change is waiting to be put back"),
    check!("FW042", Warning, journal::unbelievable, "a journal can't be believed"),
    check!(
        "FW043",
        Warning,
        journal::changed_by_others,
        "somebody has changed what floodwall had set"
    ),
    // Found later; an identifier is never given again, so it stands at the end.
    check!(
        "FW044",
        Warning,
        starvation::passed_over,
        "commits may be passed over beside a sequential flood"
    ),
    check!("FW045", Critical, server::may_hang, "a dirty limit can hang a userspace block server"),
    check!(
        "FW046",
        Warning,
        groups::flood_among_victims,
        "a flood shares the group of those who wait"
    ),
    check!("FW047", Note, priority::unheeded, "no elevator heeds an I/O priority that is set"),
    check!("FW048", Note, filesystem::own_dirty_data, "no dirty limit acts on ZFS"),
    check!(
        "FW049",
        Note,
        unflooded::waits_without_flood,
        "a process waits for a disk that nothing floods"
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    /// Every page has these, in this order.
    const SECTIONS: [&str; 6] = [
        "## What it means",
        "## Why it hurts",
        "## How it is detected",
        "## What to do",
        "## When to ignore it",
        "## Sources",
    ];

    fn docs() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/findings")
    }

    #[test]
    fn identifiers_count_up_without_a_gap() {
        for (i, check) in CHECKS.iter().enumerate() {
            assert_eq!(check.id, format!("FW{:03}", i + 1));
            assert!(!check.title.ends_with('.') && check.title.len() < 64, "{}", check.title);
        }
        assert!(CHECKS.len() >= 20);
    }

    #[test]
    fn every_page_has_its_sections() {
        for check in CHECKS {
            let first = check.page.lines().next().unwrap_or_default();
            assert_eq!(first, format!("# {}: {}", check.id, check.title));
            let headings: Vec<&str> =
                check.page.lines().filter(|line| line.starts_with("## ")).collect();
            assert_eq!(headings, SECTIONS, "{}", check.id);
            let parts: Vec<&str> = check.page.split("\n## ").skip(1).collect();
            for part in parts {
                assert!(
                    part.lines().skip(1).any(|line| !line.trim().is_empty()),
                    "{}: an empty section",
                    check.id
                );
            }
        }
    }

    /// Whether a text has a kernel file written past the journal, or something mounted by hand.
    fn is_raw(text: &str) -> bool {
        let writes = text.find("echo ").is_some_and(|at| text[at..].contains('>'));
        writes || text.contains("mount -") || text.contains("> /sys/") || text.contains("> /proc/")
    }

    #[test]
    fn no_page_has_a_kernel_file_written_by_hand_or_something_mounted() {
        for check in CHECKS {
            let part = check.page.split("\n## ").find(|part| part.starts_with("What to do"));
            for line in part.unwrap().lines() {
                assert!(!is_raw(line), "{}: {line}", check.id);
            }
        }
    }

    #[test]
    fn no_check_has_a_kernel_file_written_by_hand_or_something_mounted() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/findings");
        let mut checked = 0;
        for entry in fs::read_dir(sources).unwrap() {
            let path = entry.unwrap().path();
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let code = text.split("#[cfg(test)]").next().unwrap();
            let raw = code.lines().find(|line| line.contains('"') && is_raw(line));
            assert_eq!(raw, None, "{}", path.display());
            checked += code.matches("remedied_by(").count();
        }
        assert!(checked > 20, "{checked}");
    }

    #[test]
    fn table_pages_and_index_agree() {
        let index = fs::read_to_string(docs().join("README.md")).unwrap();
        let listed: Vec<&str> = index.lines().filter(|line| line.starts_with("| [FW")).collect();
        let expected: Vec<String> = CHECKS
            .iter()
            .map(|check| {
                format!("| [{0}]({0}.md) | {1} | {2} |", check.id, check.worst, check.title)
            })
            .collect();
        assert_eq!(listed, expected);
        let pages: BTreeSet<String> = fs::read_dir(docs())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| name != "README.md")
            .collect();
        let expected: BTreeSet<String> =
            CHECKS.iter().map(|check| format!("{}.md", check.id)).collect();
        assert_eq!(pages, expected);
    }
}
