//! `floodwall compat` beside the tools that it stands for. What a machine lacks is reported as
//! ignored, with the reason.
//!
//! ```text
//! the same command line ─┬▶ TOOL ──────────────────┐
//!                        └▶ floodwall compat TOOL ─┴▶ the same layout; under a load, figures
//! ```
//!
//! `cargo test -p floodwall --test compat -- speed` compares speeds; `make bench` does it.

mod beside;
mod check;
mod dd;
mod disktest;
mod fio_consumers;
mod fio_jobs;
mod fio_reports;
mod fio_safety;
mod iostat;
mod lab;
mod mask;
mod rounds;
mod sysbench;

use floodwall_testing::{FUSE, LOOP, ROOT, Trial, lacks, run_after, run_alone, test};

/// The word that asks for the comparisons of speed. They are no tests of `make test`: on a busy
/// machine they fail without a fault.
const SPEED: &str = "speed";

fn main() {
    if std::env::args().any(|word| word == SPEED) {
        run_alone(speed());
    }
    run_after(formats(), devices());
}

fn speed() -> Vec<Trial> {
    vec![
        test("speed: check etcd alone has fio's percentiles", || lacks(MADE), check::percentiles),
        test("speed: sysbench's figures on a slow device", || lacks(FILEIO), sysbench::in_lab),
        test("speed: fio's figures on a slow device", || lacks(FIO_LAB), fio_jobs::in_lab),
        test("speed: disktest's rates on a slow device", || lacks(RATES), disktest::rates),
        test("speed: dd's rates on a slow device", || lacks(SLOW), dd::rates),
    ]
}

/// Tests of what is printed, and of files.
fn formats() -> Vec<Trial> {
    vec![
        test("an interrupt ends it with a whole document", || None, iostat::interrupt),
        test("what is not supported is named, status 2", || None, iostat::refusals),
        test("sysbench's layout for each command line", || lacks(&["sysbench"]), sysbench::layouts),
        test("sysbench's old dialect does what published runs did", || None, sysbench::old),
        test("sysbench's wrong lines are refused", || None, sysbench::refusals),
        test("sysbench's files stay after an interrupt", || None, sysbench::interrupt),
        test("disktest's lines are those that were published", || None, disktest::lines),
        test("disktest's wrong lines are refused", || None, disktest::refusals),
        test("disktest's ends, and a link that is it", || None, disktest::ends),
        test("dd's copies of files and pipes", || lacks(&["dd"]), dd::files),
        test("dd's sizes and rates are rounded alike", || lacks(&["dd"]), dd::rounding),
        test("dd's wrong words are named with the nearest", || lacks(&["dd"]), dd::wrong),
        test("dd's answers to signals", || lacks(&["dd"]), dd::signals),
        test("a link with a tool's name is the tool", || None, dd::links),
        test("fio's command lines are followed alike", || lacks(&["fio"]), fio_jobs::lines),
        test("fio's files and counts", || lacks(&["fio"]), fio_jobs::counts),
        test("fio's wrong lines are refused", || None, fio_jobs::refusals),
        test("fio's ends", || None, fio_jobs::ends),
        test("fio's reports for each command line", || lacks(&["fio"]), fio_reports::layouts),
        test("fio's logs", || lacks(&["fio"]), fio_reports::logs),
        test("fio leaves files that it reads", || None, fio_safety::reads),
        test("fio checks all jobs before it makes a file", || None, fio_safety::order),
        test("fio removes files where it is asked to", || None, fio_safety::removal),
        test("fio's exitall ends a group", || None, fio_safety::groups),
        test("fio's reader: the check of etcd's disks", || lacks(&["jq"]), fio_consumers::etcd),
        test("fio's reader: YABS", || lacks(&["awk"]), fio_consumers::yabs),
        test("fio's reader: Phoronix Test Suite", || None, fio_consumers::phoronix),
        test("fio's reader: Kubestr", || None, fio_consumers::kubestr),
        test("fio's reader: Ceph Benchmarking Tool", || None, fio_consumers::cbt),
        test("fio's reader: fio-plot", || lacks(&["fio-plot"]), fio_consumers::fio_plot),
        test("beside a flood: wrong lines are refused", || None, beside::refusals),
    ]
}

/// Tests that make a device, or count what all devices of the machine do.
fn devices() -> Vec<Trial> {
    vec![
        test("iostat's layout for each command line", || lacks(&["iostat"]), iostat::layouts),
        test("iostat's figures of a device in memory", || lacks(NEEDS), iostat::in_memory),
        test("iostat's figures of a device that takes its time", || lacks(LAB), iostat::in_lab),
        test("disktest's counts are the kernel's", || lacks(&[ROOT, LOOP]), disktest::counts),
        test("disktest does not write a device in use", || lacks(HELD), disktest::held),
        test("dd's copies to devices", || lacks(DEVICE), dd::devices),
        test("dd does not write a device in use", || lacks(DEVICE), dd::held),
        test("fio does not write a device in use", || lacks(HELD), fio_jobs::held),
        test("fio's reports of a disk", || lacks(FIO_DISK), fio_reports::disks),
        test("beside a flood: a report and figures", || lacks(MOUNTED), beside::figures),
        test("beside a flood: all is put back", || lacks(MOUNTED), beside::ends),
        test("beside a flood: settings that can't be", || lacks(HIDDEN), beside::settings),
    ]
}

const MOUNTED: &[&str] = &[ROOT, LOOP, FUSE, "mkfs.ext4"];
const HIDDEN: &[&str] = &[ROOT, LOOP, FUSE, "mkfs.ext4", "unshare"];
const NEEDS: &[&str] = &[ROOT, LOOP, "iostat", "fio"];
const FIO_DISK: &[&str] = &[ROOT, LOOP, "mkfs.ext4", "fio"];
const FIO_LAB: &[&str] = &[ROOT, LOOP, FUSE, "mkfs.ext4", "fio"];
const LAB: &[&str] = &[ROOT, LOOP, FUSE, "iostat", "fio"];
const DEVICE: &[&str] = &[ROOT, LOOP, "dd", "mkfs.ext4"];
const HELD: &[&str] = &[ROOT, LOOP, "mkfs.ext4"];
const MADE: &[&str] = &[ROOT, LOOP, FUSE, "mkfs.ext4", "fio"];
const RATES: &[&str] = &[ROOT, LOOP, FUSE, "fio"];
const SLOW: &[&str] = &[ROOT, LOOP, FUSE, "dd"];
const FILEIO: &[&str] = &[ROOT, LOOP, FUSE, "mkfs.ext4", "sysbench"];
