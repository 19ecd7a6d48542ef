//! Prints docs/knobs.md: `cargo run -p floodwall-knobs --example knobs-md > docs/knobs.md`.

use std::io::Write;

fn main() -> std::io::Result<()> {
    std::io::stdout().lock().write_all(floodwall_knobs::catalogue::markdown().as_bytes())
}
