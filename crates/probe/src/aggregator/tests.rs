use super::*;
use crate::open_file::OpenFile;

const SDA: DeviceId = DeviceId { major: 8, minor: 0 };
const SDB: DeviceId = DeviceId { major: 8, minor: 16 };

/// Files by number: 3 is an ordinary one on sda, 4 one on sdb opened with `O_DSYNC`, 5 one with
/// `O_DIRECT`; 9 is closed.
struct Open;

impl Files for Open {
    fn file(&mut self, _pid: u32, fd: i32) -> Option<OpenFile> {
        let file = |device, sync, direct| Some(OpenFile { device: Some(device), sync, direct });
        match fd {
            3 => file(SDA, false, false),
            4 => file(SDB, true, false),
            5 => file(SDB, false, true),
            _ => None,
        }
    }
}

/// Events of process 100, whose threads are 100 and up, in microseconds.
fn feed(aggregator: &mut Aggregator, events: &[(u64, u32, Event)]) {
    for (at_us, tid, event) in events {
        aggregator
            .count(&Record { at_ns: at_us * 1000, pid: 100, tid: *tid, event: *event }, &mut Open);
    }
}

fn place(sector: u64) -> Place {
    Place { device: SDA, sector }
}

fn enter(call: Call, fd: i32) -> Event {
    Event::Enter { call, fd: Some(fd) }
}

fn exit(call: Call) -> Event {
    Event::Exit { call, ok: true }
}

fn queued(sector: u64, class: Class) -> Event {
    Event::Queued { place: place(sector), class, bytes: 4096 }
}

fn issued(sector: u64, class: Class, bytes: u64) -> Event {
    Event::Issued { place: place(sector), class, bytes }
}

fn done(sector: u64) -> Event {
    Event::Done { place: place(sector) }
}

fn us(values: &[u64]) -> floodwall_model::LatencyCounts {
    floodwall_model::LatencyCounts::from_values(values.iter().map(|us| us * 1000))
}

#[test]
fn calls_of_threads_are_told_apart_and_counted_for_their_process() {
    let mut aggregator = Aggregator::new(Limits::default());
    feed(
        &mut aggregator,
        &[
            (0, 100, enter(Call::Fsync, 3)),
            (10, 101, enter(Call::Fdatasync, 3)),
            (500, 100, exit(Call::Fsync)),
            (510, 100, enter(Call::Fsync, 3)),
            (700, 101, exit(Call::Fdatasync)),
            (810, 100, exit(Call::Fsync)),
        ],
    );
    let counted = aggregator.take(1_000_000, &mut Open);
    let [process] = counted.processes.as_slice() else { panic!("{counted:?}") };
    assert_eq!((process.pid, process.device, process.waiting), (100, Some(SDA), 0));
    assert_eq!(process.calls[&Call::Fsync], us(&[500, 300]));
    assert_eq!(process.calls[&Call::Fdatasync], us(&[690]));
    assert_eq!(process.commits().count(), 3);
}

#[test]
fn a_call_that_failed_or_was_not_seen_to_begin_is_not_counted() {
    let mut aggregator = Aggregator::new(Limits::default());
    let failed = Event::Exit { call: Call::Fsync, ok: false };
    feed(
        &mut aggregator,
        &[(5, 100, exit(Call::Fsync)), (10, 100, enter(Call::Fsync, 3)), (20, 100, failed)],
    );
    // Its end was lost, and another call began since.
    feed(
        &mut aggregator,
        &[
            (30, 100, enter(Call::Fsync, 3)),
            (40, 100, enter(Call::Sync, 3)),
            (50, 100, exit(Call::Fsync)),
        ],
    );
    assert!(aggregator.take(1_000_000, &mut Open).processes.is_empty());
}

#[test]
fn where_a_call_sent_requests_is_its_device_whatever_its_file_says() {
    let mut aggregator = Aggregator::new(Limits::default());
    feed(
        &mut aggregator,
        &[
            (0, 100, enter(Call::Fsync, 9)),
            (1, 100, queued(8, Class::SyncWrite)),
            (9, 100, exit(Call::Fsync)),
            (10, 101, enter(Call::Fsync, 9)),
            (20, 101, exit(Call::Fsync)),
        ],
    );
    let devices: Vec<_> = aggregator
        .take(0, &mut Open)
        .processes
        .iter()
        .map(|p| (p.device, p.calls[&Call::Fsync].count()))
        .collect();
    assert_eq!(devices, [(None, 1), (Some(SDA), 1)]);
}

