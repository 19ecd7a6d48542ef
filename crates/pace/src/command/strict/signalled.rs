//! Whether a signal waits for a thread whose call waits.
//!
//! Once a call was received, only a signal that ends the process interrupts it. A handler, or a
//! core dump, would wait for the room of the call.

use floodwall_host::text::bits_after;
use libc::{SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU};

/// Whether a signal waits for a thread, as /proc/TID/status has it.
pub(super) fn is_signalled(thread: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{thread}/status")).is_ok_and(|status| waits(&status))
}

/// Signals that stop or continue a process don't count unless they have a handler: a call that
/// waits is as good as a stop.
fn waits(status: &str) -> bool {
    let set = |name: &str| bits_after(status, name).unwrap_or(0);
    let stops = [SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT];
    let stops = stops.iter().fold(0, |mask, signal| mask | 1_u64 << (signal - 1));
    let effective = !stops | set("SigCgt");
    (set("SigPnd") | set("ShdPnd")) & !set("SigBlk") & effective != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_signals_count_unless_they_are_blocked_or_stop() {
        let status = |pending: u64, shared: u64, blocked: u64, caught: u64| {
            waits(&format!(
                "Name:\ta\nSigQ:\t0/1\nSigPnd:\t{pending:016x}\nShdPnd:\t{shared:016x}\n\
                 SigBlk:\t{blocked:016x}\nSigIgn:\t0000000000000000\nSigCgt:\t{caught:016x}\n"
            ))
        };
        let bit = |signal: i32| 1_u64 << (signal - 1);
        let (int, stop) = (bit(libc::SIGINT), bit(SIGTSTP));
        assert!(!status(0, 0, 0, int) && !waits(""));
        assert!(status(int, 0, 0, 0) && status(0, int, 0, 0) && status(0, int, stop, int));
        assert!(!status(int, int, int, int));
        assert!(!status(stop, stop | bit(SIGCONT), 0, 0));
        assert!(status(0, stop, 0, stop));
        assert!(!is_signalled(std::process::id()));
    }
}
