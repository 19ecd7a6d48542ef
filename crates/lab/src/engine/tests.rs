use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use floodwall_device::{Completion, DeviceStats, LostExtent, LostWrites, Null, Profile};

use super::*;
use crate::store::Beyond;

/// Far more than any answer takes, so that a hang fails instead of hanging.
const LONG: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq)]
enum Answer {
    Data(Vec<u8>),
    Done(u64),
    Failed(Failure),
}

struct Client(Sender<Answer>);

impl Respond for Client {
    fn data(self, bytes: &[u8]) {
        let _ = self.0.send(Answer::Data(bytes.to_vec()));
    }
    fn done(self, len: u64) {
        let _ = self.0.send(Answer::Done(len));
    }
    fn fail(self, failure: Failure) {
        let _ = self.0.send(Answer::Failed(failure));
    }
}

/// Acknowledges writes into a volatile cache that only a flush empties, and holds back everything
/// while `stuck` bytes are asked for.
struct WriteBack {
    due: Vec<Completion>,
    cached: Vec<Request>,
}

/// A write of this length stays in the device for ever.
const STUCK: u64 = 1536;

impl Device for WriteBack {
    fn submit(&mut self, now: Nanos, request: Request) {
        match request.op {
            Op::Flush => self.cached.clear(),
            Op::Write { .. } if request.len == STUCK => return,
            Op::Write { .. } => self.cached.push(request),
            _ => {}
        }
        self.due.push(Completion { id: request.id, at: now, result: Ok(()) });
    }
    fn next_event(&self) -> Option<Nanos> {
        self.due.first().map(|c| c.at)
    }
    fn advance(&mut self, _to: Nanos, out: &mut Vec<Completion>) {
        out.append(&mut self.due);
    }
    fn profile(&self) -> Profile {
        Profile {
            capacity_bytes: 1 << 20,
            rotational: false,
            volatile_cache: true,
            queue_depth: 32,
            floor: Nanos::ZERO,
            max_rate: f64::INFINITY,
        }
    }
    fn stats(&self) -> DeviceStats {
        DeviceStats::default()
    }
    fn powercut(&mut self, _now: Nanos) -> LostWrites {
        let lost = self.cached.drain(..);
        LostWrites::new(
            lost.map(|r| LostExtent { offset: r.offset, len: r.len, since: r.version }).collect(),
        )
    }
    fn oldest_volatile(&self) -> Option<u64> {
        self.cached.first().map(|r| r.version)
    }
}

struct Runner {
    engine: Arc<Engine<Client>>,
    sender: Sender<Answer>,
    answers: Receiver<Answer>,
}

impl Runner {
    fn new(device: impl Device + 'static) -> Self {
        let engine = Arc::new(Engine::new(Box::new(device), Store::new(1 << 20, Beyond::NoSpace)));
        engine.set_pace(Pace::Modelled);
        let (sender, answers) = channel();
        Self { engine, sender, answers }
    }

    fn submit(&self, generation: u64, op: Op, offset: u64, len: u64, data: &[u8]) {
        self.engine.submit(generation, op, offset, len, data, Client(self.sender.clone()));
    }

    fn ask(&self, op: Op, offset: u64, len: u64, data: &[u8]) -> Answer {
        self.submit(self.engine.generation(), op, offset, len, data);
        self.answers.recv_timeout(LONG).unwrap()
    }

    fn write(&self, offset: u64, data: &[u8]) {
        assert_eq!(
            self.ask(Op::Write { fua: false }, offset, data.len() as u64, data),
            Answer::Done(data.len() as u64)
        );
    }

    fn read(&self, offset: u64, len: u64) -> Answer {
        self.ask(Op::Read, offset, len, &[])
    }
}

