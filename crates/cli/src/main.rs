//! Placeholder until this crate is filled in.
fn main() {}
