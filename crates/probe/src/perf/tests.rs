//! Processors that come and go, on a kernel that is made up: its rings are files.

use std::collections::{BTreeMap, BTreeSet};
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
    /// Those that are switched on, and the leaders of those that have one.
    on: BTreeSet<i32>,
    led: BTreeMap<i32, i32>,
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

impl Fake {
    /// Tracepoints of a processor that send records.
    fn recording(&self, perf: &Perf) -> Vec<u16> {
        let state = self.0.lock().unwrap();
        let of = |p: &Processor| {
            let events =
                std::iter::once(p.ring.leader()).chain(p.others.iter().map(|(_, event)| event));
            events.chain(&p.writes).map(AsRawFd::as_raw_fd).collect::<Vec<_>>()
        };
        let open = perf.processors.first().map(of).unwrap_or_default();
        let is_on = |fd: &i32| {
            state.on.contains(fd) && state.led.get(fd).is_none_or(|l| state.on.contains(l))
        };
        let mut on: Vec<u16> =
            open.iter().filter(|fd| is_on(fd)).map(|fd| state.opened[fd].1).collect();
        on.sort_unstable();
        on
    }
}

impl Events for Fake {
    fn open(
        &self,
        tracepoint: u16,
        processor: u32,
        _: u32,
        leader: Option<&OwnedFd>,
    ) -> io::Result<OwnedFd> {
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
        state.on.remove(&fd.as_raw_fd());
        if let Some(leader) = leader {
            state.led.insert(fd.as_raw_fd(), leader.as_raw_fd());
        } else {
            state.led.remove(&fd.as_raw_fd());
        }
        Ok(fd)
    }

    fn enable(&self, event: &OwnedFd) -> io::Result<()> {
        self.0.lock().unwrap().on.insert(event.as_raw_fd());
        Ok(())
    }

    fn disable(&self, event: &OwnedFd) -> io::Result<()> {
        self.0.lock().unwrap().on.remove(&event.as_raw_fd());
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

fn point((number, role): (u16, Role)) -> Point {
    Point { number, role, filter: None }
}

fn perf(fake: &Fake, online: &[u32]) -> Perf {
    let mut perf = Perf {
        decoder: Decoder::default(),
        always: [
            (10, Role::Begin),
            (11, Role::End),
            (12, Role::Rare),
            (13, Role::Begin),
            (14, Role::End),
        ]
        .map(point)
        .to_vec(),
        writes: [(20, Role::Begin), (21, Role::End)].map(point).to_vec(),
        begins: true,
        ends: true,
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

#[test]
fn beginnings_and_ends_are_switched_by_their_leaders() {
    let fake = Fake::default();
    let mut perf = perf(&fake, &[0, 1]);
    perf.watch_writes(&[700]).unwrap();
    assert_eq!(fake.recording(&perf), [10, 11, 12, 13, 14, 20, 21]);
    perf.count_begins(false);
    assert_eq!(fake.recording(&perf), [11, 12, 14, 21], "what has begun is followed to its end");
    perf.ignore_ends();
    assert_eq!(fake.recording(&perf), [12]);
    // A processor that comes meanwhile is as quiet.
    perf.follow_these(&[1, 2]).unwrap();
    perf.processors.remove(0);
    assert_eq!(fake.recording(&perf), [12]);
    perf.count_begins(true);
    assert_eq!(fake.recording(&perf), [10, 11, 12, 13, 14, 20, 21]);
}

#[test]
fn all_are_closed_and_opened_again_and_writes_are_watched_anew() {
    let fake = Fake::default();
    let mut perf = perf(&fake, &[0, 1]);
    perf.watch_writes(&[700]).unwrap();
    let pieces = perf.detach();
    // Four beside the ring's own event, two for writes, the ring.
    assert_eq!((pieces.len(), perf.processors.len(), perf.watched().len()), (14, 0, 0));
    drop(pieces);
    perf.follow_these(&[0, 1]).unwrap();
    perf.watch_writes(&[700]).unwrap();
    assert_eq!(fake.recording(&perf), [10, 11, 12, 13, 14, 20, 21]);
}
