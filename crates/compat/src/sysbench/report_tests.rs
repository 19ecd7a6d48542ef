//! Whole texts: 0.4.12's against published output, 1.0.20's against output of its own.

use std::time::Duration;

use floodwall_model::LatencyCounts;

use super::*;
use crate::sysbench::figures::{Counts, ThreadCounts};

fn options(line: &str) -> Options {
    Options::parse(&line.split_whitespace().collect::<Vec<_>>()).unwrap()
}

fn counts(reads: u64, writes: u64, syncs: u64) -> Counts {
    let block = 16 << 10;
    Counts { reads, writes, syncs, read_bytes: reads * block, written_bytes: writes * block }
}

/// The text without the lines of latencies, which a histogram does not have to the last digit.
fn without_latencies(text: &str) -> String {
    let is_other = |line: &&str| {
        !["min:", "avg:", "max:", "sum:", "percentile"].iter().any(|word| line.contains(word))
    };
    text.lines().filter(is_other).map(|line| format!("{line}\n")).collect()
}

// A published run: rndrw, 192 GB, 300 s (a README of 2015 on a SATA disk).
#[test]
fn the_old_report_is_that_which_is_published() {
    let options = options(
        "--test=fileio --file-total-size=192G --file-test-mode=rndrw --init-rng=on --max-time=300 \
         --max-requests=0 run",
    );
    let report = Report(&options);
    let figures = Figures {
        elapsed: Duration::from_micros(300_010_600),
        counts: counts(28_800, 19_200, 61_361),
        latencies: LatencyCounts::from_values(
            std::iter::repeat_n(2_860_000, 47_999).chain([86_530_000]),
        ),
        min_ns: 2_000,
        threads: vec![ThreadCounts { events: 48_000, event_ns: 137_319_900_000 }],
    };
    let text = report.head("") + &report.setup() + report.started() + &report.end(&figures, true);
    assert_eq!(
        text,
        "sysbench 0.4.12:  multi-threaded system evaluation benchmark

Running the test with following options:
Number of threads: 1
Initializing random number generator from timer.


Extra file open flags: 0
128 files, 1.5Gb each
192Gb total file size
Block size 16Kb
Number of random requests for random IO: 0
Read/Write ratio for combined random IO test: 1.50
Periodic FSYNC enabled, calling fsync() each 100 requests.
Calling fsync() at the end of test, Enabled.
Using synchronous I/O mode
Doing random r/w test
Threads started!
Time limit exceeded, exiting...
Done.

Operations performed:  28800 Read, 19200 Write, 61361 Other = 109361 Total
Read 450Mb  Written 300Mb  Total transferred 750Mb  (2.4999Mb/sec)
  159.99 Requests/sec executed

Test execution summary:
    total time:                          300.0106s
    total number of events:              48000
    total time taken by event execution: 137.3637
    per-request statistics:
         min:                                  0.00ms
         avg:                                  2.86ms
         max:                                 86.53ms
         approx.  95 percentile:               2.86ms

Threads fairness:
    events (avg/stddev):           48000.0000/0.00
    execution time (avg/stddev):   137.3199/0.00

"
    );
}

#[test]
fn the_old_banner_has_flags_as_numbers_and_ends_of_threads() {
    let options = options(
        "--test=fileio --num-threads=8 --file-extra-flags=direct --file-test-mode=seqrd run",
    );
    let report = Report(&options);
    let setup = report.setup();
    assert!(
        setup.contains("Number of threads: 8\n\nExtra file open flags: 16384\n128 files, 16Mb ")
    );
    assert!(!setup.contains("random requests"), "{setup}");
    let end = report.end(&Figures::default(), true);
    assert!(end.starts_with("Time limit exceeded, exiting...\n(last message repeated 7 times)\n"));
    assert!(end.contains("Read 0b  Written 0b  Total transferred 0b  (0b/sec)\n    0.00 Requests"));
}

// 1.0.20, rndwr with --file-fsync-all --percentile=99 --report-interval=1 --time=3.
#[test]
fn the_new_report_is_that_of_the_original() {
    let options = options(
        "fileio --file-num=16 --file-total-size=32M --file-test-mode=rndwr --file-fsync-all \
         --percentile=99 --report-interval=1 --rate=900 --time=3 run",
    );
    let report = Report(&options);
    let figures = Figures {
        elapsed: Duration::from_micros(3_001_500),
        counts: counts(0, 2606, 2606),
        latencies: LatencyCounts::from_values(std::iter::repeat_n(10_200_000, 2606)),
        min_ns: 130_000,
        threads: vec![ThreadCounts { events: 2606, event_ns: 2_995_090_000 }],
    };
    let interval = report.interval(Duration::from_millis(1001), &figures);
    let line =
        "[ 1s ] reads: 0.00 MiB/s writes: 13.57 MiB/s fsyncs: 868.23/s latency (ms,99%): 10.274\n";
    assert_eq!(interval, line);
    let head = report.head("floodwall 0.1.0");
    assert_eq!(head, "sysbench 1.0.20 (using floodwall 0.1.0)\n\n");
    let text = report.setup() + report.started() + &report.end(&figures, true);
    assert_eq!(
        without_latencies(&text),
        "Running the test with following options:
Number of threads: 1
Target transaction rate: 900/sec
Report intermediate results every 1 second(s)
Initializing random number generator from current time


Extra file open flags: (none)
16 files, 2MiB each
32MiB total file size
Block size 16KiB
Number of IO requests: 0
Read/Write ratio for combined random IO test: 1.50
Calling fsync() after each write operation.
Using synchronous I/O mode
Doing random write test
Initializing worker threads...

Threads started!


File operations:
    reads/s:                      0.00
    writes/s:                     868.23
    fsyncs/s:                     868.23

Throughput:
    read, MiB/s:                  0.00
    written, MiB/s:               13.57

General statistics:
    total time:                          3.0015s
    total number of events:              2606

Latency (ms):

Threads fairness:
    events (avg/stddev):           2606.0000/0.00
    execution time (avg/stddev):   2.9951/0.00

"
    );
    let latencies = text.split("Latency (ms):\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let wanted = "         min:                                    0.13
         avg:                                   10.20
         max:                                   10.20
         99th percentile:                       10.27
         sum:                                26581.20";
    assert_eq!(latencies, wanted);
}

#[test]
fn files_are_made_in_the_words_of_each() {
    let new = options("fileio --file-num=3 --file-total-size=7777777 prepare");
    let report = Report(&new);
    let making = "3 files, 2531Kb each, 7Mb total\nCreating files for the test...\nExtra file open \
                  flags: (none)\n";
    assert_eq!(report.making(), making);
    assert_eq!(report.made("test_file.0", Made::Extended), "Extending existing file test_file.0\n");
    assert_eq!(
        report.written(20 << 20, Duration::from_secs(2)),
        "20971520 bytes written in 2.00 seconds (10.00 MiB/sec).\n"
    );
    assert_eq!(report.written(0, Duration::ZERO), "No bytes written.\n");
    let old = options("--test=fileio --file-total-size=3G prepare");
    let report = Report(&old);
    let making = "128 files, 24576Kb each, 3072Mb total\nCreating files for the test...\n";
    assert_eq!(report.making() + &report.made("test_file.0", Made::Created), making);
    let deprecated = options("fileio --max-time=3 --file-test-mode=rndrd run");
    let warned = "WARNING: --max-time is deprecated, use --time instead\nsysbench 1.0.20";
    assert!(Report(&deprecated).head("x").starts_with(warned));
}
