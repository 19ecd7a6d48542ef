//! What the screen asks of the program around it.

/// A request of the screen to the program that owns the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// End.
    Quit,
    /// Stop the process as Ctrl-Z does.
    Suspend,
    /// Draw every cell anew.
    Redraw,
    /// In a recording, show the frame this many further on; negative ones are earlier.
    Step(i32),
    /// In a recording, show this moment: the text as the user typed it.
    Jump(String),
    /// Run floodwall with these arguments. The user has seen and confirmed them.
    Run(Vec<String>),
    /// Show the page of a finding (`FW001`).
    Explain(String),
    /// Tell the names of the files that the process of this number has open.
    Files(u32),
}
