//! Cells on all cores, with progress on stderr.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::cells::{self, Cell};

/// A cell says at most so often how far it is.
const EVERY: Duration = Duration::from_secs(10);

/// `2/4` as the second of four: an index from 0 and how many.
pub(crate) fn shard(text: &str) -> Result<(usize, usize), String> {
    let wrong = || format!("'{text}' is no shard: write 2/4 for the second of four");
    let (i, n) = text.split_once('/').ok_or_else(wrong)?;
    let (i, n): (usize, usize) = (i.parse().map_err(|_| wrong())?, n.parse().map_err(|_| wrong())?);
    if i == 0 || i > n { Err(wrong()) } else { Ok((i - 1, n)) }
}

/// All cells' names, for messages.
pub(crate) fn names() -> String {
    cells::all().iter().map(Cell::name).collect::<Vec<_>>().join(", ")
}

/// The work on a cell; the other function gets its progress.
pub(crate) type Work<'a> = dyn Fn(&Cell, &dyn Fn(&str)) -> anyhow::Result<()> + Sync + 'a;

/// Runs all cells. The first error ends the others after the cells under way.
pub(crate) fn all(wanted: &[Cell], jobs: Option<usize>, run: &Work<'_>) -> anyhow::Result<()> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failed: Mutex<Option<anyhow::Error>> = Mutex::new(None);
    let begin = Instant::now();
    let jobs = jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let one = |cell: &Cell| {
        let last = Mutex::new(Instant::now());
        let tell = |what: &str| {
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            if last.elapsed() >= EVERY {
                *last = Instant::now();
                eprintln!("  {}: {what}", cell.name());
            }
        };
        let result = run(cell, &tell);
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        let spent = begin.elapsed().as_secs_f64();
        let left = spent / done as f64 * (wanted.len() - done) as f64;
        eprintln!(
            "{done} of {} cells: {} ({spent:.0} s, about {left:.0} s left)",
            wanted.len(),
            cell.name()
        );
        result
    };
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, wanted.len().max(1)) {
            scope.spawn(|| {
                while let Some(cell) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = one(cell) {
                        next.store(wanted.len(), Ordering::Relaxed);
                        let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                        failed.get_or_insert(error.context(cell.name()));
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_written_as_people_count() {
        assert_eq!(shard("1/1"), Ok((0, 1)));
        assert_eq!(shard("4/4"), Ok((3, 4)));
        for wrong in ["", "0/4", "5/4", "a/b", "3"] {
            assert!(shard(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_cell_runs_once_and_the_first_error_is_told() {
        let wanted = cells::all();
        let ran = AtomicUsize::new(0);
        let count = |_: &Cell, _: &dyn Fn(&str)| {
            ran.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        all(&wanted, Some(3), &count).unwrap();
        assert_eq!(ran.load(Ordering::Relaxed), wanted.len());
        let error = all(&wanted, Some(1), &|_, _| anyhow::bail!("broken")).unwrap_err();
        assert_eq!(format!("{error:#}"), format!("{}: broken", wanted[0].name()));
    }
}
