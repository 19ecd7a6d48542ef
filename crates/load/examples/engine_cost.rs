//! Operations per CPU second of the psync engine, on tmpfs where the device costs nothing: the
//! engine's own price.
//!
//! ```text
//! cargo run --release -p floodwall-load --example engine_cost -- /dev/shm 5
//! fio --name=x --ioengine=psync --rw=randwrite --bs=4k --fsync=1 --size=64M --runtime=5 \
//!   --time_based --directory=/dev/shm
//! ```
//!
//! For fio, divide its operations by its CPU seconds (`usr` + `sys` of the run time).

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use floodwall_load::{Dir, prepare_victim};
use floodwall_model::scenario::parse_victim;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().unwrap_or_else(|| "/dev/shm".into()));
    let seconds: u64 = args.next().map_or(Ok(5), |s| s.parse())?;
    let spec = args.next().unwrap_or_else(|| "commit,block=4KiB,size=64MiB,sync=fsync".into());
    let scratch = dir.join(format!("floodwall-engine-cost-{}", std::process::id()));
    std::fs::create_dir(&scratch)?;
    let result = measure(&scratch, &spec, seconds);
    std::fs::remove_dir_all(&scratch)?;
    result
}

fn measure(dir: &Path, spec: &str, seconds: u64) -> Result<(), Box<dyn Error>> {
    let victim = parse_victim(spec)?;
    let prepared =
        prepare_victim(&Dir::open(dir)?, &victim, None, 1, &mut |_| {}, &AtomicBool::new(false))?;
    let mut running = prepared.start(2, Path::new("/proc"))?;
    let mut latencies = floodwall_model::LatencyCounts::default();
    for _ in 0..seconds {
        std::thread::sleep(Duration::from_secs(1));
        latencies.merge(&running.sample().latencies.operations());
    }
    let finished = running.finish();
    let cpu_s = finished.cpu_us.unwrap_or(0) as f64 / 1e6;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{spec}: {} operations, {cpu_s:.3} CPU s, {:.0} operations per CPU second, mean {:.0} ns",
        finished.total_ops,
        finished.total_ops as f64 / cpu_s,
        latencies.mean_ns().unwrap_or(0.0)
    )?;
    Ok(())
}
