//! Cells of a table, measured on all cores; the order of the results is that of the cells.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Runs `measure` for each cell. The first error ends it.
pub(crate) fn all<C: Sync, R: Send>(
    cells: &[C],
    measure: impl Fn(&C) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<anyhow::Result<R>>>> =
        Mutex::new(cells.iter().map(|_| None).collect());
    let workers = thread::available_parallelism().map_or(1, usize::from).min(cells.len().max(1));
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((i, cell)) = {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    cells.get(i).map(|cell| (i, cell))
                } {
                    let result = measure(cell);
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(slot) = results.get_mut(i) {
                        *slot = Some(result);
                    }
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().flatten().collect()
}
