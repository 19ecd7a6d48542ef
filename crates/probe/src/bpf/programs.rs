//! The object's programs: the tracepoints that they belong to, and how they are loaded.

use std::collections::BTreeMap;

use aya::programs::{Program, ProgramError};
use aya::{Btf, Ebpf};

use super::error::{failed, refused};
use crate::error::ProbeError;
use crate::format::Format;
use crate::snapshot::Blind;
use crate::tracefs::Tracefs;

/// Programs of these calls are attached on demand only.
const WRITES: [&str; 5] = ["write", "pwrite64", "writev", "pwritev", "pwritev2"];
/// The program that counts dirtied pages.
pub(super) const DIRTIED: &str = "folio_dirtied";
/// The figures that are missing without that program.
const DIRTIED_EXACTLY: &str = "bytes dirtied by processes that ended within a window";
/// The programs on raw tracepoints, and the tracepoints.
const RAW: [(&str, &str, &str); 5] = [
    ("request_made", "block", "block_io_start"),
    ("request_merged", "block", "block_rq_merge"),
    ("request_issued", "block", "block_rq_issue"),
    ("request_done", "block", "block_rq_complete"),
    (DIRTIED, "writeback", "writeback_dirty_folio"),
];
/// Without these there is no use in looking. Before Linux 6.5 (`block_io_start`) the programs do
/// not see which thread asks for a request, so writes to `O_SYNC` files have no device.
pub(super) const NEEDED: [&str; 5] =
    ["enter_fsync", "exit_fsync", "request_made", "request_issued", "request_done"];

/// Whether a program is one of those for writes.
pub(super) fn is_for_writes(program: &str) -> bool {
    program.split_once('_').is_some_and(|(_, call)| WRITES.contains(&call))
}

/// Loads the programs; that which counts dirtied pages only if it is wanted. The numbers of the
/// tracepoints of system calls, by program. What the missing ones would have told is added to
/// `blind`.
///
/// # Errors
/// [`ProbeError::Bpf`].
pub(super) fn load(
    programs: &mut Ebpf,
    btf: &Btf,
    dirtied: bool,
    blind: &mut Vec<Blind>,
) -> Result<BTreeMap<String, u16>, ProbeError> {
    let tracefs = Tracefs::open()?;
    let mut calls_at = BTreeMap::new();
    for (name, program) in programs.programs_mut().filter(|(name, _)| dirtied || *name != DIRTIED) {
        let (at, loaded) = match program {
            Program::TracePoint(program) => {
                let at = format!("syscalls/sys_{name}");
                let text = tracefs.format(&at).map_err(|e| failed(&at, &e))?;
                let Some(format) = text.and_then(|text| Format::parse(&text).ok()) else {
                    absent(name, &at, blind)?;
                    continue;
                };
                calls_at.insert(name.to_owned(), format.id);
                (at, program.load())
            }
            Program::BtfTracePoint(program) => {
                let of = RAW.iter().find(|(known, ..)| *known == name);
                let (_, group, at) = of.copied().unwrap_or_default();
                (format!("{group}/{at}"), program.load(at, btf))
            }
            _ => continue,
        };
        match loaded {
            Ok(()) => {}
            // The type of a raw tracepoint's function, by which `aya` looks for it
            // (include/trace/bpf_probe.h).
            Err(ProgramError::Btf(_)) => absent(name, &at, blind)?,
            Err(e) => {
                let why = failed(&format!("the kernel refuses the program on {at}"), &e);
                if name != DIRTIED {
                    return Err(why);
                }
                blind.push(unseen(name, &why));
            }
        }
    }
    Ok(calls_at)
}

/// A tracepoint that this kernel does not have.
fn absent(program: &str, at: &str, blind: &mut Vec<Blind>) -> Result<(), ProbeError> {
    let why = refused(format!("{at}: not in this kernel"));
    if NEEDED.contains(&program) {
        return Err(why);
    }
    let is_call = program != DIRTIED;
    blind.push(if is_call { Blind::new(at, "not in this kernel") } else { unseen(program, &why) });
    Ok(())
}

/// The figures that are missing without a program, and the reason.
pub(super) fn unseen(program: &str, why: &ProbeError) -> Blind {
    Blind::new(if program == DIRTIED { DIRTIED_EXACTLY } else { program }, why.to_string())
}
