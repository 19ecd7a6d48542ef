//! What a picture shows.

use floodwall_model::PhaseKind;

/// Marks of a picture unless told otherwise: at most 105 bytes each, so that a picture stays under
/// 2 MB.
pub const MARKS: usize = 18_000;

/// What a picture shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Only this phase with its warm-up; needs a result.
    pub phase: Option<PhaseKind>,
    /// Of this round; the first that was recorded if absent.
    pub round: Option<u32>,
    /// The most marks for requests.
    pub marks: usize,
}

impl Default for View {
    fn default() -> Self {
        Self { phase: None, round: None, marks: MARKS }
    }
}
