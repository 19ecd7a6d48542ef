//! What keeps a program of the kernel's attached.

use std::os::fd::OwnedFd;

use aya::programs::tp_btf::BtfTracePointLink;

/// What keeps a program attached: dropping it detaches the program.
#[derive(Debug)]
#[expect(dead_code, reason = "held, never read")]
pub(crate) enum Attached {
    Event(OwnedFd),
    Link(BtfTracePointLink),
}
