//! Frames of a chunk share one stream of deflate (RFC 1951, without zlib's header).
//!
//! ```text
//! JSON ─▶ Packer ─▶ bytes that end at a sync flush ─▶ Unpacker ─▶ JSON
//! ```
//!
//! Frames repeat names, so a frame after another one costs only what changed. The flush ends each
//! frame at a byte, and all of it can be read then.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// Frames of a chunk. More would save little, and a damaged byte would cost more.
pub(super) const FRAMES: u32 = 64;
/// A frame's JSON is not longer. 50,000 processes take as much.
pub(super) const MOST_JSON: usize = 16 << 20;
/// Output grows by this much.
const STEP: usize = 16 << 10;

/// Compresses the frames of a chunk.
pub(super) struct Packer {
    stream: Compress,
    frames: u32,
}

impl Packer {
    /// At the beginning of a chunk.
    pub(super) fn new() -> Self {
        Self { stream: Compress::new(Compression::new(LEVEL), false), frames: 0 }
    }

    /// The next frame begins a new chunk.
    pub(super) fn begin(&mut self) {
        self.frames = 0;
    }

    /// A frame's bytes, and whether it begins a chunk. `None` if they can't be compressed, which
    /// does not happen with memory enough.
    pub(super) fn pack(&mut self, json: &[u8]) -> Option<(Vec<u8>, bool)> {
        let begins = self.frames == 0;
        if begins {
            self.stream.reset();
        }
        self.frames = (self.frames + 1) % FRAMES;
        let mut out = Vec::with_capacity(STEP);
        let mut rest = json;
        loop {
            let taken = self.stream.total_in();
            self.stream.compress_vec(rest, &mut out, FlushCompress::Sync).ok()?;
            rest = rest.get(usize::try_from(self.stream.total_in() - taken).ok()?..)?;
            // Room that is left says that the flush is over.
            if out.len() < out.capacity() {
                return rest.is_empty().then_some((out, begins));
            }
            out.reserve(STEP);
        }
    }
}

/// Level of compression (0 to 9).
const LEVEL: u32 = 6;

/// Reads the frames of a chunk, from its first one on.
pub(super) struct Unpacker(Decompress);

impl Unpacker {
    /// At the beginning of a chunk.
    pub(super) fn new() -> Self {
        Self(Decompress::new(false))
    }

    /// The JSON of the next frame; `None` if the bytes are none. Nothing can be read after that.
    pub(super) fn unpack(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(STEP);
        let mut rest = bytes;
        loop {
            let (taken, given) = (self.0.total_in(), out.len());
            let status = self.0.decompress_vec(rest, &mut out, FlushDecompress::Sync).ok()?;
            rest = rest.get(usize::try_from(self.0.total_in() - taken).ok()?..)?;
            let has_room = out.len() < out.capacity();
            let is_stuck = has_room && self.0.total_in() == taken && out.len() == given;
            // A stream is never ended.
            if status == Status::StreamEnd || out.len() > MOST_JSON {
                return None;
            }
            if (rest.is_empty() && has_room) || is_stuck {
                return rest.is_empty().then_some(out);
            }
            if !has_room {
                out.reserve(STEP.max(out.len()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(
            frames in proptest::collection::vec(
                (1..40_000_usize, any::<u8>()).prop_map(|(n, seed)| {
                    (0..n).map(|i| (i * (usize::from(seed) + i / 3)) as u8).collect::<Vec<u8>>()
                }),
                1..6,
            )
        ) {
            let (mut packer, mut unpacker) = (Packer::new(), Unpacker::new());
            for (i, frame) in frames.iter().enumerate() {
                let (bytes, begins) = packer.pack(frame).unwrap();
                prop_assert_eq!(begins, i == 0);
                prop_assert_eq!(&unpacker.unpack(&bytes).unwrap(), frame);
            }
        }

        #[test]
        fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Unpacker::new().unpack(&bytes);
        }
    }

    #[test]
    fn a_small_file_can_not_fill_the_memory() {
        let mut packer = Packer::new();
        let (bytes, _) = packer.pack(&vec![b' '; MOST_JSON + STEP]).unwrap();
        assert!(bytes.len() < 100_000);
        assert!(Unpacker::new().unpack(&bytes).is_none());
    }
}
