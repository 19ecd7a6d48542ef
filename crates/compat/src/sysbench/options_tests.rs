//! Command lines as people write them, and what is wrong with others.

use proptest::prelude::*;

use super::Options;
use crate::sysbench::error::OptionError;
use crate::sysbench::kinds::{Command, Dialect, Mode, OpenFlags};

fn parse(line: &str) -> Result<Options, OptionError> {
    Options::parse(&line.split_whitespace().collect::<Vec<_>>())
}

fn wrong(line: &str) -> String {
    parse(line).unwrap_err().to_string()
}

#[test]
fn without_options_each_dialect_has_its_own() {
    let new = parse("fileio --file-test-mode=rndwr run").unwrap();
    assert_eq!(
        (new.dialect, new.command, new.mode),
        (Dialect::V1_0, Command::Run, Some(Mode::RndWr))
    );
    assert_eq!((new.files, new.block, new.file_len()), (128, 16 << 10, 16 << 20));
    assert_eq!((new.events, new.time_s, new.threads, new.seed), (0, 10, 1, None));
    assert_eq!((new.fsync_freq, new.fsync_end, new.percentile), (100, true, 95));
    let old = parse("--test=fileio --file-test-mode=rndrw run").unwrap();
    assert_eq!(
        (old.dialect, old.events, old.time_s, old.seed),
        (Dialect::V0_4, 10_000, 0, Some(0))
    );
}

#[test]
fn the_dialect_is_guessed_by_the_options_and_can_be_named() {
    let dialect =
        |line: &str| parse(&format!("{line} --file-test-mode=rndrd run")).unwrap().dialect;
    assert_eq!(dialect("fileio --num-threads=4"), Dialect::V1_0);
    assert_eq!(dialect("--test=fileio --num-threads=4 --percentile=99"), Dialect::V0_4);
    assert_eq!(dialect("--test=fileio --threads=4"), Dialect::V1_0);
    assert_eq!(dialect("--test=fileio --max-time=4 --init-rng=on"), Dialect::V0_4);
    assert_eq!(dialect("--test=fileio --max-time=4 --report-interval=1"), Dialect::V1_0);
    assert_eq!(dialect("--test=fileio --dialect=1.0"), Dialect::V1_0);
    assert_eq!(dialect("fileio --dialect=0.4"), Dialect::V0_4);
    assert!(wrong("fileio --dialect=2 run").contains("--dialect: '2' is not 1.0 or 0.4"));
}

#[test]
fn a_line_with_everything() {
    let line = "fileio --file-num=4 --file-block-size=4k --file-total-size=2G --file-io-mode=sync \
        --file_test_mode=seqrewr --file-extra-flags=direct,dsync --file-fsync-freq=0 \
        --file-fsync-mode=fdatasync --file-fsync-end=off --file-merged-requests=8 --threads=3 \
        --events=100 --time=0 --rate=50 --report-interval=2 --percentile=99 --histogram \
        --warmup-time=5 --rand-seed=7 --rand-type=pareto run";
    let options = parse(line).unwrap();
    let flags = OpenFlags { direct: true, dsync: true, sync: false };
    assert_eq!((options.flags, options.fdatasync, options.fsync_end), (flags, true, false));
    assert_eq!((options.file_len(), options.request_len()), (512 << 20, 32 << 10));
    assert_eq!((options.threads, options.events, options.time_s, options.rate), (3, 100, 0, 50));
    assert_eq!((options.interval_s, options.percentile, options.histogram), (2, 99, true));
    assert_eq!((options.warmup_s, options.seed), (5, Some(7)));
    let all =
        parse("fileio --file-test-mode=rndwr --file-fsync-all --file-fsync-freq=9 run").unwrap();
    assert_eq!((all.fsync_all, all.fsync_freq, all.fsync_end), (true, 0, false));
    let old = parse("fileio --max-requests=5 --file-test-mode=rndwr run").unwrap();
    assert_eq!((old.events, old.deprecated), (5, vec![("max-requests", "events")]));
    // Its order, and nothing of values that are 1.0's own.
    let old = "fileio --max-time=3 --max-requests=0 --num-threads=2 --file-test-mode=rndwr run";
    let warned = [("num-threads", "threads"), ("max-time", "time")];
    assert_eq!(parse(old).unwrap().deprecated, warned);
    let ignored = parse("fileio --max-time=0 --threads=3 --num-threads=1 cleanup").unwrap();
    assert_eq!((ignored.time_s, ignored.threads, ignored.deprecated), (10, 3, vec![]));
    assert_eq!(parse("fileio cleanup").unwrap().command, Command::Cleanup);
}

