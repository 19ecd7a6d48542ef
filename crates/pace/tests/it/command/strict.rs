//! Commands whose system calls are intercepted, by the real kernel.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use floodwall_testing::{Trial, until};
use rustix::process::Signal;

use super::lacks_a_disk;
use super::pacing::{
    FAST, Figures, KEEPER, PACED_STRICTLY, PATIENCE, Pacing, SLOW, directory, figures_of,
    is_stopped, process, said,
};

/// The first argument of a process that writes with several threads; a file and the number of
/// threads follow.
pub(crate) const WRITER: &str = "writer";
/// Bytes of a thread of it, in calls of so many.
const SHARE: usize = 8 << 20;
const CALL: usize = 64 << 10;

pub(crate) fn tests() -> Vec<Trial> {
    let tests = floodwall_testing::tests![lacks_a_disk =>
        a_strict_flood_waits_and_ends_at_the_rate,
        threads_of_a_strict_command_write_all_their_bytes,
        a_write_to_a_pipe_does_not_wait,
        a_signal_acts_at_once_though_a_write_waits,
        a_strict_command_goes_on_when_the_pacing_process_is_killed,
        a_strict_daemon_goes_on_while_the_pacing_process_is_stopped,
        a_strict_daemon_goes_on_after_its_command,
        what_a_strict_command_can_not_do_is_refused,
    ];
    tests.into_iter().collect()
}

/// A shell script, paced strictly.
fn strict(rate: &str, at: &Path, script: &str) -> Command {
    process(PACED_STRICTLY, rate, at, &["/bin/sh", "-c", script])
}

/// Writes a file with several threads, each its own part.
pub(crate) fn writer_process() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(2).collect();
    let (file, threads) = (File::create(&words[0]).unwrap(), words[1].parse::<usize>().unwrap());
    thread::scope(|scope| {
        for n in 0..threads {
            let file = &file;
            scope.spawn(move || {
                for at in (0..SHARE).step_by(CALL) {
                    let bytes = content(n * SHARE + at);
                    file.write_all_at(&bytes, (n * SHARE + at) as u64).unwrap();
                }
            });
        }
    });
    ExitCode::SUCCESS
}

/// Bytes that tell their place.
fn content(offset: usize) -> Vec<u8> {
    (offset..offset + CALL).step_by(8).flat_map(usize::to_le_bytes).collect()
}

/// The limit and a call of each thread. Metadata counts as well.
fn is_within(figures: &Figures, calls: usize) -> bool {
    figures.of("most") <= figures.of("window") + (calls + (1 << 20)) as u64
}

fn a_strict_flood_waits_and_ends_at_the_rate() {
    const RATE: f64 = 1.5e7;
    let dir = directory();
    let script = "dd if=/dev/zero of=file bs=1M count=80 2>/dev/null";
    let figures = figures_of(strict(&RATE.to_string(), dir.path(), script));
    assert!(figures.of("calls") > 0 && figures.of("held") == 0, "{}", figures.0);
    assert!(is_within(&figures, 1 << 20), "{}", figures.0);
    let written = (figures.of("dirtied") - figures.of("left")) as f64;
    let rate = written / figures.seconds();
    // The first window is free. Other programs may have the disk for most of the time.
    assert!((RATE * 0.2..RATE * 1.15).contains(&rate), "{rate}: {}", figures.0);
    assert_eq!(fs::metadata(dir.path().join("file")).unwrap().len(), 80 << 20);
}

fn threads_of_a_strict_command_write_all_their_bytes() {
    let dir = directory();
    let own = std::env::current_exe().unwrap();
    let script = format!("{} {WRITER} file 4", own.display());
    let figures = figures_of(strict("3e7", dir.path(), &script));
    assert!(figures.of("calls") > 0 && figures.of("held") == 0, "{}", figures.0);
    assert!(is_within(&figures, 4 * CALL), "{}", figures.0);
    let bytes = fs::read(dir.path().join("file")).unwrap();
    assert_eq!(bytes.len(), 4 * SHARE);
    for (n, part) in bytes.chunks(CALL).enumerate() {
        assert!(part == content(n * CALL), "part {n}");
    }
}

fn a_write_to_a_pipe_does_not_wait() {
    let dir = directory();
    // The flood takes minutes.
    let script = "dd if=/dev/zero of=file bs=1M count=64 2>/dev/null & \
        sleep 1; head -c 20000000 /dev/zero | wc -c; kill -KILL $!";
    let output = strict(SLOW, dir.path(), script).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "20000000", "{}", said(&output));
    let figures = Figures(said(&output));
    assert!(figures.of("calls") > 0 && figures.seconds() < 30.0, "{}", figures.0);
}

