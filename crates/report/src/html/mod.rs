//! A report as one HTML file: no network, no other file, light and dark, for a screen and a phone,
//! with mouse, finger and keyboard.
//!
//! ```text
//! Study ─▶ page ─┬─ hero      the sentence and the large numbers
//!                ├─ figures   charts as SVG, what the pointer shows as JSON
//!                ├─ tables    settings, phases, trials; sortable
//!                └─ facts     the machine, and what it takes to repeat the run
//! Night ─▶ night      stalls, disks over time, the worst minute
//! style.css, script.js ─▶ inside
//! ```
//!
//! Without its script the page still shows everything but the tooltips. A content security policy
//! in it forbids it to load anything.

mod document;
mod facts;
mod figures;
mod hero;
pub(crate) mod markup;
mod night;
mod page;
mod table;
mod tables;

pub use figures::{Figures, figures};
pub use night::night_page;
pub use page::page;

#[cfg(test)]
mod tests;
