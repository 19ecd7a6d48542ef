//! The flood's side: a process that does nothing else.

use std::fs::File;
use std::io::{BufRead, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use super::{Begin, Counters, Said};
use crate::file::path_of_number;
use crate::running::Running;

/// How often the counters are written.
const PERIOD: Duration = Duration::from_millis(10);

/// Floods as the first line of `input` orders, until `input` ends. Says on `output` when it has
/// begun, and how it ended.
///
/// # Errors
/// Neither an order nor a listener: nothing was written then.
pub fn serve(
    mut input: impl BufRead + Send + 'static,
    mut output: impl Write,
) -> std::io::Result<()> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    let begin: Begin = serde_json::from_str(&line)?;
    let counters = match File::options().write(true).open(path_of_number(begin.counters)) {
        Ok(counters) => counters,
        Err(error) => {
            return say(&mut output, Some(format!("can't open its counters: {error}")), None);
        }
    };
    let running = match begin.flood.start() {
        Ok(running) => running,
        Err(error) => return say(&mut output, Some(error.to_string()), None),
    };
    say(&mut output, None, None)?;
    let (ended, end) = channel::<()>();
    // Ends with the process: nothing interrupts a read of the pipe.
    thread::spawn(move || {
        let mut rest = String::new();
        // Nothing more is said: this is the end of the pipe.
        let _ = input.read_line(&mut rest);
        drop(ended);
    });
    let (total, running) = count(running, &counters, || {
        matches!(end.recv_timeout(PERIOD), Err(RecvTimeoutError::Disconnected))
    });
    let finished = running.finish();
    let total =
        Counters { ops: total.ops + finished.last.ops, bytes: total.bytes + finished.last.bytes };
    total.write(counters.as_fd())?;
    // The caller may have died.
    let _ = say(&mut output, finished.failure.map(|error| error.to_string()), finished.cpu_us);
    Ok(())
}

/// Keeps the counters until it is time to stop, or the flood has failed.
fn count(mut running: Running, counters: &File, is_over: impl Fn() -> bool) -> (Counters, Running) {
    let mut total = Counters::default();
    let failed = AtomicBool::new(false);
    while !failed.load(Ordering::Relaxed) && !is_over() {
        let delta = running.sample();
        total.ops += delta.ops;
        total.bytes += delta.bytes;
        // Counters that can't be written now are written with the next.
        let _ = total.write(counters);
        failed.store(running.failure().is_some(), Ordering::Relaxed);
    }
    (total, running)
}

fn say(
    output: &mut impl Write,
    failure: Option<String>,
    cpu_us: Option<u64>,
) -> std::io::Result<()> {
    writeln!(output, "{}", serde_json::to_string(&Said { failure, cpu_us })?)?;
    output.flush()
}
