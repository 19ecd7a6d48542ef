//! Frames as the metrics that the recorder would have served, one sample a frame and series.
//!
//! ```text
//! Frame ─┬──────────────▶ metrics::Totals ─▶ exposition ─▶ series: (moment, value) …
//!        └▶ Detector ─ stalls ─▲                                     │ at the end
//!                                  metadata, samples by series ◀─────┘
//! ```
//!
//! OpenMetrics 1.0 forbids that families or series are interleaved, and the timestamps of a series
//! have to increase. So all samples are kept until the end, 16 bytes each; those of a series that
//! stays as it is, once.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use floodwall_model::frame::Frame;
use floodwall_record::metrics::{Limits, Totals};
use floodwall_record::stall::{Detector, Event};

/// All series of the frames.
pub(super) struct Series {
    totals: Totals,
    detector: Detector,
    /// The moments of the frames, in milliseconds since 1970, ascending.
    moments: Vec<u64>,
    families: Vec<Family>,
    /// Where the family of a name is.
    places: HashMap<String, usize>,
    left_out: u64,
}

/// All series of a name.
#[derive(Default)]
struct Family {
    /// Its lines that begin with `#`.
    metadata: String,
    /// By name and labels as they are written.
    series: BTreeMap<String, Vec<Run>>,
}

/// Frames in which a series has the same value.
struct Run {
    first: u32,
    last: u32,
    value: f64,
}

impl Default for Series {
    fn default() -> Self {
        Self {
            totals: Totals::new(Limits::default()),
            detector: Detector::new(),
            moments: Vec::new(),
            families: Vec::new(),
            places: HashMap::new(),
            left_out: 0,
        }
    }
}

impl Series {
    /// How many frames are missing because the clock was set back.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Adds the samples of a frame.
    pub(super) fn add(&mut self, frame: &Frame) {
        if self.moments.last().is_some_and(|last| *last >= frame.at_unix_ms) {
            self.left_out += 1;
            return;
        }
        self.totals.frame(frame);
        for event in self.detector.frame(frame) {
            match event {
                Event::Began(stall) => self.totals.stall_began(&stall),
                Event::Ended(stall) => self.totals.stall_ended(&stall),
            }
        }
        // 2^32 frames are 136 years.
        let at = u32::try_from(self.moments.len()).unwrap_or(u32::MAX);
        self.moments.push(frame.at_unix_ms);
        let exposition = self.totals.exposition();
        let mut metadata = String::new();
        let mut family = None;
        for line in exposition.lines() {
            if line.starts_with('#') {
                // The first line of a family.
                if line.starts_with("# HELP ") {
                    metadata.clear();
                    family = None;
                }
                metadata.extend([line, "\n"]);
                continue;
            }
            // A label may have a blank in it, a value has none.
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse() else { continue };
            let place = *family.get_or_insert_with(|| self.place(&metadata));
            let runs = &mut self.families[place].series;
            if !runs.contains_key(series) {
                runs.insert(series.to_owned(), Vec::new());
            }
            let Some(runs) = runs.get_mut(series) else { continue };
            match runs.last_mut() {
                Some(run) if run.value == value && run.last + 1 == at => run.last = at,
                _ => runs.push(Run { first: at, last: at, value }),
            }
        }
    }

    /// The family with this metadata.
    fn place(&mut self, metadata: &str) -> usize {
        if let Some(place) = self.places.get(metadata) {
            return *place;
        }
        let place = self.families.len();
        self.families.push(Family { metadata: metadata.to_owned(), ..Family::default() });
        self.places.insert(metadata.to_owned(), place);
        place
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// If `out` can't be written.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.moments.is_empty() {
            return Ok(());
        }
        for family in &self.families {
            out.write_all(family.metadata.as_bytes())?;
            for (series, runs) in &family.series {
                let samples = runs.iter().flat_map(|run| {
                    let moments = self.moments.get(run.first as usize..=run.last as usize);
                    moments.into_iter().flatten().map(|at| (at, run.value))
                });
                for (at, value) in samples {
                    writeln!(out, "{series} {value} {}.{:03}", at / 1000, at % 1000)?;
                }
            }
        }
        out.write_all(b"# EOF\n")
    }
}
