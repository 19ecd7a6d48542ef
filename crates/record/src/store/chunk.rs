//! Frames of a chunk share one stream of deflate (RFC 1951, without zlib's header).
//!
//! ```text
//! Frame ─▶ Packer: columns ─▶ JSON ─▶ bytes up to a sync flush ─▶ Unpacker ─▶ Frame
//! ```
//!
//! Frames repeat names, so a frame after another one costs only what changed. The flush ends each
//! frame at a byte, and all of it can be read then.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use floodwall_model::frame::Frame;
use serde_json::{Map, Value};

use super::names::{Named, Names};
use super::text;

/// Frames of a chunk. More would save little, and a damaged byte would cost more.
pub(super) const FRAMES: u32 = 64;
/// A frame's JSON is not longer. 100,000 processes take as much.
const MOST_JSON: usize = 16 << 20;
/// Nor are its bytes: what can't be compressed grows by 5 in 65,535 (RFC 1951, 3.2.4).
pub(super) const MOST_BYTES: usize = MOST_JSON + (MOST_JSON >> 10);
/// Output grows by this much.
const STEP: usize = 16 << 10;
/// Level of compression (0 to 9). It costs some milliseconds a frame, and saves 3 % over level 6.
const LEVEL: u32 = 9;

/// Compresses the frames of a chunk.
pub(super) struct Packer {
    stream: Compress,
    named: Named,
    frames: u32,
}

/// A compressed frame.
pub(super) struct Packed {
    /// Its bytes.
    pub(super) bytes: Vec<u8>,
    /// It begins a chunk.
    pub(super) begins_chunk: bool,
}

impl Packer {
    /// At the beginning of a chunk.
    pub(super) fn new() -> Self {
        let stream = Compress::new(Compression::new(LEVEL), false);
        Self { stream, named: Named::default(), frames: 0 }
    }

    /// The next frame begins a new chunk.
    pub(super) fn begin(&mut self) {
        self.frames = 0;
    }

    /// Compresses a frame.
    ///
    /// # Errors
    /// Why it can't be stored. The next frame begins a new chunk then.
    pub(super) fn pack(&mut self, frame: &Frame) -> Result<Packed, &'static str> {
        let begins_chunk = self.frames == 0;
        if begins_chunk {
            self.stream.reset();
            self.named = Named::default();
        }
        let place = std::mem::take(&mut self.frames);
        let Ok(Value::Object(object)) = serde_json::to_value(frame) else {
            return Err("it has no form in JSON");
        };
        let json = text::of(&self.named.fold(object)).ok_or("it has no form in JSON")?;
        if json.len() > MOST_JSON {
            return Err("it is larger than 16 MiB");
        }
        let bytes = self.compress(&json).ok_or("it can't be compressed")?;
        self.frames = (place + 1) % FRAMES;
        Ok(Packed { bytes, begins_chunk })
    }

    fn compress(&mut self, json: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(STEP);
        let mut rest = json;
        loop {
            let taken = self.stream.total_in();
            self.stream.compress_vec(rest, &mut out, FlushCompress::Sync).ok()?;
            rest = rest.get(usize::try_from(self.stream.total_in() - taken).ok()?..)?;
            // Room that is left says that the flush is over.
            if out.len() < out.capacity() {
                return rest.is_empty().then_some(out);
            }
            out.reserve(STEP);
        }
    }
}

/// Reads the frames of a chunk, from its first one on.
pub(super) struct Unpacker {
    stream: Decompress,
    names: Names,
}

impl Unpacker {
    /// At the beginning of a chunk.
    pub(super) fn new() -> Self {
        Self { stream: Decompress::new(false), names: Names::default() }
    }

    /// The next frame; `None` if the bytes hold no frame. Nothing can be read after that.
    pub(super) fn frame(&mut self, bytes: &[u8]) -> Option<Frame> {
        let stored = self.stored(bytes)?;
        serde_json::from_value(self.names.unfold(stored)?.into()).ok()
    }

    /// Passes the next frame; `None` if the bytes hold no frame. Nothing can be read after that.
    pub(super) fn pass(&mut self, bytes: &[u8]) -> Option<()> {
        let mut stored = self.stored(bytes)?;
        self.names.learn(&mut stored)
    }

    fn stored(&mut self, bytes: &[u8]) -> Option<Map<String, Value>> {
        serde_json::from_slice(&self.decompress(bytes)?).ok()
    }

    fn decompress(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(STEP);
        let mut rest = bytes;
        loop {
            let (taken, given) = (self.stream.total_in(), out.len());
            let status = self.stream.decompress_vec(rest, &mut out, FlushDecompress::Sync).ok()?;
            rest = rest.get(usize::try_from(self.stream.total_in() - taken).ok()?..)?;
            let has_room = out.len() < out.capacity();
            let is_stuck = has_room && self.stream.total_in() == taken && out.len() == given;
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
        fn what_is_compressed_is_decompressed(
            texts in proptest::collection::vec((1..40_000_usize, 0..256_usize), 1..6)
        ) {
            let (mut packer, mut unpacker) = (Packer::new(), Unpacker::new());
            for (length, seed) in texts {
                let text: Vec<u8> = (0..length).map(|i| (i * (seed + i / 3)) as u8).collect();
                let bytes = packer.compress(&text).unwrap();
                prop_assert!(unpacker.decompress(&bytes).unwrap() == text);
            }
        }

        #[test]
        fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Unpacker::new().frame(&bytes);
        }
    }

    #[test]
    fn a_small_file_can_not_fill_the_memory() {
        let bytes = Packer::new().compress(&vec![b' '; MOST_JSON + STEP]).unwrap();
        assert!(bytes.len() < 100_000);
        assert!(Unpacker::new().decompress(&bytes).is_none());
    }

    #[test]
    fn a_frame_that_is_too_large_does_not_end_the_recording() {
        let (mut packer, mut unpacker) = (Packer::new(), Unpacker::new());
        let small = Frame { at_unix_ms: 5, ..Frame::default() };
        assert!(packer.pack(&small).unwrap().begins_chunk);
        let large = Frame { unseen: vec!["x".repeat(MOST_JSON)], ..Frame::default() };
        assert_eq!(packer.pack(&large).err(), Some("it is larger than 16 MiB"));
        let packed = packer.pack(&small).unwrap();
        assert!(packed.begins_chunk);
        assert_eq!(unpacker.frame(&packed.bytes), Some(small));
    }
}
