//! Command lines as people write them, and what is wrong with others.

use proptest::prelude::*;

use super::Options;
use crate::disktest::error::OptionError;
use crate::disktest::kinds::{Data, Kind, Seeks, Version};

fn parse(line: &str) -> Result<Options, OptionError> {
    Options::parse(&line.split_whitespace().collect::<Vec<_>>())
}

#[test]
fn the_lines_of_the_published_table() {
    let read = parse("-B 4k -h 1 -I BD -K 4 -p l -P T -T 300 -r /dev/sdb").unwrap();
    assert_eq!((read.block, read.threads, read.kind), (4096, 4, Kind::Block));
    assert_eq!((read.direct, read.seeks_as, read.throughput), (true, Seeks::Linear, true));
    assert_eq!((read.time_s, read.heartbeat_s), (Some(300), Some(1)));
    assert_eq!((read.reads, read.writes, read.duty), (true, false, (100, 0)));
    let write = parse("-B 4k -h 1 -I BD -K 4 -p r -P T -T 30 -w -D 0:100 /dev/sdb").unwrap();
    assert_eq!((write.reads, write.writes, write.duty), (false, true, (0, 100)));
    assert_eq!((write.seeks_as, write.version), (Seeks::Random, Version::V1_2));
}

#[test]
fn without_options_it_reads_at_random() {
    let plain = parse("file").unwrap();
    assert_eq!((plain.block, plain.threads, plain.seeks_as), (512, 4, Seeks::Random));
    assert_eq!((plain.reads, plain.writes, plain.kind), (true, false, Kind::File));
    assert_eq!((plain.timeout_s, plain.data), (None, Data::Counter));
    let kind = |target: &str| parse(target).unwrap().kind;
    assert_eq!([kind("/dev/sda"), kind("/dev/raw/raw1")], [Kind::Block, Kind::Raw]);
}

#[test]
fn letters_join_as_in_getopt() {
    let joined = parse("-rwpl -B8k -K8 -PTX -L35 -S10:15 -Ifs x").unwrap();
    assert_eq!((joined.block, joined.threads, joined.seeks), (8192, 8, Some(35)));
    assert_eq!((joined.range, joined.sync_every), (Some((10, Some(15))), Some(1)));
    assert_eq!((joined.throughput, joined.transfers, joined.runtime), (true, true, false));
    assert_eq!((joined.reads, joined.writes, joined.duty), (true, true, (50, 50)));
    assert_eq!(parse("x -- -B").unwrap_err(), OptionError::Word("-B".into()));
}

#[test]
fn blocks_are_sectors_up_to_256() {
    let block = |text: &str| parse(&format!("-B {text} x")).unwrap().block;
    assert_eq!(["1", "256", "512", "1000"].map(block), [512, 131_072, 512, 512]);
    assert_eq!(["4k", "1m", "4K", "8192"].map(block), [4096, 1 << 20, 3584, 8192]);
}

#[test]
fn options_of_the_new_version_choose_it() {
    let pauses = parse("-K8 -t500:15000:120s ./testfile").unwrap();
    assert_eq!((pauses.version, pauses.pause_ms), (Version::V1_4, (500, 15_000)));
    assert_eq!(pauses.timeout_s, Some(120));
    let pause = |text: &str| parse(&format!("-t {text} x")).unwrap();
    assert_eq!((pause("30").pause_ms, pause("30").timeout_s), ((30, 30), Some(60)));
    assert_eq!((pause("0:2h").timeout_s, pause("0:0").timeout_s), (Some(7200), None));
    assert_eq!(parse("-w -Ifs200 x").unwrap().sync_every, Some(200));
    let random = |line: &str| parse(line).unwrap().seeks_as;
    assert_eq!(random("--dialect=1.4 -pr -rw x"), Seeks::Interleaved);
    assert_eq!(random("--dialect=1.4 -pR -rw x"), Seeks::Random);
    assert_eq!(random("-pr -rw x"), Seeks::Random);
}

#[test]
fn the_type_has_to_be_the_targets() {
    let settle = |line: &str, is_device| {
        let mut options = parse(line).unwrap();
        options.settle(is_device).map(|()| options.kind).map_err(|e| e.to_string())
    };
    assert_eq!(settle("-I BD /dev/sdb", Some(true)), Ok(Kind::Block));
    assert_eq!(settle("/mnt/dev/file", Some(false)), Ok(Kind::File));
    assert_eq!(settle("-w new", None), Ok(Kind::File));
    let wrong = |line, is_device| settle(line, is_device).unwrap_err();
    assert_eq!(wrong("-I F x", Some(true)), "disktest: 'x' is a device; write -I b");
    assert_eq!(wrong("-I BD x", Some(false)), "disktest: 'x' is a file; write -I f");
    assert!(wrong("-w /dev/sdx", None).contains("there is no"), "a device is not made");
    assert!(wrong("x", None).contains("there is no 'x'; write it first"));
    assert!(wrong("-w -I s /dev/sdx", Some(true)).contains("-I s is for files"));
}

