//! Every knob, typed: one static table that the code, docs/knobs.md and `floodwall explain` share.
//!
//! ```text
//! table/*  →  KNOBS  →  find (by name, nearest names)
//!                    →  parse, plan (unit, range, what a write resets)
//!                    →  markdown (docs/knobs.md)
//! ```
//!
//! A *knob* is a name that people use (`vm.dirty_bytes`, `bdi.max_bytes`). A
//! [cell](cell::Cell) is a value in the kernel: `vm.dirty_bytes` and `vm.dirty_ratio` are two names
//! of one cell.
//!
//! ```text
//! value      a value as people write it, checked      target   the place that a knob belongs to
//! cell       what the kernel keeps behind one or two files; line: a line of a file that has many
//! files      the kernel's files, read and written whole: a trait
//! priority   I/O priorities of threads, as if they were files
//! systemd    limits of systemd's units, as if they were files
//! presets    settings that others have published
//! ```

pub mod cell;
pub mod files;
mod knob;
pub(crate) mod line;
mod markdown;
pub mod presets;
pub(crate) mod priority;
pub(crate) mod systemd;
mod table;
pub mod target;
pub mod value;

pub use knob::{Knob, Reset, Scope, Unit};
pub use markdown::{markdown, page};

/// Every knob, in the order of the documentation.
pub fn knobs() -> impl Iterator<Item = &'static Knob> + Clone {
    table::ALL.iter().flat_map(|part| part.iter())
}

/// A knob by its name. `queue/scheduler` and `vm/dirty_bytes` are understood too.
#[must_use]
pub fn find(name: &str) -> Option<&'static Knob> {
    let name = name.strip_prefix("queue/").unwrap_or(name).replace('/', ".");
    knobs().find(|knob| knob.name == name)
}

/// Up to three names that a mistyped one may have meant, best first.
#[must_use]
pub fn nearest(name: &str) -> Vec<&'static str> {
    // Below this a suggestion confuses more than it helps (Jaro-Winkler, 0 to 1).
    const ALIKE: f64 = 0.75;
    let last = name.rsplit(['.', '/']).next().unwrap_or(name);
    let mut scored: Vec<(f64, &'static str)> = knobs()
        .map(|knob| {
            let whole = strsim::jaro_winkler(name, knob.name);
            let part = strsim::jaro_winkler(last, knob.file_name());
            (whole.max(part), knob.name)
        })
        .filter(|(score, _)| *score >= ALIKE)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().take(3).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_every_entry_is_complete() {
        let mut seen = BTreeSet::new();
        for knob in knobs() {
            assert!(seen.insert(knob.name), "{} twice", knob.name);
            assert!(knob.min <= knob.max, "{}", knob.name);
            for text in [knob.default, knob.does, knob.source] {
                assert!(!text.is_empty(), "{} has an empty field", knob.name);
            }
            assert!(knob.does.ends_with('.') && !knob.source.ends_with('.'), "{}", knob.name);
            for reset in knob.resets {
                assert!(
                    knobs().any(|other| reset.covers(other)),
                    "{} resets {}",
                    knob.name,
                    reset.knob
                );
            }
        }
        assert!(seen.len() >= 40, "{}", seen.len());
    }

    #[test]
    fn names_are_found_in_the_spellings_of_the_files() {
        assert_eq!(find("vm.dirty_bytes").map(|k| k.file_name()), Some("dirty_bytes"));
        assert_eq!(find("vm/dirty_bytes").map(|k| k.name), Some("vm.dirty_bytes"));
        assert_eq!(find("queue/scheduler").map(|k| k.name), Some("scheduler"));
        assert_eq!(find("iosched/fifo_batch").map(|k| k.name), Some("iosched.fifo_batch"));
        assert_eq!(find("io.cost.qos").map(|k| k.file_name()), Some("io.cost.qos"));
        assert!(find("vm.swappiness").is_none());
    }

    #[test]
    fn mistyped_names_are_answered_with_the_nearest() {
        assert_eq!(nearest("vm.dirty_byte").first(), Some(&"vm.dirty_bytes"));
        assert_eq!(nearest("schedular").first(), Some(&"scheduler"));
        assert!(nearest("max_bytes").contains(&"bdi.max_bytes"));
        assert!(nearest("zzz").is_empty());
    }

    #[test]
    fn knobs_that_freeze_are_a_queues() {
        for name in floodwall_model::setting::FREEZING {
            assert_eq!(find(name).map(|knob| knob.scope), Some(Scope::Queue), "{name}");
        }
    }

    #[test]
    fn an_elevator_resets_what_depends_on_it() {
        let scheduler = find("scheduler").unwrap();
        for name in ["nr_requests", "wbt_lat_usec", "iosched.fifo_batch"] {
            assert!(scheduler.resets(find(name).unwrap()), "{name}");
        }
        assert!(!scheduler.resets(find("read_ahead_kb").unwrap()));
    }
}
