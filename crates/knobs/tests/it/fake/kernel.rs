//! The kernel's files, and the side effects of a write.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use floodwall_knobs::{Clock, Files};
use rustix::io::Errno;

use super::Fuse;

pub(crate) const QUEUE: &str = "/sys/dev/block/8:0/queue";
pub(crate) const BDI: &str = "/sys/class/bdi/8:0";
/// A unit of systemd's, by its control group.
pub(crate) const GROUP: &str = "system.slice/b.service";
const VM: &str = "/proc/sys/vm";

/// Whether writeback throttling is on, and who said so (block/blk-wbt.h `WBT_STATE_*`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wbt {
    DefaultOn,
    DefaultOff,
    Manual,
}

/// The device of a line.
fn key_of(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

/// The kernel, one disk `sda` with a queue.
pub(crate) struct Kernel {
    pub(crate) fuse: Rc<Fuse>,
    files: RefCell<BTreeMap<String, String>>,
    /// Every write that was let through.
    pub(crate) writes: RefCell<Vec<String>>,
    wbt: Cell<Wbt>,
    wbt_target: Cell<i64>,
    /// What `ratelimit_pages` was last computed from: the name of the file that was in force.
    pub(crate) ratelimit_from: Cell<&'static str>,
    pub(crate) dirty_pages: Cell<u64>,
    /// Pages that drain in one sleep.
    pub(crate) drains: Cell<u64>,
    pub(crate) busy: Cell<u32>,
    /// `__bdi_set_min_ratio` of 6.2 to 6.7.
    pub(crate) scales_twice: Cell<bool>,
    pub(crate) slept: Cell<u32>,
    pub(crate) cancelled: Cell<bool>,
    /// Directories in which every read and write would hang: a queue that a process is about to
    /// change.
    pub(crate) stuck: RefCell<Vec<String>>,
    /// Files that can't be read or followed, with this error.
    pub(crate) unreadable: RefCell<BTreeMap<String, Errno>>,
    /// Files that refuse writes, with this error.
    pub(crate) refuses: RefCell<BTreeMap<String, Errno>>,
    /// Largest share of the dirty data by which a hard limit was ever set below it, in bytes.
    pub(crate) cut_below_dirty: Cell<u64>,
}

impl Kernel {
    pub(crate) fn new() -> Self {
        let kernel = Self {
            fuse: Rc::default(),
            files: RefCell::default(),
            writes: RefCell::default(),
            wbt: Cell::new(Wbt::DefaultOn),
            wbt_target: Cell::new(2000),
            ratelimit_from: Cell::new("dirty_ratio"),
            dirty_pages: Cell::new(100),
            drains: Cell::new(0),
            busy: Cell::new(0),
            scales_twice: Cell::new(false),
            slept: Cell::new(0),
            cancelled: Cell::new(false),
            stuck: RefCell::default(),
            unreadable: RefCell::default(),
            refuses: RefCell::default(),
            cut_below_dirty: Cell::new(0),
        };
        for (name, value) in [
            ("dirty_bytes", "0"),
            ("dirty_ratio", "20"),
            ("dirty_background_bytes", "0"),
            ("dirty_background_ratio", "10"),
            ("dirty_writeback_centisecs", "500"),
            ("dirty_expire_centisecs", "3000"),
        ] {
            kernel.put(&format!("{VM}/{name}"), value);
        }
        kernel.put("/proc/sys/kernel/osrelease", "6.18.0");
        kernel.put("/sys/dev/block/8:0/diskseq", "11");
        kernel.put("/sys/dev/block/8:0/dev", "8:0");
        for (name, value) in [
            ("nr_requests", "256"),
            ("max_sectors_kb", "1280"),
            ("read_ahead_kb", "64"),
            ("rq_affinity", "1"),
            ("nomerges", "0"),
            ("rotational", "1"),
            ("write_cache", "write through"),
        ] {
            kernel.put(&format!("{QUEUE}/{name}"), value);
        }
        for (name, value) in [
            ("max_ratio", "100"),
            ("max_ratio_fine", "1000000"),
            ("min_ratio", "0"),
            ("min_ratio_fine", "0"),
            ("strict_limit", "0"),
        ] {
            kernel.put(&format!("{BDI}/{name}"), value);
        }
        let group = format!("/sys/fs/cgroup/{GROUP}");
        kernel.put(&format!("{group}/cgroup.controllers"), "io memory");
        kernel.put(&format!("{group}/memory.current"), "4096");
        kernel.put(&format!("{group}/memory.stat"), "file 0\nshmem 0");
        kernel.unit_says("memory.high", "1000000000");
        kernel.unit_says("io.max", "");
        kernel.switch("mq-deadline");
        kernel
    }

    pub(crate) fn put(&self, path: &str, value: &str) {
        self.files.borrow_mut().insert(path.to_owned(), value.to_owned());
    }

    pub(crate) fn remove(&self, prefix: &str) {
        self.files.borrow_mut().retain(|path, _| !path.starts_with(prefix));
    }

    pub(crate) fn get(&self, path: &str) -> String {
        self.read(path).unwrap_or_else(|e| format!("{e:?}")).trim().to_owned()
    }

    pub(crate) fn vm(&self, name: &str) -> String {
        self.get(&format!("{VM}/{name}"))
    }

    pub(crate) fn queue(&self, name: &str) -> String {
        self.get(&format!("{QUEUE}/{name}"))
    }

    pub(crate) fn bdi(&self, name: &str) -> String {
        self.get(&format!("{BDI}/{name}"))
    }

    /// Every knob as it reads.
    pub(crate) fn all(&self) -> BTreeMap<String, String> {
        let mut all = self.files.borrow().clone();
        let is_process = |path: &str| path.starts_with("/proc/") && !path.starts_with("/proc/sys/");
        all.retain(|path, _| !is_process(path));
        all.insert(format!("{QUEUE}/wbt_lat_usec"), self.queue("wbt_lat_usec"));
        all
    }

    /// A test that comes here would hang on a real kernel.
    fn must_not_hang(&self, path: &str) {
        let stuck = self.stuck.borrow();
        assert!(!stuck.iter().any(|directory| path.starts_with(directory)), "{path} is touched");
    }

    fn number(&self, path: &str) -> i64 {
        self.get(path).parse().unwrap_or(0)
    }

    /// Where systemd sets a limit of the unit at run time.
    pub(crate) fn at_run_time(file: &str) -> String {
        format!("/run/systemd/system.control/{GROUP}/{file}")
    }

    /// The limit in the unit's own files, and so in the kernel.
    pub(crate) fn unit_says(&self, file: &str, text: &str) {
        self.put(&format!("/etc/{file}"), text);
        self.put(&format!("/sys/fs/cgroup/{GROUP}/{file}"), text);
        self.show(file, "# set by the unit's files", text);
    }

    fn show(&self, file: &str, first: &str, text: &str) {
        for top in ["system", "system.control"] {
            self.put(&format!("/run/systemd/{top}/{GROUP}/{file}"), &format!("{first}\n{text}"));
        }
    }

    /// `systemctl revert`: the unit's own files count again, and no line of a device is written.
    pub(crate) fn revert(&self, file: &str) {
        self.show(file, "# set by the unit's files", &self.get(&format!("/etc/{file}")));
    }

    /// The unit's drop-ins that are not of `set-property --runtime`, as systemd tells them.
    fn drop_ins(&self) -> String {
        let files = self.files.borrow();
        let of_unit = |path: &&String| path.contains("/b.service.d/") && path.starts_with("/etc/");
        let mut paths: Vec<&str> = files.keys().filter(of_unit).map(String::as_str).collect();
        paths.sort_by_key(|path| path.rsplit('/').next());
        if paths.is_empty() { String::new() } else { format!("# drop-ins: {}\n", paths.join(" ")) }
    }

    /// `systemctl set-property --runtime`, and the removal of its drop-ins with a daemon-reload.
    fn write_unit(&self, path: &str, value: &str) {
        let file = path.rsplit('/').next().unwrap_or_default();
        let held = self.read(&format!("/sys/fs/cgroup/{GROUP}/{file}")).unwrap_or_default();
        // A file with a line for each device keeps those of other devices.
        let key = key_of(value);
        let others =
            held.lines().filter(|line| file == "io.max" && !line.starts_with(&format!("{key} ")));
        let unlimited = value.ends_with("rbps=max wbps=max riops=max wiops=max");
        let new = (!unlimited).then_some(value);
        let text = others.chain(new).collect::<Vec<_>>().join("\n");
        if path.starts_with("/run/systemd/system.control/") {
            let mut names = self.at_run_time_now(file);
            for (key, name) in [
                ("rbps", "IOReadBandwidthMax"),
                ("wbps", "IOWriteBandwidthMax"),
                ("riops", "IOReadIOPSMax"),
                ("wiops", "IOWriteIOPSMax"),
            ] {
                let of = |text: &str| {
                    let pairs = text.split_whitespace().filter_map(|pair| pair.strip_prefix(key));
                    pairs
                        .filter_map(|rest| rest.strip_prefix('='))
                        .next_back()
                        .unwrap_or("max")
                        .to_owned()
                };
                let line =
                    held.lines().find(|line| line.starts_with(key_of(value))).unwrap_or_default();
                if file == "io.max"
                    && of(value) != of(line)
                    && !names.iter().any(|other| other == name)
                {
                    names.push(name.to_owned());
                }
            }
            self.put(&format!("/sys/fs/cgroup/{GROUP}/{file}"), &text);
            let first = if names.is_empty() {
                "# set at run time".to_owned()
            } else {
                format!("# set at run time: {}", names.join(" "))
            };
            self.show(file, &first, &text);
            return;
        }
        // A drop-in stays while another device has a line in it.
        let of_another = |line: &&str| !line.is_empty() && !line.starts_with(key_of(value));
        if file == "io.max" && held.lines().any(|line| of_another(&line)) {
            return;
        }
        let says = self.get(&format!("/etc/{file}"));
        self.show(file, "# set by the unit's files", &says);
        // systemd writes no line for a device that it does not know any more.
        if file != "io.max" || !says.is_empty() {
            self.put(&format!("/sys/fs/cgroup/{GROUP}/{file}"), &says);
        }
    }

    /// The properties of `io.max` that are set at run time.
    fn at_run_time_now(&self, file: &str) -> Vec<String> {
        let view = self.get(&Self::at_run_time(file));
        let names = view.lines().next().and_then(|first| first.strip_prefix("# set at run time: "));
        names.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    }

    fn elevator(&self) -> String {
        let text = self.queue("scheduler");
        text.split(['[', ']']).nth(1).unwrap_or_default().to_owned()
    }

    /// elevator_switch: tunables and queue depth are the new elevator's.
    fn switch(&self, name: &str) {
        self.remove(&format!("{QUEUE}/iosched"));
        let shown: Vec<String> = ["none", "mq-deadline", "kyber", "bfq"]
            .iter()
            .map(|n| if *n == name { format!("[{n}]") } else { (*n).to_owned() })
            .collect();
        self.put(&format!("{QUEUE}/scheduler"), &shown.join(" "));
        self.put(&format!("{QUEUE}/nr_requests"), if name == "none" { "128" } else { "256" });
        let tunables: &[(&str, &str)] = match name {
            "mq-deadline" => &[
                ("fifo_batch", "16"),
                ("read_expire", "500"),
                ("writes_starved", "2"),
                ("async_depth", "256"),
            ],
            "kyber" => &[("read_lat_nsec", "2000000"), ("write_lat_nsec", "10000000")],
            "bfq" => &[
                ("slice_idle", "8"),
                ("slice_idle_us", "8000"),
                ("strict_guarantees", "0"),
                ("low_latency", "1"),
                ("timeout_sync", "124"),
            ],
            _ => &[],
        };
        for (file, value) in tunables {
            self.put(&format!("{QUEUE}/iosched/{file}"), value);
        }
        match (name, self.wbt.get()) {
            ("bfq", Wbt::DefaultOn) => self.wbt.set(Wbt::DefaultOff),
            (other, Wbt::DefaultOff) if other != "bfq" => self.wbt.set(Wbt::DefaultOn),
            _ => {}
        }
    }

    fn hard_limit_bytes(&self) -> u64 {
        let bytes = self.number(&format!("{VM}/dirty_bytes")) as u64;
        if bytes > 0 {
            bytes
        } else {
            5_000_000 * 4096 / 100 * self.number(&format!("{VM}/dirty_ratio")) as u64
        }
    }

    fn write_vm(&self, name: &str, value: i64) -> Result<(), Errno> {
        let path = |name: &str| format!("{VM}/{name}");
        match name {
            "dirty_bytes" | "dirty_ratio" => {
                let bytes = name == "dirty_bytes";
                if if bytes { value < 8192 } else { !(0..=100).contains(&value) } {
                    return Err(Errno::INVAL);
                }
                if self.number(&path(name)) != value {
                    let was_bytes = self.vm("dirty_bytes") != "0";
                    // dirty_ratio_handler up to 6.14: the rate limit is worked out while the old
                    // bytes are still there.
                    self.ratelimit_from.set(if was_bytes || bytes {
                        "dirty_bytes"
                    } else {
                        "dirty_ratio"
                    });
                    self.put(&path(name), &value.to_string());
                    self.put(&path(if bytes { "dirty_ratio" } else { "dirty_bytes" }), "0");
                    let dirty = self.dirty_pages.get() * 4096;
                    let below = dirty.saturating_sub(self.hard_limit_bytes());
                    self.cut_below_dirty.set(self.cut_below_dirty.get().max(below));
                }
            }
            "dirty_background_bytes" | "dirty_background_ratio" => {
                let bytes = name == "dirty_background_bytes";
                if if bytes { value < 1 } else { !(0..=100).contains(&value) } {
                    return Err(Errno::INVAL);
                }
                self.put(&path(name), &value.to_string());
                self.put(
                    &path(if bytes { "dirty_background_ratio" } else { "dirty_background_bytes" }),
                    "0",
                );
            }
            _ => self.put(&path(name), &value.to_string()),
        }
        Ok(())
    }

    fn write_queue(&self, name: &str, value: &str) -> Result<(), Errno> {
        let path = |name: &str| format!("{QUEUE}/{name}");
        if name == "scheduler" {
            if !["none", "mq-deadline", "kyber", "bfq"].contains(&value) {
                return Err(Errno::INVAL);
            }
            if self.elevator() != value {
                self.switch(value);
            }
            return Ok(());
        }
        if name == "write_cache" {
            self.put(&path(name), value);
            self.put(&path("read_ahead_kb"), "128");
            return Ok(());
        }
        let number: i64 = value.parse().map_err(|_| Errno::INVAL)?;
        match name {
            "rotational" => {
                self.put(&path(name), value);
                self.put(&path("read_ahead_kb"), "128");
            }
            "nr_requests" => {
                if self.busy.get() > 0 {
                    self.busy.set(self.busy.get() - 1);
                    return Err(Errno::BUSY);
                }
                let most = if self.elevator() == "none" { 128 } else { 2048 };
                if number > most {
                    return Err(Errno::INVAL);
                }
                let number = number.max(4).to_string();
                self.put(&path(name), &number);
                if self.read(&path("iosched/async_depth")).is_ok() {
                    self.put(&path("iosched/async_depth"), &number);
                }
            }
            "max_sectors_kb" => {
                if !(4..=1280).contains(&number) {
                    return Err(Errno::INVAL);
                }
                self.put(&path(name), value);
                self.put(&path("read_ahead_kb"), &(2 * number).to_string());
            }
            "read_ahead_kb" => self.put(&path(name), &(number / 4 * 4).to_string()),
            "wbt_lat_usec" => {
                let number = if number == -1 { 75_000 } else { number };
                if number != self.wbt_target.get() {
                    self.wbt_target.set(number);
                    self.wbt.set(Wbt::Manual);
                }
            }
            "iosched/read_expire" | "iosched/timeout_sync" => {
                self.put(&path(name), &((number + 3) / 4 * 4).to_string());
            }
            "iosched/slice_idle_us" => {
                self.put(&path(name), value);
                self.put(&path("iosched/slice_idle"), &(number / 1000).to_string());
            }
            "iosched/strict_guarantees" => {
                self.put(&path(name), value);
                if number == 1 && self.number(&path("iosched/slice_idle_us")) < 8000 {
                    self.put(&path("iosched/slice_idle_us"), "8000");
                    self.put(&path("iosched/slice_idle"), "8");
                }
            }
            _ => self.put(&path(name), value),
        }
        Ok(())
    }

    fn write_bdi(&self, name: &str, value: i64) -> Result<(), Errno> {
        let path = |name: &str| format!("{BDI}/{name}");
        let number = |name: &str| self.number(&path(name));
        let both = |name: &str, ppm: i64| {
            self.put(&path(&format!("{name}_fine")), &ppm.to_string());
            self.put(&path(name), &(ppm / 10_000).to_string());
        };
        let ppm = if name.ends_with("_fine") { value } else { value * 10_000 };
        match name {
            "max_ratio" | "max_ratio_fine" => {
                if ppm > 1_000_000 || ppm < number("min_ratio_fine") {
                    return Err(Errno::INVAL);
                }
                both("max_ratio", ppm);
            }
            "min_ratio" | "min_ratio_fine" => {
                let ppm = if self.scales_twice.get() { ppm * 10_000 } else { ppm };
                if ppm >= 1_000_000 || ppm > number("max_ratio_fine") {
                    return Err(Errno::INVAL);
                }
                both("min_ratio", ppm);
            }
            "strict_limit" if (0..=1).contains(&value) => self.put(&path(name), &value.to_string()),
            _ => return Err(Errno::INVAL),
        }
        Ok(())
    }
}

impl Files for Kernel {
    fn read(&self, path: &str) -> rustix::io::Result<String> {
        self.must_not_hang(path);
        if let Some(error) = self.unreadable.borrow().get(path) {
            return Err(*error);
        }
        if path == "/proc/vmstat" {
            return Ok(format!(
                "nr_free_pages 3000000\nnr_inactive_file 1000000\nnr_active_file 1000000\n\
                 nr_dirty {}\nnr_writeback 0\n",
                self.dirty_pages.get()
            ));
        }
        if path == format!("{QUEUE}/wbt_lat_usec") {
            return Ok(match self.wbt.get() {
                Wbt::DefaultOff => "0\n".to_owned(),
                Wbt::DefaultOn | Wbt::Manual => format!("{}\n", self.wbt_target.get()),
            });
        }
        let text =
            self.files.borrow().get(path).map(|value| format!("{value}\n")).ok_or(Errno::NOENT)?;
        let is_view = path.starts_with("/run/systemd/") && path.contains(GROUP);
        match text.split_once('\n') {
            Some((first, lines)) if is_view => Ok(format!("{first}\n{}{lines}", self.drop_ins())),
            _ => Ok(text),
        }
    }

    fn list(&self, path: &str) -> Vec<String> {
        let files = self.files.borrow();
        let below = files
            .keys()
            .filter_map(|file| file.strip_prefix(path)?.strip_prefix('/')?.split('/').next());
        let mut names: Vec<String> = below.map(str::to_owned).collect();
        names.dedup();
        names
    }

    fn link(&self, path: &str) -> rustix::io::Result<String> {
        self.read(path).map(|text| text.trim().to_owned())
    }

    fn write(&self, path: &str, value: &str) -> rustix::io::Result<()> {
        self.must_not_hang(path);
        if !self.fuse.burn() {
            return Err(Errno::IO);
        }
        self.may_write(path)?;
        let number = || value.parse::<i64>().map_err(|_| Errno::INVAL);
        if let Some(name) = path.strip_prefix("/proc/sys/vm/") {
            self.write_vm(name, number()?)?;
        } else if let Some(name) = path.strip_prefix(&format!("{QUEUE}/")) {
            self.write_queue(name, value)?;
        } else if let Some(name) = path.strip_prefix(&format!("{BDI}/")) {
            self.write_bdi(name, number()?)?;
        } else if path.starts_with("/run/systemd/") {
            self.write_unit(path, value);
        } else if path == format!("/sys/fs/cgroup/{GROUP}/memory.high") {
            self.put(path, value);
        } else {
            return Err(Errno::ACCESS);
        }
        let file = path.rsplit('/').next().unwrap_or_default();
        self.writes.borrow_mut().push(format!("{file}={value}"));
        Ok(())
    }

    fn may_write(&self, path: &str) -> rustix::io::Result<()> {
        match self.refuses.borrow().get(path) {
            Some(error) => Err(*error),
            None => self.read(path).map(drop),
        }
    }

    fn page_bytes(&self) -> u64 {
        4096
    }
}

impl Clock for Kernel {
    fn now_unix_s(&self) -> u64 {
        1_700_000_000
    }

    fn sleep(&self, _: Duration) {
        self.slept.set(self.slept.get() + 1);
        self.dirty_pages.set(self.dirty_pages.get().saturating_sub(self.drains.get()));
    }

    fn cancelled(&self) -> bool {
        self.cancelled.get()
    }
}
