//! What `floodwall lab` prints for people.

use std::fmt::Write;
use std::time::Duration;

use floodwall_device::DeviceSpec;
use floodwall_lab::{LabError, LabInfo, LabState, LabStats, PowerCut, Timing, Timings};
use floodwall_model::Bytes;
use floodwall_model::units::human_duration;

/// How the rates of a device with disks depend on its use; `None` of a device without.
pub(crate) fn depends_on_use(spec: &DeviceSpec) -> Option<&'static str> {
    spec.rotational().then_some(
        "its rates depend on how large the files are and where they lie, as a real disk's do; \
         --size changes no time \
         (docs/devices.md, \"How much of it is used\")",
    )
}

/// Presets and devices.
pub(crate) fn list(
    presets: &[(&str, String, String)],
    labs: &Result<Vec<LabInfo>, LabError>,
) -> String {
    let mut out = String::from("presets (floodwall lab show NAME prints one)\n");
    for (name, _, description) in presets {
        let _ = writeln!(out, "  {name:<22} {description}");
    }
    match labs {
        Err(e) => {
            let _ = writeln!(out, "\ndevices\n  {e}");
        }
        Ok(labs) if labs.is_empty() => out.push_str("\nno device is up\n"),
        Ok(labs) => {
            out.push_str("\ndevices\n");
            for info in labs {
                let _ = write!(out, "  {}", lab(info));
            }
        }
    }
    out
}

/// One device in a line.
pub(crate) fn lab(info: &LabInfo) -> String {
    let state = match &info.state {
        LabState::Up => "up".to_owned(),
        LabState::Starting => "coming up".to_owned(),
        LabState::NoPower => "without power".to_owned(),
        LabState::HalfMade(why) => {
            format!("half made: {why} (floodwall lab down {} clears it)", info.name)
        }
    };
    let mut line = format!("{:<16} {state}", info.name);
    if let Some(device) = &info.device {
        let _ = write!(line, ", {}", device.display());
    }
    if let Some(size) = info.size {
        let _ = write!(line, ", {size}");
    }
    for mount in &info.mounts {
        let _ = write!(line, ", mounted on {}", mount.display());
    }
    line + "\n"
}

/// What a power cut took.
pub(crate) fn power_cut(name: &str, cut: &PowerCut) -> String {
    format!(
        "{name} has no power: {} of unflushed writes lost, {} in flight failed (floodwall lab \
         powerup {name})\n",
        Bytes(cut.lost_bytes),
        match cut.in_flight {
            1 => "1 request".to_owned(),
            n => format!("{n} requests"),
        }
    )
}

/// A device's counters.
pub(crate) fn stats(s: &LabStats) -> String {
    let d = &s.device;
    let mut out = format!(
        "{} ({}, {}), {} {}\n",
        s.name,
        s.preset,
        Bytes(s.size_bytes),
        if s.power { "up" } else { "without power, its clock at" },
        human_duration(Duration::from_secs_f64(s.uptime_s.max(0.0)))
    );
    let mut line = |label: &str, text: String| {
        let _ = writeln!(out, "  {label:<10} {text}");
    };
    line(
        "requests",
        format!(
            "{} reads, {} writes, {} flushes, {} discards, {} errors; {} in the device now",
            d.reads, d.writes, d.flushes, d.discards, d.errors, d.queue_depth
        ),
    );
    line("bytes", format!("{} read, {} written", Bytes(d.read_bytes), Bytes(d.write_bytes)));
    line(
        "cache",
        match d.cache_size_bytes {
            0 => "none".into(),
            size => format!(
                "{} of {} waiting to be written, {} requests waiting for room",
                Bytes(d.cache_bytes),
                Bytes(size),
                d.cache_waiting
            ),
        },
    );
    line(
        "medium",
        format!(
            "{} read, {} written, {} seeks",
            Bytes(d.media_read_bytes),
            Bytes(d.media_write_bytes),
            d.seeks
        ),
    );
    line(
        "contents",
        format!(
            "{} of {} of memory, {} spilled",
            Bytes(s.store.memory_bytes),
            Bytes(s.store.memory_limit_bytes),
            Bytes(s.store.spilled_bytes)
        ),
    );
    for (label, timing) in [
        ("reads", &s.timings.read),
        ("writes", &s.timings.write),
        ("flushes", &s.timings.flush),
        ("lateness", &s.timings.lateness),
    ] {
        line(label, self::timing(timing));
    }
    line(
        "kept up",
        match s.timings.kept_up {
            Some(true) => "yes: the lab's lateness is within a tenth of the model's times".into(),
            Some(false) => {
                "no: the machine was too slow or too busy for this model; figures include its delay"
                    .into()
            }
            None => "nothing to tell it by".into(),
        },
    );
    line(
        "recorded",
        format!("{} requests, of which {} are no longer there", s.recorded, s.recorded_and_gone),
    );
    out
}

/// A warning if a lab's lateness passed a tenth of what its model's requests take.
pub(crate) fn late(name: &str, timings: &Timings) -> Option<String> {
    (timings.kept_up == Some(false)).then(|| {
        format!(
            "lab device '{name}' did not keep up with its model: p99 of its lateness is {}, over a \
             tenth of the p50 of service; the figures include that delay",
            us(timings.lateness.p99_us)
        )
    })
}

fn us(value: Option<f64>) -> String {
    value.map_or("?".into(), |us| human_duration(Duration::from_secs_f64(us.max(0.0) / 1e6)))
}

fn timing(t: &Timing) -> String {
    if t.count == 0 {
        return "none".into();
    }
    format!("p50 {}, p99 {}, max {}", us(t.p50_us), us(t.p99_us), us(t.max_us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_with_disks_say_what_their_rates_depend_on() {
        for (preset, said) in
            [("raid10-bbwc-2010", true), ("hdd-7200", true), ("sata-ssd", false), ("null", false)]
        {
            assert_eq!(
                depends_on_use(&DeviceSpec::preset(preset).unwrap()).is_some(),
                said,
                "{preset}"
            );
        }
    }
}
