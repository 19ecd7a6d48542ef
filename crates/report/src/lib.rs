//! What people and programs read: the result schema, tables, Markdown, the live line, the timeline.
//!
//! ```text
//! Trials + Run ─▶ schema::Document ─┬─ to_json ─▶ file ─▶ Document::read ─▶ Document
//!                                   ├─ verdict ──▶ one sentence
//!                                   ├─ text, markdown ─▶ tables for people
//!                                   ├─ judge ──▶ figures, verdicts and the sentence, once,
//!                                   │            for all that follow
//!                                   ├─ contest ──▶ several settings side by side,
//!                                   │              which differences are real
//!                                   └─ timeline ─▶ one row a second, CSV or text
//! Diagnosis ─▶ why ─▶ a paragraph and what can be done, JSON
//! Check ─▶ check ─▶ a verdict on a disk, JSON, JUnit, a line for Nagios
//! Document of a classic tool ─▶ beside ─▶ a row of figures for each setting
//! one second of a running trial ─▶ live ─▶ one line
//! a lab's recording (CSV) [+ Document] ─▶ seeks ─▶ SVG
//! Document ─▶ study ─▶ chart ─▶ sheet ─┬─ html ─▶ one self-contained page
//!                                      └─ SVG, PNG
//! Stalls ─▶ stalls ─▶ a sentence, a table, JSON
//! Stalls + Frames ─▶ night ─▶ text, chart ─▶ html: the page of a night
//! Markdown of a page (finding, knob, word) ─▶ manual ─▶ text that fits a terminal
//! ```
//!
//! Pure: everything is built from values and returned as text; printing is the command line's
//! business, and so is colour.

#[cfg(test)]
mod agreement;
pub mod beside;
pub mod chart;
pub mod check;
pub mod contest;
pub mod glossary;
mod headline;
pub mod html;
pub mod keep;
pub mod live;
mod local_time;
pub mod manual;
pub mod markdown;
pub mod night;
pub mod numbers;
mod passed_over;
mod recommendation;
pub mod repeat;
pub mod schema;
pub mod seeks;
pub mod sheet;
pub mod stalls;
pub mod status;
pub mod study;
#[cfg(test)]
mod synthetic;
pub mod text;
pub mod timeline;
mod told;
pub mod verdict;
mod view;
pub mod why;
mod words;

pub use study::Study;
