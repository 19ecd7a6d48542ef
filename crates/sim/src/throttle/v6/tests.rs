//! Decisions of single looks.
