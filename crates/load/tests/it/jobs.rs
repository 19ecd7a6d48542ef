//! Jobs on real files: which bytes they write, and what ends them.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use floodwall_load::jobs::{JobFile, JobPlan, JobRun, Keep, Progress, Window, lay_out, run};
use floodwall_testing::{Trial, tests};

use crate::support::lacks_uring;

pub(crate) fn tests() -> Vec<Trial> {
    let plain = tests![
        each_block_of_the_files_is_written_once,
        a_rate_spreads_requests,
        jobs_end_with_their_time_another_ones_end_and_a_failure,
    ];
    let ring = tests![lacks_uring => a_ring_makes_the_requests_of_plain_calls];
    [plain, ring].into_iter().flatten().collect()
}

const LEN: u64 = 256 << 10;

fn plan(file: &Path) -> JobPlan {
    let (second, window) = (Duration::from_secs(1), Duration::from_millis(100));
    JobPlan {
        is_random: true,
        time: Some(second),
        drops_cache: true,
        keeps: Some(Keep::Each),
        window: Some(Window { bytes: window, requests: window }),
        seed: 7,
        ..JobPlan::new(vec![JobFile { path: file.to_owned(), from: 4096, len: LEN }], 4096)
    }
}

fn run_all(plans: &[JobPlan]) -> Vec<JobRun> {
    let stop = AtomicBool::new(false);
    for plan in plans {
        lay_out(plan, &mut |_, _| {}, &stop).unwrap();
    }
    let progress = Progress::default();
    let runs = run(plans, &stop, &progress).unwrap();
    let done = runs.iter().flat_map(|run| &run.counts.directions);
    let done = done.fold((0, 0), |sum, one| (sum.0 + one.requests, sum.1 + one.bytes));
    assert_eq!((progress.requests(), progress.bytes()), done);
    runs
}

fn each_block_of_the_files_is_written_once() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x");
    let runs = run_all(&[JobPlan { sync_every: 8, ..plan(&file) }]);
    let counts = &runs[0].counts;
    let writes = &counts.directions[1];
    assert_eq!((writes.requests, writes.bytes, counts.full_syncs), (64, LEN, 7));
    assert_eq!((counts.depths.clone(), counts.submissions), (vec![0, 71], 71));
    assert_eq!((writes.latencies[1].moments.n, counts.kept.len()), (64, 64));
    let bytes = std::fs::read(&file).unwrap();
    assert_eq!(bytes.len() as u64, 4096 + LEN);
    let is_zero = |block: &[u8]| block.iter().all(|byte| *byte == 0);
    let zeros: Vec<bool> = bytes.chunks(4096).map(is_zero).collect();
    assert!(zeros[0] && zeros[1..].iter().all(|is_zero| !is_zero), "{zeros:?}");
}

fn a_ring_makes_the_requests_of_plain_calls() {
    let dir = tempfile::tempdir().unwrap();
    let written = plan(&dir.path().join("x"));
    let (depth, sync_every) = (Some(8), 16);
    let ring = JobPlan { depth, sync_every, plain_syncs: true, ..written.clone() };
    let read = JobPlan { reads: true, writes: false, depth, stage: 1, ..written };
    let runs = run_all(&[ring, read]);
    assert!(runs.iter().all(|run| run.failure.is_none()), "{runs:?}");
    let [writes, reads] = [&runs[0].counts.directions[1], &runs[1].counts.directions[0]];
    assert_eq!((writes.requests, reads.requests), (64, 64));
    assert_eq!(runs[0].counts.full_syncs, 3);
    let depths = &runs[1].counts.depths;
    assert!(depths.len() <= 9 && depths.iter().sum::<u64>() == 64, "{depths:?}");
}

fn a_rate_spreads_requests() {
    let dir = tempfile::tempdir().unwrap();
    let (rate, requests) = ([None, Some(409_600.0)], Some(60));
    let begin = Instant::now();
    let runs = run_all(&[JobPlan { rate, requests, time: None, ..plan(&dir.path().join("a")) }]);
    // 100 a second: the last one is due after 59 hundredths.
    assert!(begin.elapsed() >= Duration::from_millis(590), "{:?}", begin.elapsed());
    assert_eq!(runs[0].counts.directions[1].requests, 60);
}

fn jobs_end_with_their_time_another_ones_end_and_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let endless = |name: &str| JobPlan { is_timed: true, ..plan(&dir.path().join(name)) };
    let (ramp, time) = (Duration::from_millis(200), Some(Duration::from_millis(300)));
    let begin = Instant::now();
    let runs = run_all(&[JobPlan { ramp, time, ..endless("a") }]);
    assert!(begin.elapsed() >= Duration::from_millis(500), "{:?}", begin.elapsed());
    // The ramp is not counted.
    let run_us = runs[0].counts.run_us;
    assert!(Duration::from_micros(run_us) <= begin.elapsed() - ramp, "{run_us}");
    let hour = Some(Duration::from_secs(3600));
    let short = JobPlan { ends_all: true, loops: 1, ..plan(&dir.path().join("b")) };
    let missing = JobPlan { makes_late: true, ..endless("no/x") };
    let runs = run_all(&[JobPlan { time: hour, ..endless("c") }, short, missing]);
    let failed: Vec<bool> = runs.iter().map(|run| run.failure.is_some()).collect();
    assert_eq!(failed, [false, false, true]);
}
