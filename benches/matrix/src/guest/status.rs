//! `floodwall status` beside the kernel's files: what exists is read as it is, what does not exist
//! is absent, and root finds nothing unreadable. Under every elevator that the disk's queue offers.

use std::process::Command;

use anyhow::{Context, bail};
use serde_json::Value;

use super::files::{chosen, named, number, read};
use super::line::Line;
use crate::said::Outcome;

const QUEUE: &str = "/sys/block/vda/queue";
/// The dirty limits follow the free memory, which changes between two reads.
const LIMIT_TOLERANCE: f64 = 0.1;

pub(crate) fn check(_line: &Line) -> anyhow::Result<Outcome> {
    let schedulers = read(format!("{QUEUE}/scheduler")).context("the disk has no elevators")?;
    let first = chosen(&schedulers).to_owned();
    let all: Vec<&str> =
        schedulers.split_whitespace().map(|name| name.trim_matches(['[', ']'])).collect();
    let mut wrong = Vec::new();
    let mut compared = 0;
    for scheduler in &all {
        std::fs::write(format!("{QUEUE}/scheduler"), scheduler)?;
        let status = status()?;
        let mut comparison = Comparison { scheduler, wrong: &mut wrong, compared: &mut compared };
        comparison.machine(&status["machine"]);
        let disk =
            status["devices"].as_array().and_then(|all| all.iter().find(|d| d["name"] == "vda"));
        comparison.disk(disk.context("status has no device vda")?);
        comparison.unreadable("", &status);
    }
    std::fs::write(format!("{QUEUE}/scheduler"), first)?;
    if !wrong.is_empty() {
        bail!("{}", wrong.join("; "));
    }
    Ok(Outcome::Passed(format!(
        "{compared} readings as the files have them, under {}",
        all.join(", ")
    )))
}

