//! What the guard has learnt of devices, in a file that outlives restarts and boots.
//!
//! ```text
//! learnt.json beside the journals ─▶ Store: an entry a device ─ identity ─▶ Learnt, and its age
//!   ▲                                 │ put, expired and oldest entries dropped
//!   └─ renamed ◀─ fsynced ◀─ new file ◀┘ in a thread: fsync waits for a flooded disk
//! ```
//!
//! A file that can't be used is ignored and said once. The guard then begins without it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use floodwall_guard::Learnt;
use floodwall_plant::DeviceIdentity;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::directory::{directory_of, is_exposed};

/// The file's name.
const NAME: &str = "learnt.json";
/// The format of the file.
const VERSION: u32 = 1;
/// A value is dropped so many seconds after it was measured (90 days), and an entry with its last
/// value. SSDs wear and fill up within months. A device that was away for longer may come back with
/// another use.
const EXPIRES_S: f64 = 90.0 * 86_400.0;
/// Entries that are kept. Machines with more disks have many of one kind that come and go.
const MOST_ENTRIES: usize = 256;
/// A larger file is not the guard's: an entry takes less than 6 KiB.
const MOST_BYTES: u64 = 4 << 20;
/// From one write of the file to the next: encounters may end every few seconds.
const REST: Duration = Duration::from_secs(60);
/// How long the last write may take at the end. Values that it loses are measured again.
const PATIENCE: Duration = Duration::from_secs(2);

/// The kept values of one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Its name then, for people.
    pub(crate) name: String,
    known_by: String,
    firmware: String,
    size_bytes: u64,
    /// When its values had the ages in `learnt`.
    at_unix_s: f64,
    learnt: Learnt,
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    devices: Vec<Entry>,
}

/// The format alone: another version may have other fields.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// What the store has of a device.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Found {
    Nothing,
    /// With the time since it was kept.
    Learnt(Box<Learnt>, Duration),
    /// It was dropped, and why.
    Dropped(String),
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Store {
    path: PathBuf,
    entries: Vec<Entry>,
    /// A newer program wrote the file: it is left to that one.
    is_newer: bool,
    /// There are values that are not in the file.
    is_stale: bool,
    written: Option<Instant>,
    writer: Option<JoinHandle<io::Result<()>>>,
    failure_said: bool,
}

fn read(path: &Path) -> Result<Option<String>, String> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let mut options = OpenOptions::new();
    let file = match options.read(true).custom_flags(flags.cast_signed()).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e.to_string()),
    };
    let meta = file.metadata().map_err(|e| e.to_string())?;
    if !meta.is_file() || is_exposed(&meta) {
        return Err("others could have written it".to_owned());
    }
    let mut text = String::new();
    file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(|e| e.to_string())?;
    if text.len() as u64 > MOST_BYTES { Err("it is too large".to_owned()) } else { Ok(Some(text)) }
}

/// Writes a file whole or not at all.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("json.new");
    match fs::remove_file(&new) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    File::open(directory_of(path))?.sync_all()
}

impl Store {
    /// The store beside a journal's directory, and a message if its file can't be used.
    pub(crate) fn open(journal: &Path) -> (Self, Option<String>) {
        let path = journal.with_file_name(NAME);
        let mut store = Self { path, ..Self::default() };
        let parsed = read(&store.path).and_then(|text| match text {
            Some(text) => store.parse(&text),
            None => Ok(()),
        });
        let place = store.path.display();
        let said = parsed.err().map(|why| {
            format!("what was learnt of devices is not used: '{place}': {why}; it is learnt again")
        });
        (store, said)
    }

    fn parse(&mut self, text: &str) -> Result<(), String> {
        let version: Version = serde_json::from_str(text).map_err(|e| e.to_string())?;
        if version.version != VERSION {
            self.is_newer = version.version > VERSION;
            return Err(format!(
                "it has version {}, and this program reads {VERSION}",
                version.version
            ));
        }
        let document: Document = serde_json::from_str(text).map_err(|e| e.to_string())?;
        self.entries = document.devices;
        Ok(())
    }

    fn text(&self) -> String {
        let document = Document { version: VERSION, devices: self.entries.clone() };
        // Numbers, texts and lists can always be written.
        serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
    }

    /// Looks a device up. An entry of another firmware or size is dropped: the device may have
    /// another speed now.
    pub(crate) fn find(&mut self, device: &DeviceIdentity, unix_s: f64) -> Found {
        self.trim(unix_s);
        let Some(index) = self.entries.iter().position(|e| e.known_by == device.known_by) else {
            return Found::Nothing;
        };
        let entry = &self.entries[index];
        let changed = match entry {
            e if e.firmware != device.firmware => Some("another firmware"),
            e if e.size_bytes != device.size_bytes => Some("another size"),
            _ => None,
        };
        if let Some(what) = changed {
            self.entries.remove(index);
            self.is_stale = true;
            return Found::Dropped(format!("it has {what} now"));
        }
        // The wall clock may have been put back.
        let since =
            Duration::try_from_secs_f64((unix_s - entry.at_unix_s).max(0.0)).unwrap_or_default();
        Found::Learnt(Box::new(entry.learnt.clone()), since)
    }

