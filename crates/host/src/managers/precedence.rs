//! Which claim wins: of all claims about one cell in one place, the one that is applied last.
//!
//! Managers act in the order of [`Kind`](floodwall_model::managers::Kind) at boot, and each applies
//! its lines in the order in which they were collected. So the last certain claim wins, and those
//! before it are overridden. A claim that may not be applied overrides no other.

use std::collections::HashMap;

use floodwall_model::managers::{Claim, Place, Standing, cell};

/// Marks the overridden ones of all claims that would otherwise win.
pub(super) fn settle(claims: &mut [Claim]) {
    let mut last: HashMap<(String, Option<String>), String> = HashMap::new();
    for claim in claims.iter_mut().rev().filter(|claim| claim.standing == Standing::Wins) {
        let device = match &claim.place {
            Place::Machine => None,
            Place::Device { id, .. } => Some(id.to_string()),
            Place::Matching(_) => continue,
        };
        let key = (cell(&claim.knob).to_owned(), device);
        match last.get(&key) {
            Some(by) => claim.standing = Standing::Overridden { by: by.clone() },
            None => {
                last.insert(key, claim.source());
            }
        }
    }
}
