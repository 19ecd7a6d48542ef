//! A unit's cells: those that a controller may write, and the values of all.

use floodwall_host::queue;
use floodwall_knobs::catalogue::{Knob, find};
use floodwall_knobs::cell::Cell;
use floodwall_knobs::{Device, Files, Target};
use floodwall_model::Setting;
use floodwall_model::setting::FREEZING;

use crate::units::Unit;

/// Knobs of a queue, and of limits, that are read. Elevators' own tunables come with them.
const QUEUE_KNOBS: [&str; 5] =
    ["max_sectors_kb", "nr_requests", "read_ahead_kb", "scheduler", "wbt_lat_usec"];
const LIMIT_KNOBS: [&str; 3] = ["bdi.max_ratio_fine", "bdi.min_ratio_fine", "bdi.strict_limit"];
/// Before 6.2.
const COARSE_LIMIT_KNOBS: [&str; 2] = ["bdi.max_ratio", "bdi.min_ratio"];

/// The cells that a controller may write some time, with those that change along: knobs that freeze
/// a queue, and limits. A tunable is saved when it is written.
pub(crate) fn ahead(unit: &Unit) -> Vec<(&'static Knob, Target)> {
    let all = |names: &[&str], devices: &[Device]| {
        let knobs: Vec<&'static Knob> = names.iter().filter_map(|name| find(name)).collect();
        let of = move |device: &Device| {
            let target = Target::Device(device.clone());
            knobs.iter().map(|knob| (*knob, target.clone())).collect::<Vec<_>>()
        };
        devices.iter().flat_map(of).collect::<Vec<_>>()
    };
    let mut cells = all(&FREEZING, &unit.queues);
    cells.extend(all(&["bdi.max_ratio_fine", "bdi.strict_limit"], &unit.limits));
    cells
}

/// A unit's knobs as their files read; knobs in which its devices differ are left out.
pub(crate) fn read_knobs(unit: &Unit, files: &dyn Files) -> Setting {
    let mut setting = Setting::default();
    let mut add = |name: &str, devices: &[Device]| {
        let Some(knob) = find(name) else { return };
        let value = |device: &Device| {
            let target = Target::Device(device.clone());
            let path = target.path(knob);
            // If a cell has two names, the requested one counts.
            let cell = match Cell::of(knob, &target, files) {
                Cell::Plain(_) => Cell::Plain(path),
                other => other,
            };
            cell.read(files).into_value().map(|state| state.value)
        };
        let mut values = devices.iter().map(value);
        if let Some(Some(first)) = values.next()
            && values.all(|value| value.as_ref() == Some(&first))
        {
            setting.0.insert(name.to_owned(), first);
        }
    };
    for name in QUEUE_KNOBS {
        add(name, &unit.queues);
    }
    for name in LIMIT_KNOBS {
        add(name, &unit.limits);
    }
    if let Some(device) = unit.queues.first()
        && let Ok(id) = device.number.parse()
    {
        for tunable in files.list(&format!("{}/iosched", queue::directory(id))) {
            add(&format!("iosched.{tunable}"), &unit.queues);
        }
    }
    let has_fine = setting.get("bdi.max_ratio_fine").is_some();
    for (name, value) in COARSE_LIMIT_KNOBS.iter().filter(|_| !has_fine).filter_map(|name| {
        let device = unit.limits.first().filter(|_| unit.limits.len() == 1)?;
        let text = files
            .read(&format!("/sys/class/bdi/{}/{}", device.number, name.trim_start_matches("bdi.")))
            .ok()?;
        Some((*name, text.trim().to_owned()))
    }) {
        setting.0.insert(name.to_owned(), value);
    }
    setting
}