#[test]
fn writes_count_by_how_their_file_was_opened() {
    let mut aggregator = Aggregator::new(Limits::default());
    for (at, fd) in [(0, 3), (100, 4), (200, 5), (300, 9)] {
        feed(
            &mut aggregator,
            &[(at, 100, Event::EnterWrite { fd }), (at + 7, 100, Event::ExitWrite { ok: true })],
        );
    }
    feed(
        &mut aggregator,
        &[(400, 100, Event::EnterWrite { fd: 3 }), (400, 101, Event::EnterWrite { fd: 4 })],
    );
    let counted = aggregator.take(500_000, &mut Open);
    let [process] = counted.processes.as_slice() else { panic!("{counted:?}") };
    assert_eq!(process.device, Some(SDB));
    assert_eq!(
        process.calls.keys().copied().collect::<Vec<_>>(),
        [Call::SyncWrite, Call::DirectWrite]
    );
    assert_eq!(process.calls[&Call::SyncWrite], us(&[7]));
    // A direct write reaches the device and is not stable; a write to the page cache waits for
    // nothing.
    assert_eq!((process.commits().count(), process.waiting), (1, 1));
}

#[test]
fn a_request_s_time_is_split_where_it_was_issued() {
    let mut aggregator = Aggregator::new(Limits::default());
    feed(
        &mut aggregator,
        &[
            (0, 200, queued(8, Class::AsyncWrite)),
            (10, 200, queued(64, Class::Read)),
            (30, 200, issued(64, Class::Read, 8192)),
            // Grown by a merge since.
            (40, 200, issued(8, Class::AsyncWrite, 65_536)),
            (130, 0, done(64)),
            (240, 0, done(8)),
            // Seen from the middle: only the device's time is known.
            (300, 0, issued(99, Class::SyncWrite, 512)),
            (350, 0, done(99)),
            // Begun before the probe was opened.
            (400, 0, done(7)),
        ],
    );
    let counted = aggregator.take(1_000_000, &mut Open);
    let of = &counted.devices[&SDA];
    assert_eq!(
        (of[&Class::Read].queue.clone(), of[&Class::Read].device.clone()),
        (us(&[20]), us(&[100]))
    );
    assert_eq!(of[&Class::AsyncWrite].bytes, 65_536);
    assert_eq!(
        (of[&Class::AsyncWrite].queue.clone(), of[&Class::AsyncWrite].device.clone()),
        (us(&[40]), us(&[200]))
    );
    assert_eq!(
        (of[&Class::SyncWrite].queue.count(), of[&Class::SyncWrite].device.clone()),
        (0, us(&[50]))
    );
    let [reader] = counted.processes.as_slice() else { panic!("{counted:?}") };
    assert_eq!((reader.reads.clone(), reader.read_bytes), (us(&[120]), 8192));
}

#[test]
fn what_is_under_way_is_waited_for_until_it_ends_or_is_merged() {
    let mut aggregator = Aggregator::new(Limits::default());
    feed(
        &mut aggregator,
        &[
            (0, 100, enter(Call::Fsync, 3)),
            (100, 101, queued(8, Class::Read)),
            (200, 102, queued(16, Class::Read)),
            (300, 102, Event::Merged { place: place(16) }),
            (400, 103, queued(24, Class::AsyncWrite)),
        ],
    );
    let [process] = &aggregator.take(1_000_000, &mut Open).processes[..] else { panic!() };
    assert_eq!((process.waiting, process.oldest), (2, Duration::from_millis(1)));
    assert_eq!(process.oldest_call, Some("fsync"));
    feed(
        &mut aggregator,
        &[
            (1500, 100, exit(Call::Fsync)),
            (1600, 101, issued(8, Class::Read, 4096)),
            (1700, 0, done(8)),
        ],
    );
    let [process] = &aggregator.take(2_000_000, &mut Open).processes[..] else { panic!() };
    assert_eq!(
        (process.waiting, process.calls[&Call::Fsync].clone(), process.reads.clone()),
        (0, us(&[1500]), us(&[1600]))
    );
}

