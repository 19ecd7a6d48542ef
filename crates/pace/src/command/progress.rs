//! How much of an open file was handed over for writeback. Pure.

use super::range::Span;

/// A tail shorter than this waits for the rest of its page: each writeback of a page costs the disk
/// all of it.
const PAGE: u64 = 4096;

/// What the writeback of files depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pressure {
    /// The command dirtied something since the look before.
    pub(super) rose: bool,
    /// So much is dirty that everything known has to be written back.
    pub(super) press: bool,
    /// All that was handed over is written.
    pub(super) idle: bool,
    /// Bytes that are worth a request.
    pub(super) piece: u64,
}

/// How much of an open file was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    size: u64,
    /// The file is handed over up to here.
    sent: u64,
    /// Looks at which the command dirtied something and this file did not grow.
    rises: u32,
}

impl Progress {
    /// Of a file that is seen first. What is dirty of it is handed over as a whole.
    pub(super) fn new(size: u64) -> Self {
        Self { size, sent: whole_pages(size), rises: 0 }
    }

    /// What has to be written back now, at a look that finds the file with this size.
    pub(super) fn step(&mut self, size: u64, pressure: Pressure) -> Option<Span> {
        if size < self.sent {
            // Cut, and written again from its begin.
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

    /// What is left when the command has closed the file.
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
