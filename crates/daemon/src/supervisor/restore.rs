//! How the supervisor has everything put back: by another process (`crate::restore`).

use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Instant;

use super::child::this_program;
use super::{HANG, Supervisor};
use crate::log::Priority;
use crate::restore;

impl Supervisor<'_> {
    /// Puts back what a dead worker has left behind; says how that went, and whether nothing is
    /// left.
    pub(super) fn restore(&mut self) -> (String, bool) {
        // A dry run may have been none before its configuration was read again.
        if self.settings.sim.is_some() {
            return (String::new(), true);
        }
        let spawned = this_program()
            .args(restore::COMMAND)
            .arg(&self.settings.journal)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .env_remove("NOTIFY_SOCKET")
            .process_group(0)
            .spawn();
        let mut child = match spawned {
            Ok(child) => child,
            Err(e) => {
                let why = format!(
                    "; can't start the process that puts back what it held: {e}; run floodwall \
                     rollback"
                );
                return (why, false);
            }
        };
        let begin = Instant::now();
        let mut said = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => {
                    let ms = begin.elapsed().as_millis();
                    return (format!("; what it held is put back, {ms} ms later"), true);
                }
                Ok(Some(status)) => {
                    let why = format!(
                        "; what it held could not be put back ({status}); run floodwall rollback"
                    );
                    return (why, false);
                }
                Ok(None) => {}
                Err(e) => {
                    return (format!("; can't tell whether what it held is put back: {e}"), false);
                }
            }
            if said.elapsed() >= HANG {
                said = Instant::now();
                self.log.say(
                    Priority::Warning,
                    "still putting back what the worker held: a queue has to run dry",
                );
            }
            self.nap();
        }
    }
}
