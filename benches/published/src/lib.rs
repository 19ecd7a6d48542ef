//! Common parts of the programs below `benches`: published measurements of others
//! (`measurements.toml`), stored measurements, and documents with generated tables and their
//! origin.

pub mod document;
pub mod origin;
pub mod stored;

use std::path::Path;

use anyhow::Context;

/// The published figures of one experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    name: String,
    figures: toml::Value,
}

impl Experiment {
    /// Reads one from `measurements.toml`.
    ///
    /// # Errors
    /// A file that can't be read, or that has no such experiment.
    pub fn read(path: &Path, name: &str) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("can't read '{}'", path.display()))?;
        let mut all: toml::Table = text.parse().with_context(|| format!("'{}'", path.display()))?;
        let figures =
            all.remove(name).with_context(|| format!("'{}' has no {name}", path.display()))?;
        Ok(Self { name: name.to_owned(), figures })
    }

    /// A figure by its dotted path: `deadline.seq_read`, `sequential.default_mb_s`.
    ///
    /// # Errors
    /// There is no number at that place.
    pub fn number(&self, path: &str) -> anyhow::Result<f64> {
        let mut at = Some(&self.figures);
        for key in path.split('.') {
            at = at.and_then(|v| v.get(key));
        }
        at.and_then(number).with_context(|| format!("{} has no number {path}", self.name))
    }

    /// Both ends of a published range.
    ///
    /// # Errors
    /// There is no pair of numbers at that place.
    pub fn range(&self, path: &str) -> anyhow::Result<(f64, f64)> {
        let mut at = Some(&self.figures);
        for key in path.split('.') {
            at = at.and_then(|v| v.get(key));
        }
        match at.and_then(toml::Value::as_array).map(Vec::as_slice) {
            Some([low, high]) => Some((low, high)),
            _ => None,
        }
        .and_then(|(low, high)| Some((number(low)?, number(high)?)))
        .with_context(|| format!("{} has no range {path}", self.name))
    }

    /// The published figure of a victim of the experiment of 2010, by its name there; `None`
    /// without one.
    #[must_use]
    pub fn of_victim(&self, threads: u32, block_kib: u32, key: &str) -> Option<f64> {
        let entry = self.victim(threads, block_kib)?;
        // The 4 KiB runs were published as full reports under other names.
        let report = |name: &str| entry.get(name).and_then(|r| r.get("iops")).and_then(number);
        entry.get(key).and_then(number).or_else(|| match key {
            "idle_iops" => report("idle_dirty_bytes_15MB"),
            "flood_dirty_bytes_15MB_iops" => report("flood_dirty_bytes_15MB"),
            "flood_dirty_bytes_1GB_iops" => report("flood_dirty_bytes_1GB"),
            _ => None,
        })
    }

    /// A figure of a full report: `avg_ms` of `flood_dirty_bytes_1GB`.
    #[must_use]
    pub fn of_report(
        &self,
        threads: u32,
        block_kib: u32,
        report: &str,
        figure: &str,
    ) -> Option<f64> {
        self.victim(threads, block_kib)?.get(report)?.get(figure).and_then(number)
    }

    fn victim(&self, threads: u32, block_kib: u32) -> Option<&toml::Value> {
        let is = |entry: &toml::Value, key: &str, value: u32| {
            entry.get(key).and_then(toml::Value::as_integer) == Some(i64::from(value))
        };
        let results = self.figures.get("result")?.as_array()?;
        results.iter().find(|r| is(r, "threads", threads) && is(r, "block_bytes", block_kib * 1024))
    }
}

fn number(value: &toml::Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|n| n as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_that_ship_are_found() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("measurements.toml");
        let of_2010 = Experiment::read(&file, "adaptec_raid10_2010").unwrap();
        assert_eq!(of_2010.of_victim(10, 16, "flood_default_iops"), Some(33.0));
        assert_eq!(of_2010.of_victim(1, 4, "idle_iops"), Some(1460.02));
        assert_eq!(of_2010.of_report(1, 4, "flood_dirty_bytes_1GB", "max_ms"), Some(1591.95));
        assert_eq!(of_2010.of_victim(1, 16, "idle_iops"), None);
        assert_eq!(of_2010.number("sequential.default_mb_s").unwrap(), 251.0);
        let of_2009 = Experiment::read(&file, "mysql_raid10_2009").unwrap();
        assert_eq!(of_2009.range("reads_per_s.noop").unwrap(), (35_000.0, 60_000.0));
        assert!(of_2009.number("reads_per_s.noop").unwrap_err().to_string().contains("no number"));
    }
}
