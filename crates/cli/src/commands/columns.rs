//! What the columns of `status` and `probe` mean: for their long help, below its examples. Lines
//! fit 80 columns.

/// The two tables of processes that both commands have.
const WHO: &str = "\
WHO WAITS   a process and what it waited for in the window
  DEVICE      the disk; tables list disks alike, the longest waited for first
  FOR         fsync, another synchronous call, or read
  /s          calls that ended, a second
  p50 p99 max how long they took, as the process saw it
  share       the waits of all its threads together, of the window; 100 % at
              most
  now         calls under way, and for how long the longest
WHO WRITES  a process that dirtied page cache, or slept because of it
  dirtied     bytes dirtied, a second
  throttled   sleep because too much is dirty, of the window; all threads
              together, 100 % at most
";

/// Further columns of `status`.
const STATUS: &str = "  taken back  dirty bytes that it deleted or truncated again, a second
Backlog of each device
  DIRTY WRITEBACK         page cache that waits, and that is being written
  WRITES                  bytes written in the window, a second
  DRAINS AT DRAINED IN    drain rate, and how long the backlog takes at it
  HARD LIMIT IN           how long it would take at the limit that stops
                          writers, and
  BACKGROUND IN           at the limit that starts the flusher
Settings of each device
  SCHEDULER REQUESTS LARGEST
                          I/O scheduler, length of its queue, largest request
  WBT CACHE               goal of writeback throttling; write cache
  SHARE NOW SHARE MAX STRICT
                          its part of the hard limit, now and at most, and
                          whether that holds before the limit is near
";

/// Further columns of `probe`.
const PROBE: &str = "\
Requests of each device
  /s bytes                requests that ended, and their bytes, a second
  queued p50 p99          time in the kernel's queue
  device p50 p99 max      time in the device
";

/// Examples of `probe`.
pub(super) const PROBE_EXAMPLES: &str = "\
Examples:
  floodwall probe
  floodwall probe sda --interval 5s
  floodwall probe --count 1 --json";

/// Examples of `status`.
pub(super) const STATUS_EXAMPLES: &str = "\
Examples:
  floodwall status
  floodwall status --watch 2s
  floodwall status --seconds 10s --json";

/// What both say last.
const WIDTH: &str = "\
? with a number is not known; the reason is at the end. Columns for which
the terminal has no room are left out. Its width counts, else COLUMNS, else 100.";

/// The columns of `status`.
pub(super) fn status() -> String {
    format!("{STATUS_EXAMPLES}\n\nColumns:\n{WHO}{STATUS}{WIDTH}")
}

/// The columns of `probe`.
pub(super) fn probe() -> String {
    format!("{PROBE_EXAMPLES}\n\nColumns:\n{WHO}{PROBE}{WIDTH}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_fits_a_narrow_terminal() {
        for line in status().lines().chain(probe().lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
