//! Knobs that another program has set or has asked for.

use floodwall_model::Setting;
use floodwall_model::plant::{KnobWrite, PlantError};
use floodwall_model::setting::is_priority;

use super::{ELEVATOR, Held, REQUESTS, follows_elevator};
use crate::report::Report;

impl Held {
    /// Why a knob belongs to another program; `None` if it does not.
    pub(super) fn somebody_elses<'a>(&'a self, knob: &str, reads: &'a Setting) -> Option<String> {
        // Single threads of a process may differ: they come and go.
        let common =
            |value: &'a str| if is_priority(knob) { value.split(' ').next() } else { Some(value) };
        let (found, expected) =
            (reads.get(knob).and_then(common), self.expected(knob).and_then(common));
        (found != expected).then(|| {
            let (found, expected) = (found.unwrap_or("nothing"), expected.unwrap_or("nothing"));
            format!("it reads {found}, not {expected} as it was left: somebody else has set it")
        })
    }

    /// Leaves a knob to the program that has set it. If an elevator would change it, its value
    /// counts as the administrator's. It then comes back with the administrator's elevator.
    pub(super) fn leave_to_them(
        &mut self,
        write: KnobWrite,
        reads: &Setting,
        why: String,
        report: &mut Report,
    ) {
        let knob = write.knob.clone();
        if let Some(theirs) =
            reads.get(&knob).filter(|_| knob == ELEVATOR || follows_elevator(&knob))
        {
            self.own.0.insert(knob.clone(), theirs.to_owned());
        }
        self.theirs.insert(knob.clone());
        self.give_up(&knob, PlantError::Refused { write, why }, report);
    }

    /// Leaves a knob to the program that has asked for it. The plant puts it back, with the knobs
    /// that it had moved.
    pub(crate) fn yield_knob(&mut self, knob: &str) {
        if knob == ELEVATOR || knob == REQUESTS {
            self.unread = false;
            self.moved.retain(|knob, _| !follows_elevator(knob));
        }
        self.written.remove(knob);
        self.moved.remove(knob);
        self.later.remove(knob);
        self.theirs.insert(knob.to_owned());
        self.left_alone.insert(knob.to_owned());
        self.yielded.insert(knob.to_owned());
    }
}
