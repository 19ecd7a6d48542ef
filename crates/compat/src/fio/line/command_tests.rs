use super::super::kinds::Amount;
use super::super::table::KNOWN;
use super::super::tests::Files;
use super::*;

const FILES: [(&str, &str); 2] = [
    (
        "a.fio",
        "[global]\nbs=8k\nsize=${SIZE}k\n[w]\nrw=write\n[r]\nrw=randread\nnumjobs=2\nstonewall\n\
         [global]\nbs=16k\n[z]\nnew_group\nfsync=1",
    ),
    ("b.fio", "[v]\nsize=1m"),
];

fn parse(line: &str) -> Result<Command, OptionError> {
    let words: Vec<&str> = line.split_whitespace().collect();
    Command::parse(&words, &mut Files(&FILES))
}

fn said(line: &str) -> String {
    parse(line).unwrap_err().to_string()
}

/// Name, clone, group, stage, block.
fn table(line: &str) -> Vec<(String, u32, u32, u32, u64)> {
    let row = |job: &JobSpec| {
        (job.options.name.clone(), job.clone, job.group, job.stage, job.options.block[0])
    };
    parse(line).unwrap().jobs.iter().map(row).collect()
}

fn row(name: &str, clone: u32, group: u32, stage: u32, block: u64) -> (String, u32, u32, u32, u64) {
    (name.to_owned(), clone, group, stage, block)
}

#[test]
fn options_before_the_first_job_are_of_all() {
    let line = "--rw=write --size 1M --name=a --bs=8k -name=b -numjobs 2 --thread --stonewall";
    let command = parse(line).unwrap();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(command.global_options, [pair("rw", "write"), pair("size", "1M")]);
    assert_eq!(command.jobs[0].given, [pair("name", "a"), pair("bs", "8k")]);
    assert_eq!(command.jobs[2].given, [pair("name", "b"), pair("numjobs", "2")]);
    let wanted = [row("a", 0, 0, 0, 8192), row("b", 0, 1, 1, 4096), row("b", 1, 1, 1, 4096)];
    assert_eq!(table(line), wanted);
    assert!(command.jobs.iter().all(|job| job.options.pattern.name() == "write"));
    assert_eq!(command.jobs[1].options.size, Some(Amount::Bytes(1 << 20)));
}

#[test]
fn a_job_file_has_globals_of_its_own() {
    let wanted = [
        row("w", 0, 0, 0, 8192),
        row("r", 0, 1, 1, 8192),
        row("r", 1, 1, 1, 8192),
        row("z", 0, 2, 1, 16384),
        row("v", 0, 3, 2, 4096),
    ];
    assert_eq!(table("a.fio b.fio"), wanted);
    let command = parse("--name=global --bs=1k b.fio").unwrap();
    assert_eq!((command.jobs.len(), command.jobs[0].options.block[1]), (1, 1024));
    assert_eq!(table("b.fio --name=c --size=4k")[0], row("c", 0, 0, 0, 4096));
    assert_eq!(table("a.fio --section=z"), [row("z", 0, 0, 0, 16384)]);
    assert_eq!(
        said("b.fio --section=y"),
        "fio: there is no section 'y' in the job files; check --section"
    );
}

#[test]
fn values_are_those_of_reads_writes_and_trims() {
    let of = |words: &str| {
        parse(&format!("--name=a --size=64k {words}")).unwrap().jobs[0].options.clone()
    };
    for (bs, wanted) in [
        ("1k", [1024; 3]),
        ("1k,2k", [1024, 2048, 2048]),
        ("1k,2k,8k", [1024, 2048, 8192]),
        ("1k,", [1024, 4096, 4096]),
        (",2k", [4096, 2048, 2048]),
    ] {
        assert_eq!(of(&format!("--bs={bs}")).block, wanted, "{bs}");
    }
    assert_eq!(of("--rate=1m").rate, [1 << 20; 2]);
    assert_eq!(of("--rate=,500k").rate, [0, 512_000]);
    assert_eq!(of("--rate_iops=100,20").rate_of(true), Some(20.0 * 4096.0));
    assert_eq!(of("--size=50%").size, Some(Amount::Percent(50)));
    assert_eq!(of("--directory=a:b\\:c").directories, ["a", "b:c"]);
    assert_eq!(of("--percentile_list=99.9:50").percentiles.list, [50.0, 99.9]);
    assert_eq!(of("--percentile_list=99.9:50").percentiles.precision, 1);
    assert_eq!(of("--rwmixwrite=30").read_percent, 70);
    let few = of("--gtod_reduce=1 --group_reporting --time_based=0 --write_bw_log=x");
    assert_eq!((few.lat, few.clat, few.slat, few.bw), (false, false, false, false));
    assert_eq!(
        (few.group_reporting, few.time_based, few.logs.bw.as_deref()),
        (true, false, Some("x"))
    );
}

