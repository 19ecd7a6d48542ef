use proptest::prelude::*;

use super::super::shard::Shard;
use super::super::testing::{parse, sweep};
use super::*;

const GRID: &str = r#"
[machine]
device = ["null", "sata-ssd"]
scenario = "./tiny.toml"
kernel = ["2.6.32", "6.18"]
ram = "1GiB"
[knobs]
scheduler = ["default", "none", "kyber"]
vm.dirty_bytes = ["default", "16MiB"]
"#;

fn run_of(sweep: &Sweep, cell: u64) -> Run {
    sweep.runs(&[cell]).into_iter().find(|run| run.cells == [cell]).unwrap()
}

#[test]
fn cells_are_numbered_with_the_setting_fastest() {
    let s = sweep(GRID);
    assert_eq!((s.cells.len(), s.grid), (24, 24));
    let shown = |number| {
        let Cell { options, setting, .. } = s.cell(number);
        format!("{} {} {setting}", s.columns(number)[0].1, options.generation)
    };
    assert_eq!(shown(0), "\"null\" 2.6.32 in force");
    assert_eq!(shown(1), "\"null\" 2.6.32 vm.dirty_bytes=16777216");
    assert_eq!(shown(2), "\"null\" 2.6.32 scheduler=none");
    assert_eq!(shown(6), "\"null\" 6.18 in force");
    assert_eq!(shown(23), "\"sata-ssd\" 6.18 scheduler=kyber,vm.dirty_bytes=16777216");
}

#[test]
fn a_groups_default_runs_once_and_is_the_cell_that_has_it() {
    let s = sweep(GRID);
    let runs = s.runs(&s.cells);
    assert_eq!(runs.len(), 24, "the default setting is in the grid");
    assert_eq!(
        (runs[6].group, &runs[6].cells[..], runs[6].setting.is_empty()),
        (1, &[6][..], true)
    );
    let without = sweep(&GRID.replace("\"default\", \"16MiB\"", "\"16MiB\""));
    let runs = without.runs(&without.cells);
    assert_eq!((without.cells.len(), runs.len()), (12, 16));
    assert_eq!((runs[0].cells.len(), runs[0].setting.is_empty()), (0, true));
    // A sweep of one cell runs its group's default as well.
    let cells = |runs: Vec<Run>| runs.into_iter().map(|run| run.cells).collect::<Vec<_>>();
    assert_eq!(cells(s.runs(&[7])), [vec![], vec![7]]);
    let alone = sweep(&format!("baseline = false\n{GRID}"));
    assert_eq!(cells(alone.runs(&[7])), [[7]]);
}

#[test]
fn shards_together_are_the_whole() {
    for text in [GRID.to_owned(), format!("{GRID}[sample]\ncells = 9\nseed = 3\n")] {
        let s = sweep(&text);
        for of in [1, 2, 7] {
            let deal = |number| Shard { number, of }.deal(&s.cells, s.group);
            let mut all: Vec<u64> = (1..=of).flat_map(deal).collect();
            all.sort_unstable();
            assert_eq!(all, s.cells, "{of} shards");
        }
    }
}

#[test]
fn a_digest_changes_with_what_is_swept_alone() {
    let digest = |text: &str| sweep(text).digest();
    assert_eq!(digest(GRID), digest(&format!("# only a comment\nname = \"x\"\n{GRID}")));
    assert_eq!(digest(GRID), digest(&GRID.replace("1GiB", "1024MiB")));
    for changed in [
        GRID.replace("16MiB", "17MiB"),
        GRID.replace("1GiB", "2GiB"),
        GRID.replace("\"null\", ", ""),
        format!("baseline = false\n{GRID}"),
        format!("{GRID}[timing]\nrounds = 1\n"),
        format!("{GRID}[sample]\ncells = 9\n"),
        format!("{GRID}[sample]\ncells = 9\nseed = 2\n"),
    ] {
        assert_ne!(digest(&changed), digest(GRID), "{changed}");
    }
}

#[test]
fn what_a_kernel_did_not_have_is_a_result_with_its_reason() {
    let s = sweep(GRID);
    // Kyber on 2.6.32.
    let figures = s.simulate(&run_of(&s, 4), &mut ()).unwrap();
    assert!(figures.error.clone().unwrap().contains("kyber"), "{figures:?}");
    assert_eq!(figures, Figures::impossible(figures.error.clone().unwrap()));
}