fn status() -> anyhow::Result<Value> {
    let output =
        Command::new("floodwall").args(["status", "--json", "--seconds", "0.2"]).output()?;
    if !output.status.success() {
        bail!(
            "floodwall status ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    serde_json::from_slice(&output.stdout).context("floodwall status printed no JSON")
}

struct Comparison<'a> {
    scheduler: &'a str,
    wrong: &'a mut Vec<String>,
    compared: &'a mut usize,
}

impl Comparison<'_> {
    fn expect(&mut self, what: &str, said: &Value, file: Option<Value>) {
        *self.compared += 1;
        let same = match (&file, said) {
            (None, said) => said.get("absent").is_some(),
            (Some(file), said) => match (file.as_f64(), said.as_f64()) {
                (Some(file), Some(said)) => (file - said).abs() < 1e-6 * file.abs().max(1.0),
                _ => file == said,
            },
        };
        if !same {
            let file = file.map_or("absent".to_owned(), |file| file.to_string());
            self.wrong.push(format!(
                "{what} under {}: status says {said}, the file {file}",
                self.scheduler
            ));
        }
    }

    /// A file that holds one number.
    fn number(&mut self, what: &str, said: &Value, path: &str) {
        self.expect(what, said, number(path).map(Value::from));
    }

    fn machine(&mut self, said: &Value) {
        self.expect("kernel", &said["kernel"], read("/proc/sys/kernel/osrelease").map(Value::from));
        let ram = named("/proc/meminfo", "MemTotal:").map(|kib| Value::from(kib * 1024.0));
        self.expect("ram_bytes", &said["ram_bytes"], ram);
        for (name, file) in [
            ("hard_bytes", "dirty_bytes"),
            ("hard_ratio_percent", "dirty_ratio"),
            ("background_bytes", "dirty_background_bytes"),
            ("background_ratio_percent", "dirty_background_ratio"),
            ("expire_centisecs", "dirty_expire_centisecs"),
            ("writeback_centisecs", "dirty_writeback_centisecs"),
        ] {
            self.number(name, &said["dirty_knobs"][name], &format!("/proc/sys/vm/{file}"));
        }
        for (name, counter) in [
            ("hard_limit_bytes", "nr_dirty_threshold"),
            ("background_limit_bytes", "nr_dirty_background_threshold"),
        ] {
            let file = named("/proc/vmstat", counter).map(|pages| pages * 4096.0);
            let near = match (file, said[name].as_f64()) {
                (Some(file), Some(said)) => (said / file - 1.0).abs() < LIMIT_TOLERANCE,
                (None, None) => said[name].get("absent").is_some(),
                _ => false,
            };
            *self.compared += 1;
            if !near {
                self.wrong.push(format!("{name}: status says {}, the file {file:?}", said[name]));
            }
        }
        let has_pressure = read("/proc/pressure/io").is_some();
        self.presence(
            "psi_io_some_avg10_percent",
            &said["psi_io_some_avg10_percent"],
            has_pressure,
        );
        let controllers = read("/sys/fs/cgroup/cgroup.controllers")
            .map(|text| Value::from(text.split_whitespace().collect::<Vec<_>>()));
        self.expect("cgroup_v2_controllers", &said["cgroup_v2_controllers"], controllers);
    }

    fn presence(&mut self, what: &str, said: &Value, exists: bool) {
        *self.compared += 1;
        if said.is_number() != exists || said.get("absent").is_some() == exists {
            self.wrong.push(format!("{what}: status says {said}, the file is there: {exists}"));
        }
    }

    fn disk(&mut self, said: &Value) {
        let queue = &said["queue"];
        self.expect("scheduler", &queue["scheduler"], Some(self.scheduler.into()));
        for (name, file) in [
            ("nr_requests", "nr_requests"),
            ("max_sectors_kib", "max_sectors_kb"),
            ("nomerges_level", "nomerges"),
            ("rq_affinity_level", "rq_affinity"),
            // A queue without throttling answers EINVAL, which is no number.
            ("wbt_lat_us", "wbt_lat_usec"),
            ("write_expire_ms", "iosched/write_expire"),
            ("async_depth", "iosched/async_depth"),
            ("queue_async_depth", "async_depth"),
        ] {
            self.number(name, &queue[name], &format!("{QUEUE}/{file}"));
        }
        self.expect(
            "write_cache",
            &queue["write_cache"],
            read(format!("{QUEUE}/write_cache")).map(Value::from),
        );
        for (name, file) in [("fua", "fua"), ("rotational", "rotational")] {
            let flag = number(format!("{QUEUE}/{file}")).map(|n| Value::from(n != 0.0));
            self.expect(name, &queue[name], flag);
        }
        let bdi = format!("/sys/class/bdi/{}", said["id"].as_str().unwrap_or_default());
        let limits = &said["limits"];
        let strict = number(format!("{bdi}/strict_limit")).map(|n| Value::from(n != 0.0));
        self.expect("strict_limit", &limits["strict_limit"], strict);
        for (name, file) in [("max_ratio_percent", "max_ratio"), ("min_ratio_percent", "min_ratio")]
        {
            let fine = number(format!("{bdi}/{file}_fine")).map(|millionths| millionths / 10_000.0);
            let percent = fine.or_else(|| number(format!("{bdi}/{file}"))).map(Value::from);
            self.expect(name, &limits[name], percent);
        }
        self.number("read_ahead_kib", &limits["read_ahead_kib"], &format!("{bdi}/read_ahead_kb"));
        let size = number("/sys/block/vda/size").map(|sectors| Value::from(sectors * 512.0));
        self.expect("size_bytes", &said["size_bytes"], size);
        let stats =
            format!("/sys/kernel/debug/bdi/{}/stats", said["id"].as_str().unwrap_or_default());
        self.presence("device_limit_bytes", &said["device_limit_bytes"], read(stats).is_some());
    }

    /// Root can read everything that exists.
    fn unreadable(&mut self, at: &str, value: &Value) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    if name == "unreadable" {
                        self.wrong.push(format!("{at} is unreadable: {value}"));
                    }
                    self.unreadable(&format!("{at}.{name}"), value);
                }
            }
            Value::Array(all) => all.iter().for_each(|value| self.unreadable(at, value)),
            _ => {}
        }
    }
}
