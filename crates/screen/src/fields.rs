//! The fields of the tables of processes: their columns, their texts and their order.
//!
//! ```text
//! process ─▶ Field ─▶ a cell | the order of two processes
//! ```

use floodwall_model::counts::{count, whole};
use floodwall_model::frame::{Frame, Process, Waits};
use floodwall_model::printable::printable;

use crate::figures::{micros, per_second, rate, share, throttled};
use crate::table::{Cell, Column, Kind};
use crate::theme::Look;
use crate::who::{is_marked, label, name, words, written};

/// A field of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// The mark of victims and floods. It orders the slowest victims first.
    Mark,
    /// The mark of floods. It orders those first that flood or wrote much of a backlog, the
    /// heaviest first.
    FloodMark,
    /// Name and number.
    Who,
    /// Unit, pod or container.
    In,
    /// The disk.
    On,
    /// The call that it waited for longest, all together; if none ended, the one under way.
    For,
    /// Such calls a second.
    Calls,
    /// Their median.
    P50,
    /// 99 % of them were shorter.
    P99,
    /// The slowest wait of any kind, or the one under way if that is longer.
    Slowest,
    /// Calls under way.
    Now,
    /// Page cache dirtied, a second.
    Dirties,
    /// Time asleep because too much was dirty, of the window.
    Throttled,
    /// Share of the disk's backlog.
    Share,
}

/// Fields of those that wait.
pub(crate) const WAITS: [Field; 10] = [
    Field::Mark,
    Field::Who,
    Field::In,
    Field::On,
    Field::For,
    Field::Calls,
    Field::P50,
    Field::P99,
    Field::Slowest,
    Field::Now,
];

/// Fields of those that write.
pub(crate) const WRITES: [Field; 7] =
    [Field::Mark, Field::Who, Field::In, Field::On, Field::Dirties, Field::Throttled, Field::Share];

/// Fields of all that use a disk, or run in a unit.
pub(crate) const USES: [Field; 12] = [
    Field::Mark,
    Field::Who,
    Field::In,
    Field::On,
    Field::For,
    Field::P50,
    Field::P99,
    Field::Slowest,
    Field::Now,
    Field::Dirties,
    Field::Throttled,
    Field::Share,
];

impl Field {
    /// Its column.
    pub(crate) fn column(self) -> Column {
        let (kind, least, most, rank) = match self {
            Self::Mark | Self::FloodMark => (Kind::Words, 2, 2, 0),
            Self::Who => (Kind::Words, 18, 32, 0),
            Self::In => (Kind::Words, 11, 44, 6),
            Self::On => (Kind::Words, 8, 12, 5),
            Self::For => (Kind::Words, 10, 16, 4),
            Self::Calls => (Kind::Figures, 8, 8, 9),
            Self::P50 => (Kind::Figures, 8, 9, 3),
            Self::P99 => (Kind::Figures, 8, 9, 2),
            Self::Slowest => (Kind::Figures, 8, 10, 0),
            Self::Now => (Kind::Figures, 4, 6, 1),
            Self::Dirties => (Kind::Figures, 10, 11, 0),
            Self::Throttled => (Kind::Figures, 10, 11, 7),
            Self::Share => (Kind::Figures, 7, 8, 1),
        };
        Column { kind, least, most, rank }
    }

