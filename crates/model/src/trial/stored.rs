//! The two types whose stored form is not their own: latencies and intervals.
//!
//! ```text
//! OpLatencies ◀─▶ "commit_hdr": "HISTFAAA…", "commit_sum_ns": 412, "commit_max_ns": 97,
//!                 "write_hdr": …
//! Interval ◀─▶ StoredInterval ◀─▶ "start_s": …, "victim": {…}, "flood": {…}, "host": {…}
//! ```

use std::fmt;

use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Error as _, SerializeMap};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{HostSample, Interval, OpLatencies};
use crate::hdr::{decode, encode};

/// Three values for each operation that was counted, none for the others.
impl Serialize for OpLatencies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (operation, counts) in self.by_operation().into_iter().filter(|(_, c)| !c.is_empty()) {
            map.serialize_entry(
                &format!("{operation}_hdr"),
                &encode(counts).map_err(S::Error::custom)?,
            )?;
            map.serialize_entry(&format!("{operation}_sum_ns"), &counts.sum_ns())?;
            map.serialize_entry(&format!("{operation}_max_ns"), &counts.max_ns())?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for OpLatencies {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Stored)
    }
}

/// Reads [`OpLatencies`] and ignores other fields: a load has its own beside them.
struct Stored;

/// The three values of one operation.
#[derive(Default)]
struct Values {
    hdr: Option<String>,
    sum_ns: Option<u64>,
    max_ns: Option<u64>,
}

impl<'de> Visitor<'de> for Stored {
    type Value = OpLatencies;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("histograms by operation")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OpLatencies, A::Error> {
        let mut latencies = OpLatencies::default();
        let mut stored =
            latencies.by_operation().map(|(operation, _)| (operation, Values::default()));
        while let Some(key) = map.next_key::<String>()? {
            let part = stored.iter_mut().find_map(|(op, v)| Some((key.strip_prefix(*op)?, v)));
            match part {
                Some(("_hdr", values)) => values.hdr = map.next_value()?,
                Some(("_sum_ns", values)) => values.sum_ns = map.next_value()?,
                Some(("_max_ns", values)) => values.max_ns = map.next_value()?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        for ((operation, values), counts) in stored.into_iter().zip(latencies.all_mut()) {
            if let Some(hdr) = values.hdr {
                *counts = decode(&hdr, values.sum_ns.unwrap_or(0), values.max_ns.unwrap_or(0))
                    .map_err(|e| A::Error::custom(format_args!("{operation}_hdr: {e}")))?;
            }
        }
        Ok(latencies)
    }
}

/// An [`Interval`] in a result: victims and floods apart.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredInterval {
    start_s: f64,
    seconds: f64,
    victim: Victims,
    flood: Floods,
    #[serde(default)]
    host: HostSample,
}

#[derive(Serialize, Deserialize)]
struct Victims {
    /// The sum of `second_ops`; for readers of the JSON, not read back.
    #[serde(skip_deserializing)]
    ops: u64,
    second_ops: Vec<u32>,
    #[serde(default)]
    bytes: u64,
    #[serde(flatten)]
    latencies: OpLatencies,
}

#[derive(Serialize, Deserialize)]
struct Floods {
    bytes: u64,
}

impl From<Interval> for StoredInterval {
    fn from(interval: Interval) -> Self {
        let victim = Victims {
            ops: interval.victim_ops.iter().copied().map(u64::from).sum(),
            second_ops: interval.victim_ops,
            bytes: interval.victim_bytes,
            latencies: interval.latencies,
        };
        let Interval { start_s, seconds, flood_bytes, host, .. } = interval;
        Self { start_s, seconds, victim, flood: Floods { bytes: flood_bytes }, host }
    }
}

impl From<StoredInterval> for Interval {
    fn from(stored: StoredInterval) -> Self {
        Self {
            start_s: stored.start_s,
            seconds: stored.seconds,
            victim_ops: stored.victim.second_ops,
            latencies: stored.victim.latencies,
            victim_bytes: stored.victim.bytes,
            flood_bytes: stored.flood.bytes,
            host: stored.host,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::LatencyCounts;

    #[test]
    fn an_interval_is_stored_with_victims_and_floods_apart() {
        let interval = Interval {
            start_s: 3.0,
            seconds: 2.0,
            victim_ops: vec![7, 5],
            victim_bytes: 49_152,
            flood_bytes: 1 << 20,
            ..Interval::default()
        };
        let text = serde_json::to_string(&interval).unwrap();
        let start = [
            r#"{"start_s":3.0,"seconds":2.0,"victim":{"ops":12,"second_ops":[7,5],"bytes":49152},"#,
            r#""flood":{"bytes":1048576},"host":{"dirty_bytes":null,"#,
        ];
        assert!(text.starts_with(&start.concat()), "{text}");
        assert_eq!(serde_json::from_str::<Interval>(&text).unwrap(), interval);
        let least = r#"{"start_s":3.0,"seconds":2.0,
            "victim":{"second_ops":[7,5]},"flood":{"bytes":1048576}}"#;
        let read: Interval = serde_json::from_str(least).unwrap();
        assert_eq!(read, Interval { victim_bytes: 0, ..interval });
    }

    #[test]
    fn latencies_are_three_values_for_each_operation_that_was_counted() {
        let mut latencies = OpLatencies::default();
        assert_eq!(serde_json::to_string(&latencies).unwrap(), "{}");
        latencies.read = LatencyCounts::from_values([70_000, 90_000]);
        latencies.commit = LatencyCounts::from_values([5_000_000]);
        let text = serde_json::to_string(&latencies).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let keys: BTreeSet<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        let all = [
            "commit_hdr",
            "commit_max_ns",
            "commit_sum_ns",
            "read_hdr",
            "read_max_ns",
            "read_sum_ns",
        ];
        assert_eq!(keys, BTreeSet::from(all));
        assert_eq!(value["read_sum_ns"], 160_000);
        assert_eq!(value["read_max_ns"], 90_000);
        assert_eq!(serde_json::from_str::<OpLatencies>(&text).unwrap(), latencies);
        let none: OpLatencies =
            serde_json::from_str(r#"{"sync_hdr": null, "sync_sum_ns": null}"#).unwrap();
        assert_eq!(none, OpLatencies::default());
    }

    #[test]
    fn a_value_that_is_none_of_its_kind_is_named() {
        let said = |text: &str| serde_json::from_str::<OpLatencies>(text).unwrap_err().to_string();
        assert_eq!(
            said(r#"{"sync_hdr": "AAAA?"}"#).split(" (").next(),
            Some("sync_hdr: histogram is not base64")
        );
        assert!(
            said(r#"{"sync_sum_ns": "1"}"#).contains("invalid type: string \"1\", expected u64")
        );
    }
}