#[test]
fn options_of_the_command() {
    let formats = |line: &str| parse(&format!("--name=a --size=4k {line}")).unwrap().formats;
    let none = Formats { normal: false, ..Formats::default() };
    assert_eq!(formats(""), Formats::default());
    assert_eq!(formats("--minimal"), Formats { terse: true, ..none });
    assert_eq!(
        formats("--output-format=json,normal"),
        Formats { json: true, normal: true, ..none }
    );
    assert_eq!(
        formats("--output-format json --append-terse"),
        Formats { json: true, terse: true, ..none }
    );
    let command =
        parse("--name=a --size=4k --output=x --eta=never --parse-only --max-jobs=1").unwrap();
    assert_eq!((command.output.as_deref(), command.parse_only), (Some("x"), true));
    assert!(parse("--version").unwrap().version);
    let warned = parse("--name=a --size=4k --time_based").unwrap().warnings;
    assert_eq!(warned, ["fio: job 'a': time_based needs runtime; ignored"]);
}

#[test]
fn what_can_not_be_followed_is_named() {
    for (line, wanted) in [
        ("", "fio: no job is defined; write --name=NAME before its options, or name a job file"),
        (
            "--name=a --foo=3",
            "fio: there is no option '--foo'; nearest: docs/compat.md lists those supported",
        ),
        (
            "--warnings-fatal --name=a --size=4k --time_based",
            "fio: job 'a': time_based needs runtime; ignored; take --warnings-fatal out, or heed \
             it",
        ),
        ("--name=a --blocksiz=3", "fio: there is no option '--blocksiz'; nearest: --blocksize"),
        (
            "--name=a --thinktime=3",
            "fio: '--thinktime' is not supported here; nearest: rate_iops=N",
        ),
        ("--name=a --showcmd", "fio: '--showcmd' is not supported here; nearest: leave it out"),
        (
            "--name=a --rw=trim",
            "fio: rw=trim: the value is not one of read, write, randread, randwrite, rw, randrw; \
             trim is not supported",
        ),
        ("--name=a --bs", "fio: bs needs a value; write bs=VALUE"),
        ("--name=a --bs=0", "fio: bs=0: the value is not a size from 1 to 1g"),
        (
            "--name=a --bs=4k-8k",
            "fio: bs=4k-8k: the value is not a single size; ranges are not supported",
        ),
        ("--name=a --direct=2", "fio: direct=2: the value is not 0 or 1"),
        ("--name=a --verify=md5", "fio: verify=md5: the value is not 0, which alone is supported"),
        (
            "--name=a --rwmixread=101",
            "fio: rwmixread=101: the value is not a percentage from 0 to 100",
        ),
        ("--name=a --iodepth=9999", "fio: iodepth=9999: the value is not a number from 1 to 4096"),
        (
            "--name=a --log_avg_msec=500us",
            "fio: log_avg_msec=500us: the value is not a whole number of milliseconds",
        ),
        (
            "--name=a --terse-version=5",
            "fio: terse-version=5: the value is not 3, which alone is supported",
        ),
        (
            "--name=a --size=1k",
            "fio: job 'a': its size is less than a block; raise size or lower bs",
        ),
        (
            "--name=a --size=4k --rw=write --readonly",
            "fio: job 'a': it writes, and --readonly is set; take one of them out",
        ),
        (
            "--name=a --numjobs=9 --max-jobs=3",
            "fio: 9 jobs are more than --max-jobs=3; raise it or lower numjobs",
        ),
        ("c.fio", "fio: can't read the job file 'c.fio': not there; check its name"),
    ] {
        assert_eq!(said(line), wanted, "{line}");
    }
}

proptest::proptest! {
    #[test]
    fn any_words_and_any_file_are_followed_or_refused(
        words in proptest::collection::vec("-{0,2}[a-z_]{0,9}=?[0-9a-zA-Z$%,:.{}-]{0,8}", 0..6),
        text in "(\\[[a-z]{0,3}\\]?\n|[a-z_]{1,8} ?=? ?[$#;{}a-z0-9é]{0,6}\n){0,6}",
    ) {
        let _ = Command::parse(&words, &mut Files(&[]));
        let _ = Command::parse(&["x.fio"], &mut Files(&[("x.fio", &text)]));
    }
}

#[test]
fn every_option_that_there_is_is_known_once_or_refused_with_a_remedy() {
    let names = KNOWN.iter().flat_map(|known| [Some(known.name), known.alias]).flatten();
    let mut seen = std::collections::HashSet::new();
    for name in names {
        assert!(seen.insert(name), "{name} is there twice");
        assert_eq!(super::super::others::instead(name), None, "{name}");
    }
}