#[test]
fn a_run_gives_the_figures_of_its_trials_and_the_same_ones_again() {
    let s = sweep(&GRID.replace("\"null\", ", ""));
    let first = s.simulate(&run_of(&s, 6), &mut ()).unwrap();
    assert_eq!(first.error, None);
    // Two rounds of two seconds.
    assert_eq!(first.of_seconds, Some(4));
    let [kept, alone, beside] =
        [first.victim_kept, first.victim_alone_iops, first.victim_beside_iops].map(Option::unwrap);
    assert!(alone > 0.0 && (kept - beside / alone).abs() < 1e-9, "{kept} {alone} {beside}");
    assert!(first.burst_bytes_per_s.unwrap() > 0.0 && first.simulated_s.unwrap() > 10.0);
    assert_eq!(s.simulate(&run_of(&s, 6), &mut ()).unwrap(), first);
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
    assert_eq!(s.simulate(&run_of(&s, 0), &mut Stop), None);
}

#[test]
fn floods_and_bursts_are_shares_of_the_default_run() {
    let figures = |alone, beside, burst| Figures {
        flood_alone_bytes_per_s: alone,
        flood_beside_bytes_per_s: beside,
        burst_bytes_per_s: burst,
        ..Figures::default()
    };
    let own = figures(Some(50.0), Some(30.0), Some(9.0));
    let beside = own.clone().beside(&figures(Some(60.0), None, Some(10.0)));
    assert_eq!((beside.flood_kept, beside.burst_kept), (Some(0.5), Some(0.9)));
    let beside = own.clone().beside(&figures(Some(0.0), None, None));
    assert_eq!((beside.flood_kept, beside.burst_kept, beside.note), (None, None, None));
    let impossible = Figures::impossible("too small".into());
    let noted = Figures { note: Some("short".into()), ..own }.beside(&impossible);
    let note = "short; the default setting could not be run: too small";
    assert_eq!(noted.note.as_deref(), Some(note));
    assert_eq!(impossible.clone().beside(&impossible), impossible);
}

#[test]
fn a_grid_or_a_sample_that_is_too_large_is_refused() {
    let error = |text: &str| parse(text).err().unwrap();
    let steps = |to: u64| format!("{{ from = 1, to = {to}, steps = {to}, scale = \"linear\" }}");
    let large =
        GRID.replace("ram =", &format!("seed = {}\ncpus = {}\nram =", steps(9000), steps(200)));
    let message = "the grid has 43200000 cells and a sweep takes 1000000; shorten its axes";
    assert!(error(&large).starts_with(message), "{}", error(&large));
    assert_eq!(sweep(&format!("{large}[sample]\ncells = 10\n")).cells.len(), 10);
    for (grid, cells, most) in [(GRID, 0, 23), (GRID, 24, 23), (&large, 1_000_001, 1_000_000)] {
        let message = error(&format!("{grid}[sample]\ncells = {cells}\n"));
        assert!(
            message.contains(&format!("no sample of {cells}; write 1 to {most},")),
            "{message}"
        );
    }
}

#[test]
fn every_number_is_drawn_equally_often() {
    let mut seen = [0u32; 10];
    for seed in 0..5_000 {
        draw(10, 3, seed).iter().for_each(|n| seen[*n as usize] += 1);
    }
    // 1,500 each; four standard deviations are 130.
    assert!(seen.iter().all(|n| (1_370..=1_630).contains(n)), "{seen:?}");
    assert_ne!(draw(100, 3, 1), draw(100, 3, 2));
}

proptest! {
    #[test]
    fn a_sample_has_its_size_and_no_cell_twice(
        below in 200u64..10_000, count in 0u64..200, seed: u64
    ) {
        let sample = draw(below, count, seed);
        prop_assert_eq!(sample.len() as u64, count);
        prop_assert!(sample.windows(2).all(|w| w[0] < w[1]) && sample.iter().all(|n| *n < below));
        prop_assert_eq!(draw(below, count, seed), sample);
    }
}
