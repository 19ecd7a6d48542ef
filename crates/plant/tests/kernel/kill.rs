//! A process that steers is killed a hundred times, at any moment. Its parent puts its changes
//! back.

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use floodwall_model::plant::{KnobWrite, Plant};
use floodwall_plant::{HostPlant, Options, Which, restore};
use floodwall_testing::process::Process;
use floodwall_testing::{ensure, said};

use crate::Test;
use crate::steer::{differs, disk};
use crate::worker::Worker;

pub(crate) const TESTS: &[Test] = &[Test {
    name: "killed_a_hundred_times_and_put_back_by_its_parent",
    seconds: 500,
    body: killed,
}];

/// First argument of this binary when it steers.
pub(crate) const STEERER: &str = "plant-steerer";
const KILLS: u64 = 100;

/// Up and down, as fast as it can.
const WRITES: [(&str, &str); 12] = [
    ("nr_requests", "8"),
    ("max_sectors_kb", "128"),
    ("bdi.max_ratio_fine", "30000"),
    ("bdi.strict_limit", "1"),
    ("nr_requests", "16"),
    ("scheduler", "bfq"),
    ("iosched.low_latency", "0"),
    ("bdi.strict_limit", "0"),
    ("bdi.max_ratio_fine", "250000"),
    ("scheduler", "mq-deadline"),
    ("max_sectors_kb", "512"),
    ("nr_requests", "100"),
];

/// `JOURNAL DEVICE`: steers until it is killed. Says so once it has begun.
pub(crate) fn steer(arguments: &[String]) -> Result<(), String> {
    let [journal, device] = arguments else { return Err("usage".to_owned()) };
    let options = Options {
        devices: Which::Named(vec![device.clone()]),
        source: Some(floodwall_plant::SourceKind::Proc),
        ..Options::new(journal, "a test")
    };
    let mut plant = HostPlant::open(&options).map_err(said("open"))?;
    let id = plant.units().first().ok_or("no unit")?.id;
    writeln!(std::io::stdout().lock(), "steering").map_err(said("stdout"))?;
    loop {
        plant.observe().map_err(said("observe"))?;
        for (knob, value) in WRITES {
            let write =
                KnobWrite { device: Some(id), knob: knob.to_owned(), value: value.to_owned() };
            // Some wait for the queue to run dry, and are late.
            let _ = plant.write(&write);
        }
    }
}

fn killed() -> Result<(), String> {
    let disk = disk()?;
    let original = disk.knobs();
    // So that queues take their time to run dry, and the kill comes while a write is under way.
    let _flood = Worker::start(&["flood", &disk.file("f"), "80"])?;
    let mut undone = 0;
    for round in 0..KILLS {
        let journal = disk.journal().to_string_lossy().into_owned();
        let steer = [STEERER, &journal, &disk.name];
        let mut process = Process::of_this_binary(&steer, Stdio::null())?;
        process.says("steering").map_err(|e| format!("round {round}: {e}"))?;
        // Spread over some of its rounds by a step that divides nothing.
        std::thread::sleep(Duration::from_micros(round * 7_919 % 180_000));
        process.0.kill().map_err(said("kill"))?;
        // Half of the time before it is reaped, as systemd may be early.
        if round % 2 == 0 {
            process.0.wait().map_err(said("wait"))?;
        }
        let restored =
            restore(&disk.journal(), Duration::from_secs(60)).map_err(said("restore"))?;
        ensure(restored.is_complete(), || format!("round {round}: {:?}", restored.lines()))?;
        ensure(disk.knobs() == original, || {
            format!("round {round}: {}", differs(&disk, &original))
        })?;
        undone += usize::from(!restored.recovery.undone.is_empty());
    }
    ensure(undone as u64 >= KILLS * 9 / 10, || format!("only {undone} left anything to be undone"))
}