    /// Keeps what was learnt of a device until now.
    pub(crate) fn put(
        &mut self,
        name: String,
        device: &DeviceIdentity,
        unix_s: f64,
        learnt: Learnt,
    ) {
        self.entries.retain(|entry| entry.known_by != device.known_by);
        self.entries.push(Entry {
            name,
            known_by: device.known_by.clone(),
            firmware: device.firmware.clone(),
            size_bytes: device.size_bytes,
            at_unix_s: unix_s,
            learnt,
        });
        self.is_stale = true;
        self.trim(unix_s);
    }

    /// Drops expired values and entries, and the oldest beyond [`MOST_ENTRIES`].
    fn trim(&mut self, unix_s: f64) {
        self.entries.retain_mut(|entry| {
            entry.learnt.forget_older(EXPIRES_S - (unix_s - entry.at_unix_s));
            !entry.learnt.is_empty()
        });
        self.entries.sort_by(|a, b| a.at_unix_s.total_cmp(&b.at_unix_s));
        let above = self.entries.len().saturating_sub(MOST_ENTRIES);
        self.entries.drain(..above);
    }

    /// Begins to write the file if there is something new, at most once a [`REST`]. Returns why an
    /// earlier write failed, once.
    pub(crate) fn tend(&mut self, now: Instant) -> Option<String> {
        let failed = self
            .writer
            .take_if(|writer| writer.is_finished())
            .and_then(|writer| self.ended(writer));
        let is_due = self.written.is_none_or(|then| now.saturating_duration_since(then) >= REST);
        if is_due && self.writer.is_none() {
            self.begin(now);
        }
        failed
    }

    fn begin(&mut self, now: Instant) {
        if !self.is_stale || self.is_newer {
            return;
        }
        self.written = Some(now);
        let (path, text) = (self.path.clone(), self.text());
        // Without a thread it is tried again later.
        self.writer = thread::Builder::new().spawn(move || write(&path, &text)).ok();
        self.is_stale = self.writer.is_none();
    }

    fn ended(&mut self, writer: JoinHandle<io::Result<()>>) -> Option<String> {
        let error = writer.join().ok()?.err()?;
        let place = self.path.display();
        let is_first = !std::mem::replace(&mut self.failure_said, true);
        is_first.then(|| format!("can't keep what was learnt of devices in '{place}': {error}"))
    }

