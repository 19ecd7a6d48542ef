//! A host for tests.

use super::ini::Host;

/// Job files by name; `SIZE` is the one variable.
pub(super) struct Files<'a>(pub(super) &'a [(&'a str, &'a str)]);

impl Host for Files<'_> {
    fn read(&mut self, file: &str) -> Result<String, String> {
        let found = self.0.iter().find(|(name, _)| *name == file);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| "not there".to_owned())
    }

    fn variable(&self, name: &str) -> Option<String> {
        (name == "SIZE").then(|| "64".to_owned())
    }

    fn keyword(&self, name: &str) -> Option<u64> {
        [("pagesize", 4096), ("ncpus", 2)].iter().find(|(n, _)| *n == name).map(|(_, n)| *n)
    }
}
