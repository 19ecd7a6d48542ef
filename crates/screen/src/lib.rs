//! The screen of `floodwall watch`: frames in, a drawing out; keys in, commands out.
//!
//! ```text
//! Frame ─▶ push ─▶ Screen ─▶ draw ─▶ ratatui's buffer
//! key   ─▶ key  ─▶   │    ─▶ Command: quit, step, run a command of floodwall's …
//! ```
//!
//! Pure: no terminal, no clock, no file. The command line owns the terminal and runs the commands.
//! Names of processes, units and files are shown through [`floodwall_model::printable`] alone.

mod command;
mod screen;
mod theme;

pub use command::Command;
pub use screen::{Mode, Options, Screen};
pub use theme::{Colours, Look};
