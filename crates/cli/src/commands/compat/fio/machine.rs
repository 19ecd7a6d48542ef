//! Job files, the environment and the machine, as the grammar asks for them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::{env, thread};

use floodwall_compat::fio::line::Host;
use floodwall_host::SysRoot;

/// Bytes of a job file at most.
const LONGEST: u64 = 1 << 20;

/// This machine.
pub(super) struct Machine;

impl Host for Machine {
    fn read(&mut self, file: &str) -> Result<String, String> {
        if file == "-" {
            return text(io::stdin().lock());
        }
        let kind = fs::metadata(file).map_err(|e| said(&e))?.file_type();
        // A shell makes a pipe of `<(command)`.
        if !kind.is_file() && !kind.is_fifo() {
            return Err("it is not a regular file".to_owned());
        }
        text(File::open(file).map_err(|e| said(&e))?)
    }

    fn variable(&self, name: &str) -> Option<String> {
        env::var(name).ok()
    }

    fn keyword(&self, name: &str) -> Option<u64> {
        match name {
            "pagesize" => Some(rustix::param::page_size() as u64),
            "ncpus" => thread::available_parallelism().ok().map(|count| count.get() as u64),
            "mb_memory" => {
                let root = SysRoot::live().ok()?;
                let text = root.read("/proc/meminfo").into_value()?;
                let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
                let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
                Some(kib >> 10)
            }
            _ => None,
        }
    }
}

fn text(from: impl Read) -> Result<String, String> {
    let mut bytes = Vec::new();
    from.take(LONGEST + 1).read_to_end(&mut bytes).map_err(|e| said(&e))?;
    if bytes.len() as u64 > LONGEST {
        return Err("it is longer than 1 MiB".to_owned());
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())
}

/// The system's words without their number.
fn said(error: &io::Error) -> String {
    error.to_string().split(" (os error").next().unwrap_or_default().to_owned()
}
