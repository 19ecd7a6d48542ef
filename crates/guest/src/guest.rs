//! What a guest is made of.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use floodwall_model::Bytes;

use crate::kernel::Kernel;

/// A kernel that can be started, and the program that is its first process.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The kernel.
    pub kernel: Kernel,
    /// A program that calls [`crate::init::serve`] if its arguments are `init_args`, and
    /// [`crate::launch()`] with the role and the command that follow `launch_args`.
    pub program: PathBuf,
    /// Arguments with which the program is the guest's first process.
    pub init_args: Vec<String>,
    /// Arguments with which the program becomes another one.
    pub launch_args: Vec<String>,
    /// The guest's RAM.
    pub ram: Bytes,
    /// The longest silence of a guest that is not ended. Its first process says something every
    /// second.
    pub silence: Duration,
    /// Where the command's input and output are.
    pub io: CommandIo,
}

/// Where the input of a guest's command comes from, and where its output goes.
#[derive(Clone, Debug)]
pub enum CommandIo {
    /// This process's standard streams.
    Inherit,
    /// No input; stdout and stderr go to a file.
    Log(Arc<File>),
}
