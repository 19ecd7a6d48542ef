//! Chooses the requests that become marks: as many as a file and an eye can take. No request that
//! would be seen alone is left out.
//!
//! The panel is divided into square cells. The requests of one class in one cell become one mark.
//! The mark is denser the more requests it stands for, and its place is that of a request chosen by
//! a hash. With the place of the first request, marks would stand in columns that are not in the
//! data. Cells begin at one pixel, where nothing is lost that could be seen, and grow until there
//! are few enough marks. The first, last, lowest and highest request of every class always keep
//! separate marks, so a picture's outline is exact.

use std::ops::RangeInclusive;

use super::recording::{Operation, Request};
use super::span::Span;

/// What a mark looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Discard,
    Write,
    Read,
    /// A write past the cache.
    Fua,
    Flush,
    /// A failed request of any kind.
    Error,
}

impl Class {
    /// In the order in which they are drawn: rare and important marks come last and on top.
    pub(super) const ALL: [Self; 6] =
        [Self::Discard, Self::Write, Self::Read, Self::Fua, Self::Flush, Self::Error];

    pub(super) fn of(request: &Request) -> Self {
        match (request.ok, request.operation) {
            (false, _) => Self::Error,
            (true, Operation::Read) => Self::Read,
            (true, Operation::Write) if request.fua => Self::Fua,
            (true, Operation::Write) => Self::Write,
            (true, Operation::Flush) => Self::Flush,
            (true, Operation::Discard) => Self::Discard,
        }
    }
}

/// One mark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mark {
    pub(super) class: Class,
    pub(super) time_us: f64,
    /// `None`: a flush, which has no place.
    pub(super) offset_bytes: Option<u64>,
    /// Requests that it stands for.
    pub(super) requests: u32,
}

/// The marks of a picture.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Marks {
    /// By class, then cell by cell.
    pub(super) marks: Vec<Mark>,
    /// Side of a cell in pixels.
    pub(super) cell_px: f64,
    /// Requests of each of [`Class::ALL`].
    pub(super) requests: [u64; Class::ALL.len()],
}

/// Marks that the outline may take: four of each class.
const OUTLINE: usize = 4 * Class::ALL.len();
/// By how much cells grow.
const GROW: f64 = 1.25;

/// Where marks may be.
pub(super) struct Frame<'a> {
    pub(super) span: &'a Span,
    pub(super) offsets: RangeInclusive<u64>,
    pub(super) width_px: u32,
    pub(super) height_px: u32,
}

impl Marks {
    /// Marks for the requests that arrived in the frame's time; at most `most` of them, or so few
    /// as one cell gives.
    pub(super) fn new(requests: &[Request], frame: &Frame<'_>, most: usize) -> Self {
        let shown: Vec<&Request> =
            requests.iter().filter(|r| frame.span.contains(r.time_us)).collect();
        let mut counts = [0; Class::ALL.len()];
        for request in &shown {
            counts[Class::of(request) as usize] += 1;
        }
        let largest = f64::from(frame.width_px.max(frame.height_px));
        let mut cell_px = 1.0;
        let mut grid = Grid::new(&shown, frame, cell_px);
        while grid.occupied + OUTLINE > most && cell_px < largest {
            cell_px *= GROW;
            grid = Grid::new(&shown, frame, cell_px);
        }
        Self { marks: grid.marks(&shown, &outline(&shown)), cell_px, requests: counts }
    }
}

/// An empty cell.
const NOBODY: u32 = u32::MAX;

struct Grid<'a> {
    frame: &'a Frame<'a>,
    cell_px: f64,
    columns: usize,
    /// One more than the panel has: the last is for requests without a place.
    rows: usize,
    /// Of each cell, the number of the request whose place the mark takes.
    chosen: Vec<u32>,
    count: Vec<u32>,
    occupied: usize,
}

impl<'a> Grid<'a> {
    fn new(shown: &[&Request], frame: &'a Frame<'a>, cell_px: f64) -> Self {
        let cells = |px: u32| (f64::from(px) / cell_px).ceil() as usize;
        let (columns, rows) = (cells(frame.width_px), cells(frame.height_px) + 1);
        let all = Class::ALL.len() * columns * rows;
        let mut grid = Self {
            frame,
            cell_px,
            columns,
            rows,
            chosen: vec![NOBODY; all],
            count: vec![0; all],
            occupied: 0,
        };
        for (number, request) in (0..NOBODY).zip(shown) {
            let cell = grid.cell(request);
            grid.count[cell] += 1;
            if grid.chosen[cell] == NOBODY {
                grid.occupied += 1;
                grid.chosen[cell] = number;
            } else if scattered(number) < scattered(grid.chosen[cell]) {
                grid.chosen[cell] = number;
            }
        }
        grid
    }

    fn cell(&self, request: &Request) -> usize {
        let span = self.frame.span;
        let x = (request.time_us - span.start_us) / (span.end_us - span.start_us);
        let column =
            ((x * f64::from(self.frame.width_px) / self.cell_px) as usize).min(self.columns - 1);
        let row = place(request).map_or(self.rows - 1, |offset| {
            let (low, high) = (*self.frame.offsets.start(), *self.frame.offsets.end());
            let y = offset.saturating_sub(low) as f64 / high.saturating_sub(low).max(1) as f64;
            ((y * f64::from(self.frame.height_px) / self.cell_px) as usize).min(self.rows - 2)
        });
        (Class::of(request) as usize * self.rows + row) * self.columns + column
    }

    fn marks(mut self, shown: &[&Request], outline: &[u32]) -> Vec<Mark> {
        let request = |number: u32| shown.get(number as usize).copied();
        let mark = |number, requests| {
            request(number).map(|r| Mark {
                class: Class::of(r),
                time_us: r.time_us,
                offset_bytes: place(r),
                requests,
            })
        };
        let mut marks: Vec<Mark> = Vec::with_capacity(self.occupied + outline.len());
        for &number in outline {
            let Some(cell) = request(number).map(|r| self.cell(r)) else { continue };
            if self.chosen[cell] != number {
                self.count[cell] -= 1;
                marks.extend(mark(number, 1));
            }
        }
        let cells = self.chosen.iter().zip(&self.count).filter(|(chosen, _)| **chosen != NOBODY);
        marks.extend(cells.filter_map(|(chosen, count)| mark(*chosen, *count)));
        marks.sort_by_key(|m| m.class);
        marks
    }
}

/// Orders numbers as if at random, and always alike: multiplication by 2^32 over the golden ratio
/// (Knuth, TAOCP 3, 6.4).
fn scattered(number: u32) -> u32 {
    number.wrapping_mul(0x9E37_79B9)
}

/// Where a request is, if it is anywhere.
fn place(request: &Request) -> Option<u64> {
    (request.operation != Operation::Flush).then_some(request.offset_bytes)
}

/// Numbers of the first, last, lowest and highest request of every class, each once.
fn outline(shown: &[&Request]) -> Vec<u32> {
    let mut found = Vec::new();
    for class in Class::ALL {
        let of_class = || (0..NOBODY).zip(shown).filter(move |(_, r)| Class::of(r) == class);
        let number = |(number, _): &(u32, &&Request)| *number;
        let offset = |(_, r): &(u32, &&Request)| r.offset_bytes;
        let ends = [
            of_class().min_by_key(number),
            of_class().max_by_key(number),
            of_class().min_by_key(offset),
            of_class().max_by_key(offset),
        ];
        found.extend(ends.into_iter().flatten().map(|(number, _)| number));
    }
    found.sort_unstable();
    found.dedup();
    found
}