#[test]
fn what_is_due_at_once_is_answered_by_whoever_submits() {
    let runner = Runner::new(Null::new(1 << 20, Nanos::ZERO));
    // Pages 1 and 0 in that order, so that they do not lie in one piece of memory.
    runner.write(4096, &[2; 4096]);
    runner.write(0, &[1; 4096]);
    let both = [[1; 4096], [2; 4096]].concat();
    assert_eq!(runner.read(0, 8192), Answer::Data(both));
    assert_eq!(runner.ask(Op::WriteZeroes, 512, 1024, &[]), Answer::Done(1024));
    assert_eq!(runner.ask(Op::Discard, 4096, 4096, &[]), Answer::Done(4096));
    assert_eq!(runner.read(0, 1024), Answer::Data([[1; 512], [0; 512]].concat()));
    assert_eq!(runner.read(4096, 4096), Answer::Data(vec![0; 4096]));
    assert_eq!(runner.read(1 << 20, 512), Answer::Failed(Failure::Io));
    let timings = runner.engine.timings();
    assert_eq!((timings.read.count, timings.write.count, timings.other.count), (3, 2, 2));
}

#[test]
fn what_takes_time_is_answered_by_the_timing_thread_and_never_early() {
    let latency = Nanos::from_millis(3);
    let runner = Runner::new(Null::new(1 << 20, latency));
    let timer = thread::spawn({
        let engine = runner.engine.clone();
        move || engine.run_timer()
    });
    for _ in 0..5 {
        let before = Instant::now();
        runner.write(0, &[7; 512]);
        assert!(before.elapsed() >= latency.into());
    }
    runner.engine.stop();
    timer.join().unwrap();
    let timings = runner.engine.timings();
    assert_eq!((timings.write.count, timings.write.max_us), (5, Some(3_000.0)));
    let depths: Vec<_> =
        runner.engine.recording(|r| r.since(0, 10).0.iter().map(|e| e.depth).collect());
    assert_eq!(depths, [1; 5]);
}

#[test]
fn a_power_cut_keeps_what_was_flushed_and_cuts_off_old_openers() {
    let runner = Runner::new(WriteBack { due: Vec::new(), cached: Vec::new() });
    runner.write(0, &[1; 8192]);
    assert_eq!(runner.ask(Op::Flush, 0, 0, &[]), Answer::Done(0));
    runner.write(0, &[2; 4096]);
    runner.submit(1, Op::Write { fua: false }, 4096, STUCK, &[3; STUCK as usize]);
    let cut = runner.engine.powercut().unwrap();
    assert_eq!(cut, Cut { lost_bytes: 4096 + STUCK, in_flight: 1 });
    assert_eq!(runner.answers.recv_timeout(LONG).unwrap(), Answer::Failed(Failure::Io));
    assert_eq!(runner.read(0, 512), Answer::Failed(Failure::Io), "no power");
    runner.engine.power_up();
    assert_eq!(runner.read(0, 8192), Answer::Data(vec![1; 8192]));
    runner.submit(1, Op::Write { fua: false }, 0, 512, &[9; 512]);
    assert_eq!(
        runner.answers.recv_timeout(LONG).unwrap(),
        Answer::Failed(Failure::Io),
        "opened before the cut"
    );
    assert_eq!(runner.read(0, 512), Answer::Data(vec![1; 512]));
}

#[test]
fn old_contents_are_forgotten_once_they_are_stable() {
    let runner = Runner::new(WriteBack { due: Vec::new(), cached: Vec::new() });
    for n in 1..=3 {
        runner.write(0, &[n; 4096]);
    }
    assert_eq!(runner.engine.stats().2.undo_bytes, 2 * 4096);
    assert_eq!(runner.ask(Op::Flush, 0, 0, &[]), Answer::Done(0));
    assert_eq!(runner.engine.stats().2, Usage { memory_bytes: 4096, ..Usage::default() });
}

#[test]
fn taking_the_model_out_of_the_way_answers_what_is_in_it() {
    let runner = Runner::new(WriteBack { due: Vec::new(), cached: Vec::new() });
    runner.submit(1, Op::Write { fua: false }, 0, STUCK, &[5; STUCK as usize]);
    runner.engine.set_pace(Pace::Instant);
    assert_eq!(runner.answers.recv_timeout(LONG).unwrap(), Answer::Done(STUCK));
    assert_eq!(runner.read(0, 512), Answer::Data(vec![5; 512]));
}

#[test]
fn a_full_store_says_so() {
    let runner = Runner::new(Null::new(4 << 20, Nanos::ZERO));
    runner.write(0, &[1; 1 << 20]);
    assert_eq!(
        runner.ask(Op::Write { fua: false }, 1 << 20, 512, &[1; 512]),
        Answer::Failed(Failure::NoSpace)
    );
}
