//! One stream of a flood: a thread that writes until it is told to stop.

use std::sync::Arc;
use std::time::Instant;

use floodwall_model::scenario::{Data, FloodKind};
use rand_core::Rng;

use super::map::Mapping;
use super::place::{Place, Target};
use super::small::SmallFiles;
use crate::buffer::{AlignedBuf, Blocks, rng, variety};
use crate::error::LoadError;
use crate::file::NamedFile;
use crate::pace::{Limit, sleep_until};
use crate::running::Worker;

/// Keeps a stream's data generator apart from its offset generator.
const DATA_PURPOSE: u64 = 1 << 33;

/// What a stream needs.
pub(super) struct Stream {
    pub(super) place: Arc<Place>,
    /// The rate limit over all streams.
    pub(super) limit: Option<Arc<Limit>>,
    pub(super) kind: FloodKind,
    pub(super) data: Data,
    pub(super) streams: u32,
    pub(super) seed: u64,
    /// Counts from 0.
    pub(super) number: u64,
}

impl Stream {
    /// Writes until the load ends.
    pub(super) fn run(&self, worker: &mut Worker<'_>) -> Result<(), LoadError> {
        let block = self.place.block as usize;
        let mut blocks = Blocks::new(
            block,
            variety(self.streams),
            self.data,
            &mut rng(self.seed, DATA_PURPOSE + self.number),
        );
        match (&self.kind, &self.place.target) {
            (FloodKind::Random, Target::Filled(file)) => self.random(worker, file, &mut blocks),
            (_, Target::Filled(file)) => self.mapped(worker, file, &mut blocks),
            (_, Target::Grown(file)) => self.sequential(worker, file, &mut blocks),
            (_, Target::Pair { source, destination }) => self.copy(worker, source, destination),
            (_, Target::Directory { dir, file }) => {
                let files = SmallFiles::new(dir, *file, self.place.space);
                self.small(worker, files, &mut blocks)
            }
        }
    }

    fn sequential(
        &self,
        worker: &mut Worker<'_>,
        file: &NamedFile,
        blocks: &mut Blocks,
    ) -> Result<(), LoadError> {
        let block = self.place.block as usize;
        self.round(worker, |offset| file.write_in(self.place.mode, blocks.next(block), offset))
    }

    fn random(
        &self,
        worker: &mut Worker<'_>,
        file: &NamedFile,
        blocks: &mut Blocks,
    ) -> Result<(), LoadError> {
        let mut offsets = rng(self.seed, self.number);
        let slots = u128::from(self.place.space / self.place.block);
        let Some(turns) = self.begin(worker) else { return Ok(()) };
        while turns.wait(self.place.block) {
            let slot = (u128::from(offsets.next_u64()) * slots) >> 64;
            let block = blocks.next(self.place.block as usize);
            file.write_in(self.place.mode, block, slot as u64 * self.place.block)?;
            turns.done(self.place.block);
        }
        Ok(())
    }

    fn copy(
        &self,
        worker: &mut Worker<'_>,
        from: &NamedFile,
        to: &NamedFile,
    ) -> Result<(), LoadError> {
        let mut buffer = AlignedBuf::zeroed(self.place.block as usize);
        self.round(worker, |offset| {
            from.read_exact_at(buffer.bytes_mut(), offset)?;
            to.write_in(self.place.mode, buffer.bytes(), offset)
        })
    }

    fn mapped(
        &self,
        worker: &mut Worker<'_>,
        file: &NamedFile,
        blocks: &mut Blocks,
    ) -> Result<(), LoadError> {
        let mut mapping = Mapping::new(file, self.place.space)?;
        let block = self.place.block as usize;
        self.round(worker, |offset| mapping.write(blocks.next(block), offset))
    }

    fn small(
        &self,
        worker: &mut Worker<'_>,
        mut files: SmallFiles<'_>,
        blocks: &mut Blocks,
    ) -> Result<(), LoadError> {
        let Some(turns) = self.begin(worker) else { return Ok(()) };
        let mut piece = self.place.block.min(files.len());
        while turns.wait(piece) {
            piece = files.write(piece, blocks)?;
            turns.done(piece);
            piece = self.place.block.min(files.left());
        }
        Ok(())
    }

    /// Writes block after block through its space, over and over; `write` gets each one's offset.
    fn round(
        &self,
        worker: &mut Worker<'_>,
        mut write: impl FnMut(u64) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        let Some(turns) = self.begin(worker) else { return Ok(()) };
        let mut offset = 0;
        while turns.wait(self.place.block) {
            write(offset)?;
            turns.done(self.place.block);
            offset += self.place.block;
            if offset >= self.place.space {
                offset = 0;
            }
        }
        Ok(())
    }

    fn begin<'w, 's>(&'w self, worker: &'w mut Worker<'s>) -> Option<Turns<'w, 's>> {
        let begin = worker.arrive()?;
        Some(Turns { worker, begin, limit: self.limit.as_deref() })
    }
}

/// When a stream may write on, and its bytes so far.
struct Turns<'w, 's> {
    worker: &'w Worker<'s>,
    begin: Instant,
    limit: Option<&'w Limit>,
}

impl Turns<'_, '_> {
    /// Waits until `bytes` may be written; `false` if the load ends.
    #[inline]
    fn wait(&self, bytes: u64) -> bool {
        match self.limit {
            None => !self.worker.stopping(),
            Some(limit) => {
                let due = self.begin.checked_add(limit.reserve(bytes, self.begin.elapsed()));
                due.is_some_and(|due| sleep_until(due, self.worker.stop_flag()))
            }
        }
    }

    /// `bytes` have been accepted.
    #[inline]
    fn done(&self, bytes: u64) {
        self.worker.recorder.count_untimed(bytes);
    }
}
