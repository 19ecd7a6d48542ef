//! Any input: the series are few, never fall, and rise by what came in.

use std::collections::BTreeMap;

use floodwall_model::frame::{Disk, Frame, Process, Waits};
use floodwall_model::stall::{Flood, Stall, Victim};
use proptest::prelude::*;

use super::{Limits, Totals};

const HOUR_MS: u64 = 3_600_000;
/// Small limits, so that everything overflows.
const FEW: Limits = Limits { devices: 2, workloads: 3, label_chars: 6 };
const MOST_SERIES: usize = 10 + 3 * (19 + 7 * 12);

#[derive(Clone, Debug)]
enum Input {
    Frame(Frame),
    Ended(Stall),
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => "[a-h]",
        1 => Just("other".to_owned()),
        1 => any::<String>(),
    ]
}

fn process() -> impl Strategy<Value = Process> {
    let numbers =
        (0..5_000_u64, 0..3_000_000_u64, any::<u16>(), proptest::option::of(any::<u32>()));
    (name(), proptest::option::of("sd[a-d]"), numbers, any::<[bool; 2]>()).prop_map(
        |(name, disk, (count, sum_us, throttled, dirtied), [is_victim, is_flood])| Process {
            pid: u32::from(count % 7 > 0),
            name,
            disk,
            is_victim: is_victim && count % 5 == 0,
            is_flood: is_flood && count % 5 == 1,
            waits: vec![Waits {
                call: (if count % 2 == 0 { "read" } else { "fsync" }).into(),
                count,
                sum_us,
                ..Waits::default()
            }],
            dirtied_bytes: dirtied.map(u64::from),
            throttled_ms: throttled.into(),
            ..Process::default()
        },
    )
}

fn input() -> impl Strategy<Value = Input> {
    let window = prop_oneof![4 => Just(1_000_u64), 1 => 0..200_000_u64, 1 => Just(HOUR_MS)];
    let disk = ("sd[a-d]", any::<u32>()).prop_map(|(name, rate)| Disk {
        name,
        written_bytes_per_s: Some(rate.into()),
        ..Disk::default()
    });
    let parts = proptest::collection::vec(process(), 0..8);
    let frame = (window, proptest::collection::vec(disk, 0..3), parts).prop_map(
        |(window_ms, disks, processes)| {
            Input::Frame(Frame { window_ms, disks, processes, ..Frame::default() })
        },
    );
    let stall =
        (name(), "sd[a-d]", any::<u32>(), any::<u32>()).prop_map(|(name, disk, us, bytes)| {
            let victim =
                Victim { pid: 1, name: name.clone(), waited_us: us.into(), ..Victim::default() };
            let flood = Flood { pid: 1, name, dirtied_bytes: bytes.into(), ..Flood::default() };
            let (victims, floods) = (vec![victim], vec![flood]);
            Input::Ended(Stall { disk, victims, floods, ..Stall::default() })
        });
    prop_oneof![5 => frame, 1 => stall]
}

/// Series and their values. Names and labels are taken as they stand.
fn series(text: &str) -> BTreeMap<String, f64> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            (series.to_owned(), value.parse().unwrap())
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn series_are_few_never_fall_and_rise_by_what_came_in(
        inputs in proptest::collection::vec(input(), 1..40)
    ) {
        let mut totals = Totals::new(FEW);
        let mut before = BTreeMap::new();
        let mut rises: BTreeMap<String, f64> = BTreeMap::new();
        let mut came: BTreeMap<&str, f64> = BTreeMap::new();
        let mut came_in = |what, value: u64, scale: f64| {
            *came.entry(what).or_default() += value as f64 / scale;
        };
        for input in &inputs {
            match input {
                Input::Frame(frame) => {
                    totals.frame(frame);
                    for process in &frame.processes {
                        let bytes = process.dirtied_bytes.unwrap_or(0);
                        came_in("floodwall_workload_dirtied_bytes_total", bytes, 1.0);
                        let ms = process.throttled_ms;
                        came_in("floodwall_workload_throttled_seconds_total", ms, 1e3);
                        for waits in &process.waits {
                            came_in("floodwall_workload_waits_total", waits.count, 1.0);
                            came_in("floodwall_workload_wait_seconds_total", waits.sum_us, 1e6);
                        }
                    }
                }
                Input::Ended(stall) => {
                    totals.stall_ended(stall);
                    came_in("floodwall_stalls_total", 1, 1.0);
                    let us = stall.victims[0].waited_us;
                    came_in("floodwall_stall_victim_seconds_total", us, 1e6);
                    let bytes = stall.floods[0].dirtied_bytes;
                    came_in("floodwall_stall_flood_bytes_total", bytes, 1.0);
                }
            }
            let text = totals.exposition();
            let now = series(&text);
            let lines = text.lines().filter(|line| !line.starts_with('#')).count();
            prop_assert_eq!(lines, now.len(), "a series twice: {}", text);
            prop_assert!(now.len() <= MOST_SERIES, "{} series", now.len());
            for (series, value) in &now {
                let name = series.split('{').next().unwrap_or_default();
                if name.ends_with("_total") {
                    let rise = value - before.get(series).unwrap_or(&0.0);
                    prop_assert!(rise >= 0.0, "{series} falls by {rise}");
                    *rises.entry(name.to_owned()).or_default() += rise;
                }
            }
            before = now;
        }
        for (name, all) in &came {
            let rise = rises.get(*name).copied().unwrap_or(0.0);
            prop_assert!((rise - all).abs() <= all * 1e-9 + 1e-6, "{name}: {rise} of {all}");
        }
    }
}