#[test]
fn of_the_oldest_wait_under_way_the_kind_is_told() {
    let oldest = |events: &[(u64, u32, Event)]| {
        let mut aggregator = Aggregator::new(Limits::default());
        feed(&mut aggregator, events);
        let processes = aggregator.take(1_000_000, &mut Open).processes;
        processes.iter().map(|p| (p.device, p.oldest_call)).collect::<Vec<_>>()
    };
    let read = |at_us| (at_us, 101, queued(8, Class::Read));
    let fsync = |at_us| (at_us, 100, enter(Call::Fsync, 3));
    assert_eq!(oldest(&[fsync(10), read(20)]), [(Some(SDA), Some("fsync"))]);
    assert_eq!(oldest(&[fsync(20), read(10)]), [(Some(SDA), Some("read"))]);
    // A write's file tells what it is.
    let write = |fd| (0, 102, Event::EnterWrite { fd });
    assert_eq!(oldest(&[write(4)]), [(Some(SDB), Some("sync_write"))]);
    assert_eq!(oldest(&[write(5)]), [(Some(SDB), Some("direct_write"))]);
    assert_eq!(oldest(&[write(3)]), []);
    let ended = [fsync(10), (20, 100, exit(Call::Fsync))];
    assert_eq!(oldest(&ended), [(Some(SDA), None)]);
}

#[test]
fn sleeps_add_up_for_the_device_that_they_are_for() {
    let mut aggregator = Aggregator::new(Limits::default());
    let sleep = |device, pause_ms| Event::Balanced { device, pause_ms };
    feed(
        &mut aggregator,
        &[
            (0, 100, sleep(Some(SDB), 100)),
            (1, 101, sleep(Some(SDB), 40)),
            (2, 100, sleep(Some(SDB), 0)),
            (3, 100, sleep(None, 8)),
        ],
    );
    let shown: Vec<_> = aggregator
        .take(0, &mut Open)
        .processes
        .iter()
        .map(|p| (p.device, p.throttled.as_millis()))
        .collect();
    assert_eq!(shown, [(None, 8), (Some(SDB), 140)]);
}

#[test]
fn threads_that_write_synchronously_by_themselves_are_told_once() {
    let mut aggregator = Aggregator::new(Limits::default());
    feed(
        &mut aggregator,
        &[
            (0, 100, enter(Call::Fsync, 3)),
            (1, 100, queued(8, Class::SyncWrite)),
            (2, 101, queued(16, Class::SyncWrite)),
            (3, 101, queued(24, Class::SyncWrite)),
            (4, 102, queued(32, Class::AsyncWrite)),
        ],
    );
    assert_eq!(aggregator.take_writers(), [(100, 101)]);
    assert_eq!(aggregator.take_writers(), []);
}

#[test]
fn a_request_that_is_sent_at_once_belongs_to_its_sender_where_queueing_is_not_told() {
    let events = [
        (0, 101, issued(8, Class::SyncWrite, 4096)),
        (1, 102, queued(16, Class::SyncWrite)),
        (2, 7, issued(16, Class::SyncWrite, 4096)),
        (3, 103, issued(24, Class::Read, 4096)),
        (250, 0, done(24)),
    ];
    let seen = |mut aggregator: Aggregator| {
        feed(&mut aggregator, &events);
        let reads =
            aggregator.take(0, &mut Open).processes.iter().map(|p| p.reads.count()).sum::<u64>();
        (aggregator.take_writers(), reads)
    };
    assert_eq!(
        seen(Aggregator::new(Limits::default()).asked_when_issued(true)),
        (vec![(100, 101), (100, 102)], 1)
    );
    assert_eq!(seen(Aggregator::new(Limits::default())), (vec![(100, 102)], 0));
}

#[test]
fn ten_thousand_processes_take_no_more_than_the_limit_and_lose_no_operation() {
    let limits = Limits { uses: 50, calls: 20, requests: 30 };
    let mut aggregator = Aggregator::new(limits);
    for pid in 1..=10_000 {
        for (at_ns, event) in [(0, enter(Call::Fsync, 3)), (1000, exit(Call::Fsync))] {
            aggregator.count(&Record { at_ns, pid, tid: pid, event }, &mut Open);
        }
    }
    // None of these ends.
    for pid in 1..=10_000 {
        aggregator
            .count(&Record { at_ns: 0, pid, tid: pid, event: enter(Call::Fsync, 3) }, &mut Open);
        aggregator.count(
            &Record { at_ns: 0, pid, tid: 0, event: queued(u64::from(pid), Class::Read) },
            &mut Open,
        );
    }
    assert!(aggregator.calls.len() <= 20 && aggregator.requests.iter().count() <= 30);
    let counted = aggregator.take(1_000_000, &mut Open);
    assert!(counted.processes.len() <= 51, "{}", counted.processes.len());
    assert_eq!(
        counted
            .processes
            .iter()
            .map(|p| p.calls.get(&Call::Fsync).map_or(0, |c| c.count()))
            .sum::<u64>(),
        10_000
    );
    assert_eq!(counted.folded, 10_000 - 50);
    assert_eq!(counted.processes[0].pid, OTHERS);
}

