//! Placeholder until this crate is filled in.
pub mod recorder;