    /// Writes what is not in the file yet, within [`PATIENCE`].
    pub(crate) fn close(mut self, now: Instant) -> Option<String> {
        let end = Instant::now() + PATIENCE;
        let mut failed = None;
        loop {
            match self.writer.take() {
                None if !self.is_stale || self.is_newer || Instant::now() >= end => return failed,
                None => self.begin(now),
                Some(writer) if writer.is_finished() => failed = self.ended(writer).or(failed),
                Some(writer) if Instant::now() < end => {
                    self.writer = Some(writer);
                    thread::sleep(Duration::from_millis(5));
                }
                Some(_) => {
                    let place = self.path.display();
                    return Some(format!(
                        "'{place}' is still being written, and is not waited for"
                    ));
                }
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test's own files")]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use floodwall_guard::Aged;

    use super::*;

    const NOW: f64 = 1.8e9;
    const DAY: f64 = 86_400.0;

    fn device(n: u64) -> DeviceIdentity {
        let known_by = format!("ENV{{ID_SERIAL}}=disk{n}");
        DeviceIdentity { known_by, firmware: "A1".into(), size_bytes: 1 << 40, model: None }
    }

    fn drains(rate: f64) -> Learnt {
        Learnt { drain_bytes_per_s: Some(Aged { value: rate, age_s: 5.0 }), ..Learnt::default() }
    }

    /// A journal's directory, and a store that has one device in its file.
    fn kept() -> (tempfile::TempDir, PathBuf, Store) {
        let dir = tempfile::tempdir().unwrap();
        let journal = dir.path().join("journal");
        let (mut store, said) = Store::open(&journal);
        assert_eq!(said, None, "a file that is not there yet is no failure");
        store.put("sda".into(), &device(1), NOW, drains(121e6));
        assert_eq!(store.close(Instant::now()), None);
        let store = Store::open(&journal).0;
        (dir, journal, store)
    }

    #[test]
    fn an_entry_comes_back_with_its_age() {
        let (dir, journal, mut store) = kept();
        let found = store.find(&device(1), NOW + 3.0 * DAY);
        let three_days = Duration::from_secs(3 * 86_400);
        assert_eq!(found, Found::Learnt(Box::new(drains(121e6)), three_days));
        assert_eq!(store.find(&device(2), NOW), Found::Nothing);
        let back = store.find(&device(1), NOW - DAY);
        assert_eq!(
            back,
            Found::Learnt(Box::new(drains(121e6)), Duration::ZERO),
            "the clock was put back"
        );
        let names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, [NAME]);
        let mode = fs::metadata(journal.with_file_name(NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_is_cut_off_is_ignored_and_said() {
        let (_dir, journal, store) = kept();
        let text = store.text();
        for end in 0..text.len() - 1 {
            fs::write(journal.with_file_name(NAME), &text[..end]).unwrap();
            let (store, said) = Store::open(&journal);
            assert!(store.entries.is_empty() && said.is_some(), "{end} bytes");
        }
        // The next write makes it whole again.
        let mut store = Store::open(&journal).0;
        store.put("sda".into(), &device(1), NOW, drains(1e6));
        assert_eq!(store.close(Instant::now()), None);
        assert_eq!(Store::open(&journal).0.entries.len(), 1);
    }

    #[test]
    fn a_newer_file_is_left_as_it_is() {
        let (_dir, journal, _) = kept();
        let path = journal.with_file_name(NAME);
        fs::write(&path, "{\"version\": 2, \"disks\": {}}").unwrap();
        let (mut store, said) = Store::open(&journal);
        assert!(said.unwrap().contains("it has version 2, and this program reads 1"));
        store.put("sda".into(), &device(1), NOW, drains(1e6));
        assert_eq!(store.close(Instant::now()), None);
        assert!(fs::read_to_string(&path).unwrap().contains("disks"));
    }

    #[test]
    fn a_file_of_others_is_not_read() {
        let (_dir, journal, _) = kept();
        let path = journal.with_file_name(NAME);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        let (store, said) = Store::open(&journal);
        assert!(store.entries.is_empty() && said.unwrap().contains("others could have written it"));
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(Store::open(&journal).1.is_some());
    }

    #[test]
    fn an_entry_expires_and_one_of_another_firmware_or_size_is_dropped() {
        let (_dir, journal, mut store) = kept();
        assert_ne!(store.find(&device(1), NOW + 89.0 * DAY), Found::Nothing);
        // A value that was not measured again is no younger because the entry was written again.
        let mut learnt = drains(1e6);
        learnt.drain_bytes_per_s.as_mut().unwrap().age_s = 50.0 * DAY;
        store.put("sdb".into(), &device(2), NOW + 50.0 * DAY, learnt);
        assert_eq!(store.find(&device(2), NOW + 91.0 * DAY), Found::Nothing);
        assert_eq!(store.find(&device(1), NOW + 91.0 * DAY), Found::Nothing);
        let changed = [
            DeviceIdentity { firmware: "A2".into(), ..device(1) },
            DeviceIdentity { size_bytes: 1, ..device(1) },
        ];
        for (device, what) in changed.iter().zip(["another firmware", "another size"]) {
            let mut store = Store::open(&journal).0;
            assert_eq!(store.find(device, NOW), Found::Dropped(format!("it has {what} now")));
            assert_eq!(store.find(device, NOW), Found::Nothing);
        }
    }

    #[test]
    fn at_most_256_are_kept_and_the_oldest_go_first() {
        let mut store = Store::default();
        for n in 0..300 {
            store.put(format!("sd{n}"), &device(n), NOW + n as f64, drains(1e6));
        }
        assert_eq!(store.entries.len(), MOST_ENTRIES);
        assert_eq!(store.find(&device(43), NOW + 300.0), Found::Nothing);
        assert_ne!(store.find(&device(44), NOW + 300.0), Found::Nothing);
        // An entry that is put again is the newest.
        store.put("sd44".into(), &device(44), NOW + 300.0, drains(2e6));
        store.put("other".into(), &device(999), NOW + 301.0, drains(1e6));
        assert_ne!(store.find(&device(44), NOW + 301.0), Found::Nothing);
        assert_eq!(store.entries.len(), MOST_ENTRIES);
    }

    #[test]
    fn it_is_written_once_a_minute_and_a_failure_is_said_once() {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, begin) = (Store::open(&dir.path().join("journal")).0, Instant::now());
        let path = dir.path().join(NAME);
        let wait = |store: &Store| {
            while store.writer.as_ref().is_some_and(|writer| !writer.is_finished()) {
                thread::sleep(Duration::from_millis(1));
            }
        };
        store.put("sda".into(), &device(1), NOW, drains(1e6));
        store.tend(begin);
        wait(&store);
        fs::remove_file(&path).unwrap();
        store.put("sda".into(), &device(1), NOW, drains(2e6));
        store.tend(begin + REST / 2);
        wait(&store);
        assert!(!path.exists());
        store.tend(begin + REST);
        wait(&store);
        assert!(path.exists());
        drop(dir);
        let mut said = Vec::new();
        for minute in 2..6 {
            store.put("sda".into(), &device(1), NOW, drains(3e6));
            said.extend(store.tend(begin + REST * minute));
            wait(&store);
        }
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("can't keep what was learnt of devices in"), "{said:?}");
    }
}
