//! Attaching a program of the kernel's.

use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use aya::programs::Program;
use floodwall_host::SysRoot;

use super::attached::Attached;
use super::error::{failed, refused};
use crate::error::ProbeError;
use crate::perf;

/// A program that is being detached can't be attached: longest wait for its end.
const DETACHING: Duration = Duration::from_millis(500);

/// Attaches a program; `at`: the number of its tracepoint if it is of a system call.
pub(super) fn attach(
    root: &SysRoot,
    program: &mut Program,
    at: Option<&u16>,
) -> Result<Attached, ProbeError> {
    match (program, at) {
        (Program::TracePoint(program), Some(at)) => {
            let fd = program.fd().map_err(|e| failed("a program", &e))?;
            let deadline = Instant::now() + DETACHING;
            loop {
                match perf::run_at(root, *at, fd.as_fd()) {
                    Ok(event) => return Ok(Attached::Event(event)),
                    Err(e) if e.kind() == ErrorKind::AlreadyExists && Instant::now() < deadline => {
                        std::thread::sleep(DETACHING / 100);
                    }
                    Err(e) => return Err(failed("attaching", &e)),
                }
            }
        }
        (Program::BtfTracePoint(program), _) => {
            let link = program.attach().and_then(|id| program.take_link(id));
            link.map(Attached::Link).map_err(|e| failed("attaching", &e))
        }
        _ => Err(refused("a program of another kind".to_owned())),
    }
}