#[test]
fn shares_are_filled_up() {
    let duty = |text: &str| parse(&format!("-rw -D {text} x")).map(|options| options.duty);
    assert_eq!(duty("30:70"), Ok((30, 70)));
    assert_eq!(duty("20:70"), Ok((25, 75)));
    assert_eq!([duty("0:70"), duty("5:0")], [Ok((0, 100)), Ok((100, 0))]);
    let writes = parse("-rw -D 0:100 x").unwrap();
    assert_eq!((writes.reads, writes.writes), (false, true));
    for wrong in ["0:0", "60:60", "50", "-1:101", "a:b", "4294967295:9"] {
        assert!(duty(wrong).unwrap_err().to_string().contains("not shares like 30:70"), "{wrong}");
    }
}

#[test]
fn wrong_lines_say_what_to_write() {
    for (line, wanted) in [
        ("", "name the target"),
        ("a b", "unexpected 'b'; there is one target"),
        ("-E 8 x", "'-E' is not supported here; nearest: leave it out; data is not checked"),
        ("-n x", "'-n' is not supported here; nearest: -c, the bytes 0 to 255"),
        ("-C 3 x", "'-C' is not supported here; nearest: -T SECONDS"),
        ("-b 4k x", "no option '-b'; nearest: -B"),
        ("-k 4 x", "no option '-k'; nearest: -K"),
        ("-9 x", "no option '-9'; nearest: docs/compat.md"),
        ("--blocks=9 x", "no option '--blocks=9'; nearest: --dialect=1.2"),
        ("--dialect=2 x", "no option '--dialect=2'; nearest: --dialect=1.2"),
        ("-B", "-B: '' is not a value"),
        ("-B 4k:8k x", "'-B 4k:8k' is not supported here; nearest: one size"),
        ("-B 0 x", "-B: '0' is not a size"),
        ("-B 300 x", "-B: '300' is not"),
        ("-B 2g x", "at most 1g"),
        ("-K 0 x", "-K: '0' is not a number of threads"),
        ("-K 99999 x", "at most 65536"),
        ("-T 0 x", "-T: '0' is not a number of seconds"),
        ("-T 3 -L 4 x", "-T and -L exclude each other"),
        ("-s 1 -S 1 x", "-s and -S exclude each other"),
        ("-S 9:1 x", "-S: '9:1' is not a range"),
        ("-pl -rw -D 5:5 x", "-D is for random seeks"),
        ("-pL -rw x", "'-p L with -r and -w' is not supported here; nearest: a run with -w"),
        ("-pld x", "'-p ld' is not supported here; nearest: -p l"),
        ("-p x x", "-p: 'x' is not l, L, r or R"),
        ("-h 1 -T 5 x", "-h needs lines to print; add -P T"),
        ("-h 9 -T 5 -PT x", "-h is longer than -T"),
        ("-PTP x", "'-P TP' is not supported here; nearest: -P TXR"),
        ("-P t x", "-P: 't' is not of T, X, R, A"),
        ("-I q x", "-I: 'q' is not of r, b or f"),
        ("--dialect=1.4 -I fds x", "-I has d and s"),
        ("--dialect=1.2 -I fs9 x", "'-I fs9' is not supported here"),
        ("-I fs0 x", "-I: 'fs0' is not a type like fs200"),
        ("-rw -I fs9 x", "-I sN is for writes alone"),
        ("-t 9:1:1 x", "-t: '9:1:1' is not milliseconds"),
    ] {
        let told = parse(line).unwrap_err().to_string();
        assert!(told.starts_with("disktest: ") && told.contains(wanted), "{line}: {told}");
    }
}

proptest! {
    #[test]
    fn no_word_makes_it_panic(
        words in prop::collection::vec("-?[a-zA-Z-]{0,3}[0-9a-zA-Zµ:.]{0,22}", 0..8),
    ) {
        if let Ok(options) = Options::parse(&words) {
            let _ = crate::disktest::Extent::of(&options, Some(1 << 30), true);
        }
    }
}
