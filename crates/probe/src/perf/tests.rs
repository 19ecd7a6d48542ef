//! Processors that come and go, on a kernel that is made up: its rings are files.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};

use super::*;

/// What the kernel was asked for.
#[derive(Debug, Default)]
struct State {
    offline: Vec<u32>,
    /// Fails with this errno after so many more events.
    failing: Option<(usize, i32)>,
    /// Processor and tracepoint of each event, by descriptor.
    opened: BTreeMap<i32, (u32, u16)>,
    filters: BTreeMap<i32, String>,
}

#[derive(Clone, Debug, Default)]
struct Fake(Arc<Mutex<State>>);

impl Fake {
    /// Processors on which a filter is in force, and the filter.
    fn filtered(&self) -> Vec<(u32, String)> {
        let state = self.0.lock().unwrap();
        let filters = state.filters.iter().map(|(fd, filter)| (state.opened[fd].0, filter.clone()));
        let mut filters: Vec<_> = filters.collect();
        filters.sort();
        filters
    }
}

impl Events for Fake {
    fn open(&self, tracepoint: u16, processor: u32, _: u32) -> io::Result<OwnedFd> {
        let mut state = self.0.lock().unwrap();
        if state.offline.contains(&processor) {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        match &mut state.failing {
            Some((0, errno)) => return Err(io::Error::from_raw_os_error(*errno)),
            Some((left, _)) => *left -= 1,
            None => {}
        }
        let file = tempfile::tempfile()?;
        file.set_len(1 << 20)?;
        let fd = OwnedFd::from(file);
        // A descriptor that was closed is given again.
        state.filters.remove(&fd.as_raw_fd());
        state.opened.insert(fd.as_raw_fd(), (processor, tracepoint));
        Ok(fd)
    }

    fn enable(&self, _: &OwnedFd) -> io::Result<()> {
        Ok(())
    }

    fn send_to(&self, _: &OwnedFd, _: i32) -> io::Result<()> {
        Ok(())
    }

    fn filter(&self, event: &OwnedFd, expression: &str) -> io::Result<()> {
        self.0.lock().unwrap().filters.insert(event.as_raw_fd(), expression.to_owned());
        Ok(())
    }
}

fn perf(fake: &Fake, online: &[u32]) -> Perf {
    let mut perf = Perf {
        decoder: Decoder::default(),
        always: vec![10, 11],
        writes: vec![20, 21],
        processors: Vec::new(),
        scratch: Vec::new(),
        watched: Vec::new(),
        ring_bytes: 64 << 10,
        events: Box::new(fake.clone()),
    };
    perf.follow(online).unwrap();
    perf
}

fn looked_at(perf: &Perf) -> Vec<(u32, usize)> {
    perf.processors.iter().map(|p| (p.number, p.writes.len())).collect()
}

#[test]
fn a_processor_that_went_offline_is_left_out_and_the_others_go_on() {
    let fake = Fake::default();
    let mut perf = perf(&fake, &[0, 1, 2]);
    fake.0.lock().unwrap().offline = vec![1];
    perf.watch_writes(&[700, 701]).unwrap();
    assert_eq!(looked_at(&perf), [(0, 2), (2, 2)]);
    assert_eq!(perf.watched(), [700, 701]);
    let filter = "common_pid == 700 || common_pid == 701".to_owned();
    let all = [(0, filter.clone()), (0, filter.clone()), (2, filter.clone()), (2, filter.clone())];
    assert_eq!(fake.filtered(), all);
    // It comes back, and is looked at again, at writes too.
    fake.0.lock().unwrap().offline.clear();
    perf.follow_these(&[0, 1, 2]).unwrap();
    assert_eq!(looked_at(&perf), [(0, 2), (2, 2), (1, 2)]);
    assert_eq!(perf.watched(), [700, 701]);
    // One that is listed and gone when it is opened.
    fake.0.lock().unwrap().offline = vec![3];
    perf.follow_these(&[0, 1, 2, 3]).unwrap();
    assert_eq!(looked_at(&perf).len(), 3);
}

#[test]
fn who_could_not_be_watched_is_not_called_watched_and_is_tried_again() {
    let fake = Fake::default();
    let mut perf = perf(&fake, &[0, 1]);
    // The second processor's first event for writes has no descriptor left.
    fake.0.lock().unwrap().failing = Some((2, libc::EMFILE));
    let why = perf.watch_writes(&[700]).unwrap_err().to_string();
    assert!(why.contains("open files"), "{why}");
    assert_eq!((perf.watched().len(), looked_at(&perf)), (0, vec![(0, 0), (1, 0)]));
    fake.0.lock().unwrap().failing = None;
    perf.watch_writes(&[700]).unwrap();
    assert_eq!((perf.watched(), looked_at(&perf)), (&[700][..], vec![(0, 2), (1, 2)]));
    perf.watch_writes(&[]).unwrap();
    assert_eq!((perf.watched().len(), looked_at(&perf)), (0, vec![(0, 0), (1, 0)]));
}

#[test]
fn of_too_many_threads_the_first_are_watched_by_a_filter_that_the_kernel_takes() {
    let fake = Fake::default();
    let mut perf = perf(&fake, &[0]);
    // The kernel's largest number of a process (PID_MAX_LIMIT).
    let threads: Vec<u32> = (4_194_304 - 500..4_194_304).collect();
    perf.watch_writes(&threads).unwrap();
    assert_eq!(perf.watched(), &threads[..MAX_WATCHED]);
    assert!(fake.filtered().iter().all(|(_, filter)| filter.len() < 4096));
}

#[test]
fn lists_of_processors_are_read_as_the_kernel_writes_them() {
    assert_eq!(ranges("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
    assert_eq!(ranges("0"), [0]);
    assert_eq!(ranges(""), [0u32; 0]);
    assert_eq!(ranges("3-1,x,0-99999999999,7"), [7]);
}