    /// What its column is called.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Mark | Self::FloodMark => "",
            Self::Who => "PROCESS",
            Self::In => "IN",
            Self::On => "DISK",
            Self::For => "FOR",
            Self::Calls => "/s",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Slowest => "SLOWEST",
            Self::Now => "NOW",
            Self::Dirties => "DIRTIES",
            Self::Throttled => "THROTTLED",
            Self::Share => "SHARE",
        }
    }

    /// Its cell for a process of a frame.
    pub(crate) fn cell(
        self,
        frame: &Frame,
        process: &Process,
        cells: u16,
        look: Look,
    ) -> Cell<'static> {
        let window_ms = frame.window_ms;
        let is_marked = is_marked(frame, process);
        let style = match (process.is_victim, is_marked) {
            (_, true) => look.flood(),
            (true, false) => look.victim(),
            (false, false) => ratatui::style::Style::new(),
        };
        let unknown = || look.unknown().to_owned();
        let (call, most) = longest(process);
        let text = match self {
            Self::FloodMark | Self::Mark if is_marked => {
                return Cell::Text(look.flood_mark().into(), style);
            }
            Self::Mark if process.is_victim => return Cell::Text(look.victim_mark().into(), style),
            Self::FloodMark | Self::Mark => String::new(),
            Self::Who => return Cell::Text(name(process).into(), style),
            Self::In => short(&label(process), cells),
            Self::On => match &process.disk {
                Some(disk) => printable(disk).into_owned(),
                None => "?".to_owned(),
            },
            Self::For => call.map_or_else(unknown, words),
            Self::Calls => most.map_or_else(unknown, |waits| {
                count(waits.count as f64 * 1000.0 / window_ms.max(1) as f64)
            }),
            Self::P50 => figure(most.map(|waits| waits.p50_us), look),
            Self::P99 => figure(most.and_then(|waits| waits.p99_us), look),
            Self::Slowest => {
                let slowest = Some(process.slowest_us()).filter(|us| *us > 0);
                return match slowest {
                    Some(_) if process.is_victim => {
                        Cell::Text(figure(slowest, look).into(), look.strong())
                    }
                    _ => Cell::plain(figure(slowest, look)),
                };
            }
            Self::Now if process.waiting == 0 => String::new(),
            Self::Now => whole(process.waiting),
            Self::Dirties => match process.dirtied_bytes {
                Some(bytes) if process.is_flood => {
                    let rate = rate(per_second(bytes, window_ms));
                    return Cell::Text(rate.into(), look.strong());
                }
                Some(bytes) => rate(per_second(bytes, window_ms)),
                None => unknown(),
            },
            Self::Throttled if process.throttled_ms == 0 => String::new(),
            Self::Throttled => throttled(process, window_ms),
            Self::Share => process.backlog_percent.map_or_else(unknown, share),
        };
        Cell::plain(text)
    }

    /// Puts processes of a frame in order by this field: figures from the largest on, words from A
    /// on. Those that are equal stay in their order.
    pub(crate) fn sort(self, frame: &Frame, processes: &mut [&Process]) {
        match self {
            Self::Who => processes.sort_by(|a, b| (&a.name, a.pid).cmp(&(&b.name, b.pid))),
            Self::In => processes.sort_by_cached_key(|process| label(process)),
            Self::On => processes.sort_by(|a, b| a.disk.cmp(&b.disk)),
            Self::For => processes.sort_by(|a, b| longest(a).0.cmp(&longest(b).0)),
            _ => processes.sort_by_cached_key(|process| u64::MAX - self.figure(frame, process)),
        }
    }

    /// What a field of figures is ordered by, as one number: a thousand processes are sorted at
    /// each drawing. 0 if it is not known, and for words.
    fn figure(self, frame: &Frame, process: &Process) -> u64 {
        const FIRST: u64 = 1 << 63;
        let (is_first, figure) = match self {
            Self::Mark => (process.is_victim, Some(process.slowest_us())),
            Self::FloodMark => (process.is_author(), Some(written(frame, process))),
            Self::Calls => (false, longest(process).1.map(|waits| waits.count)),
            Self::P50 => (false, longest(process).1.map(|waits| waits.p50_us)),
            Self::P99 => (false, longest(process).1.and_then(|waits| waits.p99_us)),
            Self::Slowest => (false, Some(process.slowest_us())),
            Self::Now => (false, Some(process.waiting)),
            Self::Dirties => (false, process.dirtied_bytes),
            Self::Throttled => (false, Some(process.throttled_ms)),
            // Thousandths of a percent.
            Self::Share => (false, process.backlog_percent.map(|share| (share * 1e3) as u64)),
            Self::Who | Self::In | Self::On | Self::For => (false, None),
        };
        let figure = figure.map_or(0, |figure| figure.saturating_add(1)).min(FIRST - 1);
        if is_first { FIRST + figure } else { figure }
    }
}

/// The name of a unit, without its kind where that does not fit.
fn short(label: &str, cells: u16) -> String {
    let kind = [".service", ".scope"].into_iter().find(|kind| label.ends_with(kind));
    match kind.filter(|_| label.len() > usize::from(cells)) {
        Some(kind) => label.trim_end_matches(kind).to_owned(),
        None => label.to_owned(),
    }
}

/// The call that a process waited for longest, all together: of those that ended, or the one under
/// way; and its waits that ended.
fn longest(process: &Process) -> (Option<&str>, Option<&Waits>) {
    let ended = process.waits.iter().max_by_key(|waits| waits.sum_us);
    let sum_us = ended.map_or(0, |waits| waits.sum_us);
    match process.oldest_call.as_deref() {
        Some(call) if process.oldest_us > sum_us => {
            (Some(call), process.waits.iter().find(|waits| waits.call == call))
        }
        _ => (ended.map(|waits| &*waits.call), ended),
    }
}

fn figure(us: Option<u64>, look: Look) -> String {
    us.map_or_else(|| look.unknown().to_owned(), |us| look.text(&micros(us)).into_owned())
}
