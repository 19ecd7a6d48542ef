//! Figures of a device's file: each is checked, and refused with its place and reason.

use floodwall_model::{Bytes, Rate};

use super::SpecError;
use super::units::Text;
use crate::time::Nanos;

/// Anything larger is a slip of the unit: no drive is sold with more.
const CAPACITY_MAX: u64 = 1 << 50;

pub(super) fn invalid(place: &str, message: impl Into<String>) -> SpecError {
    SpecError::Invalid { place: place.into(), message: message.into() }
}

/// Reports faults of one table.
pub(super) struct Place(pub(super) &'static str);

impl Place {
    pub(super) fn err<T>(&self, message: impl Into<String>) -> Result<T, SpecError> {
        Err(invalid(self.0, message))
    }

    pub(super) fn rate(&self, key: &str, rate: Text<Rate>) -> Result<f64, SpecError> {
        match rate.0.0 {
            r if r.is_finite() && r > 0.0 => Ok(r),
            _ => self.err(format!(
                "{key} is zero: nothing would ever be transferred; write a rate such as \"125MB/s\""
            )),
        }
    }

    pub(super) fn size(&self, key: &str, size: Text<Bytes>) -> Result<u64, SpecError> {
        match size.0.0 {
            0 => self.err(format!("{key} is zero; write a size such as \"1MiB\"")),
            n => Ok(n),
        }
    }

    pub(super) fn capacity(&self, size: Text<Bytes>) -> Result<u64, SpecError> {
        let bytes = self.size("capacity", size)?;
        if bytes < 1 << 20 {
            return self.err(format!("capacity ({}) is below 1 MiB", size.0));
        }
        if bytes > CAPACITY_MAX {
            return self.err(format!("capacity ({}) is above 1 PiB", size.0));
        }
        Ok(bytes)
    }

    pub(super) fn time(&self, key: &str, time: Text<Nanos>) -> Result<Nanos, SpecError> {
        match time.0 {
            Nanos::ZERO => self.err(format!("{key} is zero; write a time such as \"1ms\"")),
            t => Ok(t),
        }
    }

    pub(super) fn count(&self, key: &str, n: u32, most: u32) -> Result<u32, SpecError> {
        match n {
            0 => self.err(format!("{key} = 0: nothing could be done; write at least 1")),
            n if n > most => self.err(format!("{key} = {n} is more than {most}")),
            n => Ok(n),
        }
    }

    pub(super) fn share(&self, key: &str, share: f64) -> Result<f64, SpecError> {
        if (0.0..=1.0).contains(&share) {
            return Ok(share);
        }
        self.err(format!("{key} = {share} is not a share; write a number from 0 to 1"))
    }

    /// Both keys of a pause or neither.
    pub(super) fn stall(
        &self,
        every: Option<Text<Bytes>>,
        length: Option<Text<Nanos>>,
    ) -> Result<(u64, Nanos), SpecError> {
        match (every, length) {
            (None, None) => Ok((0, Nanos::ZERO)),
            (Some(every), Some(length)) => {
                Ok((self.size("stall_every", every)?, self.time("stall", length)?))
            }
            _ => self.err("stall_every and stall belong together; give both or neither"),
        }
    }
}
