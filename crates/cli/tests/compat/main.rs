//! `floodwall compat` beside the tools that it stands for. What a machine lacks is reported as
//! ignored, with the reason.
//!
//! ```text
//! the same command line ─┬▶ iostat ──────────────────┐
//!                        └▶ floodwall compat iostat ─┴▶ the same layout; under a load, figures
//! ```

mod iostat;

use floodwall_testing::{FUSE, LOOP, ROOT, lacks, run_alone, test};

fn main() {
    run_alone(vec![
        test("iostat's layout for each command line", || lacks(&["iostat"]), iostat::layouts),
        test("iostat's figures of a device in memory", || lacks(NEEDS), iostat::in_memory),
        test("iostat's figures of a device that takes its time", || lacks(LAB), iostat::in_lab),
        test("an interrupt ends it with a whole document", || None, iostat::interrupt),
        test("what is not supported is named, status 2", || None, iostat::refusals),
    ]);
}

const NEEDS: &[&str] = &[ROOT, LOOP, "iostat", "fio"];
const LAB: &[&str] = &[ROOT, LOOP, FUSE, "iostat", "fio"];
