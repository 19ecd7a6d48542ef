use super::super::testing::{parse, sweep};
use super::*;

fn shown(sweep: &Sweep, axis: &str) -> String {
    let axis = sweep.axes.iter().find(|a| a.name == axis).unwrap();
    axis.values.iter().map(|v| v.shown.to_string()).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_full_file_is_read_as_written() {
    let s = sweep(
        r#"
name = "all"
description = "everything"
baseline = false
[machine]
device = ["hdd-7200", "sata-ssd"]
scenario = ["./tiny.toml", "backup-vs-wal"]
kernel = ["2.6.32", "6.18"]
ram = { from = "1GiB", to = "64GiB", steps = 4 }
fs = ["xfs", "ext4"]
cpus = [1, 2, 8]
hz = ["default", 100]
queue_depth = ["default", 1, 32]
member_queues = [1, 2]
capacity = ["default", "100GB"]
seed = { from = 0, to = 9, steps = 10, scale = "linear" }
[knobs]
vm.dirty_bytes = ["default", "15MB", { from = "4MiB", to = "16MiB", steps = 3 }]
"scheduler" = ["none", "default"]
[[setting]]
name = "as booted"
[[setting]]
name = "short"
nr_requests = 8
vm.dirty_background_bytes = "default"
[timing]
rounds = 1
measure = "3s"
warmup_max = "1s"
settle = "0s"
[sample]
cells = 40
seed = 7
"#,
    );
    for (axis, values) in [
        ("ram_bytes", "1073741824 4294967296 17179869184 68719476736"),
        ("cpus", "1 2 8"),
        ("hz", "null 100"),
        ("queue_depth", "null 1 32"),
        ("capacity_bytes", "null 100000000000"),
        ("seed", "0 1 2 3 4 5 6 7 8 9"),
        ("scenario", "\"./tiny.toml\" \"backup-vs-wal\""),
        ("kernel", "\"2.6.32\" \"6.18\""),
        ("setting_name", "\"as booted\" \"short\""),
        ("scheduler", "\"none\" null"),
        ("vm.dirty_bytes", "null 15000000 4194304 8388608 16777216"),
    ] {
        assert_eq!(shown(&s, axis), values, "{axis}");
    }
    assert_eq!(s.grid, 2 * 2 * 2 * 4 * 2 * 3 * 2 * 3 * 2 * 2 * 10 * 2 * 2 * 5);
    assert_eq!((s.cells.len(), s.baseline, s.group), (40, false, 20));
    // The last of everything is what it says.
    let Cell { options, scenario, setting } = s.cell(s.grid - 1);
    let timing = &scenario.timing;
    assert_eq!((timing.rounds, timing.measure.as_secs(), timing.settle.as_secs()), (1, 3, 0));
    assert_eq!((options.ram, options.cpus, options.hz), (Bytes::gib(64), 8, Some(100)));
    assert_eq!((options.queue_depth, options.member_queues, options.seed), (Some(32), 2, 9));
    assert_eq!(options.capacity, Some(Bytes(100_000_000_000)));
    assert_eq!(setting.to_string(), "nr_requests=8,vm.dirty_bytes=16777216");
}

#[test]
fn a_device_is_all_that_it_takes() {
    let s = sweep("[machine]\ndevice = \"null\"\n");
    assert_eq!((&s.cells[..], s.name.as_str(), s.baseline), (&[0][..], "sweep", true));
    assert_eq!(shown(&s, "scenario"), "\"copy-vs-database\"");
    let first = floodwall_model::scenario::builtin_names().next();
    assert_eq!(first, Some(SCENARIO), "what bench and sim take without a name");
}

#[test]
fn mistakes_name_their_line_and_what_to_write() {
    let with = |line: &str| format!("[machine]\ndevice = \"null\"\n{line}\n");
    for (text, message) in [
        (
            String::new(),
            "line 1: [machine] has no device; write device = \"hdd-7200\" or a list of devices",
        ),
        ("[machin]\n".into(), "line 1: unknown key 'machin'; did you mean 'machine'?"),
        (
            "machine = 3\n".into(),
            "line 1: machine is a table: write [machine] and its keys below it",
        ),
        (with("kernal = \"6.18\""), "line 3: unknown key 'kernal'; did you mean 'kernel'?"),
        (
            with("kernel = [\"6.18\",\n \"2.4\"]"),
            "line 4: '2.4' is no kernel that the model has; use 2.6.18, 2.6.32, 3.2 or 6.18",
        ),
        (with("ram = [\n\"4GiB\",\n8]"), "line 5: '8' needs a unit: 8B is 8 B, 8MiB is 8 MiB"),
        (
            with("fs = \"zfs\""),
            "line 3: 'zfs' is no filesystem that the model has; use xfs, ext4, ext3, \
             ext3-writeback, btrfs, raw, nfs or nfs-async",
        ),
        (with("cpus = 0"), "line 3: '0' is not a whole number from 1"),
        (with("hz = \"fast\""), "line 3: 'fast' is not a whole number from 1, or \"default\""),
        (with("cpus = [2, 4, 2]"), "line 3: '2' is there twice; leave one out"),
        (with("cpus = []"), "line 3: the list is empty; give a value or leave the key out"),
        (with("cpus = 1.5"), "line 3: 1.5 is no single value; write a text or a whole number"),
        (with("seed = -1"), "line 3: '-1' is not a whole number from 0"),
        (
            with("scenario = \"copy-vs-databse\""),
            "line 3: there is no scenario 'copy-vs-databse'; did you mean 'copy-vs-database'? \
             (floodwall bench --list-scenarios names them)",
        ),
        (
            "[machine]\ndevice = [\"null\",\n\"hdd-720\"]".into(),
            "line 3: there is no preset 'hdd-720'; did you mean 'hdd-7200'?",
        ),
        (
            with("[knobs]\nvm.dirty_bytes = [\"default\", 15]"),
            "line 4: vm.dirty_bytes: '15' needs a unit: 15B is 15 B, 15MiB is 15 MiB",
        ),
        (
            with("[knobs]\nscheduler = \"none\"\n[[setting]]\nname = \"a\"\nscheduler = \"bfq\""),
            "line 7: scheduler is an axis in [knobs] already; leave it out in one place",
        ),
        (
            with("[[setting]]\nname = \"a\"\n[[setting]]\nname = \"a\""),
            "line 6: two settings are called 'a'",
        ),
        (
            with("[[setting]]\nscheduler = \"bfq\""),
            "line 3: a [[setting]] has no name; write name = \"small-limits\"",
        ),
        (
            with("[setting]\nname = \"a\""),
            "line 3: settings are tables: write [[setting]], a name, and its knobs",
        ),
        (
            with("ram = { from = \"1GiB\", steps = 3 }"),
            "line 3: missing field 'to'; write { from = \"4MiB\", to = \"4GiB\", steps = 11 }",
        ),
        (
            with("ram = { from = \"4GiB\", to = \"2GiB\", steps = 3 }"),
            "line 3: the range ends before it begins",
        ),
        (
            with("ram = { from = \"4GiB\", to = 8, steps = 3 }"),
            "line 3: one end of the range is a size and the other is not; write both with a unit",
        ),
        (
            with("seed = { from = 0, to = 8, steps = 3 }"),
            "line 3: no factor leads away from 0; begin at 1 or write scale = \"linear\"",
        ),
        (with("seed = { from = 1, to = 8, steps = 1 }"), "line 3: a range has 2 to 10000 steps"),
        (
            with("seed = { from = 1, to = 8, steps = 3, scale = \"lin\" }"),
            "line 3: unknown value 'lin'; did you mean 'linear'?; write { from = \"4MiB\", \
             to = \"4GiB\", steps = 11 }",
        ),
        (
            with("[timing]\nmeasure = \"1500ms\""),
            "line 3: measure = 1.50 s is not a whole number of seconds, the length of a window; \
             write at least \"1s\"",
        ),
        (
            with("[timing]\nsettle = 3"),
            "line 4: '3' is not a duration: write a number and a unit, such as 250ms, 30s or 5m",
        ),
        (with("[timing]\nrounds = 0"), "line 3: rounds = 0 measures nothing; write at least 1"),
        (with("[sample]\nseed = 1"), "line 3: missing field 'cells'"),
        (
            "baseline = 1\n[machine]\ndevice = \"null\"\n".into(),
            "line 1: integer '1' is not true or false",
        ),
    ] {
        assert_eq!(parse(&text).err().as_deref(), Some(message), "{text}");
    }
    let knob = parse(&with("[knobs]\nvm.dirty_byte = \"1MiB\"")).err().unwrap();
    assert!(knob.starts_with("line 4: there is no knob 'vm.dirty_byte'; did you mean"), "{knob}");
    let syntax = parse("[machine]\ndevice = [\n").err().unwrap();
    assert!(syntax.starts_with("line "), "{syntax}");
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "[\\PC\\n]{0,60}") {
        let _ = parse(&text);
        let _ = parse(&format!("[machine]\ndevice = \"null\"\n{text}"));
    }

    #[test]
    fn a_range_has_its_ends_and_rises(
        low in 1u64..1_000_000, more in 1u64..1_000_000_000, steps in 2usize..60, linear: bool
    ) {
        let scale = if linear { "linear" } else { "log" };
        let high = low + more;
        let s = sweep(&format!("[machine]\ndevice = \"null\"\n\
            seed = {{ from = {low}, to = {high}, steps = {steps}, scale = \"{scale}\" }}\n"));
        let seeds: Vec<u64> = shown(&s, "seed").split(' ').map(|n| n.parse().unwrap()).collect();
        proptest::prop_assert!(seeds.first() == Some(&low) && seeds.last() == Some(&high));
        proptest::prop_assert!(seeds.len() <= steps);
        proptest::prop_assert!(seeds.windows(2).all(|w| w[0] < w[1]));
    }
}