#[test]
fn after_a_loss_no_request_is_waited_for_that_may_have_ended() {
    let mut aggregator = Aggregator::new(Limits::default());
    feed(&mut aggregator, &[(0, 100, queued(8, Class::Read)), (1, 100, enter(Call::Fsync, 3))]);
    aggregator.events_lost();
    let counted = aggregator.take(10_000_000_000, &mut Open);
    // The call may still be under way; a check of the process can tell.
    assert_eq!(counted.processes.iter().map(|p| p.waiting).sum::<u32>(), 1);
    assert_eq!(aggregator.long_calls(10_000_000_000, Duration::from_secs(5)), [(100, 100)]);
    aggregator.forget(100);
    assert!(aggregator.take(11_000_000_000, &mut Open).processes.is_empty());
}

#[test]
fn more_requests_than_the_device_says_are_outstanding_are_not_waited_for() {
    let mut aggregator = Aggregator::new(Limits::default());
    let reads: Vec<_> = (0..5).map(|n| (n, 100, queued(8 * n, Class::Read))).collect();
    feed(&mut aggregator, &reads);
    let at_driver: Vec<_> = (1..5).map(|n| (n + 5, 0, issued(8 * n, Class::Read, 4096))).collect();
    feed(&mut aggregator, &at_driver);
    let waiting = |aggregator: &mut Aggregator| {
        aggregator
            .take(1_000_000, &mut Open)
            .processes
            .first()
            .map(|p| (p.waiting, p.oldest.as_micros()))
    };
    aggregator.in_flight(|_| None);
    assert_eq!(waiting(&mut aggregator), Some((5, 1000)));
    aggregator.in_flight(|device| (device == SDA).then_some(2));
    // The youngest two at the driver are left, and the first: it may wait in the elevator.
    assert_eq!(waiting(&mut aggregator), Some((3, 1000)));
    aggregator.in_flight(|_| Some(0));
    assert_eq!(waiting(&mut aggregator), None);
}

#[test]
fn who_is_followed_is_counted_whole_however_many_processes_and_by_what_had_begun() {
    let mut aggregator = Aggregator::new(Limits { uses: 2, ..Limits::default() });
    aggregator.follow(11, 1);
    let mut feed = |at_us: u64, pid: u32, tid: u32, event: Event| {
        aggregator.count(&Record { at_ns: at_us * 1000, pid, tid, event }, &mut Open);
    };
    // Thread 11 of process 10 starts ten processes; each syncs once and is gone.
    for n in 0..10 {
        let (begin, pid) = (u64::from(n) * 1000, 100 + n);
        feed(begin, 10, 11, Event::Forked { child: pid });
        feed(begin + 10, pid, pid, enter(Call::Fsync, 3));
        feed(begin + 110, pid, pid, exit(Call::Fsync));
        feed(begin + 120, pid, pid, Event::Ended);
    }
    // Calls of another process, and of one of its threads.
    feed(20_000, 10, 10, enter(Call::Fsync, 3));
    feed(20_500, 10, 10, exit(Call::Fsync));
    feed(21_000, 109, 109, Event::Forked { child: 300 });
    feed(21_000, 300, 301, queued(8, Class::Read));
    feed(21_010, 300, 301, issued(8, Class::Read, 4096));
    feed(21_300, 0, 0, done(8));
    let counted = aggregator.take(22_000_000, &mut Open);
    aggregator.end_window();
    aggregator.end_window();
    assert!(counted.processes.len() <= 3 && counted.folded > 5, "{counted:?}");
    let followed = &counted.followed[&1];
    assert_eq!(
        (&followed.calls[&Call::Fsync], &followed.reads[&SDA]),
        (&us(&[100; 10]), &us(&[300]))
    );
    assert_eq!((aggregator.tag(109), aggregator.tag(300)), (None, Some(1)));
    // What begins after the last moment does not count, what ends after it does.
    let mut feed = |at_us: u64, event: Event| {
        aggregator.count(&Record { at_ns: at_us * 1000, pid: 300, tid: 300, event }, &mut Open);
    };
    feed(30_000, enter(Call::Fsync, 3));
    aggregator.follow_until(31_000_000);
    let mut feed = |at_us: u64, event: Event| {
        aggregator.count(&Record { at_ns: at_us * 1000, pid: 300, tid: 300, event }, &mut Open);
    };
    feed(40_000, exit(Call::Fsync));
    feed(40_001, enter(Call::Fsync, 3));
    feed(40_002, exit(Call::Fsync));
    assert_eq!(
        aggregator.take(50_000_000, &mut Open).followed[&1].calls[&Call::Fsync],
        us(&[10_000])
    );
}
