//! A kept value, and a disk's.

use super::identity::Identity;
use crate::catalogue::Knob;

/// A knob and its value, in its file's unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The knob.
    pub knob: &'static Knob,
    /// Checked.
    pub value: String,
}

/// A disk's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its identity.
    pub identity: Identity,
    /// Its name when they were written, for people.
    pub known_as: String,
    /// Its knobs.
    pub values: Vec<Value>,
}
