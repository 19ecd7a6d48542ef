use super::*;
use crate::sweep::testing::sweep;

const GRID: &str = r#"
[machine]
device = ["null", "sata-ssd"]
scenario = "tiny"
kernel = ["2.6.32", "6.18"]
ram = "1GiB"
[knobs]
scheduler = ["default", "none", "kyber"]
vm.dirty_bytes = ["default", "16MiB"]
"#;

fn shard(text: &str) -> Shard {
    text.parse().unwrap()
}

#[test]
fn cells_are_numbered_with_the_setting_fastest() {
    let s = sweep(GRID);
    assert_eq!((s.len(), s.grid()), (24, 24));
    let shown = |cell| {
        let place = s.place_of(cell);
        format!("{} {} {}", place.device, place.kernel, s.setting(Which::Cell(cell)))
    };
    assert_eq!(shown(0), "null 2.6.32 in force");
    assert_eq!(shown(1), "null 2.6.32 vm.dirty_bytes=16777216");
    assert_eq!(shown(2), "null 2.6.32 scheduler=none");
    assert_eq!(shown(6), "null 6.18 in force");
    assert_eq!(shown(23), "sata-ssd 6.18 scheduler=kyber,vm.dirty_bytes=16777216");
}

#[test]
fn a_groups_default_runs_once_and_is_the_cell_that_has_it() {
    let s = sweep(GRID);
    let runs = s.runs(&s.cells(Shard::WHOLE));
    assert_eq!(runs.len(), 24, "the default setting is in the grid");
    assert_eq!(s.default_of(5), Some(s.key(Which::Cell(0))));
    let without = sweep(&GRID.replace("\"default\", \"16MiB\"", "\"16MiB\""));
    let cells = without.cells(Shard::WHOLE);
    let runs = without.runs(&cells);
    assert_eq!((cells.len(), runs.len()), (12, 16));
    assert_eq!(runs[0].which, Which::Default(0));
    // Alone, a cell needs its group's default.
    assert_eq!(
        s.runs(&[7]).iter().map(|r| r.which).collect::<Vec<_>>(),
        [Which::Default(1), Which::Cell(7)]
    );
    let alone = sweep(&format!("baseline = false\n{GRID}"));
    assert_eq!((alone.runs(&[7]).len(), alone.default_of(7)), (1, None));
}

#[test]
fn shards_together_are_the_whole() {
    for text in [GRID.to_owned(), format!("{GRID}[sample]\ncells = 9\nseed = 3\n")] {
        let s = sweep(&text);
        for n in [1, 2, 7] {
            let mut all: Vec<u64> =
                (1..=n).flat_map(|k| s.cells(shard(&format!("{k}/{n}")))).collect();
            all.sort_unstable();
            assert_eq!(all, s.cells(Shard::WHOLE), "{n} shards");
        }
    }
}

#[test]
fn the_seed_of_a_sample_decides_which_cells() {
    let cells = |seed: u64| {
        sweep(&format!("{GRID}[sample]\ncells = 9\nseed = {seed}\n")).cells(Shard::WHOLE)
    };
    assert_eq!(cells(1), cells(1));
    assert_ne!(cells(1), cells(2));
    assert_eq!(cells(1).len(), 9);
}

#[test]
fn keys_follow_what_is_run_and_not_how_the_file_says_it() {
    let s = sweep(GRID);
    let mut keys: Vec<Key> = (0..24).map(|cell| s.key(Which::Cell(cell))).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 24);
    let other = sweep(
        "name = \"x\"\n[machine]\ndevice = \"sata-ssd\"\nscenario = \"tiny\"\nram = \"1024MiB\"\n\
         kernel = \"6.18\"\n\
         [[setting]]\nname = \"k\"\nscheduler = \"kyber\"\nvm.dirty_bytes = \"16MiB\"\n",
    );
    assert_eq!(other.key(Which::Cell(0)), s.key(Which::Cell(23)));
    let longer = sweep(&format!("{GRID}[timing]\nmeasure = \"3s\"\n"));
    assert_ne!(longer.key(Which::Cell(0)), s.key(Which::Cell(0)));
}

#[test]
fn a_fingerprint_changes_with_what_is_swept_and_with_the_program() {
    let print = |text: &str| sweep(text).fingerprint("1.0");
    assert_eq!(print(GRID), print(&format!("# only a comment\nname = \"x\"\n{GRID}")));
    for changed in [
        GRID.replace("16MiB", "17MiB"),
        GRID.replace("1GiB", "2GiB"),
        format!("baseline = false\n{GRID}"),
        format!("{GRID}[timing]\nrounds = 1\n"),
        format!("{GRID}[sample]\ncells = 9\n"),
    ] {
        assert_ne!(print(&changed), print(GRID), "{changed}");
    }
    assert_ne!(sweep(GRID).fingerprint("1.1"), print(GRID));
}

#[test]
fn what_a_kernel_did_not_have_is_a_result_with_its_reason() {
    let s = sweep(GRID);
    // Kyber on 2.6.32.
    let figures = s.run(Which::Cell(4), &mut ()).unwrap();
    let why = figures.error.clone().unwrap();
    assert!(why.contains("kyber"), "{why}");
    assert_eq!(figures.get("victim_kept"), None);
    assert_eq!(s.check(Which::Cell(4)).map(|e| e.to_string()), Some(why));
    assert!(s.check(Which::Cell(0)).is_none());
}

#[test]
fn a_run_gives_the_figures_of_its_trials_and_the_same_ones_again() {
    let s = sweep(&GRID.replace("\"null\", ", ""));
    let first = s.run(Which::Cell(6), &mut ()).unwrap();
    assert_eq!(first.error, None);
    // Two rounds of two seconds.
    assert_eq!(first.get("of_seconds"), Some(4.0));
    let [kept, alone, beside] =
        ["victim_kept", "victim_alone_iops", "victim_beside_iops"].map(|n| first.get(n).unwrap());
    assert!(alone > 0.0 && (kept - beside / alone).abs() < 1e-9, "{kept} {alone} {beside}");
    assert!(
        first.get("burst_bytes_per_s").unwrap() > 0.0 && first.get("simulated_s").unwrap() > 10.0
    );
    assert_eq!(s.run(Which::Cell(6), &mut ()).unwrap(), first);
    // The default in another guise is the same run.
    assert_eq!(s.run(Which::Default(1), &mut ()).unwrap(), first);
}

#[test]
fn a_run_ends_when_asked_to() {
    struct Stop;
    impl Watch for Stop {
        fn stop(&self) -> bool {
            true
        }
    }
    let s = sweep(GRID);
    assert_eq!(s.run(Which::Cell(0), &mut Stop), None);
}