#[test]
fn what_is_wrong_is_named_with_the_nearest() {
    for (line, wanted) in [
        ("", "name the test"),
        ("run", "name the test"),
        ("cpu run", "the test 'cpu' is not supported here; fileio is"),
        ("--test=oltp run", "the test 'oltp' is not supported here"),
        ("fileio", "name the command"),
        ("fileio go", "unexpected 'go'"),
        ("fileio run prepare", "unexpected 'prepare'"),
        ("fileio run", "run needs --file-test-mode"),
        ("fileio --file-test-mode=rndwx run", "'rndwx' is not one of seqwr"),
        (
            "fileio --file-tet-mode=rndwr run",
            "no option '--file-tet-mode'; nearest: --file-test-mode",
        ),
        ("fileio -x run", "no option '-x'"),
        ("fileio --validate run", "'--validate' is not supported here; nearest: leave it out"),
        (
            "fileio --file-io-mode=async run",
            "'--file-io-mode=async' is not supported here; nearest: \
          --file-io-mode=sync --threads=N",
        ),
        ("fileio --file-io-mode=mmap run", "'--file-io-mode=mmap' is not supported here"),
        ("fileio --file-total-size=8X prepare", "--file-total-size: '8X' is not a size like 2G"),
        ("fileio --file-total-size=100 prepare", "less than a byte"),
        ("fileio --file-block-size=0 prepare", "--file-block-size: '0' is not a size"),
        ("fileio --file-block-size=2G prepare", "at most 1G"),
        (
            "fileio --file-block-size=1G --file-merged-requests=2 --file-test-mode=seqrd run",
            "at most 1G",
        ),
        ("fileio --file-num=0 prepare", "--file-num: '0' is not a whole number from 1"),
        ("fileio --threads=+1 prepare", "--threads: '+1' is not"),
        ("fileio --threads prepare", "--threads: '' is not a value; write --NAME=VALUE"),
        ("fileio --percentile=101 run", "--percentile: '101' is not a whole number from 1 to 100"),
        ("fileio --percentile=99.9 run", "--percentile: '99.9' is not"),
        ("fileio --file-fsync-all=yes run", "--file-fsync-all: 'yes' is not on or off"),
        ("fileio --file-rw-ratio=-1 run", "--file-rw-ratio: '-1' is not a number"),
        ("fileio --time=abc run", "--time: 'abc' is not a number of seconds"),
        ("fileio --init-rng=on run", "'--init-rng' is not supported here; nearest: --rand-seed=N"),
        (
            "--test=fileio --dialect=0.4 --rate=5 run",
            "'--rate' is not supported here; nearest: the \
          command line of 1.0",
        ),
    ] {
        let told = wrong(line);
        assert!(told.starts_with("sysbench: ") && told.contains(wanted), "{line}: {told}");
    }
}

proptest! {
    #[test]
    fn no_word_makes_it_panic(
        words in prop::collection::vec("(--?)?[a-z_-]{0,20}(=[0-9a-zA-Z.,-]{0,12})?", 0..8),
    ) {
        let _ = Options::parse(&words);
    }

    #[test]
    fn no_value_makes_it_panic(at in 0..34usize, value in "[0-9a-zA-Z.,+-]{0,22}") {
        let name = crate::sysbench::table::KNOWN[at].name;
        let option = format!("--{name}={value}");
        let _ = Options::parse(&["fileio", &option, "--file-test-mode=seqwr", "run"]);
    }
}
