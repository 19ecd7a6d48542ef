//! Requests of a job by plain calls, one at a time.

use std::time::Instant;

use super::counts::one_more;
use super::order::Kind;
use super::plan::JobPlan;
use super::session::{Next, Session, Times, blocks, make_stable, read_buffer};
use crate::buffer::{AlignedBuf, Blocks};
use crate::error::LoadError;

/// How much longer than a block the pool of written bytes is, as for victims.
const VARIETY: usize = 64 << 10;

/// One request at a time, by plain calls.
pub(super) struct Plain {
    blocks: Blocks,
    read: AlignedBuf,
}

impl Plain {
    pub(super) fn new(plan: &JobPlan) -> Self {
        Self { blocks: blocks(plan, 0, VARIETY), read: read_buffer(plan) }
    }

    /// A pass.
    pub(super) fn pass(&mut self, session: &mut Session<'_>) -> Result<(), LoadError> {
        loop {
            let op = match session.next() {
                Next::Go(op) => op,
                Next::Over => return Ok(()),
                Next::At(is_write, due) => match session.wait(is_write, due) {
                    Next::Go(op) => op,
                    _ => return Ok(()),
                },
            };
            let begun = Instant::now();
            session.submitted(1);
            let file = &session.files[op.file];
            let submitted = match op.kind {
                Kind::Read => {
                    let bytes = &mut self.read.bytes_mut()[..op.len as usize];
                    let submitted = Instant::now();
                    file.read_exact_at(bytes, op.offset)?;
                    submitted
                }
                Kind::Write => {
                    let bytes = self.blocks.next(op.len as usize);
                    let submitted = Instant::now();
                    file.write_all_at(bytes, op.offset)?;
                    submitted
                }
                kind => {
                    make_stable(file, kind)?;
                    begun
                }
            };
            let ended = Instant::now();
            one_more(&mut session.counts.completions, 1);
            session.ended(op, Times { begun, submitted, ended })?;
        }
    }
}
