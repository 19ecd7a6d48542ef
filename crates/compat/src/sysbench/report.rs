//! What the tool prints, in the order of its run.
//!
//! ```text
//! head ─┬▶ making ─▶ made, a file each ─▶ written          prepare
//!       ├▶ setup ─▶ started ─▶ interval … ─▶ end           run
//!       └▶ removing                                        cleanup
//! ```

use std::time::Duration;

use super::figures::Figures;
use super::kinds::Dialect;
use super::options::Options;
use super::{v0_4, v1_0};

/// The work of `prepare` on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// It was not there.
    Created,
    /// It was too short.
    Extended,
    /// It was long enough.
    Reused,
}

/// The texts of a command line.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a>(pub &'a Options);

impl Report<'_> {
    fn is_old(&self) -> bool {
        self.0.dialect == Dialect::V0_4
    }

    /// A line for stderr, before all others.
    #[must_use]
    pub fn warning(&self) -> Option<&'static str> {
        (self.0.has_test && !self.is_old()).then_some(v1_0::TEST)
    }

    /// The version that is emulated, and by what.
    #[must_use]
    pub fn head(&self, version: &str) -> String {
        if self.is_old() { v0_4::HEAD.to_owned() } else { v1_0::head(self.0, version) }
    }

    /// Before the first file is made.
    #[must_use]
    pub fn making(&self) -> String {
        if self.is_old() { v0_4::making(self.0) } else { v1_0::making(self.0) }
    }

    /// A file is there.
    #[must_use]
    pub fn made(&self, name: &str, made: Made) -> String {
        let verb = match made {
            _ if self.is_old() => return String::new(),
            Made::Created => "Creating file",
            Made::Extended => "Extending existing file",
            Made::Reused => "Reusing existing file",
        };
        format!("{verb} {name}\n")
    }

    /// All files are there.
    #[must_use]
    pub fn written(&self, bytes: u64, took: Duration) -> String {
        if self.is_old() { String::new() } else { v1_0::written(bytes, took) }
    }

    /// Before the files are removed.
    #[must_use]
    pub fn removing(&self) -> &'static str {
        "Removing test files...\n"
    }

    /// The options, before the files are opened.
    #[must_use]
    pub fn setup(&self) -> String {
        if self.is_old() { v0_4::setup(self.0) } else { v1_0::setup(self.0) }
    }

    /// The threads run.
    #[must_use]
    pub fn started(&self) -> &'static str {
        if self.is_old() { v0_4::STARTED } else { v1_0::STARTED }
    }

    /// A line of a run that goes on, so long after its begin.
    #[must_use]
    pub fn interval(&self, at: Duration, figures: &Figures) -> String {
        v1_0::interval(self.0, at, figures)
    }

    /// The report of a whole run. `out_of_time` is whether `--time` ended it.
    #[must_use]
    pub fn end(&self, figures: &Figures, out_of_time: bool) -> String {
        if self.is_old() {
            v0_4::end(self.0, figures, out_of_time)
        } else {
            v1_0::end(self.0, figures)
        }
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
