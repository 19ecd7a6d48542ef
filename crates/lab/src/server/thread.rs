//! Threads with names.

use std::thread::{Builder, JoinHandle};

use crate::error::LabError;

pub(super) fn spawn(
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, LabError> {
    Builder::new()
        .name(name.into())
        .spawn(run)
        .map_err(|e| LabError::io("start a thread of", name, e))
}
