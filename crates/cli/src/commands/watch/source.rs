//! Where frames come from.

use floodwall_model::frame::Frame;

/// What a source has.
pub(super) enum Next {
    /// One more frame.
    Frame(Box<Frame>),
    /// Frames in the place of all others; the last one is shown.
    Frames(Vec<Frame>),
    /// A line for the user.
    Say(String),
    /// Nothing yet.
    Nothing,
    /// It has nothing any more, and why.
    Lost(anyhow::Error),
}

/// A source of frames. It never blocks.
pub(super) trait Source {
    /// What there is now.
    fn next(&mut self) -> Next;

    /// Goes this many frames on, or back.
    fn step(&mut self, by: i32) -> Next {
        let _ = by;
        Next::Say("t and T step through a recording: floodwall watch --replay".to_owned())
    }

    /// Goes to a moment, as the user wrote it.
    fn jump(&mut self, moment: &str) -> Next {
        let _ = moment;
        Next::Say("b jumps in a recording: floodwall watch --replay".to_owned())
    }
}
