//! Processes of the programs below `benches`: they end with the program, also when it is
//! interrupted.

pub mod child;
pub mod guarded;
pub mod interrupt;
