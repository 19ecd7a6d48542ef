//! How many closed journals are kept.
//!
//! A closed journal undoes nothing any more; it is there for `floodwall log`. Open ones are never
//! removed, at any age, nor are those that were set aside.

use super::store::Store;

/// Closed journals that are kept, the newest: some weeks of changes by hand, in less than a MiB.
pub const CLOSED_KEPT: usize = 100;

/// Removes closed journals beyond those that are kept; `closed` are their names, newest first. The
/// newest ones stay, so no number is given twice.
///
/// One that can't be removed stays: it does no harm, and the next session tries again.
pub(crate) fn prune(store: &dyn Store, closed: &[String]) {
    for name in closed.iter().skip(CLOSED_KEPT) {
        if store.remove(name).is_err() {
            return;
        }
    }
}