/// A process whose command writes calls of 8 MiB, of which one waits for more than a minute.
fn waiting(at: &Path, script: &str) -> Pacing {
    let mut pacing = Pacing::of(strict(SLOW, at, script));
    let len = |path: &Path| fs::metadata(path.join("file")).map_or(0, |file| file.len());
    let mut before = 0;
    pacing.waits_for("a write waits", |_| {
        thread::sleep(Duration::from_millis(500));
        let now = len(at);
        now > 0 && std::mem::replace(&mut before, now) == now
    });
    pacing
}

/// A flood that notes its status.
const FLOOD: &str = "dd if=/dev/zero of=file bs=8M count=6 iflag=fullblock 2>/dev/null; \
    echo $? > status";

fn ends_well(at: &Path) -> bool {
    fs::read_to_string(at.join("status")).is_ok_and(|status| status == "0\n")
        && fs::metadata(at.join("file")).unwrap().len() == 48 << 20
}

fn a_signal_acts_at_once_though_a_write_waits() {
    let dir = directory();
    // dd has a handler, which ends it after the write.
    let mut pacing = waiting(dir.path(), "exec dd if=/dev/zero of=file bs=8M count=6");
    let begin = Instant::now();
    pacing.signal(Signal::INT);
    assert_eq!(pacing.child.wait().unwrap().code(), Some(130));
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    fs::remove_file(dir.path().join("file")).unwrap();
    // It has none here.
    let mut pacing = waiting(dir.path(), "exec dd if=/dev/zero of=file bs=8M count=6");
    let begin = Instant::now();
    pacing.signal(Signal::TERM);
    assert_eq!(pacing.child.wait().unwrap().code(), Some(143));
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

fn a_strict_command_goes_on_when_the_pacing_process_is_killed() {
    let dir = directory();
    let mut pacing = waiting(dir.path(), &format!("trap '' HUP; {FLOOD}"));
    pacing.left = pacing.processes();
    pacing.signal(Signal::KILL);
    pacing.child.wait().unwrap();
    pacing.waits_for("it ends well", |_| ends_well(dir.path()));
}

fn a_strict_daemon_goes_on_while_the_pacing_process_is_stopped() {
    let dir = directory();
    let script = format!("(setsid /bin/sh -c '{FLOOD}' &); sleep 1000");
    let mut pacing = waiting(dir.path(), &script);
    let own = pacing.child.id().cast_signed();
    pacing.signal(Signal::TSTP);
    pacing.waits_for("it is stopped", |_| is_stopped(own));
    pacing.waits_for("the daemon ends well", |_| ends_well(dir.path()));
    pacing.left = pacing.processes();
    pacing.signal(Signal::CONT);
    pacing.signal(Signal::TERM);
    assert_eq!(pacing.child.wait().unwrap().code(), Some(143));
}

fn a_strict_daemon_goes_on_after_its_command() {
    let dir = directory();
    let script = format!("(setsid /bin/sh -c 'sleep 1; {FLOOD}' >/dev/null 2>&1 &)");
    let keepers = || {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let of = dir.path().to_str().unwrap();
        all.filter(|entry| {
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&words).contains(KEEPER)
                && String::from_utf8_lossy(&environment).contains(of)
        })
        .count()
    };
    // Descriptor 9 is a pipe of which this process waits for the end.
    let script = format!("exec 9>&-; {script}");
    let paced = strict(SLOW, dir.path(), &script);
    let mut process = Command::new("/bin/sh");
    process.args(["-c", "exec 9>&1 >/dev/null; exec \"$0\" \"$@\""]).arg(paced.get_program());
    process.args(paced.get_args()).current_dir(dir.path()).env("FLOODWALL_TEST", dir.path());
    let figures = figures_of(process);
    assert!(figures.seconds() < 30.0, "{}", figures.0);
    assert_eq!(keepers(), 1, "and it holds nothing that it was not given");
    until(PATIENCE, "it ends well", || ends_well(dir.path())).unwrap();
    until(PATIENCE, "the keeper ends", || keepers() == 0).unwrap();
}

fn what_a_strict_command_can_not_do_is_refused() {
    let dir = directory();
    let words = ["grep", "NoNewPrivs", "/proc/self/status"];
    let output = process(PACED_STRICTLY, FAST, dir.path(), &words).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "NoNewPrivs:\t1\n");
    // The kernel allows one listener. An inner pace does not know of the outer one here.
    let own = std::env::current_exe().unwrap();
    let own = own.to_str().unwrap();
    let words = ["env", "-u", "FLOODWALL_PACE", own, PACED_STRICTLY, FAST, ".", "touch", "file"];
    let output = process(PACED_STRICTLY, FAST, dir.path(), &words).output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    assert!(said(&output).contains("another program intercepts"), "{}", said(&output));
    assert!(!dir.path().join("file").exists());
    let output = process(PACED_STRICTLY, FAST, dir.path(), &["no-such-program"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127), "{}", said(&output));
}
