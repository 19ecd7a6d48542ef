use super::*;
use crate::kernel::Generation;
use crate::sweep::testing::{Shelf, sweep};

fn error(text: &str) -> String {
    parse(text, &Shelf).unwrap_err().to_string()
}

#[test]
fn a_full_file_is_read_as_written() {
    let s = sweep(
        r#"
name = "all"
baseline = false
[machine]
device = ["hdd-7200", "sata-ssd"]
scenario = ["tiny", "backup-vs-wal"]
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
"scheduler" = "none"
[[setting]]
name = "as booted"
[[setting]]
name = "short"
nr_requests = 8
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
    let a = s.axes();
    assert_eq!(a.ram, [1, 4, 16, 64].map(Bytes::gib));
    assert_eq!((a.cpus.as_slice(), a.hz.as_slice()), (&[1, 2, 8][..], &[None, Some(100)][..]));
    assert_eq!(a.queue_depths, [None, Some(1), Some(32)]);
    assert_eq!(a.capacities, [None, Some(Bytes(100_000_000_000))]);
    assert_eq!(a.seeds, (0..10).collect::<Vec<_>>());
    assert_eq!(a.kernels[0].value, Generation::K2_6_32);
    let knobs: Vec<_> = a.knobs.iter().map(|k| (k.knob.as_str(), k.values.len())).collect();
    assert_eq!(knobs, [("scheduler", 1), ("vm.dirty_bytes", 5)]);
    let limits: Vec<_> =
        a.knobs[1].values.iter().map(|v| v.as_deref().unwrap_or("default")).collect();
    assert_eq!(limits, ["default", "15000000", "4194304", "8388608", "16777216"]);
    assert_eq!(a.settings[1].value.get("nr_requests"), Some("8"));
    assert_eq!(a.settings[0].value, Setting::default());
    let timing = &a.scenarios[1].value.timing;
    assert_eq!((timing.rounds, timing.measure.as_secs(), timing.settle.as_secs()), (1, 3, 0));
    assert_eq!(s.grid(), 2 * 2 * 2 * 4 * 2 * 3 * 2 * 3 * 2 * 2 * 10 * 2 * 5);
    assert_eq!(s.len(), 40);
}

#[test]
fn a_device_is_all_that_it_takes() {
    let s = sweep("[machine]\ndevice = \"null\"\n");
    assert_eq!((s.len(), s.name()), (1, "sweep"));
    assert_eq!(s.axes().scenarios[0].label, "copy-vs-database");
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
        (
            with("cpus = 1.5"),
            "line 3: 1.5 is not whole; write a whole number, or a text with a unit",
        ),
        (with("seed = -1"), "line 3: '-1' is not a whole number from 0"),
        (
            with("scenario = \"copy-vs-databse\""),
            "line 3: there is no scenario 'copy-vs-databse'; did you mean 'copy-vs-database'?",
        ),
        (
            "[machine]\ndevice = [\"null\",\n\"hdd-720\"]".into(),
            "line 3: there is no preset 'hdd-720'; did you mean 'hdd-7200'?",
        ),
        (
            with("[knobs]\nvm.dirty_byte = \"1MiB\""),
            "line 4: there is no knob 'vm.dirty_byte'; did you mean vm.dirty_bytes?",
        ),
        (
            with("[knobs]\nvm.dirty_bytes = [\"default\", 15]"),
            "line 4: '15' needs a unit: 15B is 15 B, 15MiB is 15 MiB",
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
            "line 3: a range has two ends: write { from = \"4MiB\", to = \"4GiB\", steps = 11 }",
        ),
        (
            with("ram = { from = \"1GiB\", to = \"2GiB\" }"),
            "line 3: a range has no steps; write steps = 11 for eleven values with both ends",
        ),
        (
            with("ram = { from = \"4GiB\", to = \"2GiB\", steps = 3 }"),
            "line 3: the range ends before it begins: 4GiB to 2GiB",
        ),
        (
            with("ram = { from = \"4GiB\", to = 8, steps = 3 }"),
            "line 3: one end of the range is a size and the other is not; write both with a unit",
        ),
        (
            with("seed = { from = 0, to = 8, steps = 3 }"),
            "line 3: no factor leads away from 0; begin at 1 or write scale = \"linear\"",
        ),
        (with("seed = { from = 1, to = 8, steps = 1 }"), "line 3: steps = 1: write 2 to 10000"),
        (
            with("seed = { from = 1, to = 8, steps = 3, scale = \"square\" }"),
            "line 3: a range's scale is \"log\" or \"linear\", not 'square'",
        ),
        (
            with("seed = { from = 1, to = 8, step = 3 }"),
            "line 3: unknown key 'step'; did you mean 'steps'?",
        ),
        (
            with("[timing]\nmeasure = \"1500ms\""),
            "line 4: measure = 1.50 s is not a whole number of seconds, the length of a window; \
             write at least \"1s\"",
        ),
        (
            with("[timing]\nsettle = 3"),
            "line 4: '3' is not a duration: write a number and a unit, such as 250ms, 30s or 5m",
        ),
        (with("[timing]\nrounds = 0"), "line 4: rounds = 0 measures nothing; write at least 1"),
        (with("[sample]\nseed = 1"), "line 3: [sample] has no cells; write cells = 500"),
        (with("[sample]\ncells = 0"), "line 4: a sample of 0 cells is nothing; write at least 1"),
        (
            with("[sample]\ncells = 1"),
            "a sample of 1 of a grid of 1 cells is all of them; leave [sample] out",
        ),
        (
            "baseline = 1\n[machine]\ndevice = \"null\"\n".into(),
            "line 1: baseline is true or false",
        ),
        (
            "machine = 3\n".into(),
            "line 1: machine is a table: write [machine] and its keys below it",
        ),
        (
            with(
                "seed = { from = 1, to = 9000, steps = 9000, scale = \"linear\" }\n\
                 cpus = { from = 1, to = 200, steps = 200, scale = \"linear\" }",
            ),
            "the grid has 1800000 cells and a sweep takes 1000000; shorten its axes, or add \
             [sample] with cells = 1000",
        ),
    ] {
        assert_eq!(error(&text), message, "{text}");
    }
    let syntax = error("[machine]\ndevice = [\n");
    assert!(syntax.starts_with("line "), "{syntax}");
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "[\\PC\\n]{0,60}") {
        let _ = parse(&text, &Shelf);
        let _ = parse(&format!("[machine]\ndevice = \"null\"\n{text}"), &Shelf);
    }

    #[test]
    fn a_range_has_its_ends_and_rises(low in 1u64..1_000_000, more in 1u64..1_000_000_000, steps in 2u64..60, linear: bool) {
        let scale = if linear { "linear" } else { "log" };
        let high = low + more;
        let s = sweep(&format!("[machine]\ndevice = \"null\"\n\
            seed = {{ from = {low}, to = {high}, steps = {steps}, scale = \"{scale}\" }}\n"));
        let seeds = &s.axes().seeds;
        proptest::prop_assert!(seeds.first() == Some(&low) && seeds.last() == Some(&high) && seeds.len() as u64 <= steps);
        proptest::prop_assert!(seeds.windows(2).all(|w| w[0] < w[1]));
    }
}
