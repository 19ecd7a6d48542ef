//! `floodwall compat` beside the tools that it stands for. What a machine lacks is reported as
//! ignored, with the reason.
//!
//! ```text
//! the same command line ─┬▶ TOOL ──────────────────┐
//!                        └▶ floodwall compat TOOL ─┴▶ the same layout; under a load, figures
//! ```

mod dd;
mod iostat;
mod lab;
mod mask;
mod sysbench;

use floodwall_testing::{FUSE, LOOP, ROOT, lacks, run_alone, test};

fn main() {
    run_alone(vec![
        test("iostat's layout for each command line", || lacks(&["iostat"]), iostat::layouts),
        test("iostat's figures of a device in memory", || lacks(NEEDS), iostat::in_memory),
        test("iostat's figures of a device that takes its time", || lacks(LAB), iostat::in_lab),
        test("an interrupt ends it with a whole document", || None, iostat::interrupt),
        test("what is not supported is named, status 2", || None, iostat::refusals),
        test("sysbench's layout for each command line", || lacks(&["sysbench"]), sysbench::layouts),
        test(
            "sysbench's figures of a device that takes its time",
            || lacks(FILEIO),
            sysbench::in_lab,
        ),
        test("sysbench's old dialect does what published runs did", || None, sysbench::old),
        test("sysbench's wrong lines are refused", || None, sysbench::refusals),
        test("sysbench's files stay after an interrupt", || None, sysbench::interrupt),
        test("dd's copies of files and pipes", || lacks(&["dd"]), dd::files),
        test("dd's sizes and rates are rounded alike", || lacks(&["dd"]), dd::rounding),
        test("dd's wrong words are named with the nearest", || lacks(&["dd"]), dd::wrong),
        test("dd's copies to devices", || lacks(DEVICE), dd::devices),
        test("dd's rates on a device that takes its time", || lacks(SLOW), dd::rates),
        test("dd's answers to signals", || lacks(&["dd"]), dd::signals),
        test("dd does not write a device in use", || lacks(DEVICE), dd::held),
        test("a link with a tool's name is the tool", || None, dd::links),
    ]);
}

const NEEDS: &[&str] = &[ROOT, LOOP, "iostat", "fio"];
const LAB: &[&str] = &[ROOT, LOOP, FUSE, "iostat", "fio"];
const DEVICE: &[&str] = &[ROOT, LOOP, "dd", "mkfs.ext4"];
const SLOW: &[&str] = &[ROOT, LOOP, FUSE, "dd"];
const FILEIO: &[&str] = &[ROOT, LOOP, FUSE, "mkfs.ext4", "sysbench"];
