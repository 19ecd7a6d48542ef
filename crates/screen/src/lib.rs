//! The screen of `floodwall watch`: frames in, a drawing out; keys in, commands out.
//!
//! ```text
//! Frame ─▶ push ─▶ Screen ─▶ draw ─▶ ratatui's buffer
//! key   ─▶ key  ─▶   │    ─▶ Command: quit, step, run a command of floodwall's …
//! ```
//!
//! Pure: no terminal, no clock, no file. The command line owns the terminal and runs the commands.
