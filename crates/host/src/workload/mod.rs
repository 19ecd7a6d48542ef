//! What a process runs in: a unit of systemd's, a container, a pod.
//!
//! ```text
//! number ─▶ /proc/PID/cgroup ─ group ─▶ unit, ID, UID ─┬▶ Workload
//! the runtimes' directories ─ names ─▶ their names ────┘
//! ```
//!
//! Nothing is kept by a process's number. Its file is read each time, so a reused number and a
//! process that moved are never mistaken. All else is kept by that file's text.
//!
//! Without a name, the first 12 digits of its ID stand for a container, its UID for a pod. That is
//! so for containers of ordinary users, whose files are below their homes, and without permission.
//! In a container that sees only itself (`0::/`) nothing is known. A renamed container keeps its
//! old name here as long as it is asked for.

pub(crate) mod group;
mod names;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use floodwall_model::Reading;
use floodwall_model::workload::Workload;

use crate::root::SysRoot;
use crate::task::group_in;
use group::{Container, Place, place};
use names::{Names, read_one};

/// The runtimes' directories are listed at most once in this time.
const BETWEEN_LISTS: Duration = Duration::from_secs(5);
/// How often a name is looked for. The kubelet links a container's log a moment after its start;
/// all other files are there before.
const TRIES: u8 = 3;
/// A group that was not asked for this long is forgotten.
const KEPT: Duration = Duration::from_secs(60);
/// Digits of an ID that runtimes show, too.
const SHORT_ID_DIGITS: usize = 12;
/// More control groups than this are all forgotten. A machine has some hundred.
const MOST_GROUPS: usize = 4096;

/// What processes run in, as far as this machine's files tell.
///
/// ```no_run
/// # use std::time::Duration;
/// let root = floodwall_host::SysRoot::live()?;
/// let mut workloads = floodwall_host::workload::Workloads::new(&root);
/// let (group, workload) = workloads.of(std::process::id(), Duration::ZERO);
/// # Ok::<(), floodwall_host::root::RootError>(())
/// ```
#[derive(Debug)]
pub struct Workloads {
    root: SysRoot,
    /// By the text of /proc/PID/cgroup.
    known: HashMap<String, Known>,
    names: Names,
    /// When the names were listed last.
    listed: Option<Duration>,
    /// When it was last looked for what is to be forgotten.
    swept: Duration,
}

/// The answer for all processes of one control group.
#[derive(Debug)]
struct Known {
    workload: Workload,
    /// How often a name that is missing will still be looked for.
    tries_left: u8,
    tried: Duration,
    asked: Duration,
}

impl Workloads {
    /// Of a machine. Reads nothing yet.
    #[must_use]
    pub fn new(root: &SysRoot) -> Self {
        Self {
            root: root.clone(),
            known: HashMap::new(),
            names: Names::default(),
            listed: None,
            swept: Duration::ZERO,
        }
    }

    /// A process's control group of version 2, such as `/system.slice/cron.service`, and what it
    /// runs in. Both are unknown if it is gone or may not be read. `now` is any clock that only
    /// goes forward, the same in each call.
    pub fn of(&mut self, pid: u32, now: Duration) -> (Reading<String>, Workload) {
        match self.root.read(&format!("/proc/{pid}/cgroup")) {
            Reading::Value(text) => (group_in(&text), self.in_groups(&text, now)),
            unread => (unread, Workload::default()),
        }
    }

    /// The same by the text of /proc/PID/cgroup.
    fn in_groups(&mut self, text: &str, now: Duration) -> Workload {
        self.forget(now);
        let waits = |known: &Known| {
            known.tries_left == 0 || now.saturating_sub(known.tried) < BETWEEN_LISTS
        };
        if let Some(known) = self.known.get_mut(text).filter(|known| waits(known)) {
            known.asked = now;
            return known.workload.clone();
        }
        let (workload, is_complete) = self.resolve(&place(text), now);
        let tries = self.known.get(text).map_or(TRIES, |known| known.tries_left);
        let tries_left = if is_complete { 0 } else { tries.saturating_sub(1) };
        let known = Known { workload: workload.clone(), tries_left, tried: now, asked: now };
        self.known.insert(text.to_owned(), known);
        workload
    }

    /// Names for a place, and whether none is missing.
    fn resolve(&mut self, place: &Place<'_>, now: Duration) -> (Workload, bool) {
        let id = match &place.container {
            Some(Container::Id(id)) => Some(*id),
            Some(Container::Name(_)) | None => None,
        };
        let uid = place.pod.as_deref();
        let is_listed = |names: &Names| {
            id.is_none_or(|id| names.container(id).is_some())
                && uid.is_none_or(|uid| names.pod(uid).is_some())
        };
        let may_list = self.listed.is_none_or(|at| now.saturating_sub(at) >= BETWEEN_LISTS);
        if may_list && !is_listed(&self.names) {
            (self.names, self.listed) = (Names::read(&self.root), Some(now));
        }
        let named = id
            .and_then(|id| self.names.container(id).cloned().or_else(|| read_one(&self.root, id)));
        let named_pod = named.as_ref().and_then(|named| named.pod.clone());
        let pod = uid.and_then(|uid| self.names.pod(uid).cloned()).or(named_pod);
        let is_complete = (id.is_none() || named.is_some()) && (uid.is_none() || pod.is_some());
        let container = match (&place.container, named) {
            (Some(Container::Name(name)), _) => Some(name.clone()),
            (_, Some(named)) => named.container,
            (_, None) => id.map(|id| id.chars().take(SHORT_ID_DIGITS).collect()),
        };
        let unit = place.unit.map(str::to_owned);
        let pod = pod.or_else(|| uid.map(str::to_owned));
        (Workload { unit, container, pod }, is_complete)
    }

    /// Forgets control groups that nothing asked for in a while.
    fn forget(&mut self, now: Duration) {
        if self.known.len() >= MOST_GROUPS {
            self.known.clear();
        }
        if now.saturating_sub(self.swept) >= KEPT {
            self.swept = now;
            self.known.retain(|_, known| now.saturating_sub(known.asked) < KEPT);
        }
    }
}
