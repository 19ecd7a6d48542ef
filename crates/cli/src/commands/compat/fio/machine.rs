//! Job files, the environment and the machine, as the grammar asks for them.

use std::io::{self, Read};
use std::{env, fs, thread};

use floodwall_compat::fio::line::Host;
use floodwall_host::SysRoot;

/// This machine.
pub(super) struct Machine;

impl Host for Machine {
    fn read(&mut self, file: &str) -> Result<String, String> {
        let text = if file == "-" {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map(|_| text)
        } else {
            fs::read_to_string(file)
        };
        text.map_err(|e| e.to_string().split(" (os error").next().unwrap_or_default().to_owned())
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
