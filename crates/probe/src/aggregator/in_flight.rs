//! Requests under way, as far as their events tell.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use floodwall_model::DeviceId;

use crate::event::{Class, Place, Record};
use crate::hash::Fast;

/// A request under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outstanding {
    pub(super) queued_ns: Option<u64>,
    pub(super) issued_ns: Option<u64>,
    pub(super) class: Class,
    pub(super) bytes: u64,
    /// The process and thread that asked; `None` if that was not seen.
    pub(super) asker: Option<(u32, u32)>,
}

/// The requests by where they go; further ones than a limit are not remembered.
#[derive(Debug)]
pub(super) struct InFlight {
    requests: HashMap<Place, Outstanding, Fast>,
    limit: usize,
    reads_only: bool,
}

impl InFlight {
    pub(super) fn new(limit: usize) -> Self {
        Self { requests: HashMap::default(), limit, reads_only: false }
    }

    /// Only reads are remembered.
    pub(super) fn reads_only(self, reads_only: bool) -> Self {
        Self { reads_only, ..self }
    }

    pub(super) fn has(&self, place: Place) -> bool {
        self.requests.contains_key(&place)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.requests.clear();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Place, &Outstanding)> {
        self.requests.iter()
    }

    pub(super) fn remove(&mut self, place: Place) -> Option<Outstanding> {
        self.requests.remove(&place)
    }

    pub(super) fn queued(&mut self, record: &Record, place: Place, class: Class, bytes: u64) {
        if self.reads_only && class != Class::Read {
            return;
        }
        if self.requests.len() < self.limit || self.requests.contains_key(&place) {
            let (queued_ns, asker) = (Some(record.at_ns), Some((record.pid, record.tid)));
            let request = Outstanding { queued_ns, issued_ns: None, class, bytes, asker };
            self.requests.insert(place, request);
        }
    }

    pub(super) fn issued(&mut self, at_ns: u64, place: Place, class: Class, bytes: u64) {
        if self.reads_only && class != Class::Read {
            return;
        }
        let (issued_ns, has_room) = (Some(at_ns), self.requests.len() < self.limit);
        match self.requests.entry(place) {
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                // Requests that were merged into it made it longer.
                (known.issued_ns, known.class, known.bytes) = (issued_ns, class, bytes);
            }
            Entry::Vacant(new) if has_room => {
                let (queued_ns, asker) = (None, None);
                new.insert(Outstanding { queued_ns, issued_ns, class, bytes, asker });
            }
            Entry::Vacant(_) => {}
        }
    }

    /// The devices' counts of outstanding requests decide: if more are known as outstanding, the
    /// ends of the oldest were lost. Devices that are not asked for are left alone. Up to Linux 6.9
    /// devices count requests at the driver alone: those that wait in the elevator are lost only
    /// where nothing is outstanding.
    pub(super) fn at_most(&mut self, of: impl Fn(DeviceId) -> Option<u64>) {
        let mut outstanding: HashMap<DeviceId, Vec<(u64, bool, Place)>, Fast> = HashMap::default();
        for (place, request) in &self.requests {
            let since = request.queued_ns.or(request.issued_ns).unwrap_or(0);
            let is_issued = request.issued_ns.is_some();
            outstanding.entry(place.device).or_default().push((since, is_issued, *place));
        }
        for (device, mut requests) in outstanding {
            let Some(most) = of(device) else { continue };
            requests.retain(|(_, is_issued, _)| *is_issued || most == 0);
            let lost = requests.len().saturating_sub(usize::try_from(most).unwrap_or(usize::MAX));
            requests.sort_unstable_by_key(|(since, ..)| *since);
            for (.., place) in requests.into_iter().take(lost) {
                self.requests.remove(&place);
            }
        }
    }
}
