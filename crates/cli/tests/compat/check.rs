//! `floodwall check etcd` beside fio's job that people check etcd's disks with.

use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

use floodwall_stats::estimate::median;
use floodwall_testing::process::{json, output, run};
use floodwall_testing::{ensure, said};

use crate::lab::Lab;

const FLOODWALL: &str = env!("CARGO_BIN_EXE_floodwall");
/// Rounds in which fio and the check take turns.
const ROUNDS: usize = 5;
/// fio's percentile, the check's, and by how much they may differ. A p99 of a busy machine's
/// virtual disk differs between rounds by as much.
const FIGURES: [(&str, &str, f64); 2] = [("50.000000", "p50", 0.15), ("99.000000", "p99", 1.0)];

/// The percentiles of a check alone are those of fio.
pub(crate) fn percentiles() -> Result<(), String> {
    let lab = Lab::up("nvme-consumer", &["--fs", "ext4"])?;
    let directory = Path::new(&lab.mount);
    let mut pairs = Vec::new();
    for _ in 0..ROUNDS {
        let job = ["--name=mytest", "--rw=write", "--ioengine=sync", "--fdatasync=1", "--size=22m"];
        let mut fio = Command::new("fio");
        fio.args(job).args(["--directory=.", "--bs=2300", "--output-format=json"]);
        let fio = json(&output(fio.current_dir(directory))?)?;
        run("rm", &[&format!("{}/mytest.0.0", lab.mount)])?;
        let mut check = Command::new(FLOODWALL);
        check.args(["check", "etcd", "--alone", "--json", "--measure", "4s", &lab.mount]);
        pairs.push((fio, json(&output(&mut check)?)?));
    }
    for (percentile, key, tolerance) in FIGURES {
        let fio = pairs.iter().map(|(fio, _)| {
            fio["jobs"][0]["sync"]["lat_ns"]["percentile"][percentile].as_f64().unwrap_or(0.0) / 1e3
        });
        let check =
            pairs.iter().map(|(_, check)| check["runs"][0]["sync_us"][key].as_f64().unwrap_or(0.0));
        let (fio, check) = (median(fio.collect()), median(check.collect()));
        let (fio, check) = fio.zip(check).ok_or("no rounds")?;
        let told = format!("{key}: fio {fio:.0} µs, check {check:.0} µs");
        writeln!(io::stdout(), "{told}").map_err(said("stdout"))?;
        ensure((check / fio).ln().abs() <= f64::ln(1.0 + tolerance), || told)?;
    }
    Ok(())
}
