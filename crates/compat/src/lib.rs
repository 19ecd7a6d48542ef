//! Classic measuring commands: their command lines in, their output out, so that scripts go on.
//!
//! ```text
//! words ─▶ iostat::Options ─┐
//! /proc texts ─▶ Sample ×2 ─┴▶ figures ─▶ Report: text or JSON
//!
//! words ─▶ dd::Options
//! counts of a copy ─▶ dd::records, dd::transfer
//!
//! words ─▶ sysbench::Options, disktest::Options ─┐
//! counts of a run ─▶ Figures ────────────────────┴▶ Report: text
//! ```
//!
//! Pure: texts of files, the clock's words and the machine's names are parameters. The command
//! `floodwall compat` reads them and prints. Only the formats are the originals', as their manual
//! pages and their output show them.

pub mod dd;
pub mod disktest;
pub mod fio;
pub mod iostat;
pub mod sysbench;
