//! The part of an open file that was handed over for writeback. Pure.

use super::range::Span;

/// Bytes of a page. A shorter tail waits for the rest of its page, since each writeback writes a
/// whole page.
const PAGE: u64 = 4096;

/// The conditions of the writeback.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pressure {
    /// The command dirtied a page since the last look.
    pub(super) rose: bool,
    /// So much is dirty that all known files have to be written back.
    pub(super) press: bool,
    /// All ranges that were handed over are written.
    pub(super) idle: bool,
    /// Bytes of a piece: fewer are not worth a request.
    pub(super) piece: u64,
}

/// The part of an open file that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    size: u64,
    /// The offset up to which the file was handed over.
    sent: u64,
    /// Looks at which the command had dirtied a page and this file had not grown.
    rises: u32,
}

impl Progress {
    /// For a new file. The caller hands its dirty pages over as a whole.
    pub(super) fn new(size: u64) -> Self {
        Self { size, sent: whole_pages(size), rises: 0 }
    }

    /// The span to write back at a look that finds the file with this size.
    pub(super) fn step(&mut self, size: u64, pressure: Pressure) -> Option<Span> {
        if size < self.sent {
            // It was cut, and is written again from its begin.
            self.sent = 0;
        }
        let grew = size > self.size;
        self.size = size;
        let to = if grew { whole_pages(size) } else { size };
        let new = to.saturating_sub(self.sent);
        if new > 0 && (pressure.press || new >= pressure.piece) {
            return Some(self.send(to));
        }
        if !grew && pressure.rose {
            self.rises += 1;
        }
        // It is written in place.
        if pressure.press && (self.rises >= 2 || self.rises > 0 && pressure.idle) {
            self.rises = 0;
            return Some(Span::Dirty { to: size });
        }
        None
    }

    /// The span to write back, if the file has the size of the last look.
    pub(super) fn again(&mut self, pressure: Pressure) -> Option<Span> {
        self.step(self.size, pressure)
    }

    /// The remaining span, when the command has closed the file.
    pub(super) fn close(mut self, size: u64) -> Option<Span> {
        if self.rises > 0 || size < self.sent {
            return (size > 0).then_some(Span::Dirty { to: size });
        }
        (size > self.sent).then(|| self.send(size))
    }

    fn send(&mut self, to: u64) -> Span {
        let from = std::mem::replace(&mut self.sent, to);
        Span::Grown { from, to }
    }
}

fn whole_pages(size: u64) -> u64 {
    size / PAGE * PAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Pressure = Pressure { rose: true, press: false, idle: true, piece: 8 * PAGE };
    const PRESS: Pressure = Pressure { press: true, idle: false, ..CALM };

    fn whole(to: u64) -> Option<Span> {
        Some(Span::Dirty { to })
    }

    fn grown(from: u64, to: u64) -> Option<Span> {
        Some(Span::Grown { from, to })
    }

    #[test]
    fn growth_is_handed_over_in_whole_pages_and_the_tail_at_the_end() {
        let mut file = Progress::new(0);
        assert_eq!(file.step(7 * PAGE, CALM), None, "less than a piece");
        assert_eq!(file.step(9 * PAGE + 5, CALM), grown(0, 9 * PAGE));
        assert_eq!(file.step(10 * PAGE + 5, PRESS), grown(9 * PAGE, 10 * PAGE));
        assert_eq!(file.step(10 * PAGE + 6, PRESS), None);
        assert_eq!(file.close(10 * PAGE + 6), grown(10 * PAGE, 10 * PAGE + 6));
        assert_eq!(file.step(10 * PAGE + 6, PRESS), grown(10 * PAGE, 10 * PAGE + 6));
        assert_eq!(file.close(10 * PAGE + 6), None);
    }

    #[test]
    fn a_file_that_is_written_in_place_is_handed_over_as_a_whole() {
        let mut file = Progress::new(100 * PAGE);
        assert_eq!(file.step(100 * PAGE, CALM), None);
        assert_eq!(file.close(100 * PAGE), whole(100 * PAGE));
        assert_eq!(file.step(100 * PAGE, PRESS), whole(100 * PAGE));
        assert_eq!(file.step(100 * PAGE, PRESS), None);
        let idle = Pressure { idle: true, ..PRESS };
        assert_eq!(file.step(100 * PAGE, idle), whole(100 * PAGE));
        let quiet = Pressure { rose: false, ..idle };
        assert_eq!(file.step(100 * PAGE, quiet), None);
        assert_eq!(file.close(100 * PAGE), None);
    }

    #[test]
    fn a_file_that_was_cut_begins_again() {
        let mut file = Progress::new(100 * PAGE);
        assert_eq!(file.step(20 * PAGE, PRESS), grown(0, 20 * PAGE));
        assert_eq!(file.step(0, CALM), None);
        assert_eq!(file.close(0), None);
        assert_eq!(Progress::new(100 * PAGE).close(50), whole(50));
    }
}
