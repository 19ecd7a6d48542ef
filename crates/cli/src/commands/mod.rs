//! One file or directory a command.

pub(crate) mod bench;
pub(crate) mod compare;
pub(crate) mod lab;
pub(crate) mod probe;
pub(crate) mod report;
pub(crate) mod settings;
pub(crate) mod sim;
pub(crate) mod sim_sweep;
pub(crate) mod status;
pub(crate) mod tune;
