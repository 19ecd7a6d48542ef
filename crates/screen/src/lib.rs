//! The screen of `floodwall watch`: frames in, a drawing out; keys in, commands out.
//!
//! ```text
//! Frame ─▶ push ─▶ history ──┐
//!                            ├─▶ lists (filter, order) ─▶ view (main, device, process …) ─▶ draw
//! key   ─▶ keys ─▶ state  ───┘         fields, disks, sentence: what cells and lines say
//!            └───▶ Command: quit, step, jump, run a command of floodwall's (actions) …
//! ```
//!
//! Pure: no terminal, no clock, no file. The command line owns the terminal and runs the commands.
//! Names of processes, units and files are shown through [`floodwall_model::printable`] alone.
//! Files depend on those below them: `screen`, `view` and `keys`, `state`, `lists`, `fields`,
//! `figures` and `theme`.

mod actions;
mod command;
mod cursor;
mod disks;
mod fields;
mod figures;
mod history;
mod keys;
mod lists;
mod navigate;
mod screen;
mod sentence;
mod state;
mod table;
mod text;
mod theme;
mod view;
mod who;

pub use command::Command;
pub use screen::Screen;
pub use state::{Mode, Options};
pub use theme::{Colours, Look};
