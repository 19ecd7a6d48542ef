//! The start of a flood's streams, a thread each.

use std::sync::Arc;

use floodwall_model::scenario::{Data, FloodKind};
use floodwall_stats::recorder::Recorder;

use super::order::{Order, OrderedPlace};
use super::place::Place;
use super::stream::Stream;
use crate::error::LoadError;
use crate::pace::Limit;
use crate::running::{self, Running, Work};

impl Order {
    /// Starts it here, in the process that was ordered.
    pub(crate) fn start(self) -> Result<Running, LoadError> {
        let open = |place: OrderedPlace| {
            let target = place.target.open(place.mode)?;
            Ok(Arc::new(Place { space: place.space, block: place.block, mode: place.mode, target }))
        };
        let places = self.places.into_iter().map(open).collect::<Result<Vec<_>, LoadError>>()?;
        start_streams(&places, &self.kind, self.data, self.rate, self.seed)
    }
}

/// Starts a thread for each place.
pub(super) fn start_streams(
    places: &[Arc<Place>],
    kind: &FloodKind,
    data: Data,
    rate: Option<f64>,
    seed: u64,
) -> Result<Running, LoadError> {
    let limit = rate.map(|rate| Arc::new(Limit::new(rate)));
    let work = places.iter().zip(0..).map(|(place, number)| {
        let stream = Stream {
            place: Arc::clone(place),
            limit: limit.clone(),
            kind: kind.clone(),
            data,
            streams: places.len() as u32,
            seed,
            number,
        };
        let work: Work = Box::new(move |worker| stream.run(worker));
        (Recorder::new(&[]), work)
    });
    running::start("flood", work.collect(), None)
}
